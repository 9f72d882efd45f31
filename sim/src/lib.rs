//! Recorded DDR commands to the frames a card makes of them, clock by clock.
//!
//! ```text
//! input      recording (vector text, VCD)  -> pin levels
//! stimulus   pin levels                    -> what the card's pins see, with the run switch
//! engine     pins through the card         -> GMII, at the edges of schedule
//! gmii       GMII                          -> frames without preamble and FCS
//! output     frames                        -> pcapng file, network interface
//! decode     frames                        -> events
//! truth      events against the accesses the recording really holds
//! oracle     frames against all that a card must send of any commands and settings
//! ```
//!
//! `replay` joins them. Both engines see the same edges in the same order, so what they produce is
//! byte-identical; nothing in the output tells which one ran, or when.

pub mod decode;
pub mod engine;
pub mod fuzz;
pub mod gmii;
pub mod input;
pub mod line_merge;
pub mod oracle;
pub mod output;
pub mod replay;
pub mod saturation;
pub mod schedule;
pub mod stimulus;
pub mod summary;
pub mod traffic;
pub mod truth;
