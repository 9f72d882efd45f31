//! Plans and executes queries.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::TrackConsumersPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use hmtt_dataset::Table;
use object_store::ObjectStore;

use crate::addresses;
use crate::damage;
use crate::functions::{self, AddressMaps, OF_MAPS, OF_TIMELINES, TagSource, Timelines};
use crate::hexadecimal;
use crate::memory::DividedPool;
use crate::order;
use crate::remote;
use crate::shared::Shared;
use crate::sources::Sources;
use crate::store::CountedStore;
use crate::table::TraceTable;
use crate::tags;

/// Longest query in bytes. The time of planning grows with the square of the depth of an
/// expression.
const MOST_BYTES: usize = 1 << 15;
/// Memory of a thread below which batches have only [`SMALL_BATCH_ROWS`] rows.
const SMALL_MEMORY_BYTES: usize = 128 << 20;
/// Number of rows of a batch if a thread has little memory.
const SMALL_BATCH_ROWS: usize = 1024;
/// Memory of a thread below which fewer threads are used, because each thread has the batches of a
/// sort.
const LEAST_BYTES_OF_THREAD: usize = 16 << 20;
/// Number of consumers of memory that an error names.
const NAMED_CONSUMERS: std::num::NonZeroUsize = std::num::NonZeroUsize::new(5).unwrap();
/// Least memory that a sort keeps for merging its pieces from disk.
const LEAST_MERGE_BYTES: usize = 1 << 18;
/// The memory of a thread divided by this number is kept for merging.
const MERGE_SHARE: usize = 16;

/// The reason why a query has no result.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The query is wrong, or could not be executed.
    #[error("{}", message(.0))]
    Query(DataFusionError),
    /// A part that the query reads is damaged.
    #[error("{}: damaged: {reason}; {advice}", path.display())]
    Damaged {
        /// The part.
        path: PathBuf,
        /// The error in the part.
        reason: String,
        /// Advice for the user.
        advice: &'static str,
    },
    /// The query is too long.
    #[error("the query has {0} bytes; at most {MOST_BYTES} are planned")]
    Long(usize),
    /// The tags for `function_at` could not be read.
    #[error("function_at: {0}")]
    Tags(String),
}

// The message contains all causes, so the error has no source.
impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        EngineError::Query(error)
    }
}

/// Returns the message of an error, without the library's hints for its developers.
fn message(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => text.clone(),
        DataFusionError::ResourcesExhausted(text) => {
            format!("{text}; give more memory (--memory)")
        }
        DataFusionError::External(error) => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                text.push_str(&format!(": {error}"));
                cause = error.source();
            }
            text
        }
        DataFusionError::ObjectStore(error) => remote::reason(&**error),
        _ => error.strip_backtrace(),
    };
    text.trim_end().replace('\n', " ")
}

/// Limits of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes of memory for sorting, grouping and joining. Operators that need more write to disk.
    pub memory_bytes: usize,
    /// Folder of temporary files; `None`: the system's folder.
    pub temporary: Option<PathBuf>,
    /// Number of threads.
    pub threads: usize,
    /// Whether parts and captures that are damaged are left out.
    pub skips_damaged: bool,
    /// Advice in messages about damaged parts.
    pub damage_advice: &'static str,
    /// Map of the tags on the bus, for `function_at`.
    pub map: Option<PathBuf>,
    /// Log of tags, for `function_at`.
    pub log: Option<PathBuf>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            memory_bytes: 1 << 30,
            temporary: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            skips_damaged: false,
            damage_advice: "give --skip-damaged to read the other parts",
            map: None,
            log: None,
        }
    }
}

/// An engine with its tables.
pub struct Engine {
    context: SessionContext,
    shared: Arc<Shared>,
    maps: Arc<AddressMaps>,
    timelines: Arc<Timelines>,
    tags: Option<TagSource>,
    boards: order::Boards,
}

/// A planned query.
pub struct Query {
    plan: Arc<dyn ExecutionPlan>,
    addresses: Vec<bool>,
    context: Arc<TaskContext>,
    shared: Arc<Shared>,
}

impl Engine {
    /// Creates an engine for the given sources.
    ///
    /// # Errors
    /// The folder of temporary files cannot be used.
    pub fn new(sources: Sources, options: &EngineOptions) -> Result<Self, EngineError> {
        Engine::with_session(sources, options, |session| session)
    }

