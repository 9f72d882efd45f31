//! Compares images of compiled programs with the output of readelf, nm and c++filt.

mod debug_files;
mod hostile;
mod names;
pub(crate) mod programs;
mod stripped;
mod symbols;
