//! Sends generated frames on an interface at a given rate, several per system call.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use hmtt_format::frame::{END_REPEATS, ETHER_TYPE, MAX_FRAME_BYTES};

use super::Load;

/// Number of frames per system call.
const CALL_FRAMES: usize = 32;

/// Rate and number of the frames.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Data frames per second; `None` means as fast as the machine sends.
    pub frames_per_second: Option<u64>,
    /// Number of data frames.
    pub frames: u64,
}

/// Counts of the sent frames.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Number of frames, including reports.
    pub frames: u64,
    /// Number of accesses in the frames.
    pub accesses: u64,
    /// Duration of the sending.
    pub time: Duration,
}

/// Sends a report, data frames, and the end frames on `interface`.
pub fn send(interface: &str, pace: Pace) -> io::Result<Sent> {
    let socket = open(interface)?;
    let mut load = Load::default();
    let mut buffers = vec![[0; MAX_FRAME_BYTES]; CALL_FRAMES];
    let mut lengths = [0; CALL_FRAMES];
    lengths[0] = load.report(false, &mut buffers[0]);
    send_all(&socket, &mut buffers, &lengths[..1])?;
    let begin = Instant::now();
    let mut sent = 0;
    while sent < pace.frames {
        let count = (pace.frames - sent).min(CALL_FRAMES as u64);
        for index in 0..count as usize {
            lengths[index] = load.next(&mut buffers[index]);
        }
        send_all(&socket, &mut buffers, &lengths[..count as usize])?;
        sent += count;
        if let Some(rate) = pace.frames_per_second {
            let due = Duration::from_secs_f64(sent as f64 / rate as f64);
            if let Some(early) = due.checked_sub(begin.elapsed()) {
                std::thread::sleep(early);
            }
        }
    }
    let time = begin.elapsed();
    for _ in 0..END_REPEATS {
        lengths[0] = load.report(true, &mut buffers[0]);
        send_all(&socket, &mut buffers, &lengths[..1])?;
    }
    let frames = 1 + sent + u64::from(END_REPEATS);
    Ok(Sent { frames, accesses: load.accesses(), time })
}

fn succeeded(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a packet socket that bypasses the queueing discipline.
fn open(interface: &str) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: the pointer is to a C string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call creates a descriptor and accesses no memory.
    let socket = succeeded(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) })?;
    // SAFETY: the descriptor was just created, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let yes: libc::c_int = 1;
    // SAFETY: the kernel reads one integer.
    succeeded(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    // SAFETY: a C structure of integers, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETHER_TYPE.to_be();
    address.sll_ifindex = index as libc::c_int;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid for `length` bytes during the call.
    succeeded(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Sends frames completely and in order.
fn send_all(
    socket: &OwnedFd,
    buffers: &mut [[u8; MAX_FRAME_BYTES]],
    lengths: &[usize],
) -> io::Result<()> {
    let mut vectors: Vec<libc::iovec> = buffers
        .iter_mut()
        .zip(lengths)
        .map(|(buffer, length)| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: *length,
        })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = vectors
        .iter_mut()
        .map(|vector| {
            // SAFETY: a C structure of integers and pointers, for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    let mut done = 0;
    while done < messages.len() {
        let rest = &mut messages[done..];
        let count = rest.len() as libc::c_uint;
        // SAFETY: there are `count` messages, each with one vector into a buffer; all outlive the
        // call.
        let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), count, 0) };
        match succeeded(result) {
            Ok(sent) => done += sent as usize,
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
