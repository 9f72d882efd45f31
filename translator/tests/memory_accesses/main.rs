//! Which memory instructions access, for all instructions: written as a table, and compared with
//! what the processor does.

mod forms;
mod model;
mod probe;
mod process;
mod recorded;
mod table;
