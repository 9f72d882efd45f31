//! Keeps the connections of an executor to other executors, from which its tasks read results.
//!
//! Only one task uses a connection at a time. After the task, the connection is kept for the next
//! one. Ballista's own pool cannot be used: it is private to the engine that `engine` replaces.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Host, port and settings of a connection.
type Key = (String, u16, GrpcClientConfig);
/// Unused connections, and since when they are unused.
type IdleClients = HashMap<Key, Vec<(Instant, BallistaClient)>>;

/// Connections to executors.
#[derive(Default)]
pub struct Connections {
    idle: Arc<Mutex<IdleClients>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// Removes connections that were unused for too long, and returns the others.
fn recent(idle: &Mutex<IdleClients>) -> MutexGuard<'_, IdleClients> {
    let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
    idle.retain(|_, clients| {
        clients.retain(|(since, _)| since.elapsed() < IDLE);
        !clients.is_empty()
    });
    idle
}

#[async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize_endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        let key = (host.to_owned(), port, config.clone());
        let known = recent(&self.idle).get_mut(&key).and_then(Vec::pop);
        let client = match known {
            Some((_, client)) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize_endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let idle = self.idle.clone();
        let give_back = move |client| {
            recent(&idle).entry(key).or_default().push((Instant::now(), client));
        };
        Ok(PooledClient::new(client, Box::new(give_back)))
    }

    async fn evict_idle(&self) {
        drop(recent(&self.idle));
    }
}
