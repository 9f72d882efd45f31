//! Explains which results are missing because a card in page mode or frequency mode has recorded no
//! addresses.

use hmtt::analysis::Detail;
use hmtt::analysis::summary::Sums;
use hmtt::analysis::timeline::TimeSlice;

use super::numbers::counted;

/// Counts of accesses whose address is not known, by the mode that has recorded them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modes {
    accesses: u64,
    page_run_accesses: u64,
    frequency_accesses: u64,
}

impl Modes {
    /// The counts of all memories together.
    pub fn of_sums(sums: &Sums) -> Modes {
        let Sums { accesses, page_run_accesses, frequency_accesses, .. } = *sums;
        Modes { accesses, page_run_accesses, frequency_accesses }
    }

    /// The counts of the memory that has these slices.
    pub fn of_slices(slices: &[TimeSlice]) -> Modes {
        slices.iter().fold(Modes::default(), |sum, slice| Modes {
            accesses: sum.accesses.saturating_add(slice.reads).saturating_add(slice.writes),
            page_run_accesses: sum.page_run_accesses.saturating_add(slice.page_run_accesses),
            frequency_accesses: sum.frequency_accesses.saturating_add(slice.frequency_accesses),
        })
    }

    /// Number of accesses that are known less precisely than `needed`.
    fn without(&self, needed: Detail) -> u64 {
        match needed {
            Detail::Time => 0,
            Detail::Page => self.frequency_accesses,
            Detail::Address => self.page_run_accesses.saturating_add(self.frequency_accesses),
        }
    }

    /// The reason why a result that needs this detail is absent: all accesses are known less
    /// precisely. `None` if some accesses have the detail.
    pub fn absent(&self, needed: Detail) -> Option<String> {
        let without = self.without(needed);
        let mode = match (self.page_run_accesses, self.frequency_accesses) {
            (_, 0) => "page mode, which records the pages of accesses and not their addresses",
            (0, _) => "frequency mode, which records the number of accesses in slices of time only",
            _ => "page mode and in frequency mode, which do not record addresses",
        };
        (without > 0 && without >= self.accesses)
            .then(|| format!("Not known: the capture is in {mode}."))
    }

    /// A sentence with the number of accesses that a result leaves out; empty if it leaves out
    /// none. It begins with a space, because it follows other sentences.
    pub fn left_out(&self, needed: Detail) -> String {
        let what = if needed == Detail::Page { "page" } else { "address" };
        match self.without(needed) {
            0 => String::new(),
            more => {
                format!(" Without {} whose {what} is not known.", counted(more as f64, "access"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_named_where_nothing_else_is_known() {
        let sums = Sums { accesses: 9, page_run_accesses: 9, ..Sums::default() };
        let pages = Modes::of_sums(&sums);
        assert!(pages.absent(Detail::Address).unwrap().contains("page mode"));
        assert_eq!(
            (pages.absent(Detail::Page), pages.left_out(Detail::Page)),
            (None, String::new())
        );
        let mixed = Modes::of_sums(&Sums { accesses: 10, ..sums });
        assert_eq!(mixed.absent(Detail::Address), None);
        let text = mixed.left_out(Detail::Address);
        assert_eq!(text, " Without 9 accesses whose address is not known.");
    }
}
