//! Words to blocks: decides where each frame starts and ends and writes it to the packet FIFO.
//!
//! A block is opened only when the FIFO has room for the longest one, so once open it never runs out.
//! It starts with a sync of the state before its first word ([`hmtt_format::frame::Sync`]) and is
//! closed when it holds the threshold's words, when it has waited for a whole tick, or when settings
//! change. Words that find no room are counted, and the next sync carries the count: that is where a
//! loss shows, between the last record before and the first after. Reports ([`super::report_words`]) are
//! blocks of their own: at start and after every change of settings, once a second, and three times at
//! the end.
//!
//! Each block lies in the FIFO behind one descriptor word, which is written last: the payload header
//! of its frame in the low half.

use hmtt_format::block::UNIT_NONE;
use hmtt_format::config::Mode;
use hmtt_format::frame::{END_REPEATS, FrameKind, MAX_WORDS};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{FORMAT_VERSION, MemoryDescription, frame};
use rust_hdl::prelude::*;

use super::counters::Totals;
use super::report_words::ReportWords;
use super::{FramedWord, WordKind};
use crate::config::Settings;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitWord,
    SyncFirst,
    SyncSecond,
    Open,
    Report,
    Describe,
    Settle,
    Settling,
    Settled,
}

/// See the module's description. `N`: log2 of the FIFO's words.
#[derive(LogicBlock)]
pub struct Framer<const N: usize> {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// The word; `Nothing` when there is none.
    pub word: Signal<In, FramedWord>,
    /// The word was taken.
    pub taken: Signal<Out, Bit>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// Time slices are wanted.
    pub slices: Signal<In, Bit>,
    /// The capture runs.
    pub running: Signal<In, Bit>,
    /// Totals for reports.
    pub totals: Signal<In, Totals>,
    /// The FIFO has room for the longest block.
    pub room: Signal<In, Bit>,
    /// Write a word to the FIFO.
    pub write: Signal<Out, Bit>,
    /// Where.
    pub write_address: Signal<Out, Bits<N>>,
    /// Bits 63..32.
    pub write_high: Signal<Out, Bits<32>>,
    /// Bits 31..0.
    pub write_low: Signal<Out, Bits<32>>,
    /// End of the last complete block.
    pub committed: Signal<Out, Bits<N>>,
    /// No block is open.
    pub idle: Signal<Out, Bit>,
    /// A record was lost, ever.
    pub lossy: Signal<Out, Bit>,
    report: ReportWords,
    state: DFF<State>,
    start: DFF<Bits<N>>,
    count: DFF<Bits<8>>,
    kind: DFF<Bits<4>>,
    repeated: DFF<Bits<2>>,
    aged: DFF<Bit>,
    ticks: DFF<Bits<24>>,
    index: DFF<Bits<6>>,
    accesses: DFF<Bits<32>>,
    accesses_high: DFF<Bits<8>>,
    lost: DFF<Bits<24>>,
    offset: Signal<Local, Bits<N>>,
    unit: Signal<Local, Bits<32>>,
    account: Signal<Local, Bit>,
    lose: Signal<Local, Bit>,
    take: Signal<Local, Bit>,
    sum: Signal<Local, Bits<32>>,
    after: Signal<Local, Bits<8>>,
    needed: Signal<Local, Bits<8>>,
    full: Signal<Local, Bit>,
    no_space: Signal<Local, Bit>,
    report_due: Signal<Local, Bit>,
    next_count: Signal<Local, Bits<8>>,
    line_log2: Constant<Bits<32>>,
    burst_log2: Constant<Bits<32>>,
    page_log2: Constant<Bits<32>>,
    no_unit: Constant<Bits<32>>,
    line_mode: Constant<Bits<2>>,
    page_mode: Constant<Bits<2>>,
    unit_at: Constant<Bits<5>>,
    segment_at: Constant<Bits<5>>,
    lost_at: Constant<Bits<5>>,
    max_words: Constant<Bits<8>>,
    version_word: Constant<Bits<32>>,
    data_kind: Constant<Bits<4>>,
    info_kind: Constant<Bits<4>>,
    end_kind: Constant<Bits<4>>,
    end_repeats: Constant<Bits<2>>,
    second: Constant<Bits<24>>,
}

