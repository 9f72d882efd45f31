//! Programs of compilers, as readelf, nm and c++filt see them, against images of them.

mod debug_files;
mod hostile;
mod names;
pub(crate) mod programs;
mod stripped;
mod symbols;
