//! Runs translated code in the process of the test, and compares it with plain execution.

mod behaviour;
mod machine;
mod memory;
mod processor;
