//! Frames with their arrival times to a pcapng file and back.
//!
//! pcapng (draft-ietf-opsawg-pcapng) is append-only: a file whose writer was killed is readable to
//! its last whole block. Knows neither sockets nor what frames mean.

mod interface;
mod reader;
mod source;
mod writer;

pub use interface::Interface;
pub use reader::{Packet, PcapngReader, ReadError};
pub use source::Source;
pub use writer::{PcapngWriter, WriteError};

/// What the capturing side counted, as an Interface Statistics Block holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct InterfaceStatistics {
    /// Frames that reached the capture, dropped ones included (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Frames the interface dropped (`isb_ifdrop`).
    pub interface_drops: Option<u64>,
    /// Frames the kernel dropped because the receiver was too slow (`isb_osdrop`).
    pub kernel_drops: Option<u64>,
}
