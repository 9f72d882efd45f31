//! Frames on an interface to batches of owned frames with their arrival times.
//!
//! [`ring`] takes them from the kernel's ring (Linux TPACKET_V3), [`fallback`] one by one through
//! pnet; [`queue`] runs either on a thread of its own so that a slow disk never makes the kernel
//! wait. Knows nothing of what frames mean; counts what the kernel and the interface dropped.

mod batch;
pub mod fallback;
mod interface;
mod mapping;
pub mod privileges;
pub mod queue;
pub mod ring;
mod socket;
mod standing;

use std::io;
use std::path::PathBuf;

pub use batch::{Batch, Captured};
pub use interface::Interface;
pub use standing::Standing;

use hmtt::pcapng::InterfaceStatistics;

/// Milliseconds after which frames are handed on though more would fit, and requests to stop seen.
pub const WAIT_MILLIS: u32 = 50;

/// Why frames could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No interface of that name.
    #[error("no interface {name}; there are: {known}")]
    NoInterface {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The interface is down.
    #[error("interface {0} is down; bring it up: sudo ip link set {0} up")]
    InterfaceDown(String),
    /// The interface was there, and is not any more.
    #[error("interface {0} is no more: it was removed, renamed or moved to another namespace")]
    InterfaceGone(String),
    /// Raw sockets need a capability.
    #[error(
        "not permitted to capture; allow this program to: sudo setcap cap_net_raw+ep {}",
        program.display()
    )]
    NotPermitted {
        /// This program.
        program: PathBuf,
    },
    /// A step of setting up or reading failed.
    #[error("cannot {operation} on interface {interface}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Where.
        interface: String,
        /// Why not.
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

/// Something frames come from.
pub trait Source: Send {
    /// Waits for a small multiple of [`WAIT_MILLIS`] and puts what came into `batch`, which is empty
    /// before; it stays empty when nothing came.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(), CaptureError>;

    /// What was received and dropped since the source was opened, all frames handed over included.
    /// The interface's own counts, which take long to read, may be a moment old unless `fresh`.
    fn statistics(&mut self, fresh: bool) -> Result<InterfaceStatistics, CaptureError>;

    /// Lets nothing more arrive, where it can; what has arrived is still handed over.
    fn close(&mut self) -> Result<(), CaptureError>;

    /// Batches after which everything that had arrived before the first of them has been seen.
    fn depth(&self) -> usize;
}
