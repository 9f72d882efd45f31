//! Sends a plan to a scheduler and waits for its end. Cancels a query that nobody waits for any
//! more, and removes results that were read.

use std::sync::Arc;
use std::time::Duration;

use ballista_core::serde::protobuf::execute_query_params::Query as QueryBytes;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CleanJobDataParams, ExecuteQueryParams, GetJobStatusParams, KeyValuePair,
    PartitionLocation, execute_query_failure_result, execute_query_result, job_status,
};
use ballista_core::version::{check_compatibility, insert_version_header, version_from_metadata};
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::failure::{ClusterError, execution, is_loss, of_message};
use crate::address::Address;
use crate::secret::Secret;
use crate::session::{MOST_MESSAGE_BYTES, is_of_connection, watched};

/// Location of a part of a result.
pub type Location = PartitionLocation;

/// Address of a scheduler, and the secret that it requires of callers.
#[derive(Clone, Debug)]
pub struct SchedulerAccess {
    /// Address of the scheduler.
    pub address: Address,
    /// The secret of the cluster; `None`: the cluster has none.
    pub secret: Option<Secret>,
}

/// Time limit of a request.
const REQUEST: Duration = Duration::from_secs(30);
/// Time between the first two requests that ask whether the query has ended. The time doubles with
/// each request.
const FIRST_POLL: Duration = Duration::from_millis(5);
/// Longest time between two of these requests.
const LAST_POLL: Duration = Duration::from_millis(100);
/// Time limit for cancelling a query, or for removing its result.
const REMOVE: Duration = Duration::from_secs(1);

/// Why there is no result.
pub enum JobError {
    /// The scheduler was lost, or has forgotten the query.
    Lost(String),
    /// An executor was lost that the query has used.
    ExecutorLost(String),
    /// The query failed.
    Failed(DataFusionError),
}

/// A plan with the settings for its execution.
pub struct Request {
    plan: Arc<[u8]>,
    settings: Vec<KeyValuePair>,
    session_id: String,
}

impl Request {
    /// Creates a request. `context`: has the settings.
    pub fn new(plan: Arc<[u8]>, context: &TaskContext) -> Self {
        let entries = context.session_config().options().entries();
        let settings =
            entries.into_iter().map(|entry| KeyValuePair { key: entry.key, value: entry.value });
        Request { plan, settings: settings.collect(), session_id: context.session_id() }
    }
}

/// State of a query in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    HasResult,
    /// The cluster has nothing to remove.
    Ended,
}

/// A query on a cluster. Dropping it cancels the query, or removes its result from the executors.
pub struct Job {
    id: String,
    access: SchedulerAccess,
    state: State,
}

impl Job {
    /// The secret of the cluster that has the query.
    pub fn secret(&self) -> Option<Secret> {
        self.access.secret
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.state == State::Ended {
            return;
        }
        // The program's runtime may be ending, so the removal uses a new runtime.
        let (access, job_id, state) = (self.access.clone(), self.id.clone(), self.state);
        let removed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let remove = remove(access, job_id, state);
            let _ = runtime.block_on(async { tokio::time::timeout(REMOVE, remove).await });
            Ok::<_, std::io::Error>(())
        });
        let _ = removed.join();
    }
}

/// Removes a query or its result from the cluster. If this fails, the scheduler removes it later.
async fn remove(access: SchedulerAccess, job_id: String, state: State) {
    let Ok(Scheduler { mut client, .. }) = Scheduler::connect(&access).await else { return };
    match state {
        State::Running => drop(client.cancel_job(CancelJobParams { job_id }).await),
        State::HasResult => {
            let parameters = CleanJobDataParams { job_id, remove_stage_ids: Vec::new() };
            drop(client.clean_job_data(parameters).await);
        }
        State::Ended => {}
    }
}

/// A connection to a scheduler.
pub struct Scheduler {
    access: SchedulerAccess,
    client: SchedulerGrpcClient<Channel>,
}

