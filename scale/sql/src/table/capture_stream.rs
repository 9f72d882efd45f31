//! Reads a capture as a stream of batches.
//!
//! A thread decodes the capture. It waits while two batches are not taken, and ends when the stream
//! is dropped.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use hmtt_dataset::{CaptureRows, DatasetError, RowOptions, Table};

use super::access_filter::AccessFilter;
use super::pruning::PartitionFilter;
use super::row_batches::{RowBatches, Wanted};
use crate::shared::Shared;
use crate::sources::Capture;

/// Batches that may wait to be taken.
const WAITING: usize = 2;
/// Smallest number of rows of a batch: decoding is much faster than passing on a batch.
const BATCH_ROWS: usize = 1 << 14;

/// The rows of a table in a capture.
#[derive(Clone)]
pub struct CaptureStream {
    /// The capture.
    pub capture: Arc<Capture>,
    /// The table.
    pub table: Table,
    /// The columns that are needed.
    pub schema: SchemaRef,
    /// Conditions on partitions.
    pub partitions: PartitionFilter,
    /// Conditions on accesses.
    pub accesses: AccessFilter,
    /// Counts of the bytes.
    pub shared: Arc<Shared>,
    /// Whether a capture that cannot be read to its end is read as far as possible.
    pub skips_damaged: bool,
}

impl fmt::Debug for CaptureStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.table.name(), self.capture.path.display())
    }
}

impl PartitionStream for CaptureStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), WAITING);
        let (stream, output) = (self.clone(), builder.tx());
        let batch_rows = context.session_config().batch_size().max(BATCH_ROWS);
        builder.spawn_blocking(move || {
            stream.read(batch_rows, |batch| output.blocking_send(batch).is_ok())
        });
        builder.build()
    }
}

impl CaptureStream {
    fn read(
        &self,
        batch_rows: usize,
        to: impl FnMut(Result<arrow::array::RecordBatch>) -> bool,
    ) -> Result<()> {
        let failed = |error: DatasetError| DataFusionError::External(error.into());
        let needs_hash = self.schema.column_with_name("capture").is_some();
        let hash = if needs_hash { self.capture.hash().map_err(failed)? } else { "" };
        let wanted = Wanted {
            table: self.table,
            schema: self.schema.clone(),
            partitions: self.partitions.clone(),
            accesses: self.accesses,
            batch_rows,
            run: self.capture.run.clone(),
            capture: hash.to_owned(),
        };
        let mut batches = RowBatches::new(wanted, to);
        let options = RowOptions { run: &self.capture.run, receiver: None, capture: hash };
        let path = &self.capture.path;
        let mut rows = match CaptureRows::open(path, &options) {
            Err(error) if self.skips_damaged => {
                self.shared.missing(error.in_full());
                return Ok(());
            }
            opened => opened.map_err(failed)?,
        };
        let mut counted = 0;
        loop {
            let read = rows.read(&mut batches);
            self.shared.read(rows.offset() - counted);
            counted = rows.offset();
            match read {
                Ok(true) if batches.is_over() => return batches.finish(),
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if self.skips_damaged => {
                    self.shared.missing(format!("{}; read up to there", error.in_full()));
                    return batches.finish();
                }
                Err(error) => return Err(failed(error)),
            }
        }
        self.shared.read(self.capture.bytes.saturating_sub(counted));
        if rows.is_cut() {
            self.shared.missing(format!("{}: ends within a block", path.display()));
        }
        batches.finish()
    }
}
