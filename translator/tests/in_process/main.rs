//! Runs translated code in the process of the test, and compares it with plain execution.

mod behaviour;
mod edges;
mod hostile;
mod instructions;
mod machine;
mod memory;
mod numbers;
mod processor;
mod programs;
mod random;
mod recorded;
mod ring;
mod steps;
mod superblocks;
