//! Scans the parts of a data set, which are files or objects.

use std::io::Write;
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
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::pruning::{PartitionFilter, Place, hour_number};
use crate::damage;
use crate::remote::{RemoteDataset, reason};
use crate::schema;
use crate::shared::Shared;

/// Number of footers that are read at the same time.
const FOOTERS: usize = 16;
/// Bytes that are read at the end of a part. They contain the footer of most parts.
const FOOTER_BYTES: usize = 1 << 16;

/// The parameters of a scan of parts.
pub struct PartScan<'a> {
    /// The table.
    pub table: Table,
    /// The session.
    pub session: &'a dyn Session,
    /// The file system.
    pub files: &'a Arc<dyn ObjectStore>,
    /// Counts of the parts.
    pub shared: &'a Shared,
    /// Conditions on partitions.
    pub partitions: &'a PartitionFilter,
    /// All conditions of the query on the table.
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
    /// Path of the file, or URL of the object.
    name: String,
    /// Path of the file; `None` for an object.
    path: Option<PathBuf>,
    meta: ObjectMeta,
    place: Place,
}

/// The store of the parts.
struct Store<'a> {
    store: &'a Arc<dyn ObjectStore>,
    url: ObjectStoreUrl,
}

impl PartScan<'_> {
    /// Plans the scan of a data set on a disk; `None` without parts.
    pub async fn files(&self, dataset: &Dataset) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let store = Store { store: self.files, url: ObjectStoreUrl::local_filesystem() };
        self.plan(self.chosen_files(dataset)?, &store).await
    }

    /// Plans the scan of a data set in an object store; `None` without parts.
    pub async fn objects(&self, remote: &RemoteDataset) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let location = &remote.location;
        let store = Store { store: &location.store, url: location.base.clone() };
        self.plan(self.chosen_objects(remote)?, &store).await
    }

    /// Returns the error that names a damaged part.
    fn damaged(&self, part: &Part, error: &DataFusionError) -> DataFusionError {
        let name = &part.name;
        if let (None, DataFusionError::ObjectStore(error)) = (&part.path, error.find_root()) {
            return DataFusionError::Execution(format!("{name}: cannot read: {}", reason(error)));
        }
        DataFusionError::Execution(format!(
            "{name}: damaged: {}; {}",
            error.strip_backtrace(),
            self.shared.damage_advice()
        ))
    }

    async fn plan(
        &self,
        parts: Vec<Part>,
        store: &Store<'_>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let file_schema = schema::of_table(self.table).file_schema();
        let read = stream::iter(parts)
            .map(|part| async move {
                let statistics = self.statistics(&part, store, file_schema).await;
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
                    self.shared.missing(format!("{}: left out: {error}", part.name));
                }
                Err(error) => return Err(self.damaged(&part, &error)),
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        self.scan(files, store).map(Some)
    }

    fn scan(
        &self,
        files: Vec<PartitionedFile>,
        store: &Store<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = schema::of_table(self.table).clone();
        let cache = self.session.runtime_env().cache_manager.get_file_metadata_cache();
        let factory = CachedParquetFileReaderFactory::new(store.store.clone(), cache);
        let mut source = ParquetSource::new(table.clone())
            .with_table_parquet_options(self.session.table_options().parquet.clone())
            .with_metadata_size_hint(FOOTER_BYTES)
            .with_parquet_file_reader_factory(Arc::new(factory));
        if let Some(predicate) = self.predicate {
            source = source.with_predicate(predicate.clone());
        }
        let statistics = sum(&files, table.table_schema());
        let groups = FileGroup::new(files).split_files(self.session.config().target_partitions());
        let config = FileScanConfigBuilder::new(store.url.clone(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(self.projection.cloned())?
            .with_limit(self.limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// The objects that can have rows of the result.
    fn chosen_objects(&self, remote: &RemoteDataset) -> Result<Vec<Part>> {
        let objects: Vec<_> = remote.parts_of(self.table).collect();
        let places: Vec<Place> = objects.iter().map(|part| place(&part.partition)).collect();
        let keeps = self.partitions.keeps(&places)?;
        let mut parts = Vec::new();
        for ((part, place), keep) in objects.into_iter().zip(places).zip(keeps) {
            self.shared.note(None, part.meta.size, keep);
            if keep {
                let (name, meta) = (remote.location.name(&part.path), part.meta.clone());
                parts.push(Part { name, path: None, meta, place });
            }
        }
        Ok(parts)
    }

    /// The files that can have rows of the result.
    fn chosen_files(&self, dataset: &Dataset) -> Result<Vec<Part>> {
        let external = |error: hmtt_dataset::DatasetError| DataFusionError::External(error.into());
        let files = dataset.parts_of(self.table).map_err(external)?;
        let places: Vec<Place> = files.iter().map(|(partition, _)| place(partition)).collect();
        let keeps = self.partitions.keeps(&places)?;
        let mut parts = Vec::new();
        for (((_, path), place), keep) in files.into_iter().zip(places).zip(keeps) {
            let path = dataset.root().join(path);
            let failed = |error: std::io::Error| {
                let message = format!("{}: cannot open", path.display());
                DataFusionError::Context(message, Box::new(error.into()))
            };
            // The engine accepts no `..` in a path.
            let path = path.canonicalize().map_err(failed)?;
            let about = path.metadata().map_err(failed)?;
            self.shared.note(Some(path.clone()), about.len(), keep);
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
                let name = path.display().to_string();
                parts.push(Part { name, path: Some(path), meta, place });
            }
        }
        Ok(parts)
    }

    /// Reads the number of rows and the bounds in the part's footer. If damaged parts are left out,
    /// it also reads all columns of the query to find damage.
    async fn statistics(
        &self,
        part: &Part,
        store: &Store<'_>,
        schema: &SchemaRef,
    ) -> Result<Statistics> {
        let cache = self.session.runtime_env().cache_manager.get_file_metadata_cache();
        let statistics = DFParquetMetadata::new(store.store.as_ref(), &part.meta)
            .with_metadata_size_hint(Some(FOOTER_BYTES))
            .with_file_metadata_cache(Some(cache))
            .fetch_statistics(schema)
            .await?;
        if self.skips_damaged {
            let (copy, path, columns) = match &part.path {
                Some(path) => (None, path.clone(), self.columns()),
                None => {
                    let copy = copy(store, &part.meta).await?;
                    let path = copy.path().to_owned();
                    (Some(copy), path, self.columns())
                }
            };
            let check = move || damage::read(&path, columns.as_deref());
            tokio::task::spawn_blocking(check)
                .await
                .map_err(|error| DataFusionError::External(error.into()))?
                .map_err(|error| DataFusionError::External(error.into()))?;
            drop(copy);
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

fn place(partition: &Partition) -> Place {
    let Partition { run, board, hour, .. } = partition;
    Place { run: run.clone(), board: board.clone(), hour: *hour }
}

/// Copies an object into a temporary file.
async fn copy(store: &Store<'_>, meta: &ObjectMeta) -> Result<tempfile::NamedTempFile> {
    let mut copy = tempfile::NamedTempFile::new()?;
    let mut bytes = store.store.get(&meta.location).await?.into_stream();
    while let Some(bytes) = bytes.next().await {
        copy.write_all(&bytes?)?;
    }
    Ok(copy)
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

/// The number of rows of all files. No statistics of columns are stated.
fn sum(files: &[PartitionedFile], schema: &SchemaRef) -> Statistics {
    let rows = files.iter().filter_map(|file| file.statistics.as_ref());
    let rows = rows.fold(Precision::Exact(0), |sum: Precision<usize>, one| sum.add(&one.num_rows));
    Statistics { num_rows: rows, ..Statistics::new_unknown(schema) }
}
