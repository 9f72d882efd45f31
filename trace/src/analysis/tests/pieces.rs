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

/// Analyses whose joined pieces give exactly the result of the whole, as their files state.
const EXACT: [&str; 6] = ["summary", "frequency", "reuse", "shards", "mrc", "check"];

fn add(analysis: &mut dyn AnyAnalysis, accesses: &Accesses, rows: std::ops::Range<usize>) {
    analysis.known(&KNOWN);
    // In two batches of different lengths, with a gap between them.
    let middle = rows.start + rows.len() / 3;
    analysis.add(&accesses.batch(rows.start..middle));
    analysis.gap(&Gap::default());
    analysis.add(&accesses.batch(middle..rows.end));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_state_that_was_read_continues_as_if_it_had_not_been_written(
        accesses in accesses(600),
        cut in 0.0..1.0f64,
    ) {
        let cut = (cut * accesses.len() as f64) as usize;
        for entry in ALL {
            let mut whole = (entry.new)();
            add(&mut *whole, &accesses, 0..cut);
            let mut read = (entry.new)();
            read.resume(whole.state().unwrap()).unwrap();
            prop_assert_eq!(read.result().unwrap(), whole.result().unwrap(), "{}", entry.name);
            add(&mut *whole, &accesses, cut..accesses.len());
            add(&mut *read, &accesses, cut..accesses.len());
            prop_assert_eq!(read.result().unwrap(), whole.result().unwrap(), "{}", entry.name);
        }
    }

    #[test]
    fn joined_pieces_are_the_whole_where_this_is_promised(
        accesses in accesses(600),
        cut in 0.0..1.0f64,
    ) {
        let cut = (cut * accesses.len() as f64) as usize;
        for entry in ALL.iter().filter(|entry| EXACT.contains(&entry.name)) {
            let pieces = [0..cut, cut..accesses.len()].map(|rows| {
                let mut piece = (entry.new)();
                add(&mut *piece, &accesses, rows);
                piece
            });
            let [mut joined, later] = pieces;
            joined.append(later.state().unwrap()).unwrap();
            let mut whole = (entry.new)();
            add(&mut *whole, &accesses, 0..cut);
            add(&mut *whole, &accesses, cut..accesses.len());
            prop_assert_eq!(joined.result().unwrap(), whole.result().unwrap(), "{}", entry.name);
        }
    }

    #[test]
    fn states_of_another_analysis_are_errors_or_results(accesses in accesses(50)) {
        // Whatever is read, nothing panics.
        for entry in ALL {
            let mut of_one = (entry.new)();
            add(&mut *of_one, &accesses, 0..accesses.len());
            let state = of_one.state().unwrap();
            for other in ALL {
                let mut of_other = (other.new)();
                let read = of_other.resume(state.clone());
                prop_assert!(read.is_ok() || entry.name != other.name);
                of_other.result().unwrap();
                add(&mut *of_other, &accesses, 0..accesses.len());
                of_other.result().unwrap();
            }
        }
    }
}

#[test]
fn merged_memories_are_in_one_result() {
    for entry in ALL {
        let (mut analysis, other) = ((entry.new)(), (entry.new)());
        let batch = crate::analysis::Batch::new(&[0x1000], &[true]);
        analysis.add(&batch);
        analysis.merge(other.state().unwrap()).unwrap();
        analysis.add(&batch);
        assert!(analysis.result().is_ok(), "{}", entry.name);
    }
    let names: std::collections::BTreeSet<_> = ALL.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), ALL.len());
}
