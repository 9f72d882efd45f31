//! Defines an operator without inputs, whose rows are the result of a plan on a cluster.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use hmtt_sql::command::report;

use super::failure::{ClusterError, execution};
use super::job::{Job, JobError, Location, Request, Scheduler, SchedulerAccess};
use super::results;

/// Largest number of times that a query is sent again.
const MOST_RESUBMISSIONS: usize = 3;
/// How long the client waits for a lost scheduler.
const RETURN: Duration = Duration::from_secs(60);
/// Time between two attempts to connect to a lost scheduler.
const RETRY: Duration = Duration::from_millis(500);
/// How long the client waits after the loss of an executor, so that other losses are noticed too.
const AFTER_LOSS: Duration = Duration::from_secs(2);

/// The result of a plan on a cluster.
#[derive(Debug)]
pub struct ClusterExec {
    plan: Arc<[u8]>,
    scheduler: SchedulerAccess,
    properties: Arc<PlanProperties>,
}

impl ClusterExec {
    /// Creates the operator. `bytes`: the plan as bytes.
    pub fn new(plan: &Arc<dyn ExecutionPlan>, bytes: Vec<u8>, scheduler: SchedulerAccess) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        ClusterExec { plan: bytes.into(), scheduler, properties: Arc::new(properties) }
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ClusterExec: scheduler={}", self.scheduler.address)
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &str {
        "ClusterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("ClusterExec has no inputs");
        }
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ClusterExec has one partition");
        }
        let request = Request::new(self.plan.clone(), &context);
        let scheduler = self.scheduler.clone();
        let rows = stream::once(async move {
            let (job, locations) = finish(&scheduler, &request).await?;
            Ok::<_, DataFusionError>(results::read(job, locations))
        });
        let rows = rows.try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Executes a plan to its end. Returns the job and the locations of its result. Until there is a
/// result, a plan is sent again if its scheduler or an executor is lost.
async fn finish(access: &SchedulerAccess, request: &Request) -> Result<(Job, Vec<Location>)> {
    let address = &access.address;
    let mut scheduler = Scheduler::connect(access).await.map_err(|reason| {
        execution(&ClusterError::NoScheduler { address: address.clone(), reason })
    })?;
    let mut times = 0;
    loop {
        let (reason, is_executor) = match scheduler.execute(request).await {
            Ok(ended) => return Ok(ended),
            Err(JobError::Failed(error)) => return Err(error),
            Err(JobError::Lost(reason)) => (reason, false),
            Err(JobError::ExecutorLost(reason)) => (reason, true),
        };
        times += 1;
        if times > MOST_RESUBMISSIONS {
            let address = address.clone();
            return Err(execution(&if is_executor {
                ClusterError::ExecutorsLost { address, times, reason }
            } else {
                ClusterError::Lost { address, times, reason }
            }));
        }
        if is_executor {
            report(&format!(
                "{address}: {reason}; the query is sent again ({times} of at most {MOST_RESUBMISSIONS} times)"
            ));
            tokio::time::sleep(AFTER_LOSS).await;
            continue;
        }
        report(&format!(
            "{address}: the scheduler was lost ({reason}); it is awaited for {} s, then the query is sent again \
             ({times} of at most {MOST_RESUBMISSIONS} times)",
            RETURN.as_secs()
        ));
        scheduler = reconnect(access).await?;
    }
}

async fn reconnect(access: &SchedulerAccess) -> Result<Scheduler> {
    let begin = Instant::now();
    loop {
        match Scheduler::connect(access).await {
            Ok(scheduler) => return Ok(scheduler),
            Err(reason) if begin.elapsed() > RETURN => {
                let address = access.address.clone();
                return Err(execution(&ClusterError::NoScheduler { address, reason }));
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}
