//! The kernel's receive ring (AF_PACKET, TPACKET_V3) to batches of frames. The only room of the
//! receiver with unsafe code: the shared memory in `mapping`, the system calls in `socket`.
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
//! `block_status` says who owns a block. The kernel writes it last when it hands a block over, and
//! we write it last when we give the block back, so it is read with Acquire and written with
//! Release. Between the two a block is on loan to the batch of its frames, or copied into it once half
//! of the ring is: frames are written straight from the ring while that has room, and a slow disk does
//! not keep the kernel out of it. Headers are walked by checked slices: whatever stands there, nothing
//! outside the block is read.
//!
//! Order of set-up: the socket is made with protocol 0, so that nothing queues before the ring and
//! the binding are in place; the card's destination is nobody's, so the interface listens
//! promiscuously.

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
    bind, find_interface, get_option, listen_promiscuously, packet_socket, refuse_all, set_option,
    wait,
};
use super::{Batch, CaptureError, Interface, Source, WAIT_MILLIS};

/// Smallest ring: the kernel fills one block while we copy another.
pub const MIN_BLOCKS: usize = 2;
/// Divides [`BLOCK_BYTES`]; in version 3 frames are packed and this only has to be plausible.
const FRAME_SLOT_BYTES: usize = 2048;

/// The kernel hands over a block that is not full after one to two of its timeouts; who waits
/// longer and sees nothing knows that nothing had come before the wait.
const PATIENCE: Duration = Duration::from_millis(3 * WAIT_MILLIS as u64);
/// The kernel calls a ring readable while its last block is on loan; then this long is slept instead.
const NAP: Duration = Duration::from_millis(2);

const BLOCK_FRAMES: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, num_pkts);
const BLOCK_FIRST: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);

/// An open ring.
pub struct Ring {
    interface: Interface,
    /// The kernel's number for it.
    index: u32,
    socket: OwnedFd,
    mapping: Arc<Mapping>,
    blocks: usize,
    current: usize,
    received: u64,
    kernel_drops: u64,
}

impl Ring {
    /// Starts listening on `interface` with a ring of `blocks` blocks.
    pub fn open(interface: Interface, blocks: usize) -> Result<Self, CaptureError> {
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
            received: 0,
            kernel_drops: 0,
        })
    }

    fn system(&self, operation: &'static str) -> impl Fn(io::Error) -> CaptureError {
        move |error| CaptureError::system(operation, &self.interface, error)
    }

    /// Why no more frames come. One that is removed goes down first and is told of then, so the table
    /// of interfaces may still have it; this option waits for the lock that whoever removes it holds.
    fn failure(&self, error: io::Error) -> CaptureError {
        let is_down = error.kind() == io::ErrorKind::NetworkDown;
        let settled = if is_down { listen_promiscuously(&self.socket, self.index) } else { Ok(()) };
        self.system("wait for frames")(settled.err().unwrap_or(error))
    }

    /// Waits for the next block the kernel has filled.
    fn next_block(&self) -> io::Result<Option<Block>> {
        let begin = Instant::now();
        loop {
            if let Some(block) = self.mapping.lend(self.current) {
                return Ok(Some(block));
            }
            let Some(patience) = PATIENCE.checked_sub(begin.elapsed()) else { return Ok(None) };
            if self.mapping.lent() == 0 {
                wait(&self.socket, patience)?;
            } else {
                std::thread::sleep(NAP);
            }
        }
    }

    /// PACKET_STATISTICS is reset by reading it, and its counts have 32 bits: add them up.
    fn count(&mut self) -> Result<(), CaptureError> {
        let statistics: libc::tpacket_stats_v3 =
            get_option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
                .map_err(self.system("read statistics"))?;
        self.received += u64::from(statistics.tp_packets);
        self.kernel_drops += u64::from(statistics.tp_drops);
        Ok(())
    }
}

impl Source for Ring {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(), CaptureError> {
        if let Some(block) = self.next_block().map_err(|error| self.failure(error))? {
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
            received: Some(self.received),
            interface_drops: interface.drops,
            interface_missed: interface.missed,
            kernel_drops: Some(self.kernel_drops),
        })
    }

    fn close(&mut self) -> Result<(), CaptureError> {
        refuse_all(&self.socket).map_err(self.system("stop listening"))
    }

    fn depth(&self) -> usize {
        self.blocks
    }
}

/// The frames of a copied block; stops where the headers lead out of it.
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

/// The frame whose header is at `at`, and the distance to the next header.
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
