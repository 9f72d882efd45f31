//! Implements the table that the query engine sees.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use hmtt_dataset::Table;
use object_store::ObjectStore;

use super::access_filter::AccessFilter;
use super::capture_stream::CaptureStream;
use super::parts::PartScan;
use super::pruning::{PartitionFilter, is_of_partition};
use crate::schema;
use crate::shared::Shared;
use crate::sources::Sources;

/// A table of all sources.
pub struct TraceTable {
    /// The table.
    pub table: Table,
    /// The sources.
    pub sources: Arc<Sources>,
    /// The file system.
    pub files: Arc<dyn ObjectStore>,
    /// Counts of the bytes that are read.
    pub shared: Arc<Shared>,
    /// Whether parts and captures that cannot be read are left out.
    pub skips_damaged: bool,
}

impl fmt::Debug for TraceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.table.name(), self.sources)
    }
}

#[async_trait]
impl TableProvider for TraceTable {
    fn schema(&self) -> SchemaRef {
        schema::of_table(self.table).table_schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if is_of_partition(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table_schema = self.schema();
        let df_schema = DFSchema::try_from(table_schema.clone())?;
        let predicate = conjunction(filters.iter().cloned())
            .map(|filter| session.create_physical_expr(filter, &df_schema))
            .transpose()?;
        let partitions = PartitionFilter::new(session, filters, predicate.as_ref(), self.table)?;
        let scan = PartScan {
            table: self.table,
            session,
            files: &self.files,
            shared: &self.shared,
            partitions: &partitions,
            predicate: predicate.as_ref(),
            projection,
            // The limit is for rows that pass the filters, which are applied later.
            limit: limit.filter(|_| filters.is_empty()),
            skips_damaged: self.skips_damaged,
        };
        let mut plans = Vec::new();
        for dataset in &self.sources.datasets {
            plans.extend(scan.files(dataset).await?);
        }
        for remote in &self.sources.remotes {
            plans.extend(scan.objects(remote).await?);
        }
        let projected = match projection {
            Some(projection) => Arc::new(table_schema.project(projection)?),
            None => table_schema,
        };
        plans.extend(self.captures(&projected, &partitions, filters)?);
        match plans.len() {
            0 => Ok(Arc::new(EmptyExec::new(projected))),
            1 => Ok(plans.remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }
}

impl TraceTable {
    /// The scan of all captures; `None` without any.
    fn captures(
        &self,
        schema: &SchemaRef,
        partitions: &PartitionFilter,
        filters: &[Expr],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.sources.captures.is_empty() || !self.table.is_of_captures() {
            return Ok(None);
        }
        let stream = |capture: &Arc<crate::sources::Capture>| -> Arc<dyn PartitionStream> {
            self.shared.note(Some(capture.path.clone()), capture.bytes, true);
            Arc::new(CaptureStream {
                capture: capture.clone(),
                table: self.table,
                schema: schema.clone(),
                partitions: partitions.clone(),
                accesses: AccessFilter::new(filters),
                shared: self.shared.clone(),
                skips_damaged: self.skips_damaged,
            })
        };
        let streams = self.sources.captures.iter().map(stream).collect();
        let plan = StreamingTableExec::try_new(schema.clone(), streams, None, [], false, None)?;
        Ok(Some(Arc::new(plan)))
    }
}
