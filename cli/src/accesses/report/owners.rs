//! Makes tables of the owners of the accessed physical pages: the parts of accesses that are
//! resolved and unresolved, and accesses by process and by mapping.

use super::chart::{Part, Table};
use super::numbers::{exact, share};
use crate::accesses::resolution::Resolution;

/// Maximum number of processes, or of mappings, in a table.
const LISTED: usize = 100;

/// The meaning of an `owner` value, in words.
fn meaning(owner: &str) -> &'static str {
    match owner {
        "resolved" => "one page of one process",
        "shared" => "the same several pages",
        "ambiguous" => "others in different snapshots, or at a time that is not known",
        _ => "no recorded process",
    }
}

/// The table of accesses by `owner` value: resolved, shared, ambiguous or unresolved.
pub fn shares(resolution: &Resolution) -> Part {
    let owners = resolution.by_owner();
    let sum = owners.iter().map(|(_, accesses)| *accesses as f64).sum();
    let row = |(name, accesses): (&str, u64)| {
        let accesses = accesses as f64;
        vec![name.to_owned(), exact(accesses), share(accesses, sum), meaning(name).to_owned()]
    };
    let about = format!("Resolved by {}.", resolution.rule());
    let heads = ["owner", "accesses", "of all", "physical pages of"];
    Part::Table(Table::new(
        "Owners of pages",
        &about,
        &heads,
        owners.into_iter().map(row).collect(),
    ))
}

/// The tables of accesses by process and by mapping.
pub fn lists(resolution: &Resolution) -> Vec<Part> {
    let total = resolution.by_owner().iter().map(|(_, accesses)| *accesses as f64).sum();
    vec![
        list("Accesses by process", "process", resolution.by_process(), total),
        list("Accesses by mapping", "mapping", resolution.by_mapping(), total),
    ]
}

fn list(
    title: &str,
    head: &str,
    list: impl ExactSizeIterator<Item = (String, u64)>,
    total: f64,
) -> Part {
    let about = match list.len() {
        0 => return Part::absent(title, "No access was resolved or shared.", false),
        count if count > LISTED => {
            format!("Resolved and shared accesses; the first {LISTED} of {}.", exact(count as f64))
        }
        _ => "Resolved and shared accesses.".to_owned(),
    };
    let row = |(name, accesses): (String, u64)| {
        vec![name, exact(accesses as f64), share(accesses as f64, total)]
    };
    let rows = list.take(LISTED).map(row).collect();
    Part::Table(Table::new(title, &about, &[head, "accesses", "of all"], rows))
}
