//! Serves the counts of a capture to Prometheus, over HTTP on loopback addresses only.
//!
//! `text` formats the metrics. `server` serves all connections on one thread; each is a
//! `connection`, whose request `http` parses. The capture only stores a finished text, so no client
//! can make the capture or another client wait. Invariant: the server listens on a loopback address
//! that was given in numbers. No name is resolved, and no other machine can connect.

mod connection;
mod http;
mod server;
mod text;

use std::io;
use std::io::PipeWriter;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

pub use text::text;

use super::activity::Activity;
use crate::receive::Snapshot;
use server::Server;

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address is not numeric.
    #[error("{0} is not an address and port in numbers, such as 127.0.0.1:9464 or [::1]:9464")]
    NotNumeric(String),
    /// The address is not a loopback address.
    #[error("{0} can be reached from outside; metrics are served on 127.0.0.0/8 or ::1 only")]
    NotLoopback(SocketAddr),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address} for metrics")]
    Listen {
        /// Address that was requested.
        address: SocketAddr,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
}

/// Parses a numeric loopback address with a port.
///
/// # Errors
/// If `text` is not numeric, or not a loopback address.
pub fn parse_address(text: &str) -> Result<SocketAddr, MetricsError> {
    let address: SocketAddr =
        text.parse().map_err(|_| MetricsError::NotNumeric(text.to_owned()))?;
    if address.ip().is_loopback() { Ok(address) } else { Err(MetricsError::NotLoopback(address)) }
}

/// A metrics server, which stops when it is dropped.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Pipe whose closing stops the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    text: Mutex<Arc<str>>,
    connections: Connections,
}

impl Shared {
    fn text(&self) -> Arc<str> {
        Arc::clone(&self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts of connections that have ended, by result.
#[derive(Debug, Default)]
struct Connections {
    answered: Count,
    /// Closed by the server, because the client was silent or slow, or there were too many.
    given_up: Count,
    /// Closed by the client before it had its answer.
    left: Count,
    /// Not accepted because of an error.
    failed: Count,
}

#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Connections {
    fn counts(&self) -> [(&'static str, u64); 4] {
        let Connections { answered, given_up, left, failed } = self;
        [
            ("answered", answered.get()),
            ("given_up", given_up.get()),
            ("left", left.get()),
            ("failed", failed.get()),
        ]
    }
}

impl Metrics {
    /// Listens on a loopback address; port 0 selects a free port. Starts no thread.
    ///
    /// # Errors
    /// If the address is not a loopback address or cannot be listened on.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback(address));
        }
        TcpListener::bind(address).map_err(|source| MetricsError::Listen { address, source })
    }

    /// Starts a server on an address that [`Metrics::listen`] accepts.
    ///
    /// # Errors
    /// As [`Metrics::listen`].
    pub fn serve(address: SocketAddr) -> Result<Self, MetricsError> {
        Metrics::serve_on(Metrics::listen(address)?, address)
    }

    /// Starts a server on a listener of [`Metrics::listen`]; `address`: the requested address.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn serve_on(listener: TcpListener, address: SocketAddr) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError::Listen { address, source };
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let (stopped, stop) = io::pipe().map_err(failed)?;
        let serve = move || {
            Server::new(listener, stopped, &served)?.run();
            Ok(())
        };
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(|| drop::<io::Result<()>>(serve())).map_err(failed)?;
        Ok(Metrics { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Address and port on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the metrics that clients receive.
    pub fn update(&self, snapshot: &Snapshot, activity: &Activity) {
        let mut text = text(snapshot, activity);
        text.push_str(&text::format_connections(&self.shared.connections.counts()));
        *self.shared.text.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic of a server thread has already been printed.
            let _ = thread.join();
        }
    }
}