    /// Creates an engine whose session has other settings, for plans that are executed elsewhere.
    ///
    /// # Errors
    /// The folder of temporary files cannot be used.
    pub fn with_session(
        mut sources: Sources,
        options: &EngineOptions,
        adapt: impl FnOnce(SessionStateBuilder) -> SessionStateBuilder,
    ) -> Result<Self, EngineError> {
        let shared = Arc::new(Shared::new(options.damage_advice));
        let pool = DividedPool::new(options.memory_bytes);
        let pool = TrackConsumersPool::new(pool, NAMED_CONSUMERS);
        let mut runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
        if let Some(folder) = &options.temporary {
            runtime = runtime.with_temp_file_path(folder.clone());
        }
        let session = SessionStateBuilder::new()
            .with_config(config(options))
            .with_runtime_env(runtime.build_arc()?)
            .with_default_features();
        let context = SessionContext::new_with_state(adapt(session).build());
        let files: Arc<dyn ObjectStore> = Arc::new(CountedStore::of_files(shared.clone()));
        context.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), files.clone());
        for location in sources.remotes.iter_mut().map(|remote| &mut remote.location) {
            location.store =
                Arc::new(CountedStore::of_objects(location.store.clone(), shared.clone()));
            context.register_object_store(location.base.as_ref(), location.store.clone());
        }
        let sources = Arc::new(sources);
        for table in Table::ALL {
            let (sources, files, shared) = (sources.clone(), files.clone(), shared.clone());
            let skips_damaged = options.skips_damaged;
            let provider = TraceTable { table, sources, files, shared, skips_damaged };
            context.register_table(table.name(), Arc::new(provider))?;
        }
        let (maps, timelines) = (Arc::default(), Arc::default());
        functions::register(&context, &maps, &timelines);
        let map = options.map.clone().map(TagSource::Map);
        let tags = options.log.clone().map(TagSource::Log).or(map);
        let boards = order::Boards::of(&sources);
        Ok(Engine { context, shared, maps, timelines, tags, boards })
    }

    /// Counts of the bytes and parts that queries read, and messages about them.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Plans a query.
    ///
    /// # Errors
    /// The query is wrong or would change something, or a part that it needs is damaged.
    pub async fn query(&self, sql: &str) -> Result<Query, EngineError> {
        if sql.len() > MOST_BYTES {
            return Err(EngineError::Long(sql.len()));
        }
        let state = self.context.state();
        let plan = state.create_logical_plan(&hexadecimal::decimal(sql)).await?;
        let only_queries = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        only_queries.verify_plan(&plan)?;
        let used = used_functions(&plan)?;
        if OF_MAPS.iter().any(|name| used.iter().any(|used| used == name)) {
            self.load_maps().await?;
        }
        if used.iter().any(|used| used == OF_TIMELINES) {
            self.load_timelines().await?;
        }
        let addresses = addresses::of_result(&plan);
        self.shared.restart();
        let plan = state.optimize(&plan)?;
        if let Some(note) = self.boards.note(&plan)? {
            self.shared.message(note);
        }
        let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
        let (context, shared) = (self.context.task_ctx(), self.shared.clone());
        Ok(Query { plan, addresses, context, shared })
    }

    /// Executes a query of the engine itself, and returns all rows.
    async fn rows(&self, sql: &str) -> Result<Vec<RecordBatch>, EngineError> {
        let query = self.context.sql(sql).await?;
        let batches = query.collect().await;
        batches.map_err(|error| explained(error, &self.shared))
    }

    async fn load_maps(&self) -> Result<(), EngineError> {
        if self.maps.is_loaded() {
            return Ok(());
        }
        let sql = "select distinct run, board, memory from runs where memory is not null";
        let mut rows = Vec::new();
        for batch in self.rows(sql).await? {
            let columns = [0, 1, 2].map(|place| batch.column(place).as_string_view());
            let texts = |row: usize| columns.map(|column| column.value(row).to_owned()).into();
            rows.extend((0..batch.num_rows()).map(texts));
        }
        Ok(self.maps.load(&rows)?)
    }

    async fn load_timelines(&self) -> Result<(), EngineError> {
        if self.timelines.get().is_some() {
            return Ok(());
        }
        let Some(source) = &self.tags else {
            let missing = "give the map of the tags on the bus (--map), or a log of tags (--log)";
            return Err(EngineError::Tags(missing.into()));
        };
        let mut sessions = tags::Sessions::default();
        for (sql, kind) in tags::QUERIES {
            for batch in self.rows(sql).await? {
                sessions.add(kind, &batch);
            }
        }
        let loaded = self.timelines.load(source, sessions.0);
        loaded.map_err(|error| EngineError::Tags(format!("{error:#}")))
    }
}

