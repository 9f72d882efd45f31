//! Made-up commands, legal and illegal, through the card, compared with a plain reading of the pins.
//!
//! ```text
//! generator   seed      -> pins, clock by clock
//! pin_reader  pins      -> accesses and faults, by docs/format.md
//! reference   those     -> the events a card must send in line mode
//! case        both      -> equal, or the first difference
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
