//! Records to blocks in the packet FIFO: packs halves and words, and decides where each frame starts
//! and ends.
//!
//! A block is opened only when the FIFO has room for the longest one, so once open it never runs out.
//! It starts with a sync of the state before its first word ([`hmtt_format::frame::Sync`]) and is
//! closed when it holds the threshold's words, when it has waited for a whole tick, or when settings
//! change. Records that find no room are counted, and the next sync carries the count: that is where a
//! loss shows, between the last record before and the first after. Reports ([`super::report_words`])
//! are blocks of their own: at start and after every change of settings, once a second, and three times
//! at the end.
//!
//! Each block lies in the FIFO behind one descriptor word, which is written last: the payload header
//! of its frame in the low half.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! record         <A >                    taken
//! needs              <A >                known
//! chosen                 <A >            a half, or which word; where to
//! write                      <A >        to the FIFO
//! ```
//!
//! An access, a tag, a fault or a short page run takes two clocks, anything else some more.

use hmtt_format::block::UNIT_NONE;
use hmtt_format::config::Mode;
use hmtt_format::frame::{END_REPEATS, FrameKind};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{FORMAT_VERSION, MemoryDescription, record};
use rust_hdl::prelude::*;

use super::accounts::Accounts;
use super::record_intake::RecordIntake;
use super::word_source::{Source, WordSource};
use super::{Record, RecordKind, SlotClock};
use crate::config::Settings;
use crate::fifo::packet_fifo::ROOM_LATENCY;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Idle,
    Opening,
    SyncFirst,
    SyncSecond,
    Ready,
    SecondWord,
    ThirdWord,
    ReportAhead,
    ReportNear,
    Report,
    Close,
    Closing,
    Describe,
    Settle,
    Settled,
    Took,
    Examine,
}

/// A word on its way to the FIFO.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Chosen {
    source: Source,
    half: Bits<32>,
    to_high: Bit,
    to_low: Bit,
}

/// See the module's description. `N`: log2 of the FIFO's words.
#[derive(LogicBlock)]
pub struct BlockWriter<const N: usize> {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// The record offered; `Nothing` when there is none.
    pub record: Signal<In, Record>,
    /// It is taken on this clock.
    pub advance: Signal<Out, Bit>,
    /// No record is held.
    pub free: Signal<Out, Bit>,
    /// Neither a record nor an open block is held.
    pub idle: Signal<Out, Bit>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// READs and WRITEs of the slice, where slices count as accesses.
    pub slice_accesses: Signal<In, Bits<32>>,
    /// The slice's record has a third word.
    pub slice_partial: Signal<In, Bit>,
    /// The kind of record whose words are wanted on `other_high` and `other_low`.
    pub other_kind: Signal<Out, RecordKind>,
    /// Which of its words, for the next clock.
    pub other_index: Signal<Out, Bits<6>>,
    /// The other unit's word, bits 63..32.
    pub other_high: Signal<In, Bits<32>>,
    /// The other unit's word, bits 31..0.
    pub other_low: Signal<In, Bits<32>>,
    /// `other_index` named a report's last word two clocks ago.
    pub report_last: Signal<In, Bit>,
    /// The FIFO has room for the longest block.
    pub room: Signal<In, Bit>,
    /// Write the high half of a word to the FIFO.
    pub write_high_enable: Signal<Out, Bit>,
    /// Write the low half of a word to the FIFO.
    pub write_low_enable: Signal<Out, Bit>,
    /// Where.
    pub write_address: Signal<Out, Bits<N>>,
    /// Bits 63..32.
    pub write_high: Signal<Out, Bits<32>>,
    /// Bits 31..0.
    pub write_low: Signal<Out, Bits<32>>,
    /// End of the last complete block.
    pub committed: Signal<Out, Bits<N>>,
    /// A record was lost, ever.
    pub lossy: Signal<Out, Bit>,
    intake: RecordIntake,
    accounts: Accounts,
    words: WordSource,
    state: DFF<State>,
    start: DFF<Bits<N>>,
    start_written: DFF<Bits<N>>,
    start_stored: DFF<Bits<N>>,
    at: DFF<Bits<N>>,
    count: DFF<Bits<8>>,
    left: DFF<Bits<8>>,
    full: DFF<Bit>,
    tight: DFF<Bit>,
    low_turn: DFF<Bit>,
    kind: DFF<Bits<4>>,
    repeated: DFF<Bits<2>>,
    aged: DFF<Bit>,
    open: DFF<Bit>,
    packs: DFF<Bit>,
    packs_word: DFF<Bit>,
    takes: DFF<Bit>,
    ticks: DFF<Bits<24>>,
    report_due: DFF<Bit>,
    index: DFF<Bits<6>>,
    settle: DFF<Bits<4>>,
    stated: DFF<SlotClock>,
    unit: DFF<Bits<4>>,
    numberless: DFF<Bit>,
    chosen: DFF<Chosen>,
    out_high: DFF<Bits<32>>,
    out_low: DFF<Bits<32>>,
    out_to_high: DFF<Bit>,
    out_to_low: DFF<Bit>,
    out_at: DFF<Bits<N>>,
    full_now: Signal<Local, Bit>,
    push_half: Signal<Local, Bit>,
    push_word: Signal<Local, Bit>,
    half: Signal<Local, Bits<32>>,
    access_half: Signal<Local, Bits<32>>,
    delta: Signal<Local, Bits<25>>,
    value_segment: Signal<Local, Bits<12>>,
    chosen_segment: Signal<Local, Bits<12>>,
    chosen_delta: Signal<Local, Bits<25>>,
    missed: Signal<Local, Bits<32>>,
    lost_now: Signal<Local, Bits<24>>,
    drop: Signal<Local, Bit>,
    told: Signal<Local, Bit>,
    took: Signal<Local, Bit>,
    line_unit: Constant<Bits<4>>,
    burst_unit: Constant<Bits<4>>,
    page_unit: Constant<Bits<4>>,
    no_unit: Constant<Bits<4>>,
    line_mode: Constant<Bits<2>>,
    page_mode: Constant<Bits<2>>,
    empty_half: Constant<Bits<32>>,
    segment_half: Constant<Bits<32>>,
    segment_at: Constant<Bits<5>>,
    delta_at: Constant<Bits<5>>,
    write_bit: Constant<Bits<32>>,
    version: Constant<Bits<32>>,
    data_kind: Constant<Bits<4>>,
    info_kind: Constant<Bits<4>>,
    end_kind: Constant<Bits<4>>,
    last_repeat: Constant<Bits<2>>,
    second: Constant<Bits<24>>,
    tight_below: Constant<Bits<8>>,
    settle_clocks: Constant<Bits<4>>,
}