impl Query {
    /// The plan by which the query is executed.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// The settings with which the query is executed.
    pub fn context(&self) -> &Arc<TaskContext> {
        &self.context
    }

    /// Returns the query with another plan. The plan must have the same columns and rows.
    pub fn with_plan(self, plan: Arc<dyn ExecutionPlan>) -> Self {
        Query { plan, ..self }
    }

    /// The columns of the result.
    pub fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }

    /// For each column of the result, whether it contains addresses.
    pub fn addresses(&self) -> &[bool] {
        &self.addresses
    }

    /// Starts the query. Dropping the stream ends it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self) -> Result<SendableRecordBatchStream, EngineError> {
        Ok(execute_stream(self.plan.clone(), self.context.clone())?)
    }

    /// Returns the reason why a stream of the query ended. If a part is damaged, the reason names
    /// it.
    pub fn explain(&self, error: DataFusionError) -> EngineError {
        explained(error, &self.shared)
    }

    /// Executes the query, and returns all rows.
    ///
    /// # Errors
    /// It cannot be executed.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>, EngineError> {
        let mut stream = self.start()?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch.map_err(|error| self.explain(error))?);
        }
        Ok(batches)
    }

    /// The sum of a metric over all operators, after the query was executed.
    pub fn metric(&self, name: &str) -> usize {
        fn sum(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
            let metrics =
                plan.metrics().into_iter().flat_map(|all| all.iter().cloned().collect::<Vec<_>>());
            let value = |value: &MetricValue| match value {
                MetricValue::PruningMetrics { pruning_metrics, .. } => pruning_metrics.pruned(),
                other => other.as_usize(),
            };
            let own = metrics.filter(|one| one.value().name() == name);
            let own: usize = own.map(|one| value(one.value())).sum();
            plan.children().into_iter().fold(own, |total, child| total + sum(child, name))
        }
        sum(&self.plan, name)
    }
}

fn config(options: &EngineOptions) -> SessionConfig {
    let mut settings = ConfigOptions::new();
    let parallel = options.threads.min(options.memory_bytes / LEAST_BYTES_OF_THREAD).max(1);
    settings.execution.target_partitions = parallel;
    let reserved = options.memory_bytes / parallel / MERGE_SHARE;
    let usual = settings.execution.sort_spill_reservation_bytes;
    settings.execution.sort_spill_reservation_bytes = usual.min(reserved.max(LEAST_MERGE_BYTES));
    settings.execution.time_zone = Some("UTC".into());
    let config = SessionConfig::from(settings).with_information_schema(true);
    if options.memory_bytes / parallel >= SMALL_MEMORY_BYTES {
        return config;
    }
    // A merge keeps a batch of each of its inputs in memory.
    config.with_batch_size(SMALL_BATCH_ROWS)
}

/// Names of the functions in a query.
fn used_functions(plan: &LogicalPlan) -> Result<Vec<String>, DataFusionError> {
    let mut names = Vec::new();
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::ScalarFunction(function) = part {
                    names.push(function.name().to_owned());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(names)
}

/// Converts the error of a query. If a part that the query reads is damaged, the result names the
/// part.
fn explained(error: DataFusionError, shared: &Shared) -> EngineError {
    let is_of_data = matches!(
        error.find_root(),
        DataFusionError::ParquetError(_)
            | DataFusionError::ArrowError(..)
            | DataFusionError::ObjectStore(_)
            | DataFusionError::External(_)
            | DataFusionError::Internal(_)
    );
    let damaged = is_of_data.then(|| damage::first_damaged(shared.chosen())).flatten();
    match damaged {
        Some((path, reason)) => {
            let (reason, advice) = (reason.to_string(), shared.damage_advice());
            EngineError::Damaged { path, reason, advice }
        }
        None => error.into(),
    }
}
