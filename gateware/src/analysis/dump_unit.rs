//! Tables to records: one dump after the other, each clearing what it sent.
//!
//! Every [`super::DUMP_TICKS`] ticks one of the 16 parts of the table of hot pages is dumped, with the
//! first part the counters as well; when the capture stops, or the analysis is turned off while it runs,
//! everything is. A dump opens with an Interval and closes with the number of its records; empty buckets
//! and counts of 0 are not sent.
//!
//! The traces go on meanwhile: a record is handed on when they hand on none, and each entry is taken out
//! of its table, which empties it, between two accesses. What would come into a part that is half dumped
//! is counted as skipped; while everything is dumped, whatever comes is. Those counts are taken before the
//! tables, so that what is skipped during a dump is told by the next one. One more follows when the
//! analysis is turned off while everything is dumped and accesses came meanwhile.
//!
//! ```text
//! clock    _/0\_/1\_/2\_/3\_ ... _/n\_ ...
//! state        Read Look Test Offer..Offer Sent..Sent Step
//! take         <A >                                         until granted
//! offers                     <A          >                  until taken
//! words                  <stand still                >
//! ```

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::Axis;
use hmtt_format::record::{self, CountGroup, other_count};
use rust_hdl::prelude::*;

use crate::reset::{ClearedRegister, Domain, Register};
use crate::statistics::{RecordKind, SlotClock};

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Idle,
    Flush,
    Settle,
    Read,
    Look,
    Test,
    Offer,
    Sent,
    Step,
    Done,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum What {
    Interval,
    HotPage,
    AccessesSkipped,
    RowsSkipped,
    RunsSkipped,
    Tally,
    Closing,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct DumpUnit {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// Dump.
    pub dump: Signal<In, Bit>,
    /// Everything.
    pub all: Signal<In, Bit>,
    /// The analysis is being turned off while the capture runs.
    pub turns_off: Signal<In, Bit>,
    /// An access comes to be analysed.
    pub access: Signal<In, Bit>,
    /// A tick passes.
    pub tick: Signal<In, Bit>,
    /// It is time for a dump, and none is under way.
    pub due: Signal<Out, Bit>,
    /// No dump is under way or asked for.
    pub dumped: Signal<Out, Bit>,
    /// Records may be handed on.
    pub flowing: Signal<In, Bit>,
    /// There is a record to hand on, and it may be.
    pub offers: Signal<Out, Bit>,
    /// Its kind.
    pub tell: Signal<Out, RecordKind>,
    /// It is taken on this clock.
    pub taken: Signal<In, Bit>,
    /// Kind of the record that the block writer holds.
    pub held: Signal<In, RecordKind>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// The second word is wanted.
    pub second: Signal<In, Bit>,
    /// Bits 63..32 of the record's word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0.
    pub low: Signal<Out, Bits<32>>,
    /// Hand on the run that has begun.
    pub flush: Signal<Out, Bit>,
    /// Forget what was used before.
    pub forget: Signal<Out, Bit>,
    /// Let no tally wait.
    pub drain: Signal<Out, Bit>,
    /// Everything is dumped: whatever comes is skipped.
    pub frozen: Signal<Out, Bit>,
    /// A part is dumped, `next_part`: what comes into it is skipped.
    pub blocks: Signal<Out, Bit>,
    /// Which entry.
    pub index: Signal<Out, Bits<8>>,
    /// Take the entry of the hot pages out.
    pub take_entry: Signal<Out, Bit>,
    /// It is taken out on this clock.
    pub entry_taken: Signal<In, Bit>,
    /// Take the tally out.
    pub take_tally: Signal<Out, Bit>,
    /// It is taken out on this clock.
    pub tally_taken: Signal<In, Bit>,
    /// Count the accesses skipped anew.
    pub clear_accesses: Signal<Out, Bit>,
    /// Count the row outcomes skipped anew.
    pub clear_rows: Signal<Out, Bit>,
    /// Count the runs skipped anew.
    pub clear_runs: Signal<Out, Bit>,
    /// First part not dumped in this round.
    pub next_part: Signal<Out, Bits<4>>,
    /// Which way that one spreads.
    pub turn: Signal<Out, Bit>,
    /// Hot pages and tallies have nothing on their way.
    pub settled: Signal<In, Bit>,
    /// Nor have the reuse distances.
    pub reuse_settled: Signal<In, Bit>,
    /// C of the entry taken out last.
    pub entry_count: Signal<In, Bits<27>>,
    /// V of the entry taken out last.
    pub entry_votes: Signal<In, Bits<27>>,
    /// Page of the entry taken out on the clock before.
    pub entry_page: Signal<In, Bits<28>>,
    /// The entry taken out two clocks before holds something.
    pub entry_used: Signal<In, Bit>,
    /// Tally taken out on the clock before.
    pub tally: Signal<In, Bits<28>>,
    /// Accesses skipped by the hot pages.
    pub accesses_skipped: Signal<In, Bits<23>>,
    /// Row outcomes skipped.
    pub rows_skipped: Signal<In, Bits<23>>,
    /// Runs skipped by the reuse distances.
    pub runs_skipped: Signal<In, Bits<23>>,
    state: Register<State>,
    what: Register<What>,
    at: Register<Bits<8>>,
    whole: Register<Bit>,
    number: Register<Bits<8>>,
    records: ClearedRegister<Bits<10>>,
    part: ClearedRegister<Bits<4>>,
    turned: Register<Bit>,
    ticks: ClearedRegister<Bits<16>>,
    is_due: Register<Bit>,
    all_due: Register<Bit>,
    /// Accesses came since the dump began; what it tells may not hold them.
    untold: Register<Bit>,
    waited: Register<Bits<4>>,
    /// An entry or a counter is asked for on this clock.
    asks_entry: Register<Bit>,
    asks_tally: Register<Bit>,
    first_high: Register<Bits<32>>,
    first_low: Register<Bits<32>>,
    used: Signal<Local, Bit>,
    busy: Signal<Local, Bit>,
    all_under_way: Signal<Local, Bit>,
    is_held: Signal<Local, Bit>,
    next: Signal<Local, Bit>,
    value: Signal<Local, Bits<32>>,
    head: Signal<Local, Bits<32>>,
    place: Signal<Local, Bits<32>>,
    table_state: Signal<Local, Bits<2>>,
    gaps: Signal<Local, Bits<8>>,
    tally_after: Signal<Local, Bits<8>>,
    part_end: Signal<Local, Bit>,
    clock_high: Signal<Local, Bits<24>>,
    interval_head: Constant<Bits<32>>,
    count_head: Constant<Bits<32>>,
    page_head: Constant<Bits<32>>,
    all_parts: Constant<Bits<32>>,
    other_place: Constant<Bits<32>>,
    rows_place: Constant<Bits<32>>,
    runs_place: Constant<Bits<32>>,
    closing_place: Constant<Bits<32>>,
    last_index: Constant<Bits<8>>,
    part_mask: Constant<Bits<8>>,
    bank_gaps: Constant<Bits<8>>,
    reuse_gaps: Constant<Bits<8>>,
    last_reuse: Constant<Bits<8>>,
    due_ticks: Constant<Bits<16>>,
}

/// Bits of a rank * 16 + bank no command of this memory sets, and so of a tally's index.
pub fn bank_gaps(memory: &MemoryDescription) -> u64 {
    let bits = |axis| (1u64 << memory.map.bits(axis)) - 1;
    !(0xc0 | bits(Axis::Rank) << 4 | bits(Axis::Bank)) & 0xff
}

impl DumpUnit {
    /// The unit for one memory; `ticks` from dump to dump.
    pub fn new(memory: &MemoryDescription, ticks: u64) -> Self {
        let head = |kind: u32| {
            Constant::new(u64::from(record::WORD_ESCAPE | kind << record::KIND_AT).into())
        };
        let other = |index: u16| {
            let place = (CountGroup::Other as u32) << record::GROUP_AT | u32::from(index);
            Constant::new(u64::from(place).into())
        };
        let all_parts = u32::from(record::ALL_PARTS) << record::INTERVAL_PART_AT;
        block! {
            Self {
                interval_head: head(record::KIND_INTERVAL),
                count_head: head(record::KIND_COUNT),
                page_head: head(record::KIND_HOT_PAGE),
                all_parts: Constant::new(u64::from(all_parts).into()),
                other_place: other(other_count::ACCESSES_SKIPPED),
                rows_place: other(other_count::ROWS_SKIPPED),
                runs_place: other(other_count::RUNS_SKIPPED),
                closing_place: other(other_count::CLOSING),
                last_index: Constant::new(255u64.into()),
                part_mask: Constant::new(15u64.into()),
                bank_gaps: Constant::new(bank_gaps(memory).into()),
                reuse_gaps: Constant::new(0x30u64.into()),
                last_reuse: Constant::new(0xcfu64.into()),
                due_ticks: Constant::new(ticks.into()),
            }
            default: clock, dump, all, turns_off, access, tick, due, dumped, flowing, offers, tell,
                taken, held, now, second, high, low, flush, forget, drain, frozen, blocks, index,
                take_entry, entry_taken, take_tally, tally_taken, clear_accesses, clear_rows,
                clear_runs, next_part, turn, settled, reuse_settled, entry_count, entry_votes,
                entry_page, entry_used, tally, accesses_skipped, rows_skipped, runs_skipped, state,
                what, at, whole, number, records, part, turned, ticks, is_due, all_due, untold,
                waited, asks_entry, asks_tally, first_high, first_low, used, busy, all_under_way,
                is_held, next, value, head, place, table_state, gaps, tally_after, part_end,
                clock_high
        }
    }
}

impl Logic for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, what, at, whole, number, records, part, turned, ticks, is_due,
            all_due, untold, waited, asks_entry, asks_tally, first_high, first_low
        );
        self.busy.next = self.state.q.val() != State::Idle;
        self.all_under_way.next = self.busy.val() & self.whole.q.val();
        self.is_due.d.next = self.ticks.q.val() >= self.due_ticks.val();
        self.due.next = self.is_due.q.val() & !self.busy.val() & !self.all_due.q.val();
        if self.tick.val() & !self.is_due.q.val() {
            self.ticks.d.next = self.ticks.q.val() + 1;
        }
        if self.dump.val() {
            self.ticks.d.next = bits::<16>(0);
            self.is_due.d.next = false;
        }
        self.dumped.next = !self.busy.val() & !self.all_due.q.val() & !self.dump.val();
        self.index.next = self.at.q.val();
        self.next_part.next = self.part.q.val();
        self.turn.next = self.turned.q.val();
        self.frozen.next = self.all_due.q.val() | self.all_under_way.val();
        self.blocks.next = self.busy.val() & !self.whole.q.val();
        self.drain.next = (self.state.q.val() == State::Settle) & self.whole.q.val();

        // The words of the record that is told, as they are when it is taken out of its table.
        self.clock_high.next = self.now.val().high;
        self.table_state.next = self.at.q.val().get_bits::<2>(6);
        self.value.next = bit_cast::<32, 28>(self.tally.val());
        self.head.next = self.count_head.val() | (bit_cast::<32, 8>(self.number.q.val()) << 14);
        // Banks have 6 bits, reuse buckets 4: beside the group they fit its index as they are.
        self.place.next = (bit_cast::<32, 2>(self.table_state.val()) << 10)
            | bit_cast::<32, 6>(self.at.q.val().get_bits::<6>(0));
        self.used.next = self.first_low.q.val() != 0;
        match self.what.q.val() {
            What::HotPage => {
                self.used.next = self.entry_used.val();
                self.value.next = bit_cast::<32, 28>(self.entry_page.val());
                self.head.next =
                    self.page_head.val() | (bit_cast::<32, 8>(self.number.q.val()) << 14);
                self.place.next = bits::<32>(0);
            }
            What::Interval => {
                self.value.next = (bit_cast::<32, 8>(self.clock_high.val().get_bits::<8>(0)) << 24)
                    | bit_cast::<32, 24>(self.now.val().low);
                self.head.next = self.interval_head.val()
                    | bit_cast::<32, 16>(self.clock_high.val().get_bits::<16>(8));
                self.place.next = bit_cast::<32, 4>(self.part.q.val()) << 16;
                if self.whole.q.val() {
                    self.place.next = self.all_parts.val();
                }
            }
            What::AccessesSkipped => {
                self.value.next = bit_cast::<32, 23>(self.accesses_skipped.val());
                self.place.next = self.other_place.val();
            }
            What::RowsSkipped => {
                self.value.next = bit_cast::<32, 23>(self.rows_skipped.val());
                self.place.next = self.rows_place.val();
            }
            What::RunsSkipped => {
                self.value.next = bit_cast::<32, 23>(self.runs_skipped.val());
                self.place.next = self.runs_place.val();
            }
            What::Closing => {
                self.used.next = true;
                self.value.next = bit_cast::<32, 10>(self.records.q.val());
                self.place.next = self.closing_place.val();
            }
            _ => {}
        }
        if (self.state.q.val() == State::Look) | (self.state.q.val() == State::Flush) {
            self.first_high.d.next = self.head.val() | self.place.val();
            self.first_low.d.next = self.value.val();
        }
        self.high.next = self.first_high.q.val();
        self.low.next = self.first_low.q.val();
        if self.second.val() {
            self.high.next = bit_cast::<32, 27>(self.entry_count.val());
            self.low.next = bit_cast::<32, 27>(self.entry_votes.val());
        }

        self.flush.next = false;
        self.forget.next = false;
        self.take_entry.next = self.asks_entry.q.val();
        self.take_tally.next = self.asks_tally.q.val();
        self.asks_entry.d.next = false;
        self.asks_tally.d.next = false;
        self.clear_accesses.next = false;
        self.clear_rows.next = false;
        self.clear_runs.next = false;
        self.offers.next = (self.state.q.val() == State::Offer) & self.flowing.val();
        self.tell.next = RecordKind::Count;
        if self.what.q.val() == What::HotPage {
            self.tell.next = RecordKind::HotPage;
        }
        self.next.next = false;
        self.is_held.next =
            (self.held.val() == RecordKind::Count) | (self.held.val() == RecordKind::HotPage);
        match self.state.q.val() {
            State::Idle => {
                self.whole.d.next = self.all_due.q.val();
                self.what.d.next = What::Interval;
                self.records.d.next = bits::<10>(0);
                self.waited.d.next = bits::<4>(0);
                if self.all_due.q.val() | (self.dump.val() & !self.all.val()) {
                    self.all_due.d.next = false;
                    self.state.d.next = State::Flush;
                }
            }
            State::Flush => {
                self.flush.next = true;
                self.state.d.next = State::Settle;
            }
            State::Settle => {
                self.at.d.next = bit_cast::<8, 4>(self.part.q.val()) << 4;
                // Sixteen clocks are more than a run takes to its bucket.
                self.waited.d.next = self.waited.q.val() + 1;
                if self.whole.q.val() {
                    self.at.d.next = bits::<8>(0);
                    if self.settled.val() & self.reuse_settled.val() {
                        self.forget.next = true;
                        self.state.d.next = State::Offer;
                    }
                } else if self.waited.q.val() == 15 {
                    self.state.d.next = State::Offer;
                }
            }
            State::Read => {
                self.state.d.next = State::Look;
                if self.what.q.val() == What::HotPage {
                    self.asks_entry.d.next = !self.entry_taken.val();
                    if !self.entry_taken.val() {
                        self.state.d.next = State::Read;
                    }
                } else if self.what.q.val() == What::Tally {
                    self.asks_tally.d.next = !self.tally_taken.val();
                    if !self.tally_taken.val() {
                        self.state.d.next = State::Read;
                    }
                }
            }
            State::Look => {
                self.state.d.next = State::Test;
                match self.what.q.val() {
                    What::AccessesSkipped => {
                        self.clear_accesses.next = true;
                    }
                    What::RowsSkipped => {
                        self.clear_rows.next = true;
                    }
                    What::RunsSkipped => {
                        self.clear_runs.next = true;
                    }
                    _ => {}
                }
            }
            State::Test => {
                self.state.d.next = State::Step;
                if self.used.val() {
                    self.state.d.next = State::Offer;
                }
            }
            State::Offer => {
                if self.taken.val() {
                    self.state.d.next = State::Sent;
                }
            }
            State::Sent => {
                // The block writer asks for the words as long as it holds the record.
                if !self.is_held.val() {
                    self.records.d.next = self.records.q.val() + 1;
                    self.state.d.next = State::Step;
                }
            }
            State::Step => {
                self.next.next = true;
            }
            State::Done => {
                self.number.d.next = self.number.q.val() + 1;
                self.part.d.next = self.part.q.val() + 1;
                if self.part.q.val() == 15 {
                    self.turned.d.next = !self.turned.q.val();
                }
                if self.whole.q.val() {
                    self.part.d.next = bits::<4>(0);
                    self.turned.d.next = !self.turned.q.val();
                }
                self.state.d.next = State::Idle;
            }
            _ => {
                self.state.d.next = State::Idle;
            }
        }
        if self.access.val() {
            self.untold.d.next = true;
        } else if self.state.q.val() == State::Idle {
            self.untold.d.next = false;
        }
        if (self.dump.val() & self.all.val())
            | (self.turns_off.val() & (!self.all_under_way.val() | self.untold.q.val()))
        {
            self.all_due.d.next = true;
        }

        // From one table to the next.
        self.part_end.next = (self.at.q.val() & self.part_mask.val()) == self.part_mask.val();
        // Counts through the bits an index can have, as if the others were not there.
        self.gaps.next = self.bank_gaps.val();
        if self.table_state.val() == 3 {
            self.gaps.next = self.reuse_gaps.val();
        }
        self.tally_after.next = (self.at.q.val() | self.gaps.val()) + 1;
        if self.next.val() {
            self.state.d.next = State::Read;
            match self.what.q.val() {
                What::Interval => {
                    self.what.d.next = What::AccessesSkipped;
                }
                What::AccessesSkipped => {
                    self.what.d.next = What::RowsSkipped;
                }
                What::RowsSkipped => {
                    self.what.d.next = What::RunsSkipped;
                }
                What::RunsSkipped => {
                    self.what.d.next = What::HotPage;
                    self.asks_entry.d.next = true;
                }
                What::HotPage => {
                    self.at.d.next = self.at.q.val() + 1;
                    self.asks_entry.d.next = true;
                    if self.part_end.val()
                        & (!self.whole.q.val() | (self.at.q.val() == self.last_index.val()))
                    {
                        self.at.d.next = bits::<8>(0);
                        self.asks_entry.d.next = false;
                        self.what.d.next = What::Closing;
                        if self.whole.q.val() | (self.part.q.val() == 0) {
                            self.what.d.next = What::Tally;
                            self.asks_tally.d.next = true;
                        }
                    }
                }
                What::Tally => {
                    self.at.d.next =
                        self.tally_after.val() & (self.gaps.val() ^ self.last_index.val());
                    self.asks_tally.d.next = true;
                    if self.at.q.val() == self.last_reuse.val() {
                        self.asks_tally.d.next = false;
                        self.what.d.next = What::Closing;
                    }
                }
                _ => {
                    self.state.d.next = State::Done;
                }
            }
        }
    }
}
