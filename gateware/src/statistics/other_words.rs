//! Selects the words that other units make for the block writer: reports, slices, and records of
//! the analysis.
//!
//! ```text
//! clock              _/0\_/1\_/2\_/3\_
//! words.index        <A ><B ><C >
//! words.high, low        <A ><B ><C     of a slice or of the analysis
//! words.high, low                <A     of a report
//! ```

use hmtt_format::MemoryDescription;
use rust_hdl::prelude::*;

use super::report_words::ReportWords;
use super::slice_words::SliceWords;
use super::word_request::WordRequest;
use super::{SliceCounts, Totals};
use crate::config::Settings;
use crate::record::RecordKind;
use crate::reset::{ClearedRegister, Domain, Register};

/// See the module's description.
#[derive(LogicBlock)]
pub struct OtherWords {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Words for the block writer.
    pub words: WordRequest,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// Time slices are on.
    pub slices: Signal<In, Bit>,
    /// The capture runs.
    pub running: Signal<In, Bit>,
    /// Totals for reports.
    pub totals: Signal<In, Totals>,
    /// Counts of the slice.
    pub slice_counts: Signal<In, SliceCounts>,
    /// Bits 63..32 of the word of the analysis.
    pub analysis_high: Signal<In, Bits<32>>,
    /// Bits 31..0 of the word of the analysis.
    pub analysis_low: Signal<In, Bits<32>>,
    report: ReportWords,
    slice: SliceWords,
    made_high: ClearedRegister<Bits<32>>,
    made_low: ClearedRegister<Bits<32>>,
    ends: Register<Bit>,
    from_slice: Register<Bit>,
    from_analysis: Register<Bit>,
    is_slice: Signal<Local, Bit>,
    is_analysis: Signal<Local, Bit>,
    sliced_high: Signal<Local, Bits<32>>,
    sliced_low: Signal<Local, Bits<32>>,
    analysed_high: Signal<Local, Bits<32>>,
    analysed_low: Signal<Local, Bits<32>>,
}

impl OtherWords {
    /// Builds the block for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        block! {
            Self {
                report: ReportWords::new(memory),
            }
            default: clock, words, settings, slices, running, totals, slice_counts, analysis_high,
                analysis_low, slice, made_high, made_low, ends, from_slice, from_analysis, is_slice,
                is_analysis, sliced_high, sliced_low, analysed_high, analysed_low
        }
    }
}

impl Logic for OtherWords {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, made_high, made_low, ends, from_slice, from_analysis);
        self.report.clock.next = self.clock.val();
        self.report.index.next = self.words.index.val();
        self.report.settings.next = self.settings.val();
        self.report.slices.next = self.slices.val();
        self.report.running.next = self.running.val();
        self.report.totals.next = self.totals.val();
        self.ends.d.next = self.report.last.val();
        self.words.report_last.next = self.ends.q.val();
        self.slice.index.next = self.words.index.val().get_bits::<2>(0);
        self.slice.code.next = self.settings.val().slice;
        self.slice.counts.next = self.slice_counts.val();
        // The block writer has the record for some clocks before it reads its words.
        self.is_slice.next = self.words.kind.val() == RecordKind::Slice;
        self.is_analysis.next = (self.words.kind.val() == RecordKind::Count)
            | (self.words.kind.val() == RecordKind::HotPage);
        self.from_slice.d.next = self.is_slice.val();
        self.from_analysis.d.next = self.is_analysis.val();
        self.report.wanted.next = !self.is_slice.val() & !self.is_analysis.val();
        self.sliced_high.next = bits::<32>(0);
        self.sliced_low.next = bits::<32>(0);
        if self.from_slice.q.val() {
            self.sliced_high.next = self.slice.high.val();
            self.sliced_low.next = self.slice.low.val();
        }
        self.analysed_high.next = bits::<32>(0);
        self.analysed_low.next = bits::<32>(0);
        if self.from_analysis.q.val() {
            self.analysed_high.next = self.analysis_high.val();
            self.analysed_low.next = self.analysis_low.val();
        }
        self.made_high.d.next =
            self.report.high.val() | self.sliced_high.val() | self.analysed_high.val();
        self.made_low.d.next =
            self.report.low.val() | self.sliced_low.val() | self.analysed_low.val();
        self.words.high.next = self.made_high.q.val();
        self.words.low.next = self.made_low.q.val();
    }
}
