//! Defines an operator that analyses pieces of data sets. Its rows are the states of the analyses.
//!
//! Its input has a row for each piece: the piece as JSON. Its output has consecutive parts of a
//! state's bytes in consecutive rows, because a message is smaller than a large state.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, BinaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::StreamExt;
use hmtt_dataset::{DatasetError, Piece, PieceState};
use hmtt_sql::remote::is_url;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;

use crate::copies;
use crate::external::external;

/// Largest number of bytes of a state in a row.
const ROW_BYTES: usize = 4 << 20;

/// The parameters of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysed {
    /// The data set: a folder, or the URL of a data set in an object store.
    pub source: String,
    /// Share of the lines for which reuse distances are found; `None` for all lines.
    pub sample: Option<f64>,
}

/// Analyses pieces.
#[derive(Debug)]
pub struct AnalyseExec {
    pieces: Arc<dyn ExecutionPlan>,
    analysed: Analysed,
    properties: Arc<PlanProperties>,
}

/// Columns of the rows: number of the piece, number of bytes of its whole state, and a part of
/// these bytes.
fn schema() -> SchemaRef {
    let column = |name, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        column("piece", DataType::Int64),
        column("state_bytes", DataType::Int64),
        column("bytes", DataType::Binary),
    ]))
}

impl AnalyseExec {
    /// Creates an operator that analyses the pieces of its input.
    pub fn new(pieces: Arc<dyn ExecutionPlan>, analysed: Analysed) -> Self {
        let partitions = pieces.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        AnalyseExec { pieces, analysed, properties: Arc::new(properties) }
    }

    /// Creates an operator that analyses these pieces, each in its own partition.
    ///
    /// # Errors
    /// Never: pieces are texts.
    pub fn of_pieces(pieces: &[Piece], analysed: Analysed) -> Result<Self> {
        let columns = vec![
            Field::new("piece", DataType::Int64, false),
            Field::new("description", DataType::Utf8, false),
        ];
        let schema = Arc::new(Schema::new(columns));
        let row = |(number, piece): (i64, &Piece)| {
            let text = serde_json::to_string(piece).map_err(external)?;
            let columns: [Arc<dyn Array>; 2] =
                [Arc::new(Int64Array::from(vec![number])), Arc::new(StringArray::from(vec![text]))];
            Ok(vec![RecordBatch::try_new(schema.clone(), columns.into())?])
        };
        let rows: Result<Vec<_>> = (0..).zip(pieces).map(row).collect();
        let rows = MemorySourceConfig::try_new(&rows?, schema.clone(), None)?;
        Ok(AnalyseExec::new(DataSourceExec::from_data_source(rows), analysed))
    }

    /// The parameters of the analysis.
    pub fn analysed(&self) -> &Analysed {
        &self.analysed
    }
}

/// The error for a piece that cannot be analysed.
fn unread(error: &DatasetError) -> DataFusionError {
    let text = error.in_full();
    match error {
        DatasetError::File { .. } => exec_datafusion_err!(
            "{text}; the data set must have the same path on all machines of the cluster"
        ),
        _ => exec_datafusion_err!("{text}"),
    }
}

impl DisplayAs for AnalyseExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "AnalyseExec: source={}", self.analysed.source)
    }
}

impl ExecutionPlan for AnalyseExec {
    fn name(&self) -> &str {
        "AnalyseExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.pieces]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(AnalyseExec::new(child, self.analysed.clone()))),
            _ => internal_err!("AnalyseExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let temporary = context.runtime_env().disk_manager.temp_dir_paths().into_iter().next();
        let temporary = temporary.unwrap_or_else(std::env::temp_dir);
        let mut pieces = self.pieces.execute(partition, context)?;
        let work = Arc::new((self.analysed.clone(), temporary));
        let mut rows = RecordBatchReceiverStreamBuilder::new(schema(), 2);
        let output = rows.tx();
        rows.spawn(async move {
            while let Some(batch) = pieces.next().await {
                let batch = batch?;
                let (work, output) = (work.clone(), output.clone());
                let done = tokio::task::spawn_blocking(move || {
                    let (analysed, temporary) = &*work;
                    analyse(&batch, analysed, temporary, &output)
                });
                done.await.map_err(external)??;
            }
            Ok(())
        });
        Ok(rows.build())
    }
}

/// Analyses a piece. Parts in an object store are copied first.
fn analyse_piece(
    piece: &Piece,
    analysed: &Analysed,
    temporary: &Path,
    is_wanted: &dyn Fn() -> bool,
) -> Result<PieceState> {
    let Analysed { source, sample } = analysed;
    if !is_url(Path::new(source)) {
        let state = PieceState::of(piece, Path::new(source), *sample, is_wanted);
        return state.map_err(|error| unread(&error));
    }
    let folder = tempfile::Builder::new().prefix("hmtt-piece-").tempdir_in(temporary)?;
    tokio::runtime::Handle::current().block_on(copies::copy_piece(source, piece, folder.path()))?;
    let state = PieceState::of(piece, folder.path(), *sample, is_wanted);
    state.map_err(|error| external(copies::renamed(&error, folder.path(), source)))
}

/// Analyses the pieces of a batch, until nobody reads the rows any more.
fn analyse(
    batch: &RecordBatch,
    analysed: &Analysed,
    temporary: &Path,
    output: &Sender<Result<RecordBatch>>,
) -> Result<()> {
    let columns = (
        batch.column(0).as_any().downcast_ref::<Int64Array>(),
        batch.column(1).as_any().downcast_ref::<StringArray>(),
    );
    let (Some(numbers), Some(texts)) = columns else {
        return internal_err!("pieces have other columns");
    };
    for (number, text) in numbers.values().iter().zip(texts) {
        let piece: Piece = serde_json::from_str(text.unwrap_or_default())
            .map_err(|error| exec_datafusion_err!("a piece is damaged: {error}"))?;
        let is_wanted = || !output.is_closed();
        let state = analyse_piece(&piece, analysed, temporary, &is_wanted)?;
        let bytes = state.to_bytes().map_err(external)?;
        drop(state);
        for part in bytes.chunks(ROW_BYTES) {
            let columns: [Arc<dyn Array>; 3] = [
                Arc::new(Int64Array::from(vec![*number])),
                Arc::new(Int64Array::from(vec![bytes.len() as i64])),
                Arc::new(BinaryArray::from(vec![part])),
            ];
            let row = RecordBatch::try_new(schema(), columns.into())?;
            if output.blocking_send(Ok(row)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