/// Clocks from choosing a descriptor to telling the FIFO of its block: by then it is stored.
const COMMIT_CLOCKS: u64 = 3;

impl<const N: usize> BlockWriter<N> {
    /// A writer for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        let unit = |log2: u8| Constant::new(u64::from(log2).into());
        let kind = |kind: FrameKind| Constant::new((kind as u64).into());
        let tick_ps = u64::from(memory.tick_clocks) * u64::from(memory.tck_ps);
        Self {
            clock: Default::default(),
            record: Default::default(),
            advance: Default::default(),
            free: Default::default(),
            idle: Default::default(),
            settings: Default::default(),
            now: Default::default(),
            slice_accesses: Default::default(),
            slice_partial: Default::default(),
            other_kind: Default::default(),
            other_index: Default::default(),
            other_high: Default::default(),
            other_low: Default::default(),
            report_last: Default::default(),
            room: Default::default(),
            write_high_enable: Default::default(),
            write_low_enable: Default::default(),
            write_address: Default::default(),
            write_high: Default::default(),
            write_low: Default::default(),
            committed: Default::default(),
            lossy: Default::default(),
            intake: Default::default(),
            accounts: Default::default(),
            words: Default::default(),
            state: Default::default(),
            start: Default::default(),
            start_written: Default::default(),
            start_stored: Default::default(),
            at: Default::default(),
            count: Default::default(),
            left: Default::default(),
            full: Default::default(),
            tight: Default::default(),
            low_turn: Default::default(),
            kind: Default::default(),
            repeated: Default::default(),
            aged: Default::default(),
            open: Default::default(),
            ticks: Default::default(),
            report_due: Default::default(),
            index: Default::default(),
            settle: Default::default(),
            stated: Default::default(),
            unit: Default::default(),
            numberless: Default::default(),
            chosen: Default::default(),
            out_high: Default::default(),
            out_low: Default::default(),
            out_to_high: Default::default(),
            out_to_low: Default::default(),
            out_at: Default::default(),
            packs: Default::default(),
            packs_word: Default::default(),
            takes: Default::default(),
            full_now: Default::default(),
            push_half: Default::default(),
            push_word: Default::default(),
            half: Default::default(),
            access_half: Default::default(),
            delta: Default::default(),
            value_segment: Default::default(),
            chosen_segment: Default::default(),
            chosen_delta: Default::default(),
            missed: Default::default(),
            lost_now: Default::default(),
            drop: Default::default(),
            told: Default::default(),
            took: Default::default(),
            line_unit: unit(memory.line_log2),
            burst_unit: unit(memory.burst_log2()),
            page_unit: unit(PAGE_LOG2),
            no_unit: unit(UNIT_NONE),
            line_mode: Constant::new((Mode::Line as u64).into()),
            page_mode: Constant::new((Mode::Page as u64).into()),
            empty_half: word(record::EMPTY_HALF),
            segment_half: word(record::EMPTY_HALF | 1 << record::SEGMENT_FLAG_AT),
            segment_at: place(record::SEGMENT_AT),
            delta_at: place(record::DELTA_AT),
            write_bit: word(1 << record::WRITE_AT),
            version: word(u32::from(FORMAT_VERSION) << 28),
            data_kind: kind(FrameKind::Data),
            info_kind: kind(FrameKind::Info),
            end_kind: kind(FrameKind::End),
            last_repeat: Constant::new(u64::from(END_REPEATS - 1).into()),
            second: Constant::new((1_000_000_000_000 / tick_ps).clamp(1, 0xff_ffff).into()),
            // The longest record has three words, and two more may be on their way.
            tight_below: Constant::new(5u64.into()),
            settle_clocks: Constant::new((ROOM_LATENCY as u64 + COMMIT_CLOCKS).into()),
        }
    }
}

