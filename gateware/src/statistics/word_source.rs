//! Forms a word of a frame from its fields ([`hmtt_format::record`], [`hmtt_format::frame`]).
//!
//! Purely combinational. The model uses the bit positions that the format defines. The Verilog
//! concatenates the fields, and asserts that they are at these positions.

use hmtt_format::{frame, record};
use rust_hdl::prelude::*;

/// Kind of word. Each is a layout of [`hmtt_format::record`] or [`hmtt_format::frame`].
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum Source {
    /// A half; it is on both sides of the word.
    Half,
    /// First word of a sync: unit, segment and clock.
    SyncFirst,
    /// Second word of a sync: lost records and accesses.
    SyncSecond,
    /// An access to the tag window.
    Tag,
    /// A completed software mark.
    Mark,
    /// A fault.
    Fault,
    /// A page run whose counts and duration fit one word.
    PageShort,
    /// First word of a page run that takes two words.
    PageLong,
    /// Second word of a long page record.
    PageCounts,
    /// A word of another unit.
    Other,
    /// The word before a block.
    Descriptor,
}

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct WordSource {
    /// Kind of word.
    pub source: Signal<In, Source>,
    /// The half.
    pub half: Signal<In, Bits<32>>,
    /// Sync: log2 of the unit.
    pub unit: Signal<In, Bits<4>>,
    /// Sync: segment before the word.
    pub segment: Signal<In, Bits<12>>,
    /// Sync: clock, bits 23..0.
    pub clock_low: Signal<In, Bits<24>>,
    /// Sync: clock, bits 47..24.
    pub clock_high: Signal<In, Bits<24>>,
    /// Sync: records lost.
    pub lost: Signal<In, Bits<24>>,
    /// Sync: accesses, bits 19..0.
    pub accesses_low: Signal<In, Bits<20>>,
    /// Sync: accesses, bits 39..20.
    pub accesses_high: Signal<In, Bits<20>>,
    /// Descriptor: payload header of the frame.
    pub header: Signal<In, Bits<32>>,
    /// Record: the access is a WRITE.
    pub write: Signal<In, Bit>,
    /// Record: number, or bits 25..0 of the value.
    pub number: Signal<In, Bits<26>>,
    /// Record: bits 31..26 of the value.
    pub value_high: Signal<In, Bits<6>>,
    /// Record: clocks since the record before, at most [`record::MAX_WORD_DELTA`].
    pub delta: Signal<In, Bits<16>>,
    /// Page: READs.
    pub reads: Signal<In, Bits<12>>,
    /// Page: WRITEs.
    pub writes: Signal<In, Bits<12>>,
    /// Page: clocks from the first to the last access.
    pub duration: Signal<In, Bits<20>>,
    /// Bits 63..32 of another unit's word.
    pub other_high: Signal<In, Bits<32>>,
    /// Bits 31..0 of that word.
    pub other_low: Signal<In, Bits<32>>,
    /// Bits 63..32.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0.
    pub low: Signal<Out, Bits<32>>,
}

const fn head(kind: u32) -> u32 {
    record::WORD_ESCAPE | kind << record::KIND_AT
}

fn word<const N: usize>(signal: &Signal<In, Bits<N>>) -> u32 {
    signal.val().index() as u32
}

