//! Checks the tasks of an executor before Ballista executes them.

use std::sync::Arc;

use ballista_core::JobId;
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use crate::connections::Connections;
use crate::locations::Locations;
use crate::plan_check::{check_job, check_task};

/// Ballista's engine, restricted to plans that pass the check.
pub struct CheckedEngine {
    locations: Arc<Locations>,
    engine: DefaultExecutionEngine,
}

impl CheckedEngine {
    /// Creates an engine that reads data sets in these locations.
    pub fn new(locations: Arc<Locations>) -> Self {
        let connections = Arc::new(Connections::default());
        CheckedEngine { locations, engine: DefaultExecutionEngine::with_client_pool(connections) }
    }
}

impl ExecutionEngine for CheckedEngine {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        output_partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let checked = check_job(job_id.as_str()).and_then(|()| check_task(&plan, &self.locations));
        checked.inspect_err(|error| {
            log::warn!("a task of {:?}: {}", job_id.as_str(), error.strip_backtrace());
        })?;
        self.engine.create_query_stage_exec(
            job_id,
            stage_id,
            task_id,
            output_partitions,
            plan,
            work_dir,
            config,
        )
    }
}