impl<const N: usize> Framer<N> {
    /// A framer for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        let kind = |kind: FrameKind| Constant::new((kind as u64).into());
        let tick_ps = u64::from(memory.tick_clocks) * u64::from(memory.tck_ps);
        Self {
            clock: Default::default(),
            word: Default::default(),
            taken: Default::default(),
            settings: Default::default(),
            slices: Default::default(),
            running: Default::default(),
            totals: Default::default(),
            room: Default::default(),
            write: Default::default(),
            write_address: Default::default(),
            write_high: Default::default(),
            write_low: Default::default(),
            committed: Default::default(),
            idle: Default::default(),
            lossy: Default::default(),
            report: ReportWords::new(memory),
            state: Default::default(),
            start: Default::default(),
            count: Default::default(),
            kind: Default::default(),
            repeated: Default::default(),
            aged: Default::default(),
            ticks: Default::default(),
            index: Default::default(),
            accesses: Default::default(),
            accesses_high: Default::default(),
            lost: Default::default(),
            offset: Default::default(),
            unit: Default::default(),
            account: Default::default(),
            lose: Default::default(),
            take: Default::default(),
            sum: Default::default(),
            after: Default::default(),
            needed: Default::default(),
            full: Default::default(),
            no_space: Default::default(),
            report_due: Default::default(),
            next_count: Default::default(),
            line_log2: word(memory.line_log2.into()),
            burst_log2: word(memory.burst_log2().into()),
            page_log2: word(PAGE_LOG2.into()),
            no_unit: word(UNIT_NONE.into()),
            line_mode: Constant::new((Mode::Line as u64).into()),
            page_mode: Constant::new((Mode::Page as u64).into()),
            unit_at: place(frame::SYNC_UNIT_AT),
            segment_at: place(frame::SYNC_SEGMENT_AT),
            lost_at: place(frame::SYNC_LOST_AT),
            max_words: Constant::new(u64::from(MAX_WORDS).into()),
            version_word: word(u32::from(FORMAT_VERSION) << 28),
            data_kind: kind(FrameKind::Data),
            info_kind: kind(FrameKind::Info),
            end_kind: kind(FrameKind::End),
            end_repeats: Constant::new(u64::from(END_REPEATS - 1).into()),
            second: Constant::new((1_000_000_000_000 / tick_ps).clamp(1, 0xff_ffff).into()),
        }
    }
}

