//! Prints how many other lines were accessed between two accesses to a 64-byte line:
//! `reuse_distance FILE.pcapng`.

use std::collections::{BTreeMap, HashMap};

/// Adds to one place of a Fenwick tree.
fn add(tree: &mut [i64], mut at: usize, change: i64) {
    while at < tree.len() {
        tree[at] += change;
        at += at & at.wrapping_neg();
    }
}

/// Sums the places up to `at`.
fn sum(tree: &[i64], at: usize) -> i64 {
    let places = std::iter::successors(Some(at), |at| Some(at & at.saturating_sub(1)));
    places.take_while(|at| *at != 0).map(|at| tree[at]).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("reuse_distance FILE.pcapng")?;
    let mut trace = hmtt::Trace::open(path)?;
    let lines = trace.accesses().map(|access| Ok(access?.address.0 / 64));
    let lines = lines.collect::<Result<Vec<u64>, hmtt::pcapng::ReadError>>()?;
    // 1 where an access is the latest one to its line.
    let mut latest = vec![0; lines.len() + 1];
    let (mut last, mut histogram) = (HashMap::new(), BTreeMap::<u32, u64>::new());
    for (line, number) in lines.iter().zip(1..) {
        if let Some(before) = last.insert(line, number) {
            let distance = sum(&latest, number - 1) - sum(&latest, before);
            *histogram.entry((distance as u64 + 1).ilog2()).or_default() += 1;
            add(&mut latest, before, -1);
        }
        add(&mut latest, number, 1);
    }
    println!("{} accesses to {} lines", lines.len(), last.len());
    histogram.iter().for_each(|(log2, count)| println!("below {}: {count}", (2u64 << log2) - 1));
    Ok(())
}
