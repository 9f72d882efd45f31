//! Sends frames on a network interface, as a card at its other end would.
//!
//! A raw packet socket (AF_PACKET) sends each frame from its destination address on. The interface
//! adds preamble and FCS. Requires CAP_NET_RAW.
//!
//! Memory passed to the kernel: a fully initialised `sockaddr_ll` for bind, and the frame's bytes
//! for send. Both live until the call returns, and the kernel keeps neither.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{OutputError, Sink};
use crate::gmii::Frame;

/// Pause before a send is repeated after the interface's queue was full.
const FULL_PAUSE: Duration = Duration::from_micros(50);
/// Time after which a queue that stays full is an error: such an interface sends nothing.
const FULL_LIMIT: Duration = Duration::from_secs(5);

/// An interface on which frames are sent.
pub struct Interface {
    socket: OwnedFd,
    name: String,
    /// Simulated seconds per second; without a value frames are sent as fast as they are simulated.
    speed: Option<f64>,
    start: Option<Instant>,
}

impl Interface {
    /// Opens interface `name`. `speed`: simulated seconds per second, above 0.
    pub fn open(name: &str, speed: Option<f64>) -> Result<Self, OutputError> {
        let failed = |operation| {
            let interface = name.to_owned();
            move |source| OutputError::Interface { operation, interface, source }
        };
        let index = index_of(name).map_err(failed("find"))?;
        let socket = bound_socket(index).map_err(failed("open a raw socket on"))?;
        Ok(Interface { socket, name: name.into(), speed, start: None })
    }

    /// Waits until the frame is due.
    fn pace(&mut self, frame: &Frame) {
        let Some(speed) = self.speed else { return };
        let start = *self.start.get_or_insert_with(Instant::now);
        let seconds = frame.time.as_secs_f64() / speed;
        let due = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        sleep(due.saturating_sub(start.elapsed()));
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut full_since = None;
        loop {
            // SAFETY: pointer and length are those of a live slice.
            let sent = unsafe {
                libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0)
            };
            if sent == bytes.len() as isize {
                return Ok(());
            }
            if sent >= 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ENOBUFS | libc::EAGAIN) => {
                    let since = *full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > FULL_LIMIT {
                        return Err(error);
                    }
                    sleep(FULL_PAUSE);
                }
                _ => return Err(error),
            }
        }
    }
}

impl Sink for Interface {
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError> {
        self.pace(frame);
        self.send(&frame.bytes).map_err(|source| OutputError::Interface {
            operation: "send on",
            interface: self.name.clone(),
            source,
        })
    }

    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        Ok(())
    }
}

fn index_of(name: &str) -> io::Result<i32> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the pointer is that of a live C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Creates a socket that sends on the interface and, with protocol 0, receives nothing.
fn bound_socket(index: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `address`, which is initialised and outlives the
    // call.
    let bound = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}
