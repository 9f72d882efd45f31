//! Counts writes by page, as an analysis of any file that has accesses: `write_share FILE`.

use std::collections::BTreeMap;

use hmtt::analysis::source::Source;
use hmtt::analysis::{Analysis, Batch, Fold, PAGE_LOG2};
use serde::{Deserialize, Serialize};

/// Accesses and writes of each page. Memory is linear in the number of pages.
#[derive(Clone, Default, Serialize, Deserialize)]
struct WriteShare(BTreeMap<u64, (u64, u64)>);

impl Analysis for WriteShare {
    type Result = Vec<(u64, f64)>;

    fn add(&mut self, batch: &Batch<'_>) {
        for (address, is_write) in batch.addresses().iter().zip(batch.writes()) {
            let counts = self.0.entry(address >> PAGE_LOG2).or_default();
            *counts = (counts.0 + 1, counts.1 + u64::from(*is_write));
        }
    }

    fn append(&mut self, later: Self) {
        for (page, (accesses, writes)) in later.0 {
            let counts = self.0.entry(page).or_default();
            *counts = (counts.0 + accesses, counts.1 + writes);
        }
    }

    fn merge(&mut self, other: Self) {
        self.append(other);
    }

    fn result(&self) -> Self::Result {
        let share =
            |(page, counts): (&u64, &(u64, u64))| (*page, counts.1 as f64 / counts.0 as f64);
        self.0.iter().map(share).collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("write_share FILE")?;
    let mut fold = Fold::new(WriteShare::default());
    let ending = Source::open(path)?.fold(0, &mut fold);
    for (page, share) in fold.finish().result() {
        println!("page {page:x}: {:.1} % of its accesses are writes", 100.0 * share);
    }
    ending.missing.iter().for_each(|what| println!("missing: {what}"));
    ending.failure.map_or(Ok(()), |error| Err(error.into()))
}