impl<const N: usize> Logic for BlockWriter<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            start,
            start_written,
            start_stored,
            at,
            count,
            left,
            full,
            tight,
            low_turn,
            kind,
            repeated,
            aged,
            open,
            packs,
            packs_word,
            takes,
            ticks,
            report_due,
            index,
            settle,
            stated,
            unit,
            numberless,
            chosen,
            out_high,
            out_low,
            out_to_high,
            out_to_low,
            out_at
        );
        clock!(self, clock, intake, accounts);
        self.intake.record.next = self.record.val();
        self.advance.next = self.intake.advance.val();
        self.free.next = self.intake.free.val();
        self.idle.next = self.intake.free.val() & (self.state.q.val() == State::Idle);
        self.lossy.next = self.accounts.lossy.val();

        self.unit.d.next = self.no_unit.val();
        self.numberless.d.next = true;
        if self.settings.val().mode == self.page_mode.val() {
            self.unit.d.next = self.page_unit.val();
            self.numberless.d.next = false;
        } else if self.settings.val().mode == self.line_mode.val() {
            self.numberless.d.next = false;
            self.unit.d.next = self.line_unit.val();
            if self.settings.val().burst {
                self.unit.d.next = self.burst_unit.val();
            }
        }

        // What is written, one clock after it was chosen.
        self.words.source.next = self.chosen.q.val().source;
        self.words.half.next = self.chosen.q.val().half;
        self.words.unit.next = self.unit.q.val();
        self.words.segment.next = self.intake.segment.val();
        self.words.clock_low.next = self.stated.q.val().low;
        self.words.clock_high.next = self.stated.q.val().high;
        self.words.lost.next = self.accounts.lost.val();
        self.words.accesses_low.next = self.accounts.accesses_low.val();
        self.words.accesses_high.next = self.accounts.accesses_high.val();
        self.words.header.next = self.version.val()
            | (bit_cast::<32, 4>(self.kind.q.val()) << 24)
            | (bit_cast::<32, 8>(self.count.q.val()) << 16)
            | bit_cast::<32, 16>(self.accounts.lost.val().get_bits::<16>(0));
        self.value_segment.next = self.intake.held.val().segment;
        self.delta.next = self.intake.held.val().delta;
        self.chosen_segment.next = self.intake.held_before.val().segment;
        self.chosen_delta.next = self.intake.held_before.val().delta;
        self.words.write.next = self.intake.held_before.val().write;
        self.words.number.next = self.intake.held_before.val().number;
        self.words.value_high.next = self.chosen_segment.val().get_bits::<6>(0);
        self.words.delta.next = self.chosen_delta.val().get_bits::<16>(0);
        self.words.reads.next = self.intake.held_before.val().reads;
        self.words.writes.next = self.intake.held_before.val().writes;
        self.words.duration.next = self.intake.held_before.val().duration;
        self.words.other_high.next = self.other_high.val();
        self.words.other_low.next = self.other_low.val();
        self.out_high.d.next = self.words.high.val();
        self.out_low.d.next = self.words.low.val();
        self.out_to_high.d.next = self.chosen.q.val().to_high;
        self.out_to_low.d.next = self.chosen.q.val().to_low;
        self.out_at.d.next = self.at.q.val();
        if self.chosen.q.val().source == Source::Descriptor {
            // `start` has moved on by now.
            self.out_at.d.next = self.start_written.q.val();
        }
        self.write_high.next = self.out_high.q.val();
        self.write_low.next = self.out_low.q.val();
        self.write_high_enable.next = self.out_to_high.q.val();
        self.write_low_enable.next = self.out_to_low.q.val();
        self.write_address.next = self.out_at.q.val();
        self.start_written.d.next = self.start.q.val();
        self.start_stored.d.next = self.start_written.q.val();
        self.committed.next = self.start_stored.q.val();
        self.other_kind.next = self.intake.held.val().kind;
        self.other_index.next = self.index.q.val();

        self.access_half.next = (bit_cast::<32, 25>(self.delta.val()) << self.delta_at.val())
            | bit_cast::<32, 26>(self.intake.held.val().number);
        self.half.next = self.access_half.val();
        if self.intake.held.val().write {
            self.half.next = self.access_half.val() | self.write_bit.val();
        }
        if self.intake.needs.val().skip {
            self.half.next = self.empty_half.val() | bit_cast::<32, 25>(self.delta.val());
        } else if self.intake.needs.val().segment {
            self.half.next = self.segment_half.val()
                | (bit_cast::<32, 12>(self.intake.held.val().segment) << self.segment_at.val());
        }
        self.missed.next = (bit_cast::<32, 12>(self.value_segment.val()) << 26)
            | bit_cast::<32, 26>(self.intake.held.val().number);
        self.lost_now.next = bits::<24>(1);

        self.full_now.next =
            (self.left.q.val() == 0) | ((self.left.q.val() == 1) & self.chosen.q.val().to_low);
        self.full.d.next = self.full_now.val();
        // Decided a clock ahead, so that a record's way on is short.
        self.packs_word.d.next = self.intake.word_now.val();
        self.packs.d.next = (self.intake.half_now.val()
            | (self.intake.word_now.val() & !self.low_turn.q.val()))
            & self.open.q.val()
            & ((self.state.q.val() == State::Ready) | (self.state.q.val() == State::Examine))
            & !self.full_now.val()
            & !self.packs.q.val();
        self.drop.next = false;
        self.told.next = self.packs.q.val();
        self.took.next = false;
        self.takes.d.next = false;
        self.intake.consume.next = self.packs.q.val() | self.takes.q.val();
        self.push_half.next = self.packs.q.val() & !self.packs_word.q.val();
        self.push_word.next = self.packs.q.val() & self.packs_word.q.val();
        self.intake.told_time.next = false;
        self.intake.told_segment.next = false;
        self.accounts.pass.next = false;
        self.accounts.clocks.next = self.delta.val();
        self.accounts.set_clock.next = false;
        self.accounts.now.next = self.now.val();
        self.accounts.account.next = false;
        self.accounts.lose.next = false;
        self.accounts.accesses.next = bits::<32>(0);
        match self.intake.held.val().kind {
            RecordKind::Access => {
                self.accounts.accesses.next = bits::<32>(1);
            }
            RecordKind::Tag => {
                self.accounts.accesses.next = bits::<32>(1);
            }
            RecordKind::Page => {
                self.accounts.accesses.next = bit_cast::<32, 20>(self.intake.held.val().reads)
                    + bit_cast::<32, 20>(self.intake.held.val().writes);
            }
            RecordKind::Slice => {
                if self.numberless.q.val() {
                    self.accounts.accesses.next = self.slice_accesses.val();
                }
            }
            RecordKind::Overrun => {
                self.accounts.accesses.next = self.missed.val();
                self.lost_now.next = self.missed.val().get_bits::<24>(0)
                    + bit_cast::<24, 6>(self.value_segment.val().get_bits::<6>(6));
            }
            _ => {}
        }
        self.accounts.records.next = self.lost_now.val();

        self.chosen.d.next.source = Source::Half;
        self.chosen.d.next.half = self.half.val();
        self.chosen.d.next.to_high = false;
        self.chosen.d.next.to_low = false;
        self.report_due.d.next = self.ticks.q.val() >= self.second.val();
        if self.chosen.q.val().to_low {
            self.at.d.next = self.at.q.val() + 1;
            self.count.d.next = self.count.q.val() + 1;
            self.left.d.next = self.left.q.val() - 1;
        }
        self.tight.d.next = self.left.q.val() < self.tight_below.val();

        match self.state.q.val() {
            State::Idle => {
                self.count.d.next = bits::<8>(0);
                self.repeated.d.next = bits::<2>(0);
                self.aged.d.next = false;
                self.index.d.next = bits::<6>(0);
                self.kind.d.next = self.data_kind.val();
                self.low_turn.d.next = false;
                self.left.d.next = self.settings.val().threshold;
                self.at.d.next = self.start.q.val() + 1;
                if self.intake.needs.val().data {
                    if self.room.val() {
                        self.state.d.next = State::Opening;
                    } else {
                        self.drop.next = true;
                    }
                } else if self.intake.needs.val().known {
                    match self.intake.held.val().kind {
                        RecordKind::Tick => {
                            if self.report_due.q.val() & self.room.val() {
                                self.kind.d.next = self.info_kind.val();
                                self.ticks.d.next = bits::<24>(0);
                                self.state.d.next = State::Opening;
                            } else {
                                self.ticks.d.next = self.ticks.q.val() + 1;
                                self.took.next = true;
                            }
                        }
                        RecordKind::Start => {
                            self.accounts.set_clock.next = true;
                            self.ticks.d.next = bits::<24>(0);
                            self.kind.d.next = self.info_kind.val();
                            if self.room.val() {
                                self.state.d.next = State::Opening;
                            }
                        }
                        RecordKind::Stop => {
                            self.kind.d.next = self.end_kind.val();
                            if self.room.val() {
                                self.state.d.next = State::Opening;
                            }
                        }
                        RecordKind::Overrun => {
                            self.accounts.account.next = true;
                            self.accounts.pass.next = true;
                            self.accounts.lose.next = true;
                            // Time went on while events were missed.
                            self.accounts.pass.next = true;
                            self.took.next = true;
                        }
                        RecordKind::Skip => {
                            self.accounts.pass.next = true;
                            self.took.next = true;
                        }
                        _ => {
                            self.took.next = true;
                        }
                    }
                }
            }
            State::Opening => {
                self.stated.d.next = self.now.val();
                if self.kind.q.val() == self.data_kind.val() {
                    self.stated.d.next = self.accounts.base.val();
                }
                self.state.d.next = State::SyncFirst;
            }
            State::SyncFirst => {
                self.chosen.d.next.source = Source::SyncFirst;
                self.push_word.next = true;
                self.state.d.next = State::SyncSecond;
            }
            State::SyncSecond => {
                self.chosen.d.next.source = Source::SyncSecond;
                self.push_word.next = true;
                self.state.d.next = State::ReportAhead;
                if self.kind.q.val() == self.data_kind.val() {
                    self.open.d.next = true;
                    self.state.d.next = State::Ready;
                }
            }
            State::Ready => {
                if self.packs.q.val() {
                    self.chosen.d.next.source = Source::Half;
                    if self.packs_word.q.val() {
                        self.chosen.d.next.source = self.intake.needs.val().source;
                    }
                    self.state.d.next = State::Examine;
                } else if self.intake.needs.val().known & self.full.q.val() {
                    self.state.d.next = State::Close;
                } else if self.intake.needs.val().skip {
                    self.state.d.next = State::Examine;
                    self.push_half.next = true;
                    self.accounts.pass.next = true;
                    self.intake.told_time.next = true;
                    self.took.next = !self.intake.needs.val().data;
                } else if self.intake.needs.val().segment {
                    self.state.d.next = State::Examine;
                    self.push_half.next = true;
                    self.intake.told_segment.next = true;
                } else if self.intake.needs.val().word {
                    if self.low_turn.q.val() {
                        // A record that takes whole words: fill the waiting one.
                        self.push_half.next = true;
                        self.chosen.d.next.half = self.empty_half.val();
                    } else if self.intake.needs.val().single {
                        // On its way already.
                        self.state.d.next = State::Ready;
                    } else if self.tight.q.val() {
                        self.state.d.next = State::Close;
                    } else {
                        self.push_word.next = true;
                        self.chosen.d.next.source = self.intake.needs.val().source;
                        if self.intake.needs.val().more {
                            self.index.d.next = bits::<6>(1);
                            self.state.d.next = State::SecondWord;
                        } else {
                            self.told.next = true;
                            self.took.next = true;
                        }
                    }
                } else if self.intake.needs.val().known & !self.intake.needs.val().data {
                    self.state.d.next = State::Close;
                    if self.intake.needs.val().tick & !self.aged.q.val() & !self.report_due.q.val()
                    {
                        self.aged.d.next = true;
                        self.ticks.d.next = self.ticks.q.val() + 1;
                        self.state.d.next = State::Ready;
                        self.took.next = true;
                    }
                }
            }
            State::SecondWord => {
                self.push_word.next = true;
                self.chosen.d.next.source = Source::Other;
                if self.intake.held.val().kind == RecordKind::Page {
                    self.chosen.d.next.source = Source::PageCounts;
                }
                self.index.d.next = bits::<6>(0);
                if (self.intake.held.val().kind == RecordKind::Slice) & self.slice_partial.val() {
                    self.index.d.next = bits::<6>(2);
                    self.state.d.next = State::ThirdWord;
                } else {
                    self.told.next = true;
                    self.took.next = true;
                }
            }
            State::ThirdWord => {
                self.push_word.next = true;
                self.chosen.d.next.source = Source::Other;
                self.index.d.next = bits::<6>(0);
                self.told.next = true;
                self.took.next = true;
            }
            State::ReportAhead => {
                // A report's words are pushed two clocks after their index, one on every clock.
                self.index.d.next = self.index.q.val() + 1;
                self.state.d.next = State::ReportNear;
            }
            State::ReportNear => {
                self.index.d.next = self.index.q.val() + 1;
                self.state.d.next = State::Report;
            }
            State::Report => {
                self.push_word.next = true;
                self.chosen.d.next.source = Source::Other;
                self.index.d.next = self.index.q.val() + 1;
                if self.report_last.val() {
                    self.state.d.next = State::Closing;
                }
            }
            State::Close => {
                if self.low_turn.q.val() {
                    self.push_half.next = true;
                    self.chosen.d.next.half = self.empty_half.val();
                }
                self.open.d.next = false;
                self.state.d.next = State::Closing;
            }
            State::Closing => {
                self.state.d.next = State::Describe;
            }
            State::Describe => {
                self.chosen.d.next.source = Source::Descriptor;
                self.chosen.d.next.to_high = true;
                self.chosen.d.next.to_low = true;
                self.start.d.next = self.at.q.val();
                self.settle.d.next = bits::<4>(0);
                self.state.d.next = State::Settle;
            }
            State::Settle => {
                // `room` answers late to the new end of the block.
                self.settle.d.next = self.settle.q.val() + 1;
                self.index.d.next = bits::<6>(0);
                if self.settle.q.val() == self.settle_clocks.val() {
                    self.count.d.next = bits::<8>(0);
                    self.at.d.next = self.start.q.val() + 1;
                    self.state.d.next = State::Settled;
                }
            }
            State::Settled => {
                self.state.d.next = State::Idle;
                self.took.next = self.kind.q.val() == self.info_kind.val();
                if self.kind.q.val() == self.end_kind.val() {
                    if self.repeated.q.val() == self.last_repeat.val() {
                        self.took.next = true;
                    } else {
                        self.state.d.next = State::Settled;
                        if self.room.val() {
                            self.repeated.d.next = self.repeated.q.val() + 1;
                            self.state.d.next = State::Opening;
                        }
                    }
                }
            }
            State::Took => {
                self.state.d.next = State::Examine;
            }
            State::Examine => {
                self.state.d.next = State::Idle;
                if self.open.q.val() {
                    self.state.d.next = State::Ready;
                }
            }
            _ => {
                self.state.d.next = State::Idle;
            }
        }

        if self.drop.val() {
            self.told.next = true;
            self.took.next = true;
            self.accounts.lose.next = true;
            self.intake.told_segment.next = self.intake.needs.val().segment;
        }
        if self.told.val() {
            self.accounts.account.next = true;
            self.accounts.pass.next = self.intake.needs.val().timed;
        }
        if self.took.val() {
            self.state.d.next = State::Took;
            self.takes.d.next = true;
        }

        if self.push_half.val() {
            self.low_turn.d.next = !self.low_turn.q.val();
            self.chosen.d.next.to_high = !self.low_turn.q.val();
            self.chosen.d.next.to_low = self.low_turn.q.val();
        }
        if self.push_word.val() {
            self.chosen.d.next.to_high = true;
            self.chosen.d.next.to_low = true;
        }
    }
}
