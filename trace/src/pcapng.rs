//! Writes frames with their arrival times to pcapng files, and reads them back.
//!
//! pcapng (draft-ietf-opsawg-pcapng) is append-only: if the writer of a file was killed, the file
//! can be read up to its last whole block. Classic pcap files are read, too. This module uses no
//! sockets and does not interpret frames.

mod block;
mod capture_sums;
mod classic;
mod error;
mod interface;
mod options;
mod page_cache;
mod read_ahead;
mod reader;
mod source;
mod writer;

pub use error::ReadError;
pub use interface::Interface;
pub use reader::{Packet, PcapngReader};
pub use source::{Bytes, Reading, Source, is_capture, is_plain_capture};
pub use writer::{Description, PcapngWriter};

/// Counts of the receiver for one interface, as in an Interface Statistics Block; `None` where a
/// count is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct InterfaceStatistics {
    /// Frames that arrived at the interface, dropped ones included (`isb_ifrecv`).
    pub received_frames: Option<u64>,
    /// Frames that the interface dropped (`isb_ifdrop`), missed ones included.
    pub interface_dropped_frames: Option<u64>,
    /// Dropped frames for which the interface had no buffer; not part of the file's block.
    pub interface_missed_frames: Option<u64>,
    /// Frames that the kernel dropped because the receiver was too slow (`isb_osdrop`).
    pub kernel_dropped_frames: Option<u64>,
}

impl std::ops::AddAssign for InterfaceStatistics {
    /// Adds all counts; a sum is known only if both counts are.
    fn add_assign(&mut self, other: Self) {
        let add = |first: Option<u64>, second: Option<u64>| Some(first? + second?);
        self.received_frames = add(self.received_frames, other.received_frames);
        self.interface_dropped_frames =
            add(self.interface_dropped_frames, other.interface_dropped_frames);
        self.interface_missed_frames =
            add(self.interface_missed_frames, other.interface_missed_frames);
        self.kernel_dropped_frames = add(self.kernel_dropped_frames, other.kernel_dropped_frames);
    }
}
