//! Implements `histogram(value [, width])`, which counts the values in ranges. The result is a list
//! of `at_least`, `at_most` and `count`.
//!
//! Without a width, ranges begin at 0 and at powers of two: 0, 1, 2 to 3, 4 to 7. Ranges of
//! negative values are mirrored: -1, -3 to -2. With a width, ranges begin at its multiples: 0 to 9,
//! 10 to 19 for width 10. Ranges without values are left out. Adding two states is exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility,
};

/// Largest number of ranges with values.
const MOST_RANGES: usize = 1 << 20;
/// Bytes of memory that a range takes in the map.
const RANGE_BYTES: usize = 48;

/// The function.
pub fn function() -> AggregateUDF {
    use DataType::Int64;
    let types = [vec![Int64], vec![Int64, Int64]].map(TypeSignature::Exact).to_vec();
    let signature = Signature::one_of(types, Volatility::Immutable);
    AggregateUDF::new_from_impl(HistogramFunction { signature })
}

/// The fields of a range.
fn fields() -> Fields {
    let field = |name| Field::new(name, DataType::Int64, false);
    ["at_least", "at_most", "count"].map(field).to_vec().into()
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), false))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct HistogramFunction {
    signature: Signature,
}

impl AggregateUDFImpl for HistogramFunction {
    fn name(&self) -> &str {
        "histogram"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(item()))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name| {
            let number = Arc::new(Field::new_list_field(DataType::Int64, false));
            Arc::new(Field::new(format_state_name(args.name, name), DataType::List(number), false))
        };
        Ok(vec![field("at_least"), field("at_most"), field("count")])
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        datafusion::logical_expr::utils::AggregateOrderSensitivity::Insensitive
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return exec_err!("histogram: DISTINCT is not supported");
        }
        Ok(Box::new(Histogram::default()))
    }
}

/// Counts of ranges. Key: first value of the range; value: last value and count.
#[derive(Debug, Default)]
struct Histogram {
    counts: BTreeMap<i64, (i64, i64)>,
}

/// Returns first and last value of the range between powers of two that contains a value: 4 and 7
/// for 5.
fn power_range(value: i64) -> (i64, i64) {
    if value == 0 {
        return (0, 0);
    }
    let log2 = value.unsigned_abs().ilog2();
    let (low, high) = (1_i128 << log2, (1_i128 << (log2 + 1)) - 1);
    let clamp = |number: i128| number.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    if value > 0 { (clamp(low), clamp(high)) } else { (clamp(-high), clamp(-low)) }
}

/// Returns first and last value of the range with this width that contains a value.
fn width_range(value: i64, width: i64) -> (i64, i64) {
    let low = i128::from(value.div_euclid(width)) * i128::from(width);
    let clamp = |number: i128| number.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    (clamp(low), clamp(low + i128::from(width) - 1))
}

impl Histogram {
    fn add(&mut self, (low, high): (i64, i64), count: i64) -> Result<()> {
        if self.counts.len() >= MOST_RANGES && !self.counts.contains_key(&low) {
            return exec_err!("histogram: more than {MOST_RANGES} ranges; give a larger width");
        }
        let range = self.counts.entry(low).or_insert((high, 0));
        range.1 = range.1.saturating_add(count);
        Ok(())
    }

    fn columns(&self) -> [Int64Array; 3] {
        let ranges = || self.counts.iter();
        [
            Int64Array::from_iter_values(ranges().map(|(low, _)| *low)),
            Int64Array::from_iter_values(ranges().map(|(_, (high, _))| *high)),
            Int64Array::from_iter_values(ranges().map(|(_, (_, count))| *count)),
        ]
    }
}

impl Accumulator for Histogram {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let numbers = values[0].as_primitive::<Int64Type>();
        let widths = values.get(1).map(|widths| widths.as_primitive::<Int64Type>());
        // Neighbouring values are often in one range.
        let mut last: Option<((i64, i64), i64)> = None;
        for row in 0..numbers.len() {
            if numbers.is_null(row) || widths.is_some_and(|widths| widths.is_null(row)) {
                continue;
            }
            let value = numbers.value(row);
            let range = match widths.map(|widths| widths.value(row)) {
                None => power_range(value),
                Some(width) if width > 0 => width_range(value, width),
                Some(width) => {
                    return exec_err!("histogram: a width is greater than 0, not {width}");
                }
            };
            last = Some(match last {
                Some((known, count)) if known == range => (range, count + 1),
                Some((known, count)) => {
                    self.add(known, count)?;
                    (range, 1)
                }
                None => (range, 1),
            });
        }
        last.map_or(Ok(()), |(range, count)| self.add(range, count))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = [0, 1, 2].map(|place| states[place].as_list::<i32>());
        for row in 0..lists[0].len() {
            let [lows, highs, counts] = lists.map(|list| list.value(row));
            let [lows, highs, counts] =
                [&lows, &highs, &counts].map(|list| list.as_primitive::<Int64Type>());
            for place in 0..lows.len() {
                let range = (lows.value(place), highs.value(place));
                self.add(range, counts.value(place))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let number = Arc::new(Field::new_list_field(DataType::Int64, false));
        let list = |values: Int64Array| {
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            let list = ListArray::new(number.clone(), offsets, Arc::new(values), None);
            ScalarValue::List(Arc::new(list))
        };
        Ok(self.columns().map(list).to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.columns().map(|column| Arc::new(column) as ArrayRef).to_vec();
        let ranges = StructArray::new(fields(), columns, None);
        let offsets = OffsetBuffer::from_lengths([ranges.len()]);
        let list = ListArray::new(item(), offsets, Arc::new(ranges), None);
        Ok(ScalarValue::List(Arc::new(list)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.len() * RANGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_their_values() {
        let values = [i64::MIN, -5, -4, -1, 0, 1, 2, 3, 4, 7, 8, i64::MAX];
        for value in values {
            let (low, high) = power_range(value);
            assert!(low <= value && value <= high, "{value}");
            for width in [1, 7, i64::MAX] {
                let (low, high) = width_range(value, width);
                assert!(low <= value && value <= high, "{value} {width}");
            }
        }
        assert_eq!([0, 1, 3, 4, -3].map(power_range), [(0, 0), (1, 1), (2, 3), (4, 7), (-3, -2)]);
        assert_eq!([-1, 0, 9, 10].map(|value| width_range(value, 10).0), [-10, 0, 0, 10]);
    }
}
