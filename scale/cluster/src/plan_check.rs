//! Checks a decoded plan before any part of it is executed.
//!
//! Any process that reaches the scheduler or an executor can send a plan, with any operator that
//! DataFusion and Ballista decode. Only operators of queries of data sets are accepted. So a plan
//! has no sink, and its leaves are Parquet files in the locations of the executor, rows within the
//! plan itself, or results of other stages. An unknown operator is refused.

use std::any::Any;
use std::sync::Arc;

use ballista_core::execution_plans::{ShuffleReaderExec, ShuffleWriterExec, SortShuffleWriterExec};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, displayable};

use crate::analyse_exec::AnalyseExec;
use crate::locations::Locations;

/// Longest description of an operator in an error, in characters.
const MOST_SHOWN: usize = 300;

/// Whether a plan has one of the given types.
macro_rules! is_any {
    ($plan:expr, $($kind:ty),+ $(,)?) => { $($plan.is::<$kind>())||+ };
}

/// Whether an operator only computes rows from the rows of its inputs, or is a leaf without files.
fn only_computes(plan: &dyn ExecutionPlan) -> bool {
    is_any!(
        plan,
        AggregateExec,
        AnalyzeExec,
        BoundedWindowAggExec,
        BufferExec,
        CoalescePartitionsExec,
        CooperativeExec,
        CrossJoinExec,
        EmptyExec,
        FilterExec,
        GlobalLimitExec,
        HashJoinExec,
        InterleaveExec,
        LocalLimitExec,
        NestedLoopJoinExec,
        PartialSortExec,
        PiecewiseMergeJoinExec,
        PlaceholderRowExec,
        ProjectionExec,
        RepartitionExec,
        ScalarSubqueryExec,
        SortExec,
        SortMergeJoinExec,
        SortPreservingMergeExec,
        SymmetricHashJoinExec,
        UnionExec,
        UnnestExec,
        WindowAggExec,
    )
}

/// Checks a plan that a client has sent to the scheduler. A scheduler has no locations.
///
/// # Errors
/// The plan has an operator that queries of data sets do not have.
pub fn check_query(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    check(plan, None)
}

/// Checks the plan of a task for an executor.
///
/// # Errors
/// As for [`check_query`], or the plan reads outside of the locations.
pub fn check_task(plan: &Arc<dyn ExecutionPlan>, locations: &Locations) -> Result<()> {
    // Other operators that write results would write to a path that the plan chooses.
    if !is_any!(plan, ShuffleWriterExec, SortShuffleWriterExec) {
        return refused(plan);
    }
    plan.children().into_iter().try_for_each(|input| check(input, Some(locations)))
}

/// Checks a plan and its inputs. `locations`: the executor's locations; `None` in a scheduler.
fn check(plan: &Arc<dyn ExecutionPlan>, locations: Option<&Locations>) -> Result<()> {
    let mut plans = vec![plan];
    while let Some(plan) = plans.pop() {
        check_operator(plan, locations)?;
        plans.extend(plan.children());
    }
    Ok(())
}

fn check_operator(plan: &Arc<dyn ExecutionPlan>, locations: Option<&Locations>) -> Result<()> {
    if only_computes(plan.as_ref()) {
        return Ok(());
    }
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        let source: &dyn Any = exec.data_source().as_ref();
        if source.is::<MemorySourceConfig>() {
            return Ok(());
        }
        return match source.downcast_ref::<FileScanConfig>() {
            Some(scan) => check_scan(scan, locations),
            None => refused(plan),
        };
    }
    if let Some(exec) = plan.downcast_ref::<AnalyseExec>() {
        let source = &exec.analysed().source;
        let checked = locations.map(|locations| locations.check_source(source));
        return checked.unwrap_or(Ok(())).map_err(|error| plan_datafusion_err!("{error}"));
    }
    match (plan.downcast_ref::<ShuffleReaderExec>(), locations) {
        (Some(reader), Some(_)) => check_results(reader),
        _ => refused(plan),
    }
}

fn check_scan(scan: &FileScanConfig, locations: Option<&Locations>) -> Result<()> {
    let source: &dyn Any = scan.file_source().as_ref();
    if !source.is::<ParquetSource>() {
        let kind = scan.file_source().file_type();
        return plan_err!("refused: a scan of files of type {kind}: parts are Parquet files");
    }
    let Some(locations) = locations else { return Ok(()) };
    let store = scan.object_store_url.as_str();
    for file in scan.file_groups.iter().flat_map(|group| group.iter()) {
        let checked = locations.check(store, &file.object_meta.location);
        checked.map_err(|error| plan_datafusion_err!("{error}"))?;
    }
    Ok(())
}

/// Checks the names of results, which become parts of paths in the folder of an executor.
fn check_results(reader: &ShuffleReaderExec) -> Result<()> {
    let mut locations = reader.partition.iter().flatten();
    locations.try_for_each(|location| check_job(location.partition_id.job_id.as_str()))
}

/// Checks the name of a job, which is the name of a folder.
///
/// # Errors
/// The name is not one that a scheduler could have chosen.
pub fn check_job(job: &str) -> Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if job.is_empty() || job.len() > 64 || !job.bytes().all(is_name) {
        return plan_err!("refused: {job:?} is no name of a job");
    }
    Ok(())
}

fn refused(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let shown: String =
        displayable(plan.as_ref()).one_line().to_string().trim().chars().take(MOST_SHOWN).collect();
    plan_err!("refused: no operator of a query of data sets: {} ({shown})", plan.name())
}
