//! Made-up commands, legal and illegal, through the card, compared with a plain reading of the pins.
//!
//! ```text
//! generator   seed      -> pins, clock by clock
//! pin_reader  pins      -> accesses and faults, by docs/format.md
//! reference   those     -> the events a card must send in line mode
//! case        both      -> equal, or the first difference
//! ```

pub mod case;
pub mod configuration;
pub mod generator;
pub mod memories;
pub mod pin_reader;
pub mod reference;
