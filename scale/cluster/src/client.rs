//! Plans queries like the embedded engine, and has a cluster execute them.

mod cluster_exec;
mod failure;
mod job;
mod results;
mod states;

use std::sync::Arc;

use datafusion::common::DataFusionError;
use hmtt_sql::command::QueryEngine;
use hmtt_sql::{Engine, EngineError, EngineOptions, Query, Shared, Sources};

pub use failure::ClusterError;
pub use job::SchedulerAccess;
pub use states::{StateRow, analyse};

use crate::codec::write_plan;
use crate::external::external;
use crate::leaves::{Place, place_of, with_restricted_leaves};
use crate::session;
use cluster_exec::ClusterExec;

/// Advice in messages about damaged parts.
const DAMAGE_ADVICE: &str =
    "execute the query with --skip-damaged and without --cluster to read the other parts";

/// An engine whose queries a cluster executes.
pub struct ClusterEngine {
    engine: Engine,
    scheduler: SchedulerAccess,
}

impl ClusterEngine {
    /// Creates an engine for data sets. `tasks`: number of tasks for reading and for grouping.
    ///
    /// # Errors
    /// A source is a capture, or an option is for the embedded engine only.
    pub fn new(
        sources: Sources,
        options: EngineOptions,
        scheduler: SchedulerAccess,
        tasks: u16,
    ) -> Result<Self, EngineError> {
        if let Some(capture) = sources.captures().next() {
            return Err(external(ClusterError::Capture(capture.to_owned())).into());
        }
        if options.skips_damaged {
            return Err(external(ClusterError::SkipDamaged).into());
        }
        let options = EngineOptions { damage_advice: DAMAGE_ADVICE, ..options };
        let adapt = |session| session::client_session(session, tasks);
        let engine = Engine::with_session(sources, &options, adapt)?;
        Ok(ClusterEngine { engine, scheduler })
    }
}

impl QueryEngine for ClusterEngine {
    fn shared(&self) -> &Arc<Shared> {
        self.engine.shared()
    }

    async fn query(&self, sql: &str) -> Result<Query, EngineError> {
        let query = self.engine.query(sql).await?;
        match place_of(query.plan()) {
            Ok(Place::Client) => return Ok(query),
            Ok(Place::Cluster) => {}
            Err(leaf) => return Err(external(ClusterError::Leaf(leaf)).into()),
        }
        let plan = with_restricted_leaves(query.plan().clone())?;
        let bytes = write_plan(&plan).map_err(|error| match error {
            // An error of this crate's own functions.
            DataFusionError::Plan(_) => error,
            other => external(ClusterError::Encode(other.strip_backtrace())),
        })?;
        let exec = ClusterExec::new(&plan, bytes, self.scheduler.clone());
        Ok(query.with_plan(Arc::new(exec)))
    }
}
