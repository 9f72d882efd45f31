//! Frames one by one through pnet: portable, and slower than the ring.
//!
//! Sees every EtherType and keeps the card's only. The kernel's drops are unknown here.

use std::io;
use std::time::{Duration, SystemTime};

use hmtt::pcapng::InterfaceStatistics;
use hmtt_format::frame::{ETHER_TYPE, MAC_HEADER_BYTES, MAX_FRAME_BYTES};
use pnet_datalink::{Channel, Config, DataLinkReceiver};

use super::{Batch, CaptureError, Interface, Source, WAIT_MILLIS};

/// Room for one frame and whatever the interface adds to it.
const READ_BYTES: usize = MAX_FRAME_BYTES + 512;

/// More frames than a socket's default buffer holds.
const MAX_DRAIN_FRAMES: usize = 1 << 12;

/// An open channel.
pub struct Fallback {
    interface: Interface,
    frames: Box<dyn DataLinkReceiver>,
    received: u64,
}

impl Fallback {
    /// Starts listening.
    pub fn open(interface: Interface) -> Result<Self, CaptureError> {
        let config = Config {
            read_timeout: Some(Duration::from_millis(WAIT_MILLIS.into())),
            read_buffer_size: READ_BYTES,
            promiscuous: true,
            ..Config::default()
        };
        let system = |error| CaptureError::system("open a channel", &interface, error);
        match interface.open_channel(config).map_err(system)? {
            Channel::Ethernet(_, frames) => Ok(Fallback { interface, frames, received: 0 }),
            _ => Err(system(io::Error::other("not an Ethernet interface"))),
        }
    }

    /// Why no more frames come: the channel says no more than that it failed.
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
            self.received += 1;
        }
        Ok(())
    }

    fn statistics(&mut self, fresh: bool) -> Result<InterfaceStatistics, CaptureError> {
        let interface = self.interface.counts(fresh);
        Ok(InterfaceStatistics {
            received: Some(self.received),
            interface_drops: interface.drops,
            interface_missed: interface.missed,
            kernel_drops: None,
        })
    }

    /// The channel does not let us: what arrives meanwhile is handed over, too.
    fn close(&mut self) -> Result<(), CaptureError> {
        Ok(())
    }

    fn depth(&self) -> usize {
        MAX_DRAIN_FRAMES
    }
}
