//! Makes the system calls of a packet socket, and returns their errors.
//!
//! Invariant: the kernel is given pointers only to values that outlive the call, with their sizes.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use hmtt_format::frame::ETHER_TYPE;

pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: the call creates a descriptor and accesses no memory.
    let descriptor =
        unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

pub(super) fn set_option<T>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    set_option_at(socket, libc::SOL_PACKET, option, value)
}

fn set_option_at<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (value, length) = (std::ptr::from_ref(value).cast::<c_void>(), size_of::<T>());
    // SAFETY: the kernel reads `length` bytes, the size of the referenced value, and memory that
    // the value points to, which the caller keeps alive.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length as u32) };
    succeeded(result)
}

/// Reads an option. `T`: an integer, or a C structure of integers.
pub(super) fn get_option<T: Copy>(socket: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    succeeded(result)?;
    // SAFETY: zeroed, then written by the kernel: valid for integers.
    Ok(unsafe { value.assume_init() })
}

/// The kernel's number for the interface `name`, and whether it is up.
pub(super) fn find_interface(socket: &OwnedFd, name: &str) -> io::Result<(u32, bool)> {
    // SAFETY: a C structure of integers and a union of integers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0, because it terminates the name.
    let capacity = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..capacity].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let mut ask = |what: libc::Ioctl| {
        // SAFETY: the kernel reads and writes one ifreq, which outlives the call.
        succeeded(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
        Ok::<_, io::Error>(request.ifr_ifru)
    };
    // SAFETY: the kernel has written the field of the union that belongs to the request.
    let index = unsafe { ask(libc::SIOCGIFINDEX as libc::Ioctl)?.ifru_ifindex };
    // SAFETY: as above.
    let flags = unsafe { ask(libc::SIOCGIFFLAGS as libc::Ioctl)?.ifru_flags };
    Ok((index as u32, c_int::from(flags) & libc::IFF_UP != 0))
}

/// The name of the interface with this index, and whether it is up.
pub(super) fn interface_at(socket: &OwnedFd, index: u32) -> io::Result<(String, bool)> {
    // SAFETY: a C structure of integers and a union of integers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index as c_int;
    // SAFETY: the kernel reads and writes one ifreq, which outlives the call.
    succeeded(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as libc::Ioctl, &raw mut request)
    })?;
    let name: Vec<u8> =
        request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    let (_, is_up) = find_interface(socket, &name)?;
    Ok((name, is_up))
}

/// Sets the interface with this index to promiscuous mode while the socket is open.
pub(super) fn listen_promiscuously(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

pub(super) fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ETHER_TYPE.to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid for `length` bytes during the call.
    let result =
        unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
    succeeded(result)
}

/// Attaches a filter that rejects every frame.
pub(super) fn refuse_all(socket: &OwnedFd) -> io::Result<()> {
    let mut none =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut none };
    set_option_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Waits until the kernel passes on a block, but no longer than `timeout`.
pub(super) fn wait(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    let millis = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    let mut poll =
        libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN | libc::POLLERR, revents: 0 };
    // SAFETY: the pointer is to one pollfd, as the count states.
    let result = unsafe { libc::poll(&raw mut poll, 1, millis) };
    match succeeded(result.min(0)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
        other => other?,
    }
    if poll.revents & libc::POLLERR != 0 {
        let error: c_int = get_option(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

fn succeeded(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
