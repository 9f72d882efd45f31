//! Implements two functions of times. `time_ns(clock, zero_time_ns, clock_ns)` is the receiver's
//! time of a clock; `zero_time_ns` and `clock_ns` are columns of `runs`. `known_order(time_ns,
//! error_ns, time_ns, error_ns)` states which of two events of different boards came first.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::collected::{array, returned};

/// The functions.
pub fn functions() -> [ScalarUDF; 2] {
    use DataType::{Float64, Int64};
    let time = vec![Int64, Int64, Float64];
    let order = vec![Int64, Float64, Int64, Float64];
    [(Kind::Time, time), (Kind::Order, order)].map(|(kind, types)| {
        let signature = Signature::exact(types, Volatility::Immutable);
        ScalarUDF::new_from_impl(Function { kind, signature })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Time,
    Order,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    signature: Signature,
}

/// Nanoseconds since 1970. Integers are added, because floating-point numbers would round the sum.
fn time(clock: i64, zero: i64, period: f64) -> i64 {
    zero.saturating_add((clock as f64 * period).round() as i64)
}

/// -1 if the first event came first, 1 if the second event came first; `None` if their distance is
/// not larger than the sum of their errors.
fn known(first: i64, first_error: f64, second: i64, second_error: f64) -> Option<i64> {
    let distance = i128::from(second) - i128::from(first);
    let is_known = distance.unsigned_abs() as f64 > first_error + second_error;
    is_known.then_some(if distance > 0 { -1 } else { 1 })
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Time => "time_ns",
            Kind::Order => "known_order",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns: Result<Vec<ArrayRef>> =
            (0..args.args.len()).map(|place| array(&args.args, place, args.number_rows)).collect();
        let columns = columns?;
        let numbers = |place: usize| columns[place].as_primitive::<Int64Type>().iter();
        let reals = |place: usize| columns[place].as_primitive::<Float64Type>().iter();
        let values: Int64Array = match self.kind {
            Kind::Time => (numbers(0).zip(numbers(1)).zip(reals(2)))
                .map(|((clock, zero), period)| Some(time(clock?, zero?, period?)))
                .collect(),
            Kind::Order => (numbers(0).zip(reals(1)).zip(numbers(2)).zip(reals(3)))
                .map(|(((first, one), second), other)| known(first?, one?, second?, other?))
                .collect(),
        };
        returned(&args.args, Arc::new(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_known_only_beyond_both_errors() {
        assert_eq!(known(100, 10.0, 121, 10.0), Some(-1));
        assert_eq!(known(121, 10.0, 100, 10.0), Some(1));
        assert_eq!(known(100, 10.0, 120, 10.0), None);
        assert_eq!(known(i64::MIN, 1.0, i64::MAX, 1.0), Some(-1));
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(time(3, 1_700_000_000_000_000_001, 10.0), 1_700_000_000_000_000_031);
    }
}
