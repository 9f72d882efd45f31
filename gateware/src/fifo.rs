//! The packet FIFO: passes blocks of words from the DDR clock domain to the transmit domain.

pub mod block_ram;
pub mod packet_fifo;
pub mod pointer_crossing;
pub mod ports;
pub mod size;
