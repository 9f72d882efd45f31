//! Makes the words of a report ([`hmtt_format::info`]): the current settings and totals, then the
//! memory description, which is fixed when the card is generated.
//!
//! A word is valid two clocks after its index. The outputs are 0 while no word is wanted.

use hmtt_format::info::{self, StaticWords};
use hmtt_format::{FORMAT_VERSION, MemoryDescription};
use rust_hdl::prelude::*;

use super::Totals;
use crate::config::Settings;
use crate::reset::{ClearedRegister, Domain, Register};
use crate::table::Table;

/// See the module's description.
#[derive(LogicBlock)]
pub struct ReportWords {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Index of the word.
    pub index: Signal<In, Bits<6>>,
    /// Words of a report are wanted. Otherwise `index` is less than [`info::DYNAMIC_WORDS`].
    pub wanted: Signal<In, Bit>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// Time slices are on.
    pub slices: Signal<In, Bit>,
    /// The capture runs.
    pub running: Signal<In, Bit>,
    /// Current totals.
    pub totals: Signal<In, Totals>,
    /// Bits 63..32 of the word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of the word.
    pub low: Signal<Out, Bits<32>>,
    /// The word on the next clock is the last one of the report.
    pub last: Signal<Out, Bit>,
    requested: Register<Bits<6>>,
    is_state: Register<Bit>,
    is_reads: Register<Bit>,
    is_writes: Register<Bit>,
    is_events: Register<Bit>,
    is_window: Register<Bit>,
    static_high: ClearedRegister<Bits<32>>,
    static_low: ClearedRegister<Bits<32>>,
    high_words: Table<6, 32>,
    low_words: Table<6, 32>,
    flags: Signal<Local, Bits<32>>,
    early_high: Signal<Local, Bits<32>>,
    early_low: Signal<Local, Bits<32>>,
    late_high: Signal<Local, Bits<32>>,
    late_low: Signal<Local, Bits<32>>,
    last_index: Constant<Bits<6>>,
    version: Constant<Bits<32>>,
    mode_at: Constant<Bits<5>>,
    slice_at: Constant<Bits<5>>,
    threshold_at: Constant<Bits<5>>,
    flags_at: Constant<Bits<5>>,
    unreported_at: Constant<Bits<5>>,
    burst_length_at: Constant<Bits<5>>,
    flag_running: Constant<Bits<32>>,
    flag_frequency: Constant<Bits<32>>,
    flag_tag: Constant<Bits<32>>,
    flag_burst: Constant<Bits<32>>,
    state_word: Constant<Bits<6>>,
    reads_word: Constant<Bits<6>>,
    writes_word: Constant<Bits<6>>,
    events_word: Constant<Bits<6>>,
    window_word: Constant<Bits<6>>,
}

impl ReportWords {
    /// Builds the block for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let described = StaticWords::new(memory);
        assert_eq!(info::DYNAMIC_WORDS, 5, "the words below");
        let before = [0; info::DYNAMIC_WORDS];
        let words: Vec<u64> = before.iter().chain(described.as_slice()).copied().collect();
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        block! {
            Self {
                high_words: Table::new(words.iter().map(|word| word >> 32)),
                low_words: Table::new(words.iter().copied()),
                last_index: Constant::new((words.len() as u64 - 1).into()),
                version: word(u32::from(FORMAT_VERSION) << info::VERSION_AT),
                mode_at: place(info::MODE_AT),
                slice_at: place(info::SLICE_AT),
                threshold_at: place(info::THRESHOLD_AT),
                flags_at: place(info::FLAGS_AT),
                unreported_at: place(info::UNREPORTED_AT),
                burst_length_at: place(info::BURST_LENGTH_AT),
                flag_running: word(info::FLAG_RUNNING),
                flag_frequency: word(info::FLAG_FREQUENCY),
                flag_tag: word(info::FLAG_TAG),
                flag_burst: word(info::FLAG_BURST),
                state_word: Constant::new(0u64.into()),
                reads_word: Constant::new(1u64.into()),
                writes_word: Constant::new(2u64.into()),
                events_word: Constant::new(3u64.into()),
                window_word: Constant::new(4u64.into()),
            }
            default: clock, index, wanted, requested, is_state, is_reads, is_writes, is_events,
                is_window, static_high, static_low, settings, slices, running, totals, high,
                low, last, flags, early_high, early_low, late_high, late_low
        }
    }
}

impl Logic for ReportWords {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            requested,
            is_state,
            is_reads,
            is_writes,
            is_events,
            is_window,
            static_high,
            static_low
        );
        self.requested.d.next = self.index.val();
        self.is_state.d.next =
            self.wanted.val() & (self.requested.q.val() == self.state_word.val());
        self.is_reads.d.next =
            self.wanted.val() & (self.requested.q.val() == self.reads_word.val());
        self.is_writes.d.next =
            self.wanted.val() & (self.requested.q.val() == self.writes_word.val());
        self.is_events.d.next =
            self.wanted.val() & (self.requested.q.val() == self.events_word.val());
        self.is_window.d.next =
            self.wanted.val() & (self.requested.q.val() == self.window_word.val());
        self.static_high.d.next = self.high_words.word.val();
        self.static_low.d.next = self.low_words.word.val();
        self.high_words.index.next = self.requested.q.val();
        self.low_words.index.next = self.requested.q.val();
        self.last.next = self.requested.q.val() == self.last_index.val();
        self.flags.next = bits::<32>(0);
        if self.running.val() {
            self.flags.next = self.flag_running.val();
        }
        if self.slices.val() {
            self.flags.next = self.flags.val() | self.flag_frequency.val();
        }
        if self.settings.val().tag {
            self.flags.next = self.flags.val() | self.flag_tag.val();
        }
        if self.settings.val().burst {
            self.flags.next = self.flags.val() | self.flag_burst.val();
        }
        // At most one of the words below is selected, and the table has zeros at its index. So OR
        // replaces a multiplexer, which would have a longer path.
        self.early_high.next = bits::<32>(0);
        self.early_low.next = bits::<32>(0);
        if self.is_state.q.val() {
            self.early_high.next = self.version.val()
                | (self.flags.val() << self.flags_at.val())
                | (bit_cast::<32, 2>(self.settings.val().mode) << self.mode_at.val())
                | (bit_cast::<32, 5>(self.settings.val().slice) << self.slice_at.val());
            self.early_low.next =
                bit_cast::<32, 8>(self.settings.val().threshold) << self.threshold_at.val();
        } else if self.is_reads.q.val() {
            self.early_high.next = self.totals.val().reads_high;
            self.early_low.next = self.totals.val().reads;
        }
        self.late_high.next = bits::<32>(0);
        self.late_low.next = bits::<32>(0);
        if self.is_writes.q.val() {
            self.late_high.next = self.totals.val().writes_high;
            self.late_low.next = self.totals.val().writes;
        } else if self.is_events.q.val() {
            self.late_high.next = self.totals.val().faults;
            self.late_low.next = self.totals.val().tags;
        } else if self.is_window.q.val() {
            self.late_high.next = bit_cast::<32, 8>(self.settings.val().tag_high)
                | (bit_cast::<32, 8>(self.totals.val().unreported) << self.unreported_at.val())
                | (bit_cast::<32, 2>(self.totals.val().burst) << self.burst_length_at.val());
            self.late_low.next = self.settings.val().tag_low;
        }
        self.high.next = self.static_high.q.val() | self.early_high.val() | self.late_high.val();
        self.low.next = self.static_low.q.val() | self.early_low.val() | self.late_low.val();
    }
}
