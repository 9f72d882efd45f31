//! Sends random commands, legal and illegal, through the card and compares its records with a model
//! of the pins.
//!
//! ```text
//! generator   generates pins from a seed, clock by clock
//! pin_reader  finds accesses and faults on the pins, by docs/format.md
//! reference   derives the events that a card must send in line mode
//! case        compares the events with those of the card, and returns the first difference
//! ```

#[cfg(feature = "card")]
pub mod case;
#[cfg(feature = "card")]
pub mod configuration;
#[cfg(feature = "card")]
pub mod generator;
pub mod memories;
#[cfg(feature = "card")]
pub mod pin_reader;
#[cfg(feature = "card")]
pub mod reference;
