//! What a capture has brought to Prometheus, over HTTP on this machine only.
//!
//! `text` writes the metrics, `server` answers all connections on one thread of its own, each a
//! `connection`, whose request `http` reads. The capture only leaves a finished text there, so no client
//! can make it wait, and none can make another wait. Invariant: what is listened on is a loopback
//! address, given in numbers: nothing is looked up, nobody outside connects.

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
    /// Closed, it ends the thread.
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

/// What became of connections.
#[derive(Debug, Default)]
struct Connections {
    answered: Count,
    /// By us: they were silent or slow, or too many.
    given_up: Count,
    /// By the client, before it had its answer.
    left: Count,
    /// They could not be accepted.
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
    /// Listens on an address of [`parse_address`]; with port 0 on one that is free. Starts no thread.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback(address));
        }
        TcpListener::bind(address).map_err(|source| MetricsError::Listen { address, source })
    }

    /// Starts to serve on an address, as [`Metrics::listen`] takes it.
    pub fn serve(address: SocketAddr) -> Result<Self, MetricsError> {
        Metrics::serve_on(Metrics::listen(address)?, address)
    }

    /// Starts to serve where [`Metrics::listen`] listens, of which `address` was asked for.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on clients are told this.
    pub fn update(&self, snapshot: &Snapshot, activity: &Activity) {
        let mut text = text(snapshot, activity);
        text.push_str(&text::of_connections(&self.shared.connections.counts()));
        *self.shared.text.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has told so.
            let _ = thread.join();
        }
    }
}
