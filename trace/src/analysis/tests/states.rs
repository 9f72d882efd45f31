//! Checks that no state makes an analysis panic, whatever is in it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::accesses;
use crate::analysis::registry::{ALL, AnyAnalysis};
use crate::analysis::{AddressSpace, Batch, Gap, Known};

const KNOWN: Known = Known {
    address_space: AddressSpace::Physical,
    clocks: true,
    tck_ps: Some(1000),
    unit_bytes: None,
    sizes: true,
    threads: false,
    instructions: true,
    capacity_bytes: Some(1 << 30),
    bus_bytes: None,
    bank_map: None,
    board: None,
};

/// Values that a state does not expect, of any type.
fn values() -> impl Strategy<Value = Value> {
    let pairs: Vec<[u64; 2]> = (0..90).map(|at| [u64::MAX - at, u64::MAX]).collect();
    prop::sample::select(vec![
        json!(0),
        json!(1),
        json!(63),
        json!(64),
        json!(u64::MAX),
        json!(u64::MAX - 1),
        json!(1u64 << 63),
        json!(u32::MAX),
        json!(-1),
        json!(i64::MIN),
        json!(null),
        json!("text"),
        json!([]),
        json!({}),
        json!([u64::MAX, 1]),
        json!([[7, u64::MAX]]),
        json!(vec![u64::MAX; 90]),
        json!(pairs),
    ])
}

/// Number of JSON values in a JSON value, which itself counts as one.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Replaces one of the JSON values in `value` by `with`. `number`: number of the replaced value in
/// the order of [`count`], from 0; `usize::MAX` after the replacement.
fn replace(value: &mut Value, number: &mut usize, with: &Value) {
    if *number == 0 {
        *value = with.clone();
        *number = usize::MAX;
        return;
    }
    *number = number.wrapping_sub(1);
    match value {
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| replace_next(element, number, with))
        }
        Value::Object(members) => {
            members.values_mut().for_each(|member| replace_next(member, number, with))
        }
        _ => {}
    }
}

/// Does the same as [`replace`], unless a value was already replaced.
fn replace_next(value: &mut Value, number: &mut usize, with: &Value) {
    if *number != usize::MAX {
        replace(value, number, with);
    }
}

/// Uses an analysis that may have any state: adds accesses, a gap and a restart, and appends and
/// merges its own state.
fn use_up(analysis: &mut dyn AnyAnalysis, batch: &Batch<'_>) {
    analysis.result().unwrap();
    let state = analysis.state().unwrap();
    analysis.add(batch);
    analysis.gap(&Gap { lost_accesses: Some(u64::MAX), after_clock: Some(5), before_clock: None });
    analysis.add(batch);
    analysis.restart();
    analysis.add(batch);
    analysis.known(&KNOWN);
    analysis.result().unwrap();
    for _ in 0..2 {
        // An analysis may refuse to read a state that it has written, because of a number in the
        // state.
        let _ = analysis.append(state.clone());
        let _ = analysis.merge(state.clone());
        analysis.add(batch);
    }
    analysis.result().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn malformed_states_are_errors_or_states(
        accesses in accesses(60),
        places in prop::collection::vec((any::<prop::sample::Index>(), values()), 1..4),
    ) {
        let batch = accesses.batch(0..accesses.len());
        for entry in ALL {
            let mut analysis = (entry.new)();
            analysis.known(&KNOWN);
            analysis.add(&batch);
            let mut state = analysis.state().unwrap();
            for (place, with) in &places {
                let mut number = place.index(count(&state));
                replace(&mut state, &mut number, with);
            }
            let mut read = (entry.new)();
            if read.resume(state.clone()).is_ok() {
                use_up(&mut *read, &batch);
            }
            let _ = analysis.append(state.clone());
            let _ = analysis.merge(state);
            use_up(&mut *analysis, &batch);
        }
    }
}

#[test]
fn numbers_that_cannot_be_are_errors() {
    for (name, path, value) in [
        ("reuse", "/unit_log2", json!(64)),
        ("reuse", "/distances/threshold", json!(0)),
        ("reuse", "/distances/firsts", json!([u64::MAX])),
        ("shards", "/unit_log2", json!(0)),
        ("streams", "/counts/lengths", json!(vec![1; 66])),
        ("heat_map", "/memories/0/blocks", json!(vec![1; 4096])),
        ("check", "/places", json!(vec![Value::Null; 200])),
    ] {
        let entry = ALL.iter().find(|entry| entry.name == name).unwrap();
        let mut state = (entry.new)().state().unwrap();
        *state.pointer_mut(path).unwrap_or_else(|| panic!("{name} {path}")) = value;
        assert!((entry.new)().resume(state).is_err(), "{name} {path}");
    }
}

/// Returns the result of an analysis of batches, with a gap after each batch.
fn with_gaps(name: &str, batches: &[Batch<'_>]) -> Value {
    let entry = ALL.iter().find(|entry| entry.name == name).unwrap();
    let mut analysis = (entry.new)();
    for batch in batches {
        analysis.add(batch);
        analysis.gap(&Gap::default());
    }
    analysis.result().unwrap()
}

#[test]
fn streams_and_runs_end_at_gaps() {
    let addresses: Vec<u64> = (0..12).map(|at| 0x1000 + at * 64).collect();
    let batch = Batch::new(&addresses, &[false; 12]);
    let instructions = [0x400; 12];
    let parts = [batch.rows(0..6), batch.rows(6..12)];
    let of_program = parts.map(|part| part.with_instructions(&instructions));
    for batches in [parts, of_program] {
        let result = with_gaps("streams", &batches);
        // In each part, the stream begins after the first two accesses.
        assert_eq!(result["stream_accesses"], 2 * (6 - 2), "{result}");
        assert_eq!(
            result["stream_lengths"][0],
            json!({ "at_least": 4, "at_most": 7, "streams": 2 })
        );
    }
    let result = with_gaps("pages", &parts);
    assert_eq!(result["page_runs"], json!([{ "at_least": 4, "at_most": 7, "runs": 2 }]));
}

#[test]
fn empty_pieces_change_nothing() {
    let addresses: Vec<u64> = (0..50).map(|at| at * 0x840).collect();
    let clocks: Vec<u64> = (0..50).map(|at| at * 31).collect();
    let batch = Batch::new(&addresses, &[true; 50]).with_clocks(&clocks).with_unit(Some(64));
    for entry in ALL {
        let mut analysis = (entry.new)();
        analysis.known(&KNOWN);
        analysis.add(&batch);
        let before = analysis.result().unwrap();
        analysis.append((entry.new)().state().unwrap()).unwrap();
        assert_eq!(analysis.result().unwrap(), before, "{}", entry.name);
    }
}
