//! Defines the settings that client, scheduler and executors share.

use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::{
    EndpointOverrideFn, SessionConfigExt, ballista_aggregate_functions, ballista_scalar_functions,
    ballista_window_functions,
};
use ballista_core::optimizer::with_ballista_optimizer_rules;
use datafusion::common::config::ExecutionOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::authentication::with_token;
use crate::secret::Secret;
use crate::stores::EmptyStores;

/// Largest message in bytes. A message can contain a plan for each of several tasks, and each plan
/// contains the states of its functions.
pub const MOST_MESSAGE_BYTES: usize = 256 << 20;
/// Longest time for connecting.
const CONNECT: Duration = Duration::from_secs(3);
/// Time between two keep-alive messages on a connection. They are needed because a machine that is
/// switched off closes no connection.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Time limit for the answer to a keep-alive message.
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(6);

/// Settings of the session in which the client plans. `tasks`: number of tasks for reading and for
/// grouping. Settings that the embedded engine derives from its own memory get their defaults
/// again, because executors have other amounts of memory.
pub fn client_session(mut session: SessionStateBuilder, tasks: u16) -> SessionStateBuilder {
    let mut config = session.config().take().unwrap_or_default();
    let (own, usual) = (&mut config.options_mut().execution, ExecutionOptions::default());
    own.target_partitions = tasks.into();
    own.batch_size = usual.batch_size;
    own.sort_spill_reservation_bytes = usual.sort_spill_reservation_bytes;
    // Hash joins are preferred, as in the embedded engine: the time of a join that merges sorted
    // rows grows with the square of the rows of a hot page.
    let config = config
        .upgrade_for_ballista()
        .set_bool("datafusion.optimizer.prefer_hash_join", true)
        .with_ballista_grpc_client_max_message_size(MOST_MESSAGE_BYTES);
    let rules = with_ballista_optimizer_rules(&datafusion::optimizer::Optimizer::default().rules);
    session.with_config(config).with_optimizer_rules(rules)
}

/// Settings of scheduler and executors, which the settings of a query override. `secret`: for the
/// connections that Ballista makes.
pub fn config(secret: Option<Secret>) -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_ballista_override_create_grpc_client_endpoint(endpoint_settings(secret))
        .with_ballista_grpc_client_max_message_size(MOST_MESSAGE_BYTES)
}

/// Creates a session with all functions, which decodes plans.
pub fn state(config: SessionConfig) -> datafusion::common::Result<SessionState> {
    let stores = Arc::new(EmptyStores::default());
    let runtime = RuntimeEnvBuilder::new().with_object_store_registry(stores);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        .with_scalar_functions(ballista_scalar_functions())
        .with_aggregate_functions(ballista_aggregate_functions())
        .with_window_functions(ballista_window_functions())
        .build();
    let context = SessionContext::new_with_state(state);
    hmtt_sql::register_all(&context);
    Ok(context.state())
}

/// The settings for each connection that Ballista makes.
pub fn endpoint_settings(secret: Option<Secret>) -> EndpointOverrideFn {
    Arc::new(move |endpoint| Ok(watched(endpoint, secret)?))
}

/// Returns an endpoint that notices when the peer is gone, and whose calls carry the token of a
/// secret.
///
/// # Errors
/// Never: a token is text.
pub fn watched(
    endpoint: Endpoint,
    secret: Option<Secret>,
) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    with_token(endpoint, secret)
}

/// Whether a status states that the peer cannot be reached, or was lost.
pub fn is_of_connection(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded
    )
}
