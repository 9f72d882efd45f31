//! Checks the structure of the sources: the dependencies of crates and of the receiver, that no
//! modules of a crate depend on each other in a circle, and the documentation of signals.

mod crates;
mod dependencies;
mod documentation;
mod modules;
mod source;