impl<const N: usize> Logic for Framer<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            start,
            count,
            kind,
            repeated,
            aged,
            ticks,
            index,
            accesses,
            accesses_high,
            lost
        );
        self.report.index.next = self.index.q.val();
        self.report.settings.next = self.settings.val();
        self.report.slices.next = self.slices.val();
        self.report.running.next = self.running.val();
        self.report.totals.next = self.totals.val();
        self.idle.next =
            (self.state.q.val() == State::AwaitWord) & (self.word.val().kind == WordKind::Nothing);
        self.committed.next = self.start.q.val();
        self.lossy.next = self.lost.q.val() != 0;

        self.unit.next = self.no_unit.val();
        if self.settings.val().mode == self.page_mode.val() {
            self.unit.next = self.page_log2.val();
        } else if self.settings.val().mode == self.line_mode.val() {
            self.unit.next = self.line_log2.val();
            if self.settings.val().burst {
                self.unit.next = self.burst_log2.val();
            }
        }
        self.report_due.next = self.ticks.q.val() >= self.second.val();
        self.take.next = false;
        self.account.next = false;
        self.lose.next = false;
        self.write.next = false;
        self.write_high.next = bits::<32>(0);
        self.write_low.next = bits::<32>(0);
        self.offset.next = bit_cast::<N, 8>(self.count.q.val());
        self.write_address.next = self.start.q.val() + self.offset.val() + 1;
        self.next_count.next = self.count.q.val() + 1;
        self.needed.next = bit_cast::<8, 2>(self.word.val().more);
        self.after.next = self.next_count.val() + self.needed.val();
        self.no_space.next = self.after.val() > self.max_words.val();
        self.full.next = (self.next_count.val() >= self.settings.val().threshold)
            | (self.next_count.val() >= self.max_words.val());

        match self.state.q.val() {
            State::AwaitWord => {
                self.count.d.next = bits::<8>(0);
                self.repeated.d.next = bits::<2>(0);
                self.aged.d.next = false;
                self.index.d.next = bits::<6>(0);
                self.kind.d.next = self.data_kind.val();
                match self.word.val().kind {
                    WordKind::Nothing => {}
                    WordKind::Data => {
                        if self.room.val() & self.word.val().first {
                            self.state.d.next = State::SyncFirst;
                        } else {
                            self.take.next = true;
                            self.account.next = self.word.val().first;
                            self.lose.next = self.word.val().first;
                        }
                    }
                    WordKind::Tick => {
                        if self.report_due.val() & self.room.val() {
                            self.kind.d.next = self.info_kind.val();
                            self.ticks.d.next = bits::<24>(0);
                            self.state.d.next = State::SyncFirst;
                        } else {
                            self.ticks.d.next = self.ticks.q.val() + 1;
                            self.take.next = true;
                        }
                    }
                    WordKind::Start => {
                        self.kind.d.next = self.info_kind.val();
                        self.ticks.d.next = bits::<24>(0);
                        if self.room.val() {
                            self.state.d.next = State::SyncFirst;
                        }
                    }
                    WordKind::Stop => {
                        self.kind.d.next = self.end_kind.val();
                        if self.room.val() {
                            self.state.d.next = State::SyncFirst;
                        }
                    }
                    WordKind::Overrun => {
                        self.take.next = true;
                        self.account.next = true;
                        self.lose.next = true;
                    }
                    _ => {
                        self.take.next = true;
                    }
                }
            }
            State::SyncFirst => {
                self.write.next = true;
                self.write_high.next = (self.unit.val() << self.unit_at.val())
                    | (bit_cast::<32, 12>(self.word.val().segment) << self.segment_at.val())
                    | bit_cast::<32, 16>(self.word.val().clock_high);
                self.write_low.next = self.word.val().clock;
                self.count.d.next = self.next_count.val();
                self.state.d.next = State::SyncSecond;
            }
            State::SyncSecond => {
                self.write.next = true;
                self.write_high.next = (bit_cast::<32, 24>(self.lost.q.val())
                    << self.lost_at.val())
                    | bit_cast::<32, 8>(self.accesses_high.q.val());
                self.write_low.next = self.accesses.q.val();
                self.count.d.next = self.next_count.val();
                self.state.d.next = State::Open;
                if self.kind.q.val() != self.data_kind.val() {
                    self.state.d.next = State::Report;
                }
            }
            State::Open => match self.word.val().kind {
                WordKind::Nothing => {}
                WordKind::Data => {
                    if self.word.val().first & self.no_space.val() {
                        self.state.d.next = State::Describe;
                    } else {
                        self.write.next = true;
                        self.write_high.next = self.word.val().high;
                        self.write_low.next = self.word.val().low;
                        self.count.d.next = self.next_count.val();
                        self.take.next = true;
                        self.account.next = self.word.val().first;
                        if self.full.val() & (self.word.val().more == 0) {
                            self.state.d.next = State::Describe;
                        }
                    }
                }
                WordKind::Tick => {
                    self.aged.d.next = true;
                    if self.aged.q.val() | self.report_due.val() {
                        self.state.d.next = State::Describe;
                    } else {
                        self.take.next = true;
                        self.ticks.d.next = self.ticks.q.val() + 1;
                    }
                }
                _ => {
                    self.state.d.next = State::Describe;
                }
            },
            State::Report => {
                self.write.next = true;
                self.write_high.next = self.report.high.val();
                self.write_low.next = self.report.low.val();
                self.count.d.next = self.next_count.val();
                self.index.d.next = self.index.q.val() + 1;
                if self.report.last.val() {
                    self.state.d.next = State::Describe;
                }
            }
            State::Describe => {
                self.write.next = true;
                self.write_address.next = self.start.q.val();
                self.write_low.next = self.version_word.val()
                    | (bit_cast::<32, 4>(self.kind.q.val()) << 24)
                    | (bit_cast::<32, 8>(self.count.q.val()) << 16)
                    | bit_cast::<32, 16>(self.lost.q.val().get_bits::<16>(0));
                self.start.d.next = self.start.q.val() + self.offset.val() + 1;
                self.count.d.next = bits::<8>(0);
                self.state.d.next = State::Settle;
            }
            State::Settle => {
                // `room` answers to the new end of the block `ROOM_LATENCY` clocks later.
                self.state.d.next = State::Settling;
            }
            State::Settling => {
                self.state.d.next = State::Settled;
            }
            State::Settled => {
                self.index.d.next = bits::<6>(0);
                self.state.d.next = State::AwaitWord;
                if self.kind.q.val() == self.info_kind.val() {
                    self.take.next = true;
                }
                if self.kind.q.val() == self.end_kind.val() {
                    if self.repeated.q.val() == self.end_repeats.val() {
                        self.take.next = true;
                    } else {
                        self.state.d.next = State::Settled;
                        if self.room.val() {
                            self.repeated.d.next = self.repeated.q.val() + 1;
                            self.state.d.next = State::SyncFirst;
                        }
                    }
                }
            }
            _ => {
                self.state.d.next = State::AwaitWord;
            }
        }

        self.sum.next = self.accesses.q.val() + self.word.val().accesses;
        if self.account.val() {
            self.accesses.d.next = self.sum.val();
            if self.sum.val() < self.accesses.q.val() {
                self.accesses_high.d.next = self.accesses_high.q.val() + 1;
            }
        }
        if self.lose.val() {
            self.lost.d.next = self.lost.q.val() + bit_cast::<24, 8>(self.word.val().records);
            if self.word.val().kind == WordKind::Overrun {
                self.lost.d.next = self.lost.q.val()
                    + bit_cast::<24, 8>(self.word.val().records)
                    + bit_cast::<24, 32>(self.word.val().accesses);
            }
        }
        self.taken.next = self.take.val();
    }
}
