//! Reads frames from network interfaces into batches with their arrival times.
//!
//! [`ring`] reads frames from the kernel's ring (Linux TPACKET_V3), [`fallback`] reads them one by
//! one through pnet. [`queue`] runs each source on a separate thread, so that a slow disk does not
//! delay the reading of the ring. This module does not interpret frames. It counts the frames that
//! the kernel and the interface dropped, and notes when an interface was down.

mod batch;
pub mod fallback;
mod interface;
mod mapping;
mod outage;
pub mod privileges;
pub mod queue;
pub mod ring;
mod socket;
mod source_status;

use std::io;
use std::path::PathBuf;

pub use batch::{Batch, Captured};
pub use interface::Interface;
pub use outage::{Outage, Outages};
pub use source_status::SourceStatus;

use hmtt::pcapng::InterfaceStatistics;

/// Longest time, in milliseconds, until a batch is passed on although it is not full, and until a
/// request to stop is noticed.
pub const WAIT_MILLIS: u32 = 50;

/// What a source does when its interface goes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// The source waits until the interface is up again.
    #[default]
    Wait,
    /// The source fails.
    Fail,
}

/// Why frames could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No interface of that name.
    #[error("no interface {name}; there are: {known}")]
    NoInterface {
        /// Name that was requested.
        name: String,
        /// Names of the interfaces that exist, separated by commas.
        known: String,
    },
    /// The interface is down.
    #[error("interface {0} is down; bring it up: sudo ip link set {0} up")]
    InterfaceDown(String),
    /// The interface existed and no longer does.
    #[error(
        "interface {0} no longer exists: it was removed, renamed or moved to another namespace"
    )]
    InterfaceGone(String),
    /// Raw sockets need a capability.
    #[error(
        "not permitted to capture; allow this program to: sudo setcap cap_net_raw+ep {}",
        program.display()
    )]
    NotPermitted {
        /// Path of this program.
        program: PathBuf,
    },
    /// A system call failed while a source was opened or read.
    #[error("cannot {operation} on interface {interface}")]
    System {
        /// Operation that failed, for the message.
        operation: &'static str,
        /// Name of the interface.
        interface: String,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
}

impl CaptureError {
    fn system(operation: &'static str, interface: &Interface, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => CaptureError::NotPermitted {
                program: std::env::current_exe().unwrap_or_else(|_| "hmtt-recv".into()),
            },
            io::ErrorKind::NetworkDown if interface.is_there() => {
                CaptureError::InterfaceDown(interface.name.clone())
            }
            io::ErrorKind::NetworkDown | io::ErrorKind::NotFound => {
                CaptureError::InterfaceGone(interface.name.clone())
            }
            _ if matches!(source.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
                CaptureError::InterfaceGone(interface.name.clone())
            }
            _ => CaptureError::System { operation, interface: interface.name.clone(), source },
        }
    }
}

/// A source of frames: one interface.
pub trait Source: Send {
    /// Waits for at most a small multiple of [`WAIT_MILLIS`] and puts the frames that arrived into
    /// `batch`. The batch must be empty; it stays empty if no frame arrived.
    ///
    /// # Errors
    /// If no more frames can be read.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(), CaptureError>;

    /// Counts of frames that were received and dropped since the source was opened. They include
    /// all frames that [`Source::next_batch`] has returned. The interface's own counts, which take
    /// long to read, may be up to 200 ms old unless `fresh`.
    ///
    /// # Errors
    /// If the kernel's counts cannot be read.
    fn statistics(&mut self, fresh: bool) -> Result<InterfaceStatistics, CaptureError>;

    /// Outages of the interface since the source was opened; empty if the source fails when the
    /// interface goes down.
    fn outages(&self) -> &Outages;

    /// Stops the arrival of further frames, if the source can. Frames that have arrived can still
    /// be read.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn close(&mut self) -> Result<(), CaptureError>;

    /// Maximum number of batches that unread frames can fill. Unread frames have arrived, and no
    /// batch has them yet.
    fn depth(&self) -> usize;
}
