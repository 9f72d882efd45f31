//! Implements `function_at(clock [, capture, session])`: the innermost function that was open at a
//! clock.
//!
//! The timeline of the session is searched from the position of the previous row, so rows in the
//! order of clocks take constant time each. The result is null where no function is known: before
//! the first tag, and in sessions without tags.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::OF_TIMELINES;
use super::collected::{array, returned};
use super::timelines::{Known, Timeline, Timelines};

/// The function.
pub fn function(timelines: &Arc<Timelines>) -> ScalarUDF {
    use DataType::{Int64, Utf8View};
    let types = [vec![Int64], vec![Int64, Utf8View, Int64]].map(TypeSignature::Exact).to_vec();
    let signature = Signature::one_of(types, Volatility::Stable);
    ScalarUDF::new_from_impl(FunctionAt { timelines: timelines.clone(), signature })
}

/// `function_at`.
#[derive(Debug)]
pub struct FunctionAt {
    /// The functions of all sessions.
    pub timelines: Arc<Timelines>,
    signature: Signature,
}

impl PartialEq for FunctionAt {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.timelines, &other.timelines)
    }
}

impl Eq for FunctionAt {}

impl Hash for FunctionAt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        OF_TIMELINES.hash(state);
    }
}

/// Index of the last change that is not after a clock; `None` before the first change. `hint`:
/// index at which the search begins.
fn find(timeline: &Timeline, clock: i64, hint: usize) -> Option<usize> {
    let changes = &timeline.changes;
    let is_here = |place: usize| {
        changes.get(place).is_some_and(|(from, _)| *from <= clock)
            && changes.get(place + 1).is_none_or(|(next, _)| clock < *next)
    };
    if is_here(hint) {
        return Some(hint);
    }
    if is_here(hint + 1) {
        return Some(hint + 1);
    }
    changes.partition_point(|(from, _)| *from <= clock).checked_sub(1)
}

impl FunctionAt {
    /// Returns the only timeline, for calls without a session.
    fn only(known: &Known) -> Result<Option<&Timeline>> {
        if known.sessions.len() > 1 {
            return plan_err!(
                "function_at(clock): several sessions have tags; write function_at(clock, capture, \
                 session)"
            );
        }
        Ok(known.sessions.values().next())
    }
}

impl ScalarUDFImpl for FunctionAt {
    fn name(&self) -> &str {
        OF_TIMELINES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(known) = self.timelines.get() else {
            return exec_err!("function_at: no tags are loaded");
        };
        let rows = args.number_rows;
        let clocks = array(&args.args, 0, rows)?;
        let clocks = clocks.as_primitive::<Int64Type>();
        let session = match args.args.len() {
            1 => None,
            _ => Some((array(&args.args, 1, rows)?, array(&args.args, 2, rows)?)),
        };
        let mut timeline = if session.is_none() { Self::only(known)? } else { None };
        let mut builder = StringViewBuilder::with_capacity(rows);
        let blocks = append_names(&mut builder, known);
        let (mut hint, mut last) = (0, None);
        for row in 0..rows {
            if let Some((captures, sessions)) = &session {
                let captures = captures.as_string_view();
                let key = (captures.value(row), sessions.as_primitive::<Int64Type>().value(row));
                if last != Some(key.1) || row == 0 || captures.value(row - 1) != key.0 {
                    timeline = known.sessions.get(&(key.0.to_owned(), key.1));
                    (last, hint) = (Some(key.1), 0);
                }
            }
            let change = timeline.filter(|_| clocks.is_valid(row)).and_then(|timeline| {
                let place = find(timeline, clocks.value(row), hint)?;
                hint = place;
                timeline.changes.get(place)
            });
            match change {
                Some((_, name)) => {
                    let (begin, length) = blocks.places[*name as usize];
                    builder.try_append_view(blocks.block, begin, length)?;
                }
                None => builder.append_null(),
            }
        }
        let values: ArrayRef = Arc::new(builder.finish());
        returned(&args.args, values)
    }
}

/// Positions of names in a block of a builder.
struct Blocks {
    block: u32,
    places: Vec<(u32, u32)>,
}

/// Adds each name to a builder once. Rows then refer to the names.
fn append_names(builder: &mut StringViewBuilder, known: &Known) -> Blocks {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for name in &known.names {
        places.push((bytes.len() as u32, name.len() as u32));
        bytes.extend_from_slice(name.as_bytes());
    }
    Blocks { block: builder.append_block(Buffer::from_vec(bytes)), places }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_found_from_any_hint() {
        let changes = vec![(10, 0), (20, 1), (25, 0), (40, 2)];
        let timeline = Timeline { changes: changes.clone() };
        for clock in 0..50 {
            let expected = changes.iter().rposition(|(from, _)| *from <= clock);
            for hint in 0..6 {
                assert_eq!(find(&timeline, clock, hint), expected, "{clock} {hint}");
            }
        }
    }
}
