//! Frames with their arrival times to a pcapng file and back.
//!
//! pcapng (draft-ietf-opsawg-pcapng) is append-only: a file whose writer was killed is readable to
//! its last whole block. Knows neither sockets nor what frames mean.

mod capture_sums;
mod error;
mod interface;
mod page_cache;
mod read_ahead;
mod reader;
mod source;
mod writer;

pub use error::ReadError;
pub use interface::Interface;
pub use reader::{Packet, PcapngReader};
pub use source::{Reading, Source};
pub use writer::{Description, PcapngWriter};

/// What the capturing side counted, as an Interface Statistics Block holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct InterfaceStatistics {
    /// Frames that reached the capture, dropped ones included (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Frames the interface dropped (`isb_ifdrop`), those it missed included.
    pub interface_drops: Option<u64>,
    /// Those of them that the interface had no buffer for; not in the file's block.
    pub interface_missed: Option<u64>,
    /// Frames the kernel dropped because the receiver was too slow (`isb_osdrop`).
    pub kernel_drops: Option<u64>,
}

impl std::ops::AddAssign for InterfaceStatistics {
    /// What is not known of one is not known of both.
    fn add_assign(&mut self, other: Self) {
        let add = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        self.received = add(self.received, other.received);
        self.interface_drops = add(self.interface_drops, other.interface_drops);
        self.interface_missed = add(self.interface_missed, other.interface_missed);
        self.kernel_drops = add(self.kernel_drops, other.kernel_drops);
    }
}
