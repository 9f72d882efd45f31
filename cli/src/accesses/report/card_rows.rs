//! Shows the row outcomes that cards have counted themselves, beside the outcomes that are derived
//! from the accesses.

use hmtt::analysis::card_rows::{CardBank, CardOutcomes, CardRows};
use hmtt::analysis::source::Part as SourcePart;
use hmtt::decode::Item;

use super::chart::{Part, Table};
use super::numbers::{counted, exact, share};

/// Collects the row outcomes of all cards.
#[derive(Default)]
pub struct Cards(Vec<CardRows>);

impl Cards {
    /// Takes a part of a source, and keeps its counts if it comes from a card in analysis mode.
    pub fn part(&mut self, memory: usize, part: SourcePart<'_>) {
        if matches!(part, SourcePart::Item(Item::Event(_))) && self.0.len() <= memory {
            self.0.resize_with(memory + 1, CardRows::default);
        }
        match (self.0.get_mut(memory), part) {
            (Some(card), SourcePart::Item(item)) => card.item(item),
            (Some(card), SourcePart::Gap(_) | SourcePart::Restart) => card.lose(),
            _ => {}
        }
    }

    /// The counts of all cards in analysis mode.
    pub fn result(self) -> Vec<CardOutcomes> {
        (1..).zip(self.0).filter_map(|(source, card)| card.result(source)).collect()
    }
}

fn row(name: String, [hits, misses, conflicts]: [u64; 3]) -> Vec<String> {
    let [hits, misses, conflicts] = [hits, misses, conflicts].map(|count| count as f64);
    let total = hits + misses + conflicts;
    let cell = |count: f64| format!("{} ({})", exact(count), share(count, total));
    vec![name, exact(total), cell(hits), cell(misses), cell(conflicts)]
}

/// The table of one card.
pub fn part(counts: &CardOutcomes) -> Part {
    let outcomes = |bank: &CardBank| [bank.row_hits, bank.row_misses, bank.row_conflicts];
    let add = |sum: [u64; 3], bank: &CardBank| {
        let more = outcomes(bank);
        [0, 1, 2].map(|at| sum[at].saturating_add(more[at]))
    };
    let mut rows = vec![row("all".to_owned(), counts.banks.iter().fold([0; 3], add))];
    let name = |bank: &CardBank| format!("{}/{}", bank.rank, bank.bank);
    rows.extend(counts.banks.iter().map(|bank| row(name(bank), outcomes(bank))));
    let mut about = "The card sees which rows are open, and counts every burst, those to its registers and tag window \
         included. A hit finds its row open and used since its ACTIVATE; a conflict is the first access after a \
         PRECHARGE of just its bank, and a miss any other first one."
        .to_owned();
    if counts.incomplete_dump_count > 0 {
        let dumps = counted(counts.incomplete_dump_count as f64, "dump");
        about += &format!(
            " {dumps} of {} not complete: the numbers are lower bounds.",
            counts.dump_count
        );
    }
    if counts.skipped_rows > 0 {
        about += &format!(
            " Not counted by the card: {}.",
            counted(counts.skipped_rows as f64, "access")
        );
    }
    let heads = ["rank/bank", "accesses", "hits", "misses", "conflicts"];
    Part::Table(Table::new("Row hits and conflicts, as the card counts them", &about, &heads, rows))
}