impl WordSource {
    fn pair(&self) -> (u32, u32) {
        let timed = |kind| head(kind) | word(&self.delta) << record::WORD_DELTA_AT;
        let number = word(&self.number);
        let value = word(&self.value_high) << record::NUMBER_BITS | number;
        match self.source.val() {
            Source::Half => (word(&self.half), word(&self.half)),
            Source::SyncFirst => (
                word(&self.unit) << frame::SYNC_UNIT_AT
                    | word(&self.segment) << frame::SYNC_SEGMENT_AT
                    | word(&self.clock_high) >> 8,
                word(&self.clock_high) << 24 | word(&self.clock_low),
            ),
            Source::SyncSecond => (
                word(&self.lost) << frame::SYNC_LOST_AT | word(&self.accesses_high) >> 12,
                word(&self.accesses_high) << 20 | word(&self.accesses_low),
            ),
            Source::Tag => (
                timed(record::KIND_TAG) | u32::from(self.write.val()) << record::TAG_WRITE_AT,
                value,
            ),
            Source::Mark => (timed(record::KIND_TAG) | 1 << record::TAG_MARK_AT, value),
            Source::Fault => (
                timed(record::KIND_FAULT) | number >> 8 & 63,
                (number & 63) << record::FAULT_BANK_AT,
            ),
            Source::PageShort => (
                head(record::KIND_PAGE)
                    | (word(&self.delta) & record::MAX_PAGE_DELTA) << record::PAGE_DELTA_AT
                    | number >> record::PAGE_NUMBER_LOW,
                number << 20
                    | (word(&self.reads) & record::MAX_PAGE_COUNT) << record::PAGE_READS_AT
                    | (word(&self.writes) & record::MAX_PAGE_COUNT) << record::PAGE_WRITES_AT
                    | word(&self.duration) & record::MAX_PAGE_DURATION,
            ),
            Source::PageLong => (timed(record::KIND_PAGE_LONG) | number >> 20, number << 12),
            Source::PageCounts => (
                word(&self.reads) << 12 | word(&self.writes) >> 8,
                word(&self.writes) << 24 | word(&self.duration),
            ),
            Source::Other => (word(&self.other_high), word(&self.other_low)),
            Source::Descriptor => (0, word(&self.header)),
        }
    }
}

impl Logic for WordSource {
    fn update(&mut self) {
        let (high, low) = self.pair();
        self.high.next = u64::from(high).into();
        self.low.next = u64::from(low).into();
    }

    fn connect(&mut self) {
        self.high.connect();
        self.low.connect();
    }

    fn hdl(&self) -> Verilog {
        let timed = |kind: u32, rest: &str| {
            assert_eq!((record::KIND_AT, record::WORD_DELTA_AT), (22, 6));
            format!("{{10'h{:x}, delta, {rest}}}", head(kind) >> record::KIND_AT)
        };
        assert_eq!((frame::SYNC_UNIT_AT, frame::SYNC_SEGMENT_AT, frame::SYNC_LOST_AT), (28, 16, 8));
        assert_eq!((record::TAG_MARK_AT, record::TAG_WRITE_AT, record::FAULT_BANK_AT), (4, 3, 26));
        assert_eq!((record::PAGE_DELTA_AT, record::PAGE_NUMBER_LOW), (14, 12));
        assert_eq!((record::PAGE_READS_AT, record::PAGE_WRITES_AT), (15, 10));
        assert_eq!((record::RUN_COUNT_LOG2, record::RUN_DURATION_LOG2), (11, 19));
        let words = [
            (Source::Half, "half".into(), "half"),
            (
                Source::SyncFirst,
                "{unit, segment, clock_high[23:8]}".into(),
                "{clock_high[7:0], clock_low}",
            ),
            (
                Source::SyncSecond,
                "{lost, accesses_high[19:12]}".into(),
                "{accesses_high[11:0], accesses_low}",
            ),
            (Source::Tag, timed(record::KIND_TAG, "2'b0, write, 3'b0"), "{value_high, number}"),
            (Source::Mark, timed(record::KIND_TAG, "6'h10"), "{value_high, number}"),
            (Source::Fault, timed(record::KIND_FAULT, "number[13:8]"), "{number[5:0], 26'b0}"),
            (
                Source::PageShort,
                format!(
                    "{{10'h{:x}, delta[7:0], number[25:12]}}",
                    head(record::KIND_PAGE) >> record::KIND_AT
                ),
                "{number[11:0], reads[4:0], writes[4:0], duration[9:0]}",
            ),
            (
                Source::PageLong,
                timed(record::KIND_PAGE_LONG, "number[25:20]"),
                "{number[19:0], 12'b0}",
            ),
            (
                Source::PageCounts,
                "{8'b0, reads, 8'b0, writes[11:8]}".into(),
                "{writes[7:0], 4'b0, duration}",
            ),
            (Source::Other, "other_high".into(), "other_low"),
            (Source::Descriptor, "32'b0".into(), "header"),
        ];
        let cases: Vec<String> = words
            .iter()
            .map(|(source, high, low): &(Source, String, &str)| {
                format!("    {}: begin high = {high}; low = {low}; end", *source as u32)
            })
            .collect();
        Verilog::Custom(format!(
            "always @(*) begin\n    case (source)\n{}\n    \
             default: begin high = 32'bx; low = 32'bx; end\n    endcase\nend\n",
            cases.join("\n")
        ))
    }
}
