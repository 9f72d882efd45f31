//! Made-up commands, legal and illegal, through the card, compared with a plain reading of the pins.
//!
//! ```text
//! generator   seed      -> pins, clock by clock
//! reference   pins      -> the events a card must send, by docs/format.md
//! case        both      -> equal, or the first difference
//! ```

pub mod case;
pub mod configuration;
pub mod generator;
pub mod memories;
pub mod reference;
