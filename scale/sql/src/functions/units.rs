//! Implements `page(address)` and `line(address)`: the number of the page of 4 KiB, and of the line
//! of 64 bytes.
//!
//! A comparison of such a number with a constant becomes a comparison of the address with a range:
//! `page(address) = 2` becomes an address of 8192 to 12287. So parts without such addresses are
//! pruned.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hmtt::analysis::{LINE_LOG2, PAGE_LOG2};

/// The functions.
pub fn functions() -> [ScalarUDF; 2] {
    [("page", PAGE_LOG2), ("line", LINE_LOG2)].map(|(name, log2)| {
        let signature = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
        ScalarUDF::new_from_impl(Unit { name, log2, signature })
    })
}

/// The number of a unit of 2^`log2` bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unit {
    name: &'static str,
    log2: u32,
    signature: Signature,
}

impl ScalarUDFImpl for Unit {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let addresses = super::collected::array(&args.args, 0, rows)?;
        let addresses = addresses.as_primitive::<Int64Type>();
        let log2 = self.log2;
        let units: ArrayRef = Arc::new(addresses.unary::<_, Int64Type>(|address| address >> log2));
        super::collected::returned(&args.args, units)
    }

    fn preimage(
        &self,
        args: &[Expr],
        constant: &Expr,
        _: &SimplifyContext,
    ) -> Result<PreimageResult> {
        let ([address], Expr::Literal(ScalarValue::Int64(Some(unit)), _)) = (args, constant) else {
            return Ok(PreimageResult::None);
        };
        let begin = unit.checked_mul(1 << self.log2);
        let end = unit.checked_add(1).and_then(|next| next.checked_mul(1 << self.log2));
        let (Some(begin), Some(end)) = (begin, end) else { return Ok(PreimageResult::None) };
        let interval = Interval::try_new(begin.into(), end.into())?;
        Ok(PreimageResult::Range { expr: address.clone(), interval: Box::new(interval) })
    }
}
