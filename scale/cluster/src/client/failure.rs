//! Defines why a query on a cluster has no result.

use std::path::PathBuf;

use datafusion::common::DataFusionError;

use crate::address::Address;
use crate::external::external;
use crate::slots;

/// The reason why a query on a cluster has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A source is a capture.
    #[error(
        "{}: a cluster reads data sets only; add the capture to one (`hmtt dataset add`), or execute the query without \
         --cluster", .0.display()
    )]
    Capture(PathBuf),
    /// Damaged parts cannot be left out.
    #[error("--skip-damaged is not possible with --cluster; execute the query without --cluster")]
    SkipDamaged,
    /// The plan has a leaf that each task of the cluster would read as a whole.
    #[error(
        "the query needs {0}, which a cluster cannot read beside a data set; execute the query without --cluster"
    )]
    Leaf(String),
    /// The plan cannot be sent.
    #[error("the query cannot be sent to a cluster: {0}; execute it without --cluster")]
    Encode(String),
    /// Nothing answers at the address of the scheduler.
    #[error("{address}: no scheduler answers: {reason}")]
    NoScheduler {
        /// The address.
        address: Address,
        /// The reason.
        reason: String,
    },
    /// The scheduler was lost, also after the query was sent again.
    #[error("{address}: the scheduler was lost {times} times: {reason}; the query has no result")]
    Lost {
        /// The address.
        address: Address,
        /// Number of losses.
        times: usize,
        /// The reason of the last loss.
        reason: String,
    },
    /// Executors were lost, also after the query was sent again.
    #[error("{address}: {reason}; the query was sent {times} times and has no result")]
    ExecutorsLost {
        /// The address of the scheduler.
        address: Address,
        /// Number of losses.
        times: usize,
        /// The reason of the last loss.
        reason: String,
    },
    /// The scheduler does not execute the query.
    #[error("{address}: the scheduler rejects the query: {reason}")]
    Rejected {
        /// The address.
        address: Address,
        /// The reason.
        reason: String,
    },
    /// An executor cannot read a file.
    #[error(
        "an executor cannot read a part: {0}; the data set must have the same path on all machines of the cluster, and \
         executors need the credentials of an object store in their environment"
    )]
    Unreadable(String),
    /// An executor found an error, perhaps in the data that it read.
    #[error("the query failed on the cluster: {0}")]
    Failed(String),
    /// The result cannot be read from an executor.
    #[error(
        "{address}: the result cannot be read from the executor: {reason}; execute the query again"
    )]
    Result {
        /// The executor.
        address: Address,
        /// The reason.
        reason: String,
    },
}

/// Parts of messages about files that cannot be opened.
const UNREADABLE: [&str; 5] =
    ["not found", "NotFound", "ermission denied", "PermissionDenied", "Unauthenticated"];
/// Parts of messages about files with wrong content.
const DATA: [&str; 5] =
    ["Parquet error", "ParquetError", "ArrowError", "Arrow error", "ObjectStore"];

/// Part of Ballista's message that a task could not read results of an executor.
const UNREADABLE_RESULT: &str = "has failed 1 times, most recent failure reason";

/// Whether a message states that an executor was lost.
pub fn is_loss(message: &str) -> bool {
    message.starts_with(slots::LOST) || message.contains(UNREADABLE_RESULT)
}

/// Converts Ballista's message into the error of a query.
pub fn of_message(message: &str) -> DataFusionError {
    let is_any = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if is_any(&UNREADABLE) && (message.contains("ObjectStore") || message.contains("Object Store"))
    {
        return execution(&ClusterError::Unreadable(message.into()));
    }
    if is_any(&DATA) {
        // For this error the engine looks for the damaged part.
        return external(ClusterError::Failed(message.into()));
    }
    execution(&ClusterError::Failed(message.into()))
}

/// Returns an error that is not of the data, so that no damaged part is looked for.
pub fn execution(error: &ClusterError) -> DataFusionError {
    DataFusionError::Execution(error.to_string())
}
