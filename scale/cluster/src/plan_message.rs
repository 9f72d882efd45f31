//! Decodes the plans that a scheduler accepts: physical plans of queries of data sets. Clients plan
//! their queries themselves.

use std::sync::Arc;

use bytes::BufMut;
use datafusion::common::{Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::{AsLogicalPlan, LogicalExtensionCodec};
use datafusion_proto::physical_plan::{AsExecutionPlan, PhysicalExtensionCodec};
use datafusion_proto::protobuf::PhysicalPlanNode;

use crate::plan_check::check_query;

/// A physical plan, which is checked while it is decoded.
#[derive(Clone, Debug)]
pub struct QueryPlan(PhysicalPlanNode);

impl AsExecutionPlan for QueryPlan {
    fn try_decode(bytes: &[u8]) -> Result<Self> {
        PhysicalPlanNode::try_decode(bytes).map(QueryPlan)
    }

    fn try_encode<B: BufMut>(&self, bytes: &mut B) -> Result<()> {
        self.0.try_encode(bytes)
    }

    fn try_into_physical_plan(
        &self,
        context: &TaskContext,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.0.try_into_physical_plan(context, codec)?;
        check_query(&plan)?;
        Ok(plan)
    }

    fn try_from_physical_plan(
        plan: Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<Self> {
        PhysicalPlanNode::try_from_physical_plan(plan, codec).map(QueryPlan)
    }
}

/// A logical plan, which is never accepted: planning it could read and write files and create
/// tables.
#[derive(Clone, Debug)]
pub struct NoLogicalPlan;

fn refused<T>() -> Result<T> {
    plan_err!("refused: a logical plan; clients plan their queries themselves")
}

impl AsLogicalPlan for NoLogicalPlan {
    fn try_decode(_: &[u8]) -> Result<Self> {
        refused()
    }

    fn try_encode<B: BufMut>(&self, _: &mut B) -> Result<()> {
        refused()
    }

    fn try_into_logical_plan(
        &self,
        _: &TaskContext,
        _: &dyn LogicalExtensionCodec,
    ) -> Result<LogicalPlan> {
        refused()
    }

    fn try_from_logical_plan(_: &LogicalPlan, _: &dyn LogicalExtensionCodec) -> Result<Self> {
        refused()
    }
}
