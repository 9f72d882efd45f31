//! From the DDR clock domain to the transmit domain: the packet FIFO and what it is made of.

pub mod block_ram;
pub mod packet_fifo;
pub mod pointer_crossing;
pub mod size;
