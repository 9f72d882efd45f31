//! Reads the arguments of functions as arrays.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::logical_expr::ColumnarValue;

/// An argument as an array of `rows` values.
pub fn array(arguments: &[ColumnarValue], place: usize, rows: usize) -> Result<ArrayRef> {
    let missing = || exec_datafusion_err!("argument {} is missing", place + 1);
    arguments.get(place).ok_or_else(missing)?.to_array(rows)
}

/// The value that a function returns: one value if all arguments are constants, else an array.
pub fn returned(arguments: &[ColumnarValue], values: ArrayRef) -> Result<ColumnarValue> {
    let is_constant = arguments.iter().all(|one| matches!(one, ColumnarValue::Scalar(_)));
    if is_constant && !values.is_empty() {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
    }
    Ok(ColumnarValue::Array(values))
}
