//! A peer that sends messages of Ballista's protocol with what no client of HMTT sends.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ballista_core::client::BallistaClient;
use ballista_core::execution_plans::ShuffleWriterExec;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::executor_grpc_client::ExecutorGrpcClient;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    ExecuteQueryParams, GetJobStatusParams, LaunchMultiTaskParams, MultiTaskDefinition, TaskId,
    execute_query_failure_result, execute_query_result, job_status,
};
use ballista_core::serde::scheduler::{PartitionId, ShuffleLayout};
use ballista_core::version::insert_version_header;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use tonic::transport::Endpoint;

use crate::cluster::{Cluster, QUERY};

/// Stage of the tasks.
const STAGE: u32 = 1;

fn session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

fn message(plan: Arc<dyn ExecutionPlan>) -> PhysicalPlanNode {
    let codec = BallistaPhysicalExtensionCodec::default();
    PhysicalPlanNode::try_from_physical_plan(plan, &codec).unwrap()
}

fn bytes(plan: &PhysicalPlanNode) -> Vec<u8> {
    let mut bytes = Vec::new();
    plan.try_encode(&mut bytes).unwrap();
    bytes
}

/// The plan of the last of some statements.
pub async fn statements(statements: &[&str]) -> PhysicalPlanNode {
    let session = session();
    let mut last = None;
    for sql in statements {
        last = Some(session.sql(sql).await.unwrap());
    }
    message(last.unwrap().create_physical_plan().await.unwrap())
}

/// A scan of a part, which then states another store and path.
pub async fn scan(part: &Path, store: &str, path: &str) -> PhysicalPlanNode {
    let part = part.to_str().unwrap();
    let read = session().read_parquet(part, ParquetReadOptions::default()).await.unwrap();
    let mut plan = message(read.create_physical_plan().await.unwrap());
    let Some(PhysicalPlanType::ParquetScan(scan)) = &mut plan.physical_plan_type else {
        panic!("{plan:?}")
    };
    let files = scan.base_conf.as_mut().unwrap();
    files.object_store_url = store.to_owned();
    files.file_groups[0].files[0].path = path.to_owned();
    plan
}

/// A plan that writes the rows of another one as results, as the plans of all tasks do.
pub async fn task(plan: PhysicalPlanNode) -> PhysicalPlanNode {
    let read = session().sql("select 1 as a").await.unwrap();
    let input = read.create_physical_plan().await.unwrap();
    let writer = ShuffleWriterExec::try_new("a".into(), 1, input, String::new()).unwrap();
    let mut writer = message(Arc::new(writer));
    let Some(PhysicalPlanType::Extension(extension)) = &mut writer.physical_plan_type else {
        panic!("{writer:?}")
    };
    extension.inputs = vec![plan];
    writer
}

/// Has a cluster execute a query. The result is why that failed.
pub async fn submit(cluster: &Cluster, query: Query) -> String {
    let channel = Endpoint::new(format!("http://{}", cluster.scheduler.address)).unwrap();
    let mut scheduler = SchedulerGrpcClient::new(channel.connect().await.unwrap());
    let query = ExecuteQueryParams { query: Some(query), ..ExecuteQueryParams::default() };
    let mut request = tonic::Request::new(query);
    insert_version_header(request.metadata_mut());
    let answer = scheduler.execute_query(request).await.unwrap().into_inner();
    let job_id = match answer.result.unwrap() {
        execute_query_result::Result::Success(accepted) => accepted.job_id,
        execute_query_result::Result::Failure(failure) => match failure.failure.unwrap() {
            execute_query_failure_result::Failure::PlanParsingFailure(reason) => return reason,
            other => panic!("{other:?}"),
        },
    };
    let begin = Instant::now();
    loop {
        let request = GetJobStatusParams { job_id: job_id.clone() };
        let status = scheduler.get_job_status(request).await.unwrap().into_inner().status;
        match status.and_then(|status| status.status) {
            Some(job_status::Status::Failed(failed)) => return failed.error,
            Some(job_status::Status::Successful(done)) => panic!("it is executed: {done:?}"),
            _ => assert!(begin.elapsed() < QUERY, "the query does not end"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Has a cluster execute a physical plan. The result is why that failed.
pub async fn submit_plan(cluster: &Cluster, plan: &PhysicalPlanNode) -> String {
    submit(cluster, Query::PhysicalPlan(bytes(plan))).await
}

/// Sends a task to the executor of a cluster, which does not ask the scheduler about it.
pub async fn launch(cluster: &Cluster, job: &str, plan: &PhysicalPlanNode) {
    let address = format!("http://{}", cluster.executors[0].address);
    let channel = Endpoint::new(address).unwrap().connect().await.unwrap();
    let task_ids = vec![TaskId { global_output_partition_ids: vec![0], ..TaskId::default() }];
    let task = MultiTaskDefinition {
        task_ids,
        job_id: job.to_owned(),
        stage_id: STAGE,
        plan: bytes(plan),
        ..MultiTaskDefinition::default()
    };
    let tasks = LaunchMultiTaskParams {
        multi_tasks: vec![task],
        scheduler_endpoint: cluster.scheduler.address.clone(),
    };
    ExecutorGrpcClient::new(channel).launch_multi_task(tasks).await.unwrap();
}

/// Reads a result of an executor. The error is why that is not possible.
pub async fn fetch(cluster: &Cluster, job: &str, is_stream: bool) -> String {
    let (host, port) = cluster.executors[0].address.split_once(':').unwrap();
    let port = port.parse().unwrap();
    let client = BallistaClient::try_new(host, port, 1 << 20, false, None, 1, 0, 0, 0).await;
    let part = PartitionId { job_id: job.into(), stage_id: STAGE as usize, partition_id: 0 };
    let mut client = client.unwrap();
    let rows = client.fetch_partition("", &part, None, ShuffleLayout::Passthrough, is_stream).await;
    rows.err().expect("nothing is read").to_string()
}
