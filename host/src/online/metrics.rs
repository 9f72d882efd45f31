//! What a capture has brought to Prometheus, over HTTP on this machine only.
//!
//! `text` writes the metrics, `http` answers one connection after the other on a thread of its own.
//! The capture only leaves a finished text there, so no client can make it wait. Invariant: what is
//! listened on is a loopback address, given in numbers: nothing is looked up, nobody outside connects.

mod http;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

pub use text::text;

use super::activity::Activity;
use crate::receive::Snapshot;

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Not an address in numbers.
    #[error("{0} is not an address and port in numbers, such as 127.0.0.1:9464 or [::1]:9464")]
    NotNumeric(String),
    /// An address others can reach.
    #[error("{0} can be reached from outside; metrics are served on 127.0.0.0/8 or ::1 only")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address} for metrics")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// The loopback address and port that `text` states in numbers.
pub fn parse_address(text: &str) -> Result<SocketAddr, MetricsError> {
    let address: SocketAddr =
        text.parse().map_err(|_| MetricsError::NotNumeric(text.to_owned()))?;
    if address.ip().is_loopback() { Ok(address) } else { Err(MetricsError::NotLoopback(address)) }
}

/// A server of metrics; it ends when it is dropped.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    text: Mutex<Arc<str>>,
    stop: AtomicBool,
}

impl Metrics {
    /// Starts to serve on an address of [`parse_address`]; with port 0 on one that is free.
    pub fn serve(address: SocketAddr) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback(address));
        }
        let failed = |source| MetricsError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let thread = thread::spawn(move || serve(&listener, &served));
        Ok(Metrics { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on clients are told this.
    pub fn update(&self, snapshot: &Snapshot, activity: &Activity) {
        let text: Arc<str> = text(snapshot, activity).into();
        *self.shared.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A connection wakes the thread. If none can be made the thread ends with the process.
        if TcpStream::connect_timeout(&self.address, http::PATIENCE).is_ok()
            && let Some(thread) = self.thread.take()
        {
            // A server that panicked has told so.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, shared: &Shared) {
    for connection in listener.incoming() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let text = || Arc::clone(&shared.text.lock().unwrap_or_else(PoisonError::into_inner));
        match connection {
            // What becomes of one client's connection matters to nobody else.
            Ok(stream) => _ = http::answer(stream, text),
            // Such as too many open files: it passes, but must not spin.
            Err(_) => thread::sleep(http::PATIENCE),
        }
    }
}
