//! Scans the parts of a data set.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::{self, StreamExt};
use hmtt_dataset::{Dataset, Partition, Table};
use object_store::{ObjectMeta, ObjectStore};

use super::pruning::{PartitionFilter, Place, hour_number};
use crate::damage;
use crate::schema;
use crate::shared::Shared;

/// Footers that are read at the same time.
const FOOTERS: usize = 16;
/// Bytes that are read at the end of a part, which have most footers.
const FOOTER_BYTES: usize = 1 << 16;

/// What a scan of parts needs.
pub struct PartScan<'a> {
    /// The table.
    pub table: Table,
    /// The session.
    pub session: &'a dyn Session,
    /// The files.
    pub store: &'a Arc<dyn ObjectStore>,
    /// Where parts are counted.
    pub shared: &'a Shared,
    /// Conditions on partitions.
    pub partitions: &'a PartitionFilter,
    /// All conditions.
    pub predicate: Option<&'a Arc<dyn PhysicalExpr>>,
    /// Indices of the columns that are needed.
    pub projection: Option<&'a Vec<usize>>,
    /// Most rows that are needed.
    pub limit: Option<usize>,
    /// Whether parts that cannot be read are left out.
    pub skips_damaged: bool,
}

/// A part that is scanned.
struct Part {
    path: PathBuf,
    meta: ObjectMeta,
    place: Place,
}

impl PartScan<'_> {
    /// Plans the scan of a data set's parts; `None` without any.
    pub async fn plan(&self, dataset: &Dataset) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let parts = self.chosen(dataset)?;
        let file_schema = schema::of_table(self.table).file_schema();
        let read = stream::iter(parts)
            .map(|part| async move {
                let statistics = self.statistics(&part, file_schema).await;
                (part, statistics)
            })
            .buffered(FOOTERS)
            .collect::<Vec<_>>()
            .await;
        let mut files = Vec::new();
        for (part, statistics) in read {
            match statistics {
                Ok(statistics) => files.push(file(part, statistics)),
                Err(error) if self.skips_damaged => {
                    self.shared.missing(format!("{}: left out: {error}", part.path.display()));
                }
                Err(error) => return Err(damaged(&part, &error)),
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        self.scan(files).map(Some)
    }

    fn scan(&self, files: Vec<PartitionedFile>) -> Result<Arc<dyn ExecutionPlan>> {
        let table = schema::of_table(self.table).clone();
        let cache = self.session.runtime_env().cache_manager.get_file_metadata_cache();
        let factory = CachedParquetFileReaderFactory::new(self.store.clone(), cache);
        let mut source = ParquetSource::new(table.clone())
            .with_table_parquet_options(self.session.table_options().parquet.clone())
            .with_metadata_size_hint(FOOTER_BYTES)
            .with_parquet_file_reader_factory(Arc::new(factory));
        if let Some(predicate) = self.predicate {
            source = source.with_predicate(predicate.clone());
        }
        let statistics = sum(&files, table.table_schema());
        let groups = FileGroup::new(files).split_files(self.session.config().target_partitions());
        let config =
            FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
                .with_file_groups(groups)
                .with_statistics(statistics)
                .with_projection_indices(self.projection.cloned())?
                .with_limit(self.limit)
                .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// The parts that can have rows of the result.
    fn chosen(&self, dataset: &Dataset) -> Result<Vec<Part>> {
        let external = |error: hmtt_dataset::DatasetError| DataFusionError::External(error.into());
        let all = dataset.parts_of(self.table).map_err(external)?;
        let place = |partition: &Partition| Place {
            run: partition.run.clone(),
            board: partition.board.clone(),
            hour: partition.hour,
        };
        let places: Vec<Place> = all.iter().map(|(partition, _)| place(partition)).collect();
        let keeps = self.partitions.keeps(&places)?;
        let mut parts = Vec::new();
        for (((_, path), place), keep) in all.into_iter().zip(places).zip(keeps) {
            let path = dataset.root().join(path);
            let failed = |error: std::io::Error| {
                let message = format!("{}: cannot open", path.display());
                DataFusionError::Context(message, Box::new(error.into()))
            };
            // The engine accepts no `..` in a path.
            let path = path.canonicalize().map_err(failed)?;
            let about = path.metadata().map_err(failed)?;
            self.shared.note(path.clone(), about.len(), keep);
            if keep {
                let location = object_store::path::Path::from_absolute_path(&path)
                    .map_err(|error| DataFusionError::External(error.into()))?;
                let meta = ObjectMeta {
                    location,
                    last_modified: about.modified().unwrap_or(SystemTime::UNIX_EPOCH).into(),
                    size: about.len(),
                    e_tag: None,
                    version: None,
                };
                parts.push(Part { path, meta, place });
            }
        }
        Ok(parts)
    }

    /// The numbers and bounds that the part's footer states. If damaged parts are left out, also reads what the query needs.
    async fn statistics(&self, part: &Part, schema: &SchemaRef) -> Result<Statistics> {
        let cache = self.session.runtime_env().cache_manager.get_file_metadata_cache();
        let statistics = DFParquetMetadata::new(self.store.as_ref(), &part.meta)
            .with_metadata_size_hint(Some(FOOTER_BYTES))
            .with_file_metadata_cache(Some(cache))
            .fetch_statistics(schema)
            .await?;
        if self.skips_damaged {
            let (path, columns) = (part.path.clone(), self.columns());
            let check = move || damage::read(&path, columns.as_deref());
            tokio::task::spawn_blocking(check)
                .await
                .map_err(|error| DataFusionError::External(error.into()))?
                .map_err(|error| DataFusionError::External(error.into()))?;
        }
        Ok(statistics)
    }

    /// Names of the columns that are needed; `None` for all.
    fn columns(&self) -> Option<Vec<String>> {
        let schema = schema::of_table(self.table).table_schema();
        let names = |projection: &Vec<usize>| {
            projection.iter().map(|index| schema.field(*index).name().clone()).collect()
        };
        let mut names: Vec<String> = self.projection.map(names)?;
        if let Some(predicate) = self.predicate {
            let used = datafusion::physical_expr::utils::collect_columns(predicate);
            names.extend(used.iter().map(|column| column.name().to_owned()));
        }
        Some(names)
    }
}

fn file(part: Part, statistics: Statistics) -> PartitionedFile {
    let Part { meta, place, .. } = part;
    let text = |text: String| ScalarValue::Utf8View(Some(text));
    let hour = ScalarValue::Int64(Some(hour_number(place.hour)));
    let values = vec![text(place.run), text(place.board), hour];
    PartitionedFile::new_from_meta(meta)
        .with_partition_values(values)
        .with_statistics(Arc::new(statistics))
}

/// The number of rows of all files; nothing is stated of their columns.
fn sum(files: &[PartitionedFile], schema: &SchemaRef) -> Statistics {
    let rows = files.iter().filter_map(|file| file.statistics.as_ref());
    let rows = rows.fold(Precision::Exact(0), |sum: Precision<usize>, one| sum.add(&one.num_rows));
    Statistics { num_rows: rows, ..Statistics::new_unknown(schema) }
}

/// The error that names a part.
fn damaged(part: &Part, error: &DataFusionError) -> DataFusionError {
    let path = part.path.display();
    DataFusionError::Execution(format!(
        "{path}: damaged: {}; give --skip-damaged to read the other parts",
        error.strip_backtrace()
    ))
}
