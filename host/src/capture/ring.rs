//! Reads batches of frames from the kernel's receive ring (AF_PACKET, TPACKET_V3). The unsafe code
//! is in `mapping`, which accesses the shared memory, and in `socket`, which makes the system
//! calls.
//!
//! Memory layout (Linux `Documentation/networking/packet_mmap.rst`). The ring is one shared mapping
//! of equal blocks, used in turn:
//!
//! ```text
//! mapping   | block 0 | block 1 | ...                                  BLOCK_BYTES each
//! block     tpacket_block_desc: version, private, tpacket_hdr_v1 { block_status, num_pkts,
//!           offset_to_first_pkt, blk_len, ... } then the frames, up to blk_len
//! frame     tpacket3_hdr: tp_next_offset, tp_sec, tp_nsec, tp_snaplen, tp_len, tp_mac ...
//!           at tp_mac from its start: tp_snaplen bytes; at tp_next_offset: the next frame
//! ```
//!
//! `block_status` states who owns a block. Whoever passes a block on writes this word last: the
//! kernel when it passes a block to user space, and user space when it returns the block. So the
//! word is read with Acquire and written with Release. Between these two writes, the block is on
//! loan to the batch that holds its frames, so frames are written to the disk straight from the
//! ring. While half of the ring is on loan, further blocks are copied and returned at once, so a
//! slow disk does not leave the kernel without blocks. Headers are read through checked slices:
//! whatever they contain, nothing outside the block is read.
//!
//! Order of set-up: the socket is created with protocol 0, so that no frame is queued before the
//! ring and the binding are in place. No interface has the card's destination address, so the
//! interface is set to promiscuous mode.

use std::ffi::c_int;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmtt::pcapng::InterfaceStatistics;
use libc::{tpacket_hdr_v1, tpacket3_hdr};

use super::batch::Span;
pub use super::mapping::BLOCK_BYTES;
use super::mapping::{BLOCK_HEADER, Block, Mapping};
use super::socket::{
    bind, find_interface, get_option, interface_at, listen_promiscuously, packet_socket,
    refuse_all, set_option, wait,
};
use super::{Batch, CaptureError, Interface, Outages, Source, WAIT_MILLIS, WhenDown};

/// Smallest ring, in blocks: the kernel fills one block while user space copies another.
pub const MIN_BLOCKS: usize = 2;
/// Frame size that the ring request states. The size must divide [`BLOCK_BYTES`]. Version 3 packs
/// frames and does not use the size otherwise.
const FRAME_SLOT_BYTES: usize = 2048;

/// Longest wait for a block. The kernel passes on a block that is not full after one to two of its
/// timeouts. If no block arrives in a longer wait, no frame had arrived before the wait.
const BLOCK_TIMEOUT: Duration = Duration::from_millis(3 * WAIT_MILLIS as u64);
/// Sleep between checks while blocks are on loan: `poll` reports the ring as readable then, and
/// would not wait.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

const BLOCK_FRAMES: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, num_pkts);
const BLOCK_FIRST: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);

/// An open ring on one interface.
pub struct Ring {
    interface: Interface,
    /// Index of the interface in the kernel.
    index: u32,
    socket: OwnedFd,
    mapping: Arc<Mapping>,
    blocks: usize,
    current: usize,
    received_frames: u64,
    kernel_dropped_frames: u64,
    when_down: WhenDown,
    outages: Outages,
}

impl Ring {
    /// Opens a ring of `blocks` blocks on `interface`, and starts to capture.
    ///
    /// # Errors
    /// If the interface is down or gone, a privilege is missing, or a system call fails.
    pub fn open(
        interface: Interface,
        blocks: usize,
        when_down: WhenDown,
    ) -> Result<Self, CaptureError> {
        let blocks = blocks.max(MIN_BLOCKS);
        let system = |operation| {
            let interface = &interface;
            move |error| CaptureError::system(operation, interface, error)
        };
        let socket = packet_socket().map_err(system("open a packet socket"))?;
        let (index, is_up) =
            find_interface(&socket, &interface.name).map_err(system("find the interface"))?;
        if !is_up {
            return Err(CaptureError::InterfaceDown(interface.name));
        }
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set_option(&socket, libc::PACKET_VERSION, &version)
            .map_err(system("choose ring version 3"))?;
        set_option(&socket, libc::PACKET_RX_RING, &ring_request(blocks))
            .map_err(system("make a ring"))?;
        let mapping = Mapping::new(&socket, blocks).map_err(system("map the ring"))?;
        listen_promiscuously(&socket, index).map_err(system("listen promiscuously"))?;
        let yes: c_int = 1;
        set_option(&socket, libc::PACKET_IGNORE_OUTGOING, &yes)
            .map_err(system("ignore outgoing frames"))?;
        bind(&socket, index).map_err(system("bind"))?;
        let mapping = Arc::new(mapping);
        Ok(Ring {
            interface,
            index,
            socket,
            mapping,
            blocks,
            current: 0,
            received_frames: 0,
            kernel_dropped_frames: 0,
            when_down,
            outages: Outages::default(),
        })
    }

    fn system(&self, operation: &'static str) -> impl Fn(io::Error) -> CaptureError {
        move |error| CaptureError::system(operation, &self.interface, error)
    }

