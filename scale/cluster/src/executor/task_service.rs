//! Serves the scheduler's calls: gives an executor tasks, cancels them, and has results removed.
//!
//! It works like Ballista's own service, which this crate can neither create nor put behind a check
//! of callers.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::serde::protobuf::executor_grpc_server::{ExecutorGrpc, ExecutorGrpcServer};
use ballista_core::serde::protobuf::{
    CancelTasksParams, CancelTasksResult, LaunchMultiTaskParams, LaunchMultiTaskResult,
    LaunchTaskParams, LaunchTaskResult, RemoveJobDataParams, RemoveJobDataResult,
    StopExecutorParams, StopExecutorResult,
};
use ballista_executor::executor::Executor;
use tokio::sync::Notify;
use tonic::{Request, Response, Status};

use super::results_folder;
use super::tasks::Tasks;
use crate::session::MOST_MESSAGE_BYTES;

/// Returns the service of an executor. `stop`: notified when the executor has to end.
pub fn service(
    executor: Arc<Executor>,
    tasks: Tasks,
    stop: Arc<Notify>,
) -> ExecutorGrpcServer<impl ExecutorGrpc> {
    ExecutorGrpcServer::new(TaskService { executor, tasks: Arc::new(tasks), stop })
        .max_decoding_message_size(MOST_MESSAGE_BYTES)
        .max_encoding_message_size(MOST_MESSAGE_BYTES)
}

struct TaskService {
    executor: Arc<Executor>,
    tasks: Arc<Tasks>,
    stop: Arc<Notify>,
}

#[async_trait]
impl ExecutorGrpc for TaskService {
    /// Not used: the scheduler always calls `launch_multi_task`.
    async fn launch_task(
        &self,
        _: Request<LaunchTaskParams>,
    ) -> Result<Response<LaunchTaskResult>, Status> {
        Err(Status::unimplemented("tasks are launched several at a time"))
    }

    /// Returns the jobs whose tasks cannot be decoded.
    async fn launch_multi_task(
        &self,
        request: Request<LaunchMultiTaskParams>,
    ) -> Result<Response<LaunchMultiTaskResult>, Status> {
        let mut failed_jobs = BTreeSet::new();
        for tasks in request.into_inner().multi_tasks {
            let job = tasks.job_id.clone();
            if let Err(error) = self.tasks.begin(tasks) {
                log::error!("tasks of {job:?} cannot be decoded: {error}");
                failed_jobs.insert(job);
            }
        }
        let failed_jobs = failed_jobs.into_iter().collect();
        Ok(Response::new(LaunchMultiTaskResult { failed_jobs }))
    }

    async fn stop_executor(
        &self,
        request: Request<StopExecutorParams>,
    ) -> Result<Response<StopExecutorResult>, Status> {
        let StopExecutorParams { executor_id, reason, .. } = request.into_inner();
        if executor_id == self.executor.metadata.id {
            log::info!("the scheduler ends this executor: {reason:?}");
            self.stop.notify_one();
        } else {
            log::warn!("a request to end {executor_id:?}, which is not this executor");
        }
        Ok(Response::new(StopExecutorResult {}))
    }

    async fn cancel_tasks(
        &self,
        request: Request<CancelTasksParams>,
    ) -> Result<Response<CancelTasksResult>, Status> {
        for task in request.into_inner().task_infos {
            let (stage, number) = (task.stage_id as usize, task.task_id as usize);
            let cancelled = self.executor.cancel_task(task.job_id.into(), stage, number).await;
            cancelled.map_err(|error| Status::internal(error.to_string()))?;
        }
        Ok(Response::new(CancelTasksResult { cancelled: true }))
    }

    async fn remove_job_data(
        &self,
        request: Request<RemoveJobDataParams>,
    ) -> Result<Response<RemoveJobDataResult>, Status> {
        let RemoveJobDataParams { job_id, remove_stage_ids } = request.into_inner();
        results_folder::remove(self.executor.work_dir(), &job_id, &remove_stage_ids).await?;
        Ok(Response::new(RemoveJobDataResult {}))
    }
}
