//! Blocks in the packet FIFO to Ethernet frames on GMII (IEEE 802.3 clauses 3, 4 and 35).

pub mod clock_watch;
pub mod crc32;
pub mod gmac;
pub mod heartbeat;
pub mod tx_thread;
