//! States what a command must know of accesses, and refuses files that state less.
//!
//! A card in page mode records the page of each access, in frequency mode only its time, and in
//! analysis mode nothing of single accesses. The verdict counts only the accesses that a command
//! can use. Invariant: no verdict is complete if accesses were left out.

use anyhow::{Result, bail};
use hmtt::analysis::source::{Ending, Part};
use hmtt::analysis::{Analysis, CoarseAccesses, Detail};

use super::figures::counted;

/// The detail of accesses that a command needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Name of the command, with the option that makes the difference.
    pub analysis: &'static str,
    /// The least that must be known of each access.
    pub detail: Detail,
    /// Whether the command shows the results that a card in analysis mode has computed itself.
    pub shows_card_results: bool,
}

impl Need {
    /// The need of an analysis, which states the detail that it uses.
    pub fn of(analysis: &'static str, new: &impl Analysis) -> Need {
        Need { analysis, detail: new.needs(), shows_card_results: false }
    }

    /// The need of a command with a further option that needs `detail`. Unchanged if `option` is
    /// `None`.
    pub fn with(self, option: Option<&'static str>, detail: Detail) -> Need {
        match option {
            Some(analysis) if detail > self.detail => Need { analysis, detail, ..self },
            _ => self,
        }
    }

    /// Returns the part. If too little is known of the part's accesses, returns a part that only
    /// counts them as left out.
    pub fn usable<'a>(&self, part: Part<'a>) -> Part<'a> {
        match part {
            Part::PageRun(run) if self.detail > Detail::Page => Part::LeftOut(run.as_gap()),
            Part::FrequencySlice(slice) if self.detail > Detail::Time => {
                Part::LeftOut(slice.as_gap())
            }
            part => part,
        }
    }

    /// Counts only the used accesses in the ending of a file, and states the others as missing.
    ///
    /// # Errors
    /// The file has accesses, and none could be used. An error that the file itself has comes first
    /// and is kept.
    pub fn check(&self, name: &str, ending: &mut Ending) -> Result<()> {
        let coarse = ending.coarse;
        let unusable = coarse.unusable(self.detail);
        let left_out = unusable.saturating_add(coarse.unread_accesses);
        let used = ending.accesses.saturating_sub(unusable);
        if ending.failure.is_none() && used == 0 {
            if left_out > 0 {
                bail!("{name}: {}", self.refusal(&coarse));
            }
            if ending.has_analysis_mode && !self.shows_card_results {
                bail!("{name}: {}", self.refusal_of_analysis_mode());
            }
        }
        if unusable > 0 {
            let total = counted(ending.accesses, "access");
            ending.missing.push(format!(
                "{unusable} of {total}, which are {}: {} needs {}; the other {used} were used",
                self.unusable_records(&coarse),
                self.analysis,
                self.needed()
            ));
        }
        if coarse.unread_accesses > 0 {
            let count = counted(coarse.unread_accesses, "access");
            ending.missing.push(format!("{count} in {UNREAD}; the other {used} were used"));
        }
        ending.accesses = used;
        self.note(&coarse, ending);
        Ok(())
    }

    /// Adds notes on the precision of the used accesses, such as bursts whose page is known, but
    /// not their line.
    fn note(&self, coarse: &CoarseAccesses, ending: &mut Ending) {
        let total = ending.accesses;
        if coarse.page_run_accesses > 0 && self.detail <= Detail::Page {
            let count = coarse.page_run_accesses;
            let known = "of each the page is known, and not the line";
            ending
                .notes
                .push(format!("{count} of {total} accesses are bursts of page mode: {known}"));
        }
        if coarse.frequency_accesses > 0 && self.detail == Detail::Time {
            let count = coarse.frequency_accesses;
            let known = "only their time is known, to the length of the card's slices";
            ending
                .notes
                .push(format!("{count} of {total} accesses are bursts of frequency mode: {known}"));
        }
    }

    /// Names the kinds of records that cannot be used.
    fn unusable_records(&self, coarse: &CoarseAccesses) -> &'static str {
        match (
            coarse.page_run_accesses > 0 && self.detail > Detail::Page,
            coarse.frequency_accesses,
        ) {
            (true, 0) => "records of page mode",
            (true, _) => "records of page mode and of frequency mode",
            (false, _) => "records of frequency mode",
        }
    }

    fn needed(&self) -> &'static str {
        match self.detail {
            Detail::Address => "the address of each access",
            Detail::Page => "the page of each access",
            Detail::Time => "the time of each access",
        }
    }

    /// Explains why no access of a file can be used, and what to use instead.
    fn refusal(&self, coarse: &CoarseAccesses) -> String {
        let Need { analysis, .. } = self;
        let CoarseAccesses { page_run_accesses, frequency_accesses, unread_accesses } = *coarse;
        let needed = self.needed();
        if unread_accesses > 0 && page_run_accesses == 0 && frequency_accesses == 0 {
            let count = counted(unread_accesses, "access");
            return format!("{analysis} cannot use the {count} in {UNREAD}");
        }
        let (mode, known, instead, modes) = match (page_run_accesses > 0, frequency_accesses > 0) {
            (true, false) => ("page mode", PAGES_KNOWN, FOR_PAGES, "line mode"),
            (false, _) if self.detail == Detail::Page => {
                ("frequency mode", TIME_KNOWN, FOR_SLICES, "page or line mode")
            }
            (false, _) => ("frequency mode", TIME_KNOWN, FOR_SLICES, "line mode"),
            (true, true) => ("page mode and frequency mode", BOTH_KNOWN, FOR_SLICES, "line mode"),
        };
        let count = counted(page_run_accesses.saturating_add(frequency_accesses), "access");
        format!(
            "{analysis} cannot be made of a capture in {mode}: it has {count}, {known}, and {analysis} needs {needed}; \
             use {instead}, or record in {modes}"
        )
    }

    fn refusal_of_analysis_mode(&self) -> String {
        let Need { analysis, .. } = self;
        format!(
            "{analysis} cannot be made of a capture in analysis mode: the card records results of its own, and no accesses; \
             use `hmtt analysis`, or record in line mode"
        )
    }
}

