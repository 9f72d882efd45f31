//! Sends blocks of the packet FIFO, and heartbeats, as Ethernet frames on GMII (IEEE 802.3 clauses
//! 3, 4 and 35).
//!
//! ```text
//! fifo -> tx_thread -> gmac, crc32 -> GMII
//!            ^--- heartbeat <--- clock_watch <--- ddr_clock
//! ```

pub mod clock_watch;
pub mod crc32;
pub mod gmac;
pub mod heartbeat;
pub mod ports;
pub mod tx_thread;
