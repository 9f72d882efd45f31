//! Computes the free slots of executors from the running tasks, and makes jobs fail when an
//! executor that they use is lost.
//!
//! A slot executes one task at a time. Ballista takes slots when it assigns tasks, and frees them
//! by the statuses that executors report. When a stage is started anew, its tasks are stopped.
//! Ballista no longer knows these tasks when their statuses arrive, so their slots would stay taken
//! until the executor restarts. So the free slots are computed before each assignment: all slots of
//! an executor, less the number of its running tasks.
//!
//! If an executor is lost, each job that has results or tasks on it fails before Ballista starts
//! the job's stages anew: when Ballista 55.0 did so, a query with a join had wrong rows. The client
//! sends the query again.
//!
//! An executor whose heartbeats were late joins again.
//!
//! Invariants: an executor has no more tasks than slots, except for tasks that are just being
//! stopped. A slot without a task is free at the next assignment. After an executor is lost, no
//! task of a job that has used it is assigned.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::{
    ExecutorHeartbeat, ExecutorStatus, RunningTask, SuccessfulTask, executor_status, job_status,
    task_status,
};
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_core::utils::get_time_before;
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::task_manager::JobInfoCache;
use tokio::sync::{Mutex, RwLock};

/// Start of the message of a job that fails because an executor was lost.
pub const LOST: &str = "executors were lost";
/// Seconds without a heartbeat after which an executor is lost. Executors send one every 2 s.
pub const EXECUTOR_TIMEOUT_S: u64 = 6;
/// Time between two checks whether there is any executor.
const SEARCH: Duration = Duration::from_secs(1);

/// A job's graph.
type Job = RwLock<ExecutionGraphBox>;
/// The running jobs.
type Jobs = Arc<HashMap<JobId, JobInfoCache>>;

/// Slots of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slots {
    all: u32,
    /// Number of slots that Ballista regards as free.
    free: u32,
}

impl Slots {
    /// Frees all slots that no running task has. `running`: number of running tasks. Returns the
    /// number of slots that Ballista did not regard as free before. Example: of 4 slots, 1 is free
    /// for Ballista, and 1 task is running: it returns 2.
    fn release(&mut self, running: u32) -> u32 {
        let free = self.all.saturating_sub(running);
        let released = free.saturating_sub(self.free);
        self.free += released;
        released
    }

    fn take(&mut self, count: u32) {
        self.free = self.free.saturating_sub(count);
    }
}

/// Slots by executor, and the jobs that can have tasks.
#[derive(Default)]
struct State {
    slots: HashMap<String, Slots>,
    jobs: Vec<Weak<Job>>,
}

/// Makes a job fail if it is running and `applies` holds for it.
async fn fail(job: &Job, reason: &str, applies: impl Fn(&ExecutionGraphBox) -> bool) {
    let mut graph = job.write().await;
    let is_running = matches!(graph.status().status, Some(job_status::Status::Running(_)));
    if is_running && applies(&graph) {
        log::warn!("{} fails: {reason}", graph.job_id());
        graph.fail_job(reason.to_owned());
    }
}

/// Whether a job has tasks or results on an executor.
fn uses(job: &ExecutionGraphBox, executor: &str) -> bool {
    let mut tasks = job.stages().values().filter_map(|stage| stage.task_infos()).flatten();
    tasks.any(|task| match &task.task_status {
        task_status::Status::Running(RunningTask { executor_id })
        | task_status::Status::Successful(SuccessfulTask { executor_id, .. }) => {
            executor_id == executor
        }
        task_status::Status::Failed(_) => false,
    })
}

/// The executors of a cluster, in memory.
#[derive(Default)]
pub struct Executors {
    known: InMemoryClusterState,
    state: Mutex<State>,
}

impl Executors {
    /// Makes the running jobs fail when there has been no executor for some time. Does not end.
    pub async fn watch(self: Arc<Self>, patience: Duration, running: impl Fn() -> Jobs) {
        let mut since = None;
        loop {
            tokio::time::sleep(SEARCH).await;
            if !self.state.lock().await.slots.is_empty() {
                since = None;
            } else if since.get_or_insert_with(Instant::now).elapsed() >= patience {
                let reason = format!("{LOST}: there has been none for {} s", patience.as_secs());
                for job in running().values() {
                    fail(&job.execution_graph, &reason, |_| true).await;
                }
            }
        }
    }
}