/// Kinds of rows in tables that no analysis reads.
const UNREAD: &str = "rows of page runs or slices, which are not analysed: analyse the capture itself, or query the rows with \
    `hmtt sql`";
const PAGES_KNOWN: &str = "of which only the pages are known";
const TIME_KNOWN: &str = "of which only the number in each slice of time is known";
const BOTH_KNOWN: &str = "of which only the pages, or the number in each slice of time, are known";
const FOR_PAGES: &str =
    "`hmtt hot`, `stats`, `phases`, `reuse --pages`, `mrc --pages`, `check` or `report`";
const FOR_SLICES: &str = "`hmtt stats`, `phases` or `report`";

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: Need =
        Need { analysis: "hmtt streams", detail: Detail::Address, shows_card_results: false };
    const PAGES: Need = Need { analysis: "hmtt hot", detail: Detail::Page, ..LINES };

    fn ending(accesses: u64, page_run_accesses: u64, frequency_accesses: u64) -> Ending {
        let coarse = CoarseAccesses { page_run_accesses, frequency_accesses, unread_accesses: 0 };
        Ending { accesses, coarse, ..Ending::default() }
    }

    #[test]
    fn what_is_left_out_is_missing() {
        let mut mixed = ending(10, 3, 2);
        PAGES.check("x", &mut mixed).unwrap();
        assert_eq!((mixed.accesses, mixed.missing.len(), mixed.notes.len()), (8, 1, 1));
        let mut mixed = ending(10, 3, 2);
        LINES.check("x", &mut mixed).unwrap();
        assert_eq!((mixed.accesses, mixed.missing.len(), mixed.notes.len()), (5, 1, 0));
        assert!(
            mixed.missing[0].contains("page mode and of frequency mode"),
            "{:?}",
            mixed.missing
        );
    }

    #[test]
    fn files_without_anything_usable_are_refused_by_name() {
        let error = LINES.check("x", &mut ending(3, 3, 0)).unwrap_err().to_string();
        assert!(error.contains("hmtt streams") && error.contains("page mode"), "{error}");
        let error = PAGES.check("x", &mut ending(2, 0, 2)).unwrap_err().to_string();
        assert!(error.contains("hmtt hot") && error.contains("frequency mode"), "{error}");
        let mut of_analysis = Ending { has_analysis_mode: true, ..Ending::default() };
        let error = PAGES.check("x", &mut of_analysis).unwrap_err().to_string();
        assert!(error.contains("hmtt analysis"), "{error}");
        PAGES.check("x", &mut ending(0, 0, 0)).unwrap();
    }
}
