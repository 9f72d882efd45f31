//! Tests the whole path from DDR pins to a checked trace, with the programs that users run.

mod accesses;
mod analysis;
mod captures;
mod configuration;
mod control;
mod datasets;
mod demo;
mod dissector;
mod engines;
mod frames;
mod fuzz;
mod heartbeats;
mod hostile;
mod loss;
mod models;
mod modes;
mod names;
mod oracle;
mod readers;
mod recording;
mod rows;
mod saturation;
mod tags;
mod terminal;
mod unseen;
mod wire;
