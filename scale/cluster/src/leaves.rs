//! Decides where a plan is executed, by its leaves.
//!
//! A task of a cluster executes some partitions of a plan. Ballista restricts scans of files to
//! these partitions. Each task would execute other leaves as a whole, which multiplies their rows.
//! So a plan with such a leaf is not sent.
//!
//! A plan may also have leaves without files: no rows, or one row without columns. They are
//! replaced by rows in memory, which Ballista restricts too. Without the replacement, a task of a
//! union that lacks such a leaf would have other metrics than the plan, and the scheduler would
//! wait for its end for ever.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use hmtt_sql::remote::Location;

/// Where a plan is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The client executes the plan, because it reads no part of a data set.
    Client,
    /// The cluster executes the plan.
    Cluster,
}

/// Kind of a leaf.
enum Leaf {
    Parquet,
    /// No rows, or one row without columns in one partition. It can be restricted like files.
    Constant,
    Other(String),
}

/// Decides where a plan is executed.
///
/// # Errors
/// The plan reads parts of a data set, and a leaf that the cluster cannot read. The error is the
/// name of this leaf.
pub fn place_of(plan: &Arc<dyn ExecutionPlan>) -> std::result::Result<Place, String> {
    let mut leaves = Vec::new();
    collect(plan, &mut leaves);
    if !leaves.iter().any(|leaf| matches!(leaf, Leaf::Parquet)) {
        return Ok(Place::Client);
    }
    let other = leaves.into_iter().find_map(|leaf| match leaf {
        Leaf::Other(name) => Some(name),
        _ => None,
    });
    other.map_or(Ok(Place::Cluster), Err)
}

/// Returns the plan with leaves that the cluster can restrict.
///
/// # Errors
/// A leaf cannot be replaced.
pub fn with_restricted_leaves(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replace = |plan: Arc<dyn ExecutionPlan>| {
        let mut schema = plan.schema();
        let leaf: &dyn Any = plan.as_ref();
        let rows = if leaf.is::<EmptyExec>() {
            Vec::new()
        } else if leaf.is::<PlaceholderRowExec>() {
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            // Nothing reads the columns. Some are declared as not null, which the rows would
            // violate.
            let fields = schema.fields().iter().map(|field| (**field).clone().with_nullable(true));
            schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let nulls = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1));
            vec![RecordBatch::try_new_with_options(schema.clone(), nulls.collect(), &options)?]
        } else {
            return Ok(Transformed::no(plan));
        };
        let rows = MemorySourceConfig::try_new(&[rows], schema, None)?;
        Ok(Transformed::yes(DataSourceExec::from_data_source(rows) as Arc<dyn ExecutionPlan>))
    };
    plan.transform_up(replace).data()
}

fn collect(plan: &Arc<dyn ExecutionPlan>, leaves: &mut Vec<Leaf>) {
    let children = plan.children();
    if children.is_empty() {
        leaves.push(kind(plan));
    }
    for child in children {
        collect(child, leaves);
    }
}

/// Whether executors can find a store by its URL. A plan has this URL without its path. `https`
/// URLs of Amazon and Azure have the bucket in their path, so they do not name the store without
/// it.
pub fn is_reached(store: &ObjectStoreUrl) -> bool {
    let is_whole =
        |location: Location| !store.as_str().starts_with("https:") || location.is_read_only();
    *store == ObjectStoreUrl::local_filesystem()
        || Location::new(store.as_str()).is_ok_and(is_whole)
}

fn kind(plan: &Arc<dyn ExecutionPlan>) -> Leaf {
    let leaf: &dyn Any = plan.as_ref();
    if let Some(exec) = leaf.downcast_ref::<DataSourceExec>() {
        let source: &dyn Any = exec.data_source().as_ref();
        return match source.downcast_ref::<FileScanConfig>() {
            Some(scan) if scan.file_source().file_type() != "parquet" => {
                Leaf::Other(format!("files of type {}", scan.file_source().file_type()))
            }
            Some(scan) if !is_reached(&scan.object_store_url) => Leaf::Other(format!(
                "objects of {} (use s3:// or az://)",
                scan.object_store_url.as_str()
            )),
            Some(_) => Leaf::Parquet,
            None => Leaf::Other("rows that the query itself has (VALUES)".into()),
        };
    }
    let is_constant = leaf.is::<EmptyExec>() || leaf.is::<PlaceholderRowExec>();
    if is_constant && plan.output_partitioning().partition_count() == 1 {
        return Leaf::Constant;
    }
    Leaf::Other(format!("{} rows", plan.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_reached_if_their_url_is_all_of_them() {
        for (url, expected) in [
            ("file:///", true),
            ("s3://bucket/", true),
            ("http://localhost:1/", true),
            ("https://localhost:1/", true),
            // The container, and the bucket, are in the path.
            ("https://account.blob.core.windows.net/", false),
            ("https://s3.us-east-1.amazonaws.com/", false),
        ] {
            assert_eq!(is_reached(&ObjectStoreUrl::parse(url).unwrap()), expected, "{url}");
        }
    }
}
