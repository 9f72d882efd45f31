//! Has a cluster analyse pieces of data sets.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BinaryArray, Int64Array, RecordBatch};
use datafusion::common::{Result, internal_err};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use hmtt_dataset::Piece;

use super::cluster_exec::ClusterExec;
use super::job::SchedulerAccess;
use crate::analyse_exec::{AnalyseExec, Analysed};
use crate::codec::write_plan;
use crate::session;

/// A part of the state of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRow<'a> {
    /// Number of the piece, from 0.
    pub piece: u64,
    /// Bytes of the whole state.
    pub state_bytes: u64,
    /// The next bytes of the state.
    pub bytes: &'a [u8],
}

/// Has pieces analysed, and passes on their states in the order of the pieces. An error of
/// `pass_on` ends the analysis.
///
/// # Errors
/// [`ClusterError`](super::ClusterError): the cluster has no result.
pub async fn analyse(
    pieces: &[Piece],
    analysed: Analysed,
    scheduler: SchedulerAccess,
    mut pass_on: impl FnMut(StateRow<'_>) -> std::io::Result<()>,
) -> Result<()> {
    if pieces.is_empty() {
        return Ok(());
    }
    let plan: Arc<dyn ExecutionPlan> = Arc::new(AnalyseExec::of_pieces(pieces, analysed)?);
    let tasks = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
    let session = SessionStateBuilder::new().with_default_features();
    let session = session::client_session(session, tasks).build();
    let exec = ClusterExec::new(&plan, write_plan(&plan)?, scheduler);
    let mut rows = exec.execute(0, session.task_ctx())?;
    while let Some(batch) = rows.next().await {
        pass_on_rows(&batch?, &mut pass_on)?;
    }
    Ok(())
}

fn pass_on_rows(
    batch: &RecordBatch,
    pass_on: &mut impl FnMut(StateRow<'_>) -> std::io::Result<()>,
) -> Result<()> {
    let number = |index: usize| batch.column(index).as_any().downcast_ref::<Int64Array>();
    let bytes = batch.column(2).as_any().downcast_ref::<BinaryArray>();
    let (Some(pieces), Some(lengths), Some(bytes)) = (number(0), number(1), bytes) else {
        return internal_err!("states have other columns");
    };
    for row in 0..batch.num_rows() {
        pass_on(StateRow {
            piece: pieces.value(row) as u64,
            state_bytes: lengths.value(row) as u64,
            bytes: bytes.value(row),
        })?;
    }
    Ok(())
}