impl Scheduler {
    /// Connects. The error is the reason of a failure.
    pub async fn connect(access: &SchedulerAccess) -> Result<Self, String> {
        let endpoint = Endpoint::new(access.address.url());
        let endpoint = endpoint.and_then(|endpoint| watched(endpoint, access.secret));
        let endpoint = endpoint.map_err(|error| causes(&error))?;
        let channel = endpoint.timeout(REQUEST).connect().await;
        let channel = channel.map_err(|error| causes(&error))?;
        let client = SchedulerGrpcClient::new(channel)
            .max_encoding_message_size(MOST_MESSAGE_BYTES)
            .max_decoding_message_size(MOST_MESSAGE_BYTES);
        Ok(Scheduler { access: access.clone(), client })
    }

    /// Executes a plan to its end. Returns the job and the locations of its result.
    pub async fn execute(&mut self, request: &Request) -> Result<(Job, Vec<Location>), JobError> {
        let id = self.submit(request).await?;
        let mut job = Job { id: id.clone(), access: self.access.clone(), state: State::Running };
        let mut wait = FIRST_POLL;
        loop {
            let question = GetJobStatusParams { job_id: id.clone() };
            let answer = self.client.get_job_status(question).await;
            let answer = answer.map_err(|status| self.error(&status))?.into_inner();
            match answer.status.and_then(|status| status.status) {
                None => {
                    job.state = State::Ended;
                    return Err(JobError::Lost("it does not know the query".into()));
                }
                Some(job_status::Status::Queued(_) | job_status::Status::Running(_)) => {
                    tokio::time::sleep(wait).await;
                    wait = (2 * wait).min(LAST_POLL);
                }
                // The query is cancelled by dropping the job, because other executors may have
                // tasks of it.
                Some(job_status::Status::Failed(failed)) if is_loss(&failed.error) => {
                    return Err(JobError::ExecutorLost(failed.error));
                }
                Some(job_status::Status::Failed(failed)) => {
                    job.state = State::Ended;
                    return Err(JobError::Failed(of_message(&failed.error)));
                }
                Some(job_status::Status::Successful(ended)) => {
                    job.state = State::HasResult;
                    return Ok((job, ended.partition_location));
                }
            }
        }
    }

    async fn submit(&mut self, request: &Request) -> Result<String, JobError> {
        let query = ExecuteQueryParams {
            session_id: request.session_id.clone(),
            settings: request.settings.clone(),
            operation_id: String::new(),
            query: Some(QueryBytes::PhysicalPlan(request.plan.to_vec())),
        };
        let mut message = tonic::Request::new(query);
        insert_version_header(message.metadata_mut());
        let answer = self.client.execute_query(message).await;
        let answer = answer.map_err(|status| self.error(&status))?;
        let version = version_from_metadata(answer.metadata());
        check_compatibility(Some(ballista_core::BALLISTA_VERSION), version)
            .map_err(|reason| self.rejected(reason))?;
        match answer.into_inner().result {
            Some(execute_query_result::Result::Success(accepted)) => Ok(accepted.job_id),
            Some(execute_query_result::Result::Failure(failure)) => {
                use execute_query_failure_result::Failure;
                Err(self.rejected(match failure.failure {
                    Some(
                        Failure::SessionNotFound(reason)
                        | Failure::PlanParsingFailure(reason)
                        | Failure::SqlParsingFailure(reason),
                    ) => reason,
                    None => "without a reason".into(),
                }))
            }
            None => Err(self.rejected("the answer is empty".into())),
        }
    }

    fn rejected(&self, reason: String) -> JobError {
        let address = self.access.address.clone();
        JobError::Failed(execution(&ClusterError::Rejected { address, reason }))
    }

    /// Converts a status: the scheduler is lost, or it rejects a request.
    fn error(&self, status: &Status) -> JobError {
        if is_of_connection(status) {
            return JobError::Lost(causes(status));
        }
        self.rejected(status.message().into())
    }
}

/// The message of an error with its causes.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}
