//! Implements `approx_stack_distance(unit, clock)`, which estimates the stack distances of touches
//! of pages or lines, in the order of a clock.
//!
//! The result has `touches`, `first_touches`, `sampling_rate` and `distances`: a list of
//! `distance_at_least`, `distance_at_most` and `touches`, in ranges between powers of two. A
//! distance is the number of other units touched since the last touch of the unit.
//!
//! Touches are collected with their clocks, and evaluated at the end in the order of the clocks. So
//! neither the order of rows nor their distribution to threads matters. Whenever more than
//! [`MOST_TOUCHES`] touches are kept, half of the units are left out, chosen by a hash (SHARDS:
//! Waldspurger et al., FAST 2015). So memory is bounded, unless a unit that is never left out has
//! more touches. States are merged at the lower rate. With fewer touches results are exact. A
//! sample stands for a number of touches that may differ from the real number; the difference is
//! added to distance 0, as in `hmtt mrc --sample`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use hmtt::analysis::stack::Stack;

/// Largest number of touches that are kept: 16 MiB with their clocks.
const MOST_TOUCHES: usize = 1 << 20;

/// The function.
pub fn function() -> AggregateUDF {
    let types = vec![DataType::Int64, DataType::Int64];
    let signature = Signature::exact(types, Volatility::Immutable);
    AggregateUDF::new_from_impl(StackDistance { signature })
}

fn range_fields() -> Fields {
    vec![
        Field::new("distance_at_least", DataType::Int64, false),
        Field::new("distance_at_most", DataType::Int64, false),
        Field::new("touches", DataType::Float64, false),
    ]
    .into()
}

fn range_item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(range_fields()), false))
}

fn fields() -> Fields {
    vec![
        Field::new("touches", DataType::Int64, false),
        Field::new("first_touches", DataType::Float64, false),
        Field::new("sampling_rate", DataType::Float64, false),
        Field::new("distances", DataType::List(range_item()), false),
    ]
    .into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StackDistance {
    signature: Signature,
}

impl AggregateUDFImpl for StackDistance {
    fn name(&self) -> &str {
        "approx_stack_distance"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = |part| format_state_name(args.name, part);
        let number = Arc::new(Field::new_list_field(DataType::Int64, false));
        let list = |part| Arc::new(Field::new(name(part), DataType::List(number.clone()), false));
        let single = |part| Arc::new(Field::new(name(part), DataType::Int64, false));
        Ok(vec![single("touches"), single("halvings"), list("clocks"), list("units")])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return exec_err!("approx_stack_distance: DISTINCT is not supported");
        }
        Ok(Box::new(Touches::default()))
    }
}

/// Touches of the sampled units.
#[derive(Debug, Default)]
struct Touches {
    /// Number of all touches, sampled or not.
    all: i64,
    /// How often half of the units were left out.
    halvings: u32,
    /// Clock and unit of each touch.
    kept: Vec<(i64, i64)>,
}

