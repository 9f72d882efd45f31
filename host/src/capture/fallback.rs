//! Captures frames one by one through pnet, which is portable and slower than the ring.
//!
//! The channel delivers frames of every EtherType; only those with the card's EtherType are kept.
//! The number of frames that the kernel drops is not known. A channel fails when its interface goes
//! down.

use std::io;
use std::time::{Duration, SystemTime};

use hmtt::pcapng::InterfaceStatistics;
use hmtt_format::frame::{ETHER_TYPE, MAC_HEADER_BYTES, MAX_FRAME_BYTES};
use pnet_datalink::{Channel, Config, DataLinkReceiver};

use super::{Batch, CaptureError, Interface, Outages, Source, WAIT_MILLIS};

/// Size of the read buffer: one frame, and headers that the interface may add.
const READ_BYTES: usize = MAX_FRAME_BYTES + 512;

/// Upper bound of the frames in a socket's default buffer.
const MAX_DRAIN_FRAMES: usize = 1 << 12;

/// An open pnet channel.
pub struct Fallback {
    interface: Interface,
    frames: Box<dyn DataLinkReceiver>,
    received_frames: u64,
    outages: Outages,
}

impl Fallback {
    /// Opens a channel on an interface, in promiscuous mode.
    ///
    /// # Errors
    /// If the interface is down or gone, or a privilege is missing.
    pub fn open(interface: Interface) -> Result<Self, CaptureError> {
        let config = Config {
            read_timeout: Some(Duration::from_millis(WAIT_MILLIS.into())),
            read_buffer_size: READ_BYTES,
            promiscuous: true,
            ..Config::default()
        };
        let system = |error| CaptureError::system("open a channel", &interface, error);
        match interface.open_channel(config).map_err(system)? {
            Channel::Ethernet(_, frames) => {
                Ok(Fallback { interface, frames, received_frames: 0, outages: Outages::default() })
            }
            _ => Err(system(io::Error::other("not an Ethernet interface"))),
        }
    }

    /// Finds the reason of a failed read. The channel does not report it, so the interface is
    /// checked.
    fn failure(&self, error: io::Error) -> CaptureError {
        let name = self.interface.name.clone();
        match self.interface.is_up() {
            None => CaptureError::InterfaceGone(name),
            Some(false) => CaptureError::InterfaceDown(name),
            Some(true) => CaptureError::system("read a frame", &self.interface, error),
        }
    }
}

impl Source for Fallback {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(), CaptureError> {
        let frame = match self.frames.next() {
            Ok(frame) => frame,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
            {
                return Ok(());
            }
            Err(error) => return Err(self.failure(error)),
        };
        if frame.len() >= MAC_HEADER_BYTES
            && frame[MAC_HEADER_BYTES - 2..MAC_HEADER_BYTES] == ETHER_TYPE.to_be_bytes()
        {
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            batch.push(time, frame.len() as u32, frame);
            self.received_frames += 1;
        }
        Ok(())
    }

    fn statistics(&mut self, fresh: bool) -> Result<InterfaceStatistics, CaptureError> {
        let interface = self.interface.counts(fresh);
        Ok(InterfaceStatistics {
            received_frames: Some(self.received_frames),
            interface_dropped_frames: interface.drops,
            interface_missed_frames: interface.missed,
            kernel_dropped_frames: None,
        })
    }

    fn outages(&self) -> &Outages {
        &self.outages
    }

    /// Does nothing: a pnet channel cannot refuse frames. Frames that arrive meanwhile are
    /// captured, too.
    fn close(&mut self) -> Result<(), CaptureError> {
        Ok(())
    }

    fn depth(&self) -> usize {
        MAX_DRAIN_FRAMES
    }
}