    /// Reads the interface's name, which may have changed, and whether the interface is up again.
    /// If it is up, the kernel passes its frames to the socket as before.
    fn check(&mut self) -> io::Result<()> {
        let (name, is_up) = interface_at(&self.socket, self.index)?;
        self.interface.rename(name);
        if is_up {
            self.outages.end();
        }
        Ok(())
    }

    /// Handles a failed read. If the interface is down and the source waits for it, only notes the
    /// outage. Returns any other failure.
    fn handle(&mut self, error: io::Error) -> Result<(), CaptureError> {
        match self.failure(error) {
            CaptureError::InterfaceDown(_) if self.when_down == WhenDown::Wait => {
                self.outages.begin();
                Ok(())
            }
            failure => Err(failure),
        }
    }

    /// Finds the reason of a failed read. The kernel reports an interface that is being removed as
    /// down before it takes it out of the table of interfaces. Setting promiscuous mode waits for
    /// the lock that the removal holds. After this call the table is up to date.
    fn failure(&mut self, error: io::Error) -> CaptureError {
        let is_down = error.kind() == io::ErrorKind::NetworkDown;
        let settled = if is_down { listen_promiscuously(&self.socket, self.index) } else { Ok(()) };
        if let Ok((name, _)) = interface_at(&self.socket, self.index) {
            self.interface.rename(name);
        }
        self.system("wait for frames")(settled.err().unwrap_or(error))
    }

    /// Waits for the next block that the kernel has filled; `None` after [`BLOCK_TIMEOUT`].
    fn next_block(&self) -> io::Result<Option<Block>> {
        let begin = Instant::now();
        loop {
            if let Some(block) = self.mapping.lend(self.current) {
                return Ok(Some(block));
            }
            let Some(timeout) = BLOCK_TIMEOUT.checked_sub(begin.elapsed()) else { return Ok(None) };
            if self.mapping.lent() == 0 {
                wait(&self.socket, timeout)?;
            } else {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Adds up PACKET_STATISTICS, which is reset by each read and has counts of 32 bits.
    fn count(&mut self) -> Result<(), CaptureError> {
        let statistics: libc::tpacket_stats_v3 =
            get_option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
                .map_err(self.system("read statistics"))?;
        self.received_frames += u64::from(statistics.tp_packets);
        self.kernel_dropped_frames += u64::from(statistics.tp_drops);
        Ok(())
    }
}

impl Source for Ring {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(), CaptureError> {
        if self.outages.is_down() {
            self.check().map_err(|error| self.failure(error))?;
        }
        // Frames that had arrived before the interface went down are read at once.
        let block = loop {
            match self.next_block() {
                Ok(block) => break block,
                Err(error) => self.handle(error)?,
            }
        };
        if let Some(block) = block {
            self.current = (self.current + 1) % self.blocks;
            let keep = self.mapping.lent() * 2 <= self.blocks;
            batch.take(block, keep, walk);
        }
        Ok(())
    }

    fn statistics(&mut self, fresh: bool) -> Result<InterfaceStatistics, CaptureError> {
        self.count()?;
        let interface = self.interface.counts(fresh);
        Ok(InterfaceStatistics {
            received_frames: Some(self.received_frames),
            interface_dropped_frames: interface.drops,
            interface_missed_frames: interface.missed,
            kernel_dropped_frames: Some(self.kernel_dropped_frames),
        })
    }

    fn outages(&self) -> &Outages {
        &self.outages
    }

    fn close(&mut self) -> Result<(), CaptureError> {
        refuse_all(&self.socket).map_err(self.system("stop listening"))
    }

    fn depth(&self) -> usize {
        self.blocks
    }
}

/// Finds the frames of a block; stops at a header that points outside of the block.
fn walk(block: &[u8], spans: &mut Vec<Span>) {
    let Some((frames, mut at)) = word(block, BLOCK_FRAMES).zip(word(block, BLOCK_FIRST)) else {
        return;
    };
    for _ in 0..frames {
        let Some((span, next)) = span(block, at as usize) else { return };
        spans.push(span);
        let Some(following) = at.checked_add(next) else { return };
        at = following;
    }
}

/// Reads the frame header at `at`. Returns the frame's position and the distance to the next
/// header.
fn span(block: &[u8], at: usize) -> Option<(Span, u32)> {
    let header = block.get(at..)?;
    let mac = offset_of!(tpacket3_hdr, tp_mac);
    let mac = usize::from(u16::from_ne_bytes(header.get(mac..mac + 2)?.try_into().ok()?));
    let len = word(header, offset_of!(tpacket3_hdr, tp_snaplen))? as usize;
    header.get(mac..mac + len)?;
    let seconds = word(header, offset_of!(tpacket3_hdr, tp_sec))?;
    let nanos = word(header, offset_of!(tpacket3_hdr, tp_nsec))?;
    let time = Duration::from_secs(seconds.into()) + Duration::from_nanos(nanos.into());
    let original_len = word(header, offset_of!(tpacket3_hdr, tp_len))?;
    let next = word(header, offset_of!(tpacket3_hdr, tp_next_offset))?;
    Some((Span { time, original_len, at: at + mac, len }, next))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + size_of::<u32>())?.try_into().ok()?))
}

fn ring_request(blocks: usize) -> libc::tpacket_req3 {
    libc::tpacket_req3 {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: FRAME_SLOT_BYTES as u32,
        tp_frame_nr: (blocks * (BLOCK_BYTES / FRAME_SLOT_BYTES)) as u32,
        tp_retire_blk_tov: WAIT_MILLIS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    }
}
