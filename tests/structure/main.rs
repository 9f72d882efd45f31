//! What the sources must keep to, read from the sources: which crates use which, what the receiver is made of, and that
//! no modules of a crate depend on each other in a circle.

mod crates;
mod dependencies;
mod modules;
mod source;
