//! Executes tasks of queries, and creates the statuses that tell the scheduler how the tasks ended.
//!
//! Tasks run on separate threads with a lower priority, so that calls are answered while all these
//! threads compute. The scheduler, which knows the number of threads, decides how many tasks run at
//! the same time.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ballista_core::error::BallistaError;
use ballista_core::serde::BallistaCodec;
use ballista_core::serde::protobuf::{
    FailedTask, MultiTaskDefinition, OperatorMetricsSet, SuccessfulTask, TaskStatus, task_status,
};
use ballista_core::serde::scheduler::from_proto::get_task_definition_vec;
use ballista_core::serde::scheduler::{TaskDefinition, TaskKey};
use ballista_executor::execution_engine::ExecutionEngine;
use ballista_executor::executor::Executor;
use datafusion::execution::TaskContext;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedSender;

use crate::service::STACK_BYTES;

/// Priority of the threads of tasks, as a `nice` value.
const PRIORITY: i32 = 10;

/// Executes the tasks of an executor.
pub struct Tasks {
    executor: Arc<Executor>,
    engine: Arc<dyn ExecutionEngine>,
    codec: BallistaCodec,
    threads: TaskThreads,
    /// Receives the status of each task that has ended.
    statuses: UnboundedSender<TaskStatus>,
}

impl Tasks {
    /// Creates the threads for an executor's tasks, which `engine` executes. `codec`: decodes
    /// plans.
    ///
    /// # Errors
    /// The threads cannot be created.
    pub fn new(
        executor: Arc<Executor>,
        engine: Arc<dyn ExecutionEngine>,
        codec: BallistaCodec,
        statuses: UnboundedSender<TaskStatus>,
    ) -> io::Result<Self> {
        let threads = TaskThreads::new(executor.vcores)?;
        Ok(Tasks { executor, engine, codec, threads, statuses })
    }

    /// Decodes tasks, which have the same plan, and begins them.
    ///
    /// # Errors
    /// The plan cannot be decoded. None of the tasks is begun.
    pub fn begin(self: &Arc<Self>, tasks: MultiTaskDefinition) -> Result<(), BallistaError> {
        let functions = &self.executor.function_registry;
        let tasks = get_task_definition_vec(
            tasks,
            self.executor.runtime_producer.clone(),
            self.executor.produce_config(),
            functions.scalar_functions.clone(),
            functions.aggregate_functions.clone(),
            functions.window_functions.clone(),
            functions.higher_order_functions.clone(),
            self.codec.clone(),
        )?;
        for task in tasks {
            let own = self.clone();
            self.threads.spawn(async move {
                let status = own.status(task).await;
                // If there is no receiver, the executor is ending.
                let _ = own.statuses.send(status);
            });
        }
        Ok(())
    }

    /// Executes a task. Returns how it ended.
    async fn status(&self, task: TaskDefinition) -> TaskStatus {
        let mut status = TaskStatus {
            task_id: task.task_id as u32,
            job_id: task.job_id.clone().into(),
            stage_id: task.stage_id as u32,
            stage_attempt_num: task.stage_attempt_num as u32,
            launch_time: task.launch_time,
            start_exec_time: milliseconds(),
            ..TaskStatus::default()
        };
        let result = self.execute(task).await;
        status.end_exec_time = milliseconds();
        status.status = Some(match result {
            Ok((metrics, done)) => {
                status.metrics = metrics;
                task_status::Status::Successful(done)
            }
            Err(error) => {
                let TaskStatus { task_id, job_id, stage_id, .. } = &status;
                log::info!("task {task_id} of stage {stage_id} of {job_id} fails: {error}");
                task_status::Status::Failed(FailedTask::from(error))
            }
        });
        status
    }

    async fn execute(
        &self,
        task: TaskDefinition,
    ) -> Result<(Vec<OperatorMetricsSet>, SuccessfulTask), BallistaError> {
        let (executor, functions) = (&self.executor, &task.function_registry);
        let TaskDefinition { job_id, stage_id, task_id, .. } = &task;
        let key = TaskKey { job_id: job_id.clone(), stage_id: *stage_id, task_id: *task_id };
        let name = format!("{job_id}/{stage_id}/{task_id}");
        let stage = self.engine.create_query_stage_exec(
            job_id.clone(),
            *stage_id,
            *task_id,
            task.global_output_partition_ids,
            task.plan,
            executor.work_dir(),
            &task.session_config,
        )?;
        let runtime = executor.produce_runtime_for_session(
            &task.session_id,
            &task.session_config,
            task.vcores_consumed,
        )?;
        let context = TaskContext::new(
            Some(name),
            task.session_id,
            task.session_config,
            functions.scalar_functions.clone(),
            functions.higher_order_functions.clone(),
            functions.aggregate_functions.clone(),
            functions.window_functions.clone(),
            runtime,
        );
        let partitions = executor.execute_query_stage(key, stage.clone(), context.into()).await?;
        let metrics = stage.collect_plan_metrics().into_iter().map(TryInto::try_into);
        // Metrics are only informative: a task does not fail because of them.
        let metrics: Result<_, BallistaError> = metrics.collect();
        let done = SuccessfulTask {
            executor_id: executor.metadata.id.clone(),
            partitions,
            runtime_stats: stage.collect_runtime_stats_reports(),
            task_column_stats: stage.collect_column_stats(),
            // The next stage needs these reports.
            window_state: stage.collect_window_state_reports()?,
        };
        Ok((metrics.unwrap_or_default(), done))
    }
}

/// Milliseconds since 1970.
fn milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Threads for tasks. Dropping this value does not wait for the tasks.
struct TaskThreads(Option<Runtime>);

impl TaskThreads {
    fn new(count: usize) -> io::Result<Self> {
        let lower_priority = || {
            // If this fails, the threads keep the usual priority.
            let _ = rustix::process::setpriority_process(None, PRIORITY);
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("task")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(lower_priority)
            .enable_all()
            .build()?;
        Ok(TaskThreads(Some(runtime)))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(task);
        }
    }
}

impl Drop for TaskThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
