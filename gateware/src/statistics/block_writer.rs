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
//! needs              <A >                known; which state deals with it
//! chosen                 <A >            a half, or which word; where to
//! write                      <A >        to the FIFO
//! ```
//!
//! An access, a tag, a fault or a short page run takes two clocks, anything else some more: one state
//! only looks which state comes next, and that one acts, so that neither takes long.

use hmtt_format::block::UNIT_NONE;
use hmtt_format::config::Mode;
use hmtt_format::frame::{END_REPEATS, FrameKind};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{MemoryDescription, record};
use rust_hdl::prelude::*;

use super::accounts::Accounts;
use super::record_intake::RecordIntake;
use super::word_port::{COMMIT_CLOCKS, WordPort};
use super::word_source::Source;
use super::{Record, RecordKind, SlotClock};
use crate::config::Settings;
use crate::fifo::packet_fifo::ROOM_LATENCY;
use crate::reset::{ClearedRegister, Domain, Register};

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Idle,
    Drop,
    Pass,
    Age,
    Announce,
    Finish,
    Opening,
    SyncFirst,
    SyncSecond,
    Ready,
    TellTime,
    TellSegment,
    FillWord,
    FirstWord,
    SecondWord,
    ThirdWord,
    Report,
    Close,
    Closing,
    Describe,
    Settle,
    Settled,
    Took,
    Examine,
}

/// See the module's description. `N`: log2 of the FIFO's words.
#[derive(LogicBlock)]
pub struct BlockWriter<const N: usize> {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// The record offered; `Nothing` when there is none.
    pub record: Signal<In, Record>,
    /// There is one, if it is taken on this clock.
    pub offered: Signal<In, Bit>,
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
    port: WordPort<N>,
    state: Register<State>,
    kind: Register<Bits<4>>,
    repeated: Register<Bits<2>>,
    aged: Register<Bit>,
    open: Register<Bit>,
    full: Register<Bit>,
    packs: Register<Bit>,
    packs_word: Register<Bit>,
    ticks: ClearedRegister<Bits<24>>,
    report_due: Register<Bit>,
    index: Register<Bits<6>>,
    settle: Register<Bits<4>>,
    stated: Register<SlotClock>,
    unit: Register<Bits<4>>,
    numberless: Register<Bit>,
    access_half: Signal<Local, Bits<32>>,
    delta: Signal<Local, Bits<25>>,
    value_segment: Signal<Local, Bits<12>>,
    missed: Signal<Local, Bits<32>>,
    lost_now: Signal<Local, Bits<24>>,
    third: Signal<Local, Bit>,
    packs_next: Signal<Local, Bit>,
    takes_next: Signal<Local, Bit>,
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
    data_kind: Constant<Bits<4>>,
    info_kind: Constant<Bits<4>>,
    end_kind: Constant<Bits<4>>,
    last_repeat: Constant<Bits<2>>,
    second: Constant<Bits<24>>,
    settle_clocks: Constant<Bits<4>>,
}

impl<const N: usize> BlockWriter<N> {
    /// A writer for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        let unit = |log2: u8| Constant::new(u64::from(log2).into());
        let kind = |kind: FrameKind| Constant::new((kind as u64).into());
        let tick_ps = u64::from(memory.tick_clocks) * u64::from(memory.tck_ps);
        block! {
            Self {
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
                data_kind: kind(FrameKind::Data),
                info_kind: kind(FrameKind::Info),
                end_kind: kind(FrameKind::End),
                last_repeat: Constant::new(u64::from(END_REPEATS - 1).into()),
                second: Constant::new((1_000_000_000_000 / tick_ps).clamp(1, 0xff_ffff).into()),
                settle_clocks: Constant::new((ROOM_LATENCY as u64 + COMMIT_CLOCKS).into()),
            }
            default: clock, record, offered, advance, free, idle, settings, now, slice_accesses,
                slice_partial, other_kind, other_index, other_high, other_low, report_last, room,
                write_high_enable, write_low_enable, write_address, write_high, write_low,
                committed, lossy, intake, accounts, port, state, kind, repeated, aged, open, full,
                packs, packs_word, ticks, report_due, index, settle, stated, unit, numberless,
                access_half, delta, value_segment, missed, lost_now, third, packs_next, takes_next
        }
    }
}