/// Number of slots that the running tasks of jobs use, by executor.
async fn taken(jobs: &Jobs) -> HashMap<String, u32> {
    let mut used_slots = HashMap::new();
    for job in jobs.values() {
        let graph = job.execution_graph.read().await;
        for task in graph.running_tasks() {
            let count = graph.task_vcores(task.stage_id, task.task_id).unwrap_or_default();
            *used_slots.entry(task.executor_id).or_default() += count;
        }
    }
    used_slots
}

#[async_trait]
impl ClusterState for Executors {
    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        active_jobs: Jobs,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let mut state = self.state.lock().await;
        state.jobs = active_jobs.values().map(|job| Arc::downgrade(&job.execution_graph)).collect();
        let used_slots = taken(&active_jobs).await;
        let released = state.slots.iter_mut().map(|(executor, slots)| {
            (executor.clone(), slots.release(used_slots.get(executor).copied().unwrap_or_default()))
        });
        self.known.unbind_tasks(released.collect()).await?;
        let bound = self.known.bind_schedulable_tasks(distribution, active_jobs, executors).await?;
        for (executor, task) in &bound {
            log::debug!("stage {} of {}: a task of {executor}", task.key.stage_id, task.key.job_id);
            if let Some(slots) = state.slots.get_mut(executor) {
                slots.take(task.vcores_consumed);
            }
        }
        Ok(bound)
    }

    /// Does nothing: the next assignment computes which slots are free.
    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        Ok(())
    }

    async fn register_executor(
        &self,
        metadata: ExecutorMetadata,
        spec: ExecutorData,
    ) -> Result<()> {
        let mut state = self.state.lock().await;
        let (id, slot_count) = (metadata.id.clone(), spec.available_vcores);
        log::debug!("executor {id} at {}:{}, {slot_count} slots", metadata.host, metadata.port);
        self.known.register_executor(metadata, spec).await?;
        state.slots.insert(id, Slots { all: slot_count, free: slot_count });
        Ok(())
    }

    async fn remove_executor(&self, executor_id: &str) -> Result<()> {
        let mut state = self.state.lock().await;
        state.slots.remove(executor_id);
        let reason = format!("{LOST}: {executor_id}");
        for job in state.jobs.iter().filter_map(Weak::upgrade) {
            fail(&job, &reason, |job| uses(job, executor_id)).await;
        }
        self.known.remove_executor(executor_id).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.known.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor_id: &str) -> Result<ExecutorMetadata> {
        self.known.get_executor_metadata(executor_id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.known.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.known.save_executor_heartbeat(heartbeat).await
    }

    /// Ballista ends an executor that it regards as lost, unless the executor is terminating. On a
    /// loaded machine a heartbeat may only be late, and the executor is still needed: it joins
    /// again with its next heartbeat. So this function reports a lost executor as terminating.
    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        let mut heartbeats = self.known.executor_heartbeats();
        let last = get_time_before(EXECUTOR_TIMEOUT_S);
        for heartbeat in heartbeats.values_mut().filter(|heartbeat| heartbeat.timestamp <= last) {
            let status = executor_status::Status::Terminating(String::new());
            heartbeat.status = Some(ExecutorStatus { status: Some(status) });
        }
        heartbeats
    }

    fn get_executor_heartbeat(&self, executor_id: &str) -> Option<ExecutorHeartbeat> {
        self.known.get_executor_heartbeat(executor_id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.known.cluster_state_events().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_without_a_task_are_given_back_once() {
        let mut slots = Slots { all: 4, free: 4 };
        slots.take(3);
        assert_eq!(slots.release(3), 0);
        // Two of the three tasks were stopped.
        assert_eq!(slots.release(1), 2);
        assert_eq!(slots.release(1), 0);
        assert_eq!(slots, Slots { all: 4, free: 3 });
        // If more tasks than slots are running, no slot is freed.
        slots.take(3);
        assert_eq!(slots.release(9), 0);
        assert_eq!(slots, Slots { all: 4, free: 0 });
    }
}
