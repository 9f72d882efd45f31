//! Checks what every registered analysis promises of its pieces.

use proptest::prelude::*;

use super::{Accesses, accesses};
use crate::analysis::registry::{ALL, AnyAnalysis};
use crate::analysis::{AddressSpace, Gap, Known};

const KNOWN: Known = Known {
    address_space: AddressSpace::Virtual,
    clocks: true,
    tck_ps: Some(800),
    unit_bytes: None,
    sizes: true,
    threads: false,
    instructions: true,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};

/// Analyses whose joined pieces are those of the whole, as their files promise.
const EXACT: [&str; 6] = ["summary", "frequency", "reuse", "shards", "mrc", "check"];

fn add(analysis: &mut dyn AnyAnalysis, all: &Accesses, rows: std::ops::Range<usize>) {
    analysis.known(&KNOWN);
    // In batches of any length.
    let middle = rows.start + rows.len() / 3;
    analysis.add(&all.batch(rows.start..middle));
    analysis.gap(&Gap::default());
    analysis.add(&all.batch(middle..rows.end));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_state_that_was_read_continues_as_if_it_had_not_been_written(
        all in accesses(600),
        cut in 0.0..1.0f64,
    ) {
        let cut = (cut * all.len() as f64) as usize;
        for entry in ALL {
            let mut whole = (entry.new)();
            add(&mut *whole, &all, 0..cut);
            let mut read = (entry.new)();
            read.resume(whole.state().unwrap()).unwrap();
            prop_assert_eq!(read.result().unwrap(), whole.result().unwrap(), "{}", entry.name);
            add(&mut *whole, &all, cut..all.len());
            add(&mut *read, &all, cut..all.len());
            prop_assert_eq!(read.result().unwrap(), whole.result().unwrap(), "{}", entry.name);
        }
    }

    #[test]
    fn joined_pieces_are_the_whole_where_this_is_promised(all in accesses(600), cut in 0.0..1.0f64) {
        let cut = (cut * all.len() as f64) as usize;
        for entry in ALL.iter().filter(|entry| EXACT.contains(&entry.name)) {
            let pieces = [0..cut, cut..all.len()].map(|rows| {
                let mut piece = (entry.new)();
                add(&mut *piece, &all, rows);
                piece
            });
            let [mut joined, later] = pieces;
            joined.append(later.state().unwrap()).unwrap();
            let mut whole = (entry.new)();
            add(&mut *whole, &all, 0..cut);
            add(&mut *whole, &all, cut..all.len());
            prop_assert_eq!(joined.result().unwrap(), whole.result().unwrap(), "{}", entry.name);
        }
    }

    #[test]
    fn states_of_another_analysis_are_errors_or_results(all in accesses(50)) {
        // Whatever is read, nothing panics.
        for one in ALL {
            let mut of_one = (one.new)();
            add(&mut *of_one, &all, 0..all.len());
            let state = of_one.state().unwrap();
            for other in ALL {
                let mut of_other = (other.new)();
                let read = of_other.resume(state.clone());
                prop_assert!(read.is_ok() || one.name != other.name);
                of_other.result().unwrap();
                add(&mut *of_other, &all, 0..all.len());
                of_other.result().unwrap();
            }
        }
    }
}

#[test]
fn merged_memories_are_in_one_result() {
    for entry in ALL {
        let (mut one, other) = ((entry.new)(), (entry.new)());
        let batch = crate::analysis::Batch::new(&[0x1000], &[true]);
        one.add(&batch);
        one.merge(other.state().unwrap()).unwrap();
        one.add(&batch);
        assert!(one.result().is_ok(), "{}", entry.name);
    }
    let names: std::collections::BTreeSet<_> = ALL.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), ALL.len());
}
