//! Writes plans as bytes, and reads them. In addition to Ballista's codec it writes the loaded
//! state of functions, and [`AnalyseExec`].

use std::any::Any;
use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    AsExecutionPlan, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;

use crate::analyse_exec::AnalyseExec;

/// Start of the bytes of [`AnalyseExec`]. The bytes of Ballista's operators begin with the tag of a
/// field, a smaller byte.
const ANALYSE: &[u8] = b"hmtt-analyse:";

/// Ballista's codec, and the states of our functions.
#[derive(Debug, Default)]
pub struct Codec {
    ballista: BallistaPhysicalExtensionCodec,
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(analysed) = bytes.strip_prefix(ANALYSE) {
            let analysed = serde_json::from_slice(analysed)
                .map_err(|error| plan_datafusion_err!("what is analysed is damaged: {error}"))?;
            let [pieces] = inputs else { return plan_err!("AnalyseExec has one input") };
            return Ok(Arc::new(AnalyseExec::new(pieces.clone(), analysed)));
        }
        self.ballista.try_decode(bytes, inputs, context, converter)
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let any: &dyn Any = plan.as_ref();
        if let Some(exec) = any.downcast_ref::<AnalyseExec>() {
            bytes.extend_from_slice(ANALYSE);
            let analysed = serde_json::to_vec(exec.analysed());
            bytes.extend(analysed.map_err(|error| plan_datafusion_err!("{error}"))?);
            return Ok(());
        }
        self.ballista.try_encode(plan, bytes, converter)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        hmtt_sql::read_state(name, bytes).map(Arc::new)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.extend(hmtt_sql::write_state(function)?.unwrap_or_default());
        Ok(())
    }
}

/// Writes a plan as bytes.
///
/// # Errors
/// An operator of the plan cannot be sent.
pub fn write_plan(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
    let message = PhysicalPlanNode::try_from_physical_plan(plan.clone(), &Codec::default())?;
    let mut bytes = Vec::new();
    message.try_encode(&mut bytes)?;
    Ok(bytes)
}
