//! Simulates the card: turns recorded DDR commands into the frames that a card sends for them.
//!
//! ```text
//! input      recording (vector text, VCD)  -> pin levels
//! stimulus   pin levels                    -> what the card's pins see, with the run switch
//! engine     pins through the card         -> GMII, at the edges of schedule
//! gmii       GMII                          -> frames without preamble and FCS
//! output     frames                        -> pcapng file, network interface
//! decode     frames                        -> events
//! truth      events and the accesses of the recording -> whether they agree
//! oracle     frames, commands and settings            -> whether the card sent what it must
//! machine    accesses of a program         -> recording
//! ```
//!
//! [`replay`] connects these modules. Both engines see the same edges in the same order, so their
//! output is byte-identical and does not show which engine ran, or when.
//!
//! Without the feature `card`, which is on by default, only the readers of recordings and the
//! simulated machine without its recordings are built: [`input`], [`machine`] and
//! [`fuzz::memories`].

#[cfg(feature = "card")]
pub mod decode;
#[cfg(feature = "card")]
pub mod engine;
pub mod fuzz;
#[cfg(feature = "card")]
pub mod gmii;
pub mod input;
#[cfg(feature = "card")]
pub mod line_merge;
pub mod machine;
#[cfg(feature = "card")]
pub mod oracle;
#[cfg(feature = "card")]
pub mod output;
#[cfg(feature = "card")]
pub mod replay;
#[cfg(feature = "card")]
pub mod saturation;
#[cfg(feature = "card")]
pub mod schedule;
#[cfg(feature = "card")]
pub mod stimulus;
#[cfg(feature = "card")]
pub mod summary;
#[cfg(feature = "card")]
pub mod traffic;
#[cfg(feature = "card")]
pub mod truth;
