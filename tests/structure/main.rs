//! Checks the structure of the sources: the dependencies of crates and of the receiver, and that no modules of a crate
//! depend on each other in a circle.

mod crates;
mod dependencies;
mod modules;
mod source;