impl<const N: usize> Logic for BlockWriter<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, kind, repeated, aged, open, full, packs, packs_word, ticks,
            report_due, index, settle, stated, unit, numberless
        );
        clock!(self, clock, intake, accounts, port);
        self.intake.record.next = self.record.val();
        self.intake.offered.next = self.offered.val();
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

        self.port.threshold.next = self.settings.val().threshold;
        self.port.record.next = self.intake.held_before.val();
        self.port.other_high.next = self.other_high.val();
        self.port.other_low.next = self.other_low.val();
        self.port.heading.next.kind = self.kind.q.val();
        self.port.heading.next.unit = self.unit.q.val();
        self.port.heading.next.segment = self.intake.segment.val();
        self.port.heading.next.clock_low = self.stated.q.val().low;
        self.port.heading.next.clock_high = self.stated.q.val().high;
        self.port.heading.next.lost = self.accounts.lost.val();
        self.port.heading.next.accesses_low = self.accounts.accesses_low.val();
        self.port.heading.next.accesses_high = self.accounts.accesses_high.val();
        self.write_high_enable.next = self.port.write_high_enable.val();
        self.write_low_enable.next = self.port.write_low_enable.val();
        self.write_address.next = self.port.write_address.val();
        self.write_high.next = self.port.write_high.val();
        self.write_low.next = self.port.write_low.val();
        self.committed.next = self.port.committed.val();
        self.other_kind.next = self.intake.held.val().kind;
        self.other_index.next = self.index.q.val();

        // What the record is to the accounts, should it be told.
        self.value_segment.next = self.intake.held.val().segment;
        self.missed.next = (bit_cast::<32, 12>(self.value_segment.val()) << 26)
            | bit_cast::<32, 26>(self.intake.held.val().number);
        self.lost_now.next = bits::<24>(1);
        self.delta.next = self.intake.held.val().delta;
        self.accounts.clocks.next = self.delta.val();
        self.accounts.now.next = self.now.val();
        self.accounts.accesses.next = bits::<32>(0);
        match self.intake.held.val().kind {
            RecordKind::Access => {
                self.accounts.accesses.next = bits::<32>(1);
            }
            RecordKind::Tag => {
                self.accounts.accesses.next = bits::<32>(1);
            }
            RecordKind::Page => {
                self.accounts.accesses.next = bit_cast::<32, 12>(self.intake.held.val().reads)
                    + bit_cast::<32, 12>(self.intake.held.val().writes);
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

        // The half it is to the port, should it be one.
        self.access_half.next = (bit_cast::<32, 25>(self.delta.val()) << self.delta_at.val())
            | bit_cast::<32, 26>(self.intake.held.val().number);
        self.port.half.next = self.access_half.val();
        if self.intake.held.val().write {
            self.port.half.next = self.access_half.val() | self.write_bit.val();
        }

        // Decided a clock ahead, so that a record's way on is short.
        self.full.d.next = self.port.full.val();
        self.packs_word.d.next = self.intake.word_now.val();
        self.packs_next.next = (self.intake.half_now.val()
            | (self.intake.word_now.val() & !self.port.low_turn.val()))
            & self.open.q.val()
            & ((self.state.q.val() == State::Ready) | (self.state.q.val() == State::Examine))
            & !self.port.full.val()
            & !self.packs.q.val();
        self.takes_next.next = false;
        self.packs.d.next = self.packs_next.val();
        self.intake.told_time.next = false;
        self.intake.told_segment.next = false;
        self.port.source.next = Source::Half;
        self.port.push_half.next = self.packs.q.val() & !self.packs_word.q.val();
        self.port.push_word.next = self.packs.q.val() & self.packs_word.q.val();
        if self.packs.q.val() {
            self.port.source.next = self.intake.needs.val().source;
        }
        self.port.describe.next = false;
        self.port.restart.next = false;
        self.accounts.account.next = self.packs.q.val();
        self.accounts.pass.next = self.packs.q.val() & self.intake.needs.val().timed;
        self.accounts.lose.next = false;
        self.accounts.set_clock.next = false;
        self.third.next =
            (self.intake.held.val().kind == RecordKind::Slice) & self.slice_partial.val();
        self.report_due.d.next =
            self.report_due.q.val() | (self.ticks.q.val() == self.second.val());
        self.index.d.next = bits::<6>(0);

        match self.state.q.val() {
            State::Idle => {
                self.port.restart.next = true;
                self.repeated.d.next = bits::<2>(0);
                self.aged.d.next = false;
                self.kind.d.next = self.data_kind.val();
                if self.intake.needs.val().data {
                    self.state.d.next = State::Opening;
                    if !self.room.val() {
                        self.state.d.next = State::Drop;
                        self.takes_next.next = true;
                    }
                } else if self.intake.needs.val().known {
                    match self.intake.held.val().kind {
                        RecordKind::Tick => {
                            if self.report_due.q.val() & self.room.val() {
                                self.state.d.next = State::Announce;
                            } else {
                                self.state.d.next = State::Age;
                            }
                        }
                        RecordKind::Start => {
                            if self.room.val() {
                                self.state.d.next = State::Announce;
                            }
                        }
                        RecordKind::Stop => {
                            if self.room.val() {
                                self.state.d.next = State::Finish;
                            }
                        }
                        _ => {
                            self.state.d.next = State::Pass;
                            self.takes_next.next = true;
                        }
                    }
                }
            }
            State::Drop => {
                self.accounts.account.next = true;
                self.accounts.pass.next = self.intake.needs.val().timed;
                self.accounts.lose.next = true;
                self.intake.told_segment.next = self.intake.needs.val().segment;
                self.state.d.next = State::Examine;
            }
            State::Pass => {
                self.accounts.account.next = true;
                self.accounts.pass.next = self.intake.needs.val().timed;
                self.accounts.lose.next = self.intake.held.val().kind == RecordKind::Overrun;
                self.state.d.next = State::Examine;
            }
            State::Age => {
                self.aged.d.next = true;
                self.ticks.d.next = self.ticks.q.val() + 1;
                self.takes_next.next = true;
                self.state.d.next = State::Took;
            }
            State::Announce => {
                self.accounts.set_clock.next = self.intake.held.val().kind == RecordKind::Start;
                self.ticks.d.next = bits::<24>(0);
                self.report_due.d.next = false;
                self.kind.d.next = self.info_kind.val();
                self.state.d.next = State::Opening;
            }
            State::Finish => {
                self.kind.d.next = self.end_kind.val();
                self.state.d.next = State::Opening;
            }
            State::Opening => {
                self.stated.d.next = self.now.val();
                if self.kind.q.val() == self.data_kind.val() {
                    self.stated.d.next = self.accounts.base.val();
                }
                self.state.d.next = State::SyncFirst;
            }
            State::SyncFirst => {
                // A report's words are pushed two clocks after their index, one on every clock.
                self.index.d.next = self.index.q.val() + 1;
                self.port.source.next = Source::SyncFirst;
                self.port.push_word.next = true;
                self.state.d.next = State::SyncSecond;
            }
            State::SyncSecond => {
                self.index.d.next = self.index.q.val() + 1;
                self.port.source.next = Source::SyncSecond;
                self.port.push_word.next = true;
                self.state.d.next = State::Report;
                if self.kind.q.val() == self.data_kind.val() {
                    self.open.d.next = true;
                    self.state.d.next = State::Ready;
                }
            }
            State::Ready => {
                if self.packs.q.val() {
                    self.state.d.next = State::Examine;
                } else if self.intake.needs.val().known & self.full.q.val() {
                    self.state.d.next = State::Close;
                } else if self.intake.needs.val().skip {
                    self.state.d.next = State::TellTime;
                } else if self.intake.needs.val().segment {
                    self.state.d.next = State::TellSegment;
                } else if self.intake.needs.val().word {
                    if self.port.low_turn.val() {
                        self.state.d.next = State::FillWord;
                    } else if self.intake.needs.val().single {
                        // On its way already.
                        self.state.d.next = State::Ready;
                    } else if self.port.tight.val() {
                        self.state.d.next = State::Close;
                    } else {
                        self.state.d.next = State::FirstWord;
                        self.takes_next.next = !self.intake.needs.val().more;
                    }
                } else if self.intake.needs.val().known & !self.intake.needs.val().data {
                    self.state.d.next = State::Close;
                    if self.intake.needs.val().tick & !self.aged.q.val() & !self.report_due.q.val()
                    {
                        self.state.d.next = State::Age;
                    }
                }
            }
            State::TellTime => {
                self.port.push_half.next = true;
                self.port.half.next = self.empty_half.val() | bit_cast::<32, 25>(self.delta.val());
                self.accounts.pass.next = true;
                self.intake.told_time.next = true;
                self.state.d.next = State::Examine;
                if !self.intake.needs.val().data {
                    self.takes_next.next = true;
                    self.state.d.next = State::Took;
                }
            }
            State::TellSegment => {
                self.port.push_half.next = true;
                self.port.half.next = self.segment_half.val()
                    | (bit_cast::<32, 12>(self.value_segment.val()) << self.segment_at.val());
                self.intake.told_segment.next = true;
                self.state.d.next = State::Examine;
            }
            State::FillWord => {
                // A record that takes whole words comes.
                self.port.push_half.next = true;
                self.port.half.next = self.empty_half.val();
                self.state.d.next = State::Ready;
            }
            State::FirstWord => {
                self.port.push_word.next = true;
                self.port.source.next = self.intake.needs.val().source;
                self.index.d.next = bits::<6>(1);
                self.state.d.next = State::SecondWord;
                self.takes_next.next = !self.third.val();
                if !self.intake.needs.val().more {
                    self.accounts.account.next = true;
                    self.accounts.pass.next = self.intake.needs.val().timed;
                    self.state.d.next = State::Examine;
                    self.takes_next.next = false;
                }
            }
            State::SecondWord => {
                self.port.push_word.next = true;
                self.port.source.next = Source::Other;
                if self.intake.held.val().kind == RecordKind::Page {
                    self.port.source.next = Source::PageCounts;
                }
                self.accounts.account.next = true;
                self.accounts.pass.next = self.intake.needs.val().timed;
                self.index.d.next = bits::<6>(2);
                self.state.d.next = State::Examine;
                if self.third.val() {
                    self.takes_next.next = true;
                    self.state.d.next = State::ThirdWord;
                }
            }
            State::ThirdWord => {
                self.port.push_word.next = true;
                self.port.source.next = Source::Other;
                self.state.d.next = State::Examine;
            }
            State::Report => {
                self.port.push_word.next = true;
                self.port.source.next = Source::Other;
                self.index.d.next = self.index.q.val() + 1;
                if self.report_last.val() {
                    self.state.d.next = State::Closing;
                }
            }
            State::Close => {
                self.port.push_half.next = self.port.low_turn.val();
                self.port.half.next = self.empty_half.val();
                self.open.d.next = false;
                self.state.d.next = State::Closing;
            }
            State::Closing => {
                self.state.d.next = State::Describe;
            }
            State::Describe => {
                self.port.source.next = Source::Descriptor;
                self.port.describe.next = true;
                self.settle.d.next = bits::<4>(0);
                self.state.d.next = State::Settle;
            }
            State::Settle => {
                // `room` answers late to the new end of the block.
                self.settle.d.next = self.settle.q.val() + 1;
                if self.settle.q.val() == self.settle_clocks.val() {
                    self.port.restart.next = true;
                    self.state.d.next = State::Settled;
                    if self.kind.q.val() == self.info_kind.val() {
                        self.takes_next.next = true;
                        self.state.d.next = State::Took;
                    }
                }
            }
            State::Settled => {
                self.state.d.next = State::Idle;
                if self.kind.q.val() == self.end_kind.val() {
                    self.state.d.next = State::Settled;
                    if self.repeated.q.val() == self.last_repeat.val() {
                        self.takes_next.next = true;
                        self.state.d.next = State::Took;
                    } else if self.room.val() {
                        self.repeated.d.next = self.repeated.q.val() + 1;
                        self.state.d.next = State::Opening;
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
        self.intake.consumes.next = self.packs_next.val() | self.takes_next.val();
    }
}
