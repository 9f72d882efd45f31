//! Reads the result of a query from the executors.

use std::sync::Arc;

use ballista_core::client::BallistaClient;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::failure::{ClusterError, execution};
use super::job::{Job, Location};
use crate::address::Address;
use crate::secret::Secret;
use crate::session::{MOST_MESSAGE_BYTES, endpoint_settings};

/// How often a connection is tried again, and the time between two attempts.
const RETRIES: u8 = 2;
const RETRY_MS: u64 = 250;

/// Returns the rows of a result, part after part, in the order of the plan's partitions. When the
/// stream is dropped, the result is removed from the executors.
pub fn read(
    job: Job,
    mut locations: Vec<Location>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    // The locations come in the order in which tasks have ended.
    locations.sort_by_key(|location| location.partition_id.as_ref().map(|of| of.partition_id));
    let secret = job.secret();
    let parts = stream::iter(locations)
        .map(move |location| stream::once(open(location, secret)).try_flatten());
    parts.flatten().inspect(move |_| {
        let _in_use = &job;
    })
}

/// The rows of a part.
async fn open(location: Location, secret: Option<Secret>) -> Result<SendableRecordBatchStream> {
    let layout = location.layout();
    let (Some(executor), Some(part)) = (location.executor_meta, location.partition_id) else {
        return internal_err!("the scheduler does not state where the result is");
    };
    let address = Address { host: executor.host, port: executor.port as u16 };
    let failed =
        |reason: String| execution(&ClusterError::Result { address: address.clone(), reason });
    let settings = Arc::new(BallistaConfigGrpcEndpoint::new(endpoint_settings(secret)));
    let client = BallistaClient::try_new(
        &address.host,
        address.port,
        MOST_MESSAGE_BYTES,
        false,
        Some(settings),
        RETRIES,
        RETRY_MS,
        0,
        0,
    );
    let mut client = client.await.map_err(|error| failed(error.to_string()))?;
    let rows =
        client.fetch_partition(&executor.id, &part.into(), location.file_id, layout, true).await;
    let rows = rows.map_err(|error| failed(error.to_string()))?;
    let schema = rows.schema();
    let rows = rows.map_err(move |error| {
        let reason = error.strip_backtrace();
        execution(&ClusterError::Result { address: address.clone(), reason })
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}