/// A hash in which each bit depends on all bits of the unit (splitmix64).
fn hash(unit: i64) -> u64 {
    let mut hash = (unit as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// Whether a unit is in the sample.
fn is_sampled(unit: i64, halvings: u32) -> bool {
    hash(unit).leading_zeros() >= halvings
}

impl Touches {
    fn add(&mut self, clock: i64, unit: i64) {
        if !is_sampled(unit, self.halvings) {
            return;
        }
        self.kept.push((clock, unit));
        // A single unit may have more touches than fit, so the halving ends after 24 times.
        while self.kept.len() > MOST_TOUCHES && self.halvings < 24 {
            self.halve(self.halvings + 1);
        }
    }

    fn halve(&mut self, halvings: u32) {
        self.halvings = halvings;
        self.kept.retain(|(_, unit)| is_sampled(*unit, halvings));
    }

    /// Number of first touches, and number of other touches for each range of distances between
    /// powers of two.
    fn distances(&mut self) -> (u64, Vec<u64>) {
        self.kept.sort_unstable();
        let (mut stack, mut first, mut counts) = (Stack::default(), 0, Vec::new());
        for (_, unit) in &self.kept {
            match stack.touch(*unit as u64) {
                None => first += 1,
                Some(distance) => {
                    let distance = u128::from(distance) << self.halvings;
                    let range = (u128::BITS - distance.leading_zeros()) as usize;
                    if counts.len() <= range {
                        counts.resize(range + 1, 0);
                    }
                    counts[range] += 1;
                }
            }
        }
        (first, counts)
    }
}

impl Accumulator for Touches {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [units, clocks] = [0, 1].map(|place| values[place].as_primitive::<Int64Type>());
        for row in 0..units.len() {
            if units.is_null(row) {
                continue;
            }
            if clocks.is_null(row) {
                return exec_err!("approx_stack_distance: a touch has no clock");
            }
            // The table of lines cannot hold this number.
            if units.value(row) == -1 {
                return exec_err!("approx_stack_distance: -1 is the number of no page or line");
            }
            self.all += 1;
            self.add(clocks.value(row), units.value(row));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [totals, halvings] = [0, 1].map(|place| states[place].as_primitive::<Int64Type>());
        let [clocks, units] = [2, 3].map(|place| states[place].as_list::<i32>());
        for row in 0..totals.len() {
            self.all = self.all.saturating_add(totals.value(row));
            let halvings = u32::try_from(halvings.value(row)).unwrap_or_default().min(24);
            if halvings > self.halvings {
                self.halve(halvings);
            }
            let (clocks, units) = (clocks.value(row), units.value(row));
            let [clocks, units] = [&clocks, &units].map(|list| list.as_primitive::<Int64Type>());
            for (clock, unit) in clocks.values().iter().zip(units.values()) {
                self.add(*clock, *unit);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let number = Arc::new(Field::new_list_field(DataType::Int64, false));
        let list = |values: Vec<i64>| {
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            let values = Arc::new(Int64Array::from(values));
            ScalarValue::List(Arc::new(ListArray::new(number.clone(), offsets, values, None)))
        };
        let (clocks, units) = std::mem::take(&mut self.kept).into_iter().unzip();
        let halvings = i64::from(self.halvings);
        Ok(vec![self.all.into(), halvings.into(), list(clocks), list(units)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (first, counts) = self.distances();
        let rate = 0.5_f64.powi(self.halvings as i32);
        let sampled = first + counts.iter().sum::<u64>();
        let adjustment = self.all as f64 - sampled as f64 / rate;
        let most = counts.len().max(usize::from(self.all > 0));
        let touches = (0..most).map(|range| {
            let count = counts.get(range).copied().unwrap_or_default() as f64 / rate;
            if range == 0 { count + adjustment } else { count }
        });
        let touches = Float64Array::from_iter_values(touches);
        let lows = (0..most).map(|range| if range == 0 { 0 } else { 1 << (range - 1) });
        let highs = (0..most).map(|range| if range == 0 { 0 } else { (1 << range) - 1 });
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(lows)),
            Arc::new(Int64Array::from_iter_values(highs)),
            Arc::new(touches),
        ];
        let ranges = StructArray::new(range_fields(), columns, None);
        let offsets = OffsetBuffer::from_lengths([ranges.len()]);
        let distances = ListArray::new(range_item(), offsets, Arc::new(ranges), None);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![self.all])),
            Arc::new(Float64Array::from(vec![first as f64 / rate])),
            Arc::new(Float64Array::from(vec![rate])),
            Arc::new(distances),
        ];
        Ok(ScalarValue::Struct(Arc::new(StructArray::new(fields(), columns, None))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.kept.capacity() * size_of::<(i64, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use hmtt::analysis::reuse::Reuse;
    use hmtt::analysis::{Analysis, Batch, PAGE_LOG2};

    use super::*;

    /// Touches of pages: a loop, and pages that are chosen by a multiplication.
    fn pages(count: i64) -> Vec<i64> {
        (0..count).map(|at| if at % 3 == 0 { at % 50_000 } else { at * at % 300_007 }).collect()
    }

    /// The exact number of touches with at least this distance, a power of two. First touches are
    /// included.
    fn exact(pages: &[i64], least: u64) -> f64 {
        let mut reuse = Reuse::new(PAGE_LOG2);
        let addresses: Vec<u64> = pages.iter().map(|page| (*page as u64) << PAGE_LOG2).collect();
        reuse.add(&Batch::new(&addresses, &vec![false; addresses.len()]));
        let result = reuse.result();
        let far = result.distances.iter().filter(|range| range.distance_at_least >= least);
        result.first_touches + far.map(|range| range.touches).sum::<f64>()
    }

    /// The estimated number, from touches that were added in several pieces and in another order,
    /// and the sampling rate.
    fn found(pages: &[i64], least: i64, pieces: usize) -> (f64, f64) {
        let mut merged = Touches::default();
        for piece in (0..pieces).rev() {
            let mut touches = Touches::default();
            let rows = (0..).zip(pages).skip(piece).step_by(pieces);
            let (clocks, units): (Vec<i64>, Vec<i64>) = rows.unzip();
            let columns: [ArrayRef; 2] =
                [Arc::new(Int64Array::from(units)), Arc::new(Int64Array::from(clocks))];
            touches.update_batch(&columns).unwrap();
            let state = touches.state().unwrap();
            let state: Vec<ArrayRef> = state.iter().map(|one| one.to_array().unwrap()).collect();
            merged.merge_batch(&state).unwrap();
        }
        let ScalarValue::Struct(estimate) = merged.evaluate().unwrap() else { panic!("a struct") };
        let column = |name: &str| estimate.column_by_name(name).unwrap().clone();
        let real =
            |name: &str| column(name).as_primitive::<arrow::datatypes::Float64Type>().value(0);
        let ranges = column("distances").as_list::<i32>().value(0);
        let ranges = ranges.as_struct();
        let lows = ranges.column(0).as_primitive::<Int64Type>();
        let touches = ranges.column(2).as_primitive::<arrow::datatypes::Float64Type>();
        let far = lows.values().iter().zip(touches.values()).filter(|(low, _)| **low >= least);
        let sum = real("first_touches") + far.map(|(_, touches)| touches).sum::<f64>();
        (sum, real("sampling_rate"))
    }

    #[test]
    fn few_touches_have_exact_distances_in_any_order() {
        let pages = pages(100_000);
        for least in [1, 4096] {
            assert_eq!(found(&pages, least, 7), (exact(&pages, least as u64), 1.0));
        }
    }

    #[test]
    fn many_touches_are_estimated_within_one_percent() {
        let pages = pages(2_500_000);
        for least in [64, 1 << 16] {
            let (sum, rate) = found(&pages, least, 3);
            assert!(rate < 1.0 && rate > 0.01, "{rate}");
            let error = (sum - exact(&pages, least as u64)) / pages.len() as f64;
            assert!(error.abs() < 0.01, "distances from {least} on: {error}");
        }
    }
}
