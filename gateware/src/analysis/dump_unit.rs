//! Sends the tables of the analysis as records, one dump after the other, and clears the sent
//! entries.
//!
//! Its records go to the block writer when the traces have none. The table of hot pages has 16
//! parts. After every [`super::DUMP_TICKS`] ticks one part is sent, and with the first part also
//! the counters. When the capture stops, or the analysis is turned off during a capture, all tables
//! are sent. A dump begins with an Interval and ends with the number of its records. Empty buckets
//! and counts of 0 are not sent.
//!
//! Each entry is read and emptied between two accesses, so the traces never wait. While a part is
//! sent, accesses to this part are counted as skipped. While all tables are sent, all accesses are
//! counted as skipped. The counts of skipped events are sent before the tables, so events that are
//! skipped during a dump are counted in the next dump. If accesses arrive while all tables are sent
//! because the analysis was turned off, one more dump follows.
//!
//! ```text
//! clock      _/0\_/1\_/2\_ ... _/n\_/n+1\_ ...
//! state        AwaitEntry   KeepWords CheckUsed AwaitTaken AwaitSent Step
//! take_entry   <until entry_taken>                                         the entry is read and emptied
//! offers                                        <until taken>
//! high, low                           <do not change              >
//! ```
//!
//! ```text
//! AwaitDump -> EndRun -> AwaitSettled -> AwaitTaken -> AwaitSent -> Step -- after the last --> Done -> AwaitDump
//!                                            ^                      ^  |
//!                                  not empty |                empty |  | next entry
//!                                            +------ CheckUsed -----+  |
//!                                                        ^             v
//!                                                    KeepWords <-- AwaitEntry
//! ```
//!
//! ```text
//! State         waits for                        does                            next
//! AwaitDump     `dump`, or a dump of all tables                                  EndRun
//! EndRun                                         ends the current run of pages   AwaitSettled
//! AwaitSettled  all tables: idle units;          (words: the interval)           AwaitTaken
//!               a part: 16 clocks
//! AwaitEntry    the entry or counter             requests it                     KeepWords
//! KeepWords                                      keeps the record's first word   CheckUsed
//! CheckUsed                                                                      AwaitTaken; empty: Step
//! AwaitTaken    the block writer                 offers the record               AwaitSent
//! AwaitSent     end of its use                   counts the record               Step
//! Step                                           goes to the next entry          AwaitEntry; after the last: Done
//! Done                                           goes to the next part           AwaitDump
//! ```
//!
//! The update has four parts: `schedule` (when a dump is due), `words` (the output), `sequence`
//! (the state machine) and `position` (which entry is next).

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::Axis;
use hmtt_format::record::{self, CountGroup, HOT_BUCKETS_LOG2, HOT_PARTS_LOG2, other_count};
use rust_hdl::prelude::*;

use super::TABLE_AT;
use crate::record::RecordKind;
use crate::reset::{ClearedRegister, Domain, Register};
use crate::statistics::SlotClock;

use position::Position;
use schedule::Schedule;
use sequence::Sequence;
use words::Words;

mod position;
mod schedule;
mod sequence;
mod words;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitDump,
    EndRun,
    AwaitSettled,
    AwaitEntry,
    KeepWords,
    CheckUsed,
    AwaitTaken,
    AwaitSent,
    Step,
    Done,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum Content {
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
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Begin a dump.
    pub dump: Signal<In, Bit>,
    /// With `dump`: the dump has all tables.
    pub all: Signal<In, Bit>,
    /// The analysis is being turned off while the capture runs.
    pub turns_off: Signal<In, Bit>,
    /// An access is analysed.
    pub access: Signal<In, Bit>,
    /// A tick passes.
    pub tick: Signal<In, Bit>,
    /// A dump is due, and none is in progress.
    pub due: Signal<Out, Bit>,
    /// No dump is in progress or requested.
    pub dumped: Signal<Out, Bit>,
    /// Records may be passed on.
    pub may_send: Signal<In, Bit>,
    /// There is a record, and it may be passed on.
    pub offers: Signal<Out, Bit>,
    /// Kind of the record.
    pub record_kind: Signal<Out, RecordKind>,
    /// The record is taken on this clock.
    pub taken: Signal<In, Bit>,
    /// Kind of the record that the block writer has.
    pub held: Signal<In, RecordKind>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// The second word is wanted.
    pub second: Signal<In, Bit>,
    /// Bits 63..32 of the record's word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of the record's word.
    pub low: Signal<Out, Bits<32>>,
    /// End the current run of pages.
    pub flush: Signal<Out, Bit>,
    /// Clear the order of use.
    pub clear_order: Signal<Out, Bit>,
    /// Store all outcomes and distances that wait.
    pub drain: Signal<Out, Bit>,
    /// All tables are dumped: all events are skipped.
    pub frozen: Signal<Out, Bit>,
    /// Part `next_part` is dumped: runs into it are skipped.
    pub part_frozen: Signal<Out, Bit>,
    /// Index of the entry.
    pub index: Signal<Out, Bits<8>>,
    /// Read and empty the entry of the hot pages.
    pub take_entry: Signal<Out, Bit>,
    /// The entry is read on this clock.
    pub entry_taken: Signal<In, Bit>,
    /// Read and empty the counter.
    pub take_tally: Signal<Out, Bit>,
    /// The counter is read on this clock.
    pub tally_taken: Signal<In, Bit>,
    /// Restart the count of skipped accesses.
    pub clear_accesses: Signal<Out, Bit>,
    /// Restart the count of skipped row outcomes.
    pub clear_rows: Signal<Out, Bit>,
    /// Restart the count of skipped runs.
    pub clear_runs: Signal<Out, Bit>,
    /// First part that was not dumped in this round.
    pub next_part: Signal<Out, Bits<4>>,
    /// Selects the spread function of part `next_part`.
    pub spread_select: Signal<Out, Bit>,
    /// Hot pages and tallies are idle.
    pub settled: Signal<In, Bit>,
    /// The reuse distances are idle.
    pub reuse_settled: Signal<In, Bit>,
    /// C of the last entry.
    pub entry_count: Signal<In, Bits<27>>,
    /// V of the last entry.
    pub entry_votes: Signal<In, Bits<27>>,
    /// Page of the entry that was read on the clock before.
    pub entry_page: Signal<In, Bits<28>>,
    /// The entry that was read two clocks before is not empty.
    pub entry_used: Signal<In, Bit>,
    /// Counter that was read on the clock before.
    pub tally: Signal<In, Bits<28>>,
    /// Accesses that the hot pages skipped.
    pub accesses_skipped: Signal<In, Bits<23>>,
    /// Row outcomes that were skipped.
    pub rows_skipped: Signal<In, Bits<23>>,
    /// Runs that the reuse distances skipped.
    pub runs_skipped: Signal<In, Bits<23>>,
    state: Register<State>,
    content: Register<Content>,
    table_index: Register<Bits<8>>,
    all_tables: Register<Bit>,
    number: Register<Bits<8>>,
    records: ClearedRegister<Bits<10>>,
    part: ClearedRegister<Bits<4>>,
    selected_spread: Register<Bit>,
    ticks: ClearedRegister<Bits<16>>,
    is_due: Register<Bit>,
    all_due: Register<Bit>,
    /// Accesses were analysed since the dump began; the dump may not contain these accesses.
    access_during_dump: Register<Bit>,
    waited: Register<Bits<4>>,
    /// An entry is requested on this clock.
    requests_entry: Register<Bit>,
    requests_tally: Register<Bit>,
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
    unused_bits: Signal<Local, Bits<8>>,
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
    unused_bank_bits: Constant<Bits<8>>,
    unused_reuse_bits: Constant<Bits<8>>,
    last_reuse: Constant<Bits<8>>,
    due_ticks: Constant<Bits<16>>,
    dump_at: Constant<Bits<5>>,
    group_at: Constant<Bits<5>>,
    part_at: Constant<Bits<5>>,
    /// Bits of `SlotClock::low`.
    clock_low_bits: Constant<Bits<5>>,
    /// Bits of `SlotClock::high` in the low half of an interval.
    clock_mid_bits: Constant<Bits<5>>,
    /// Place of the table in the index of a tally.
    table_at: Constant<Bits<4>>,
    bucket_bits: Constant<Bits<4>>,
    reuse_table: Constant<Bits<2>>,
    last_part: Constant<Bits<4>>,
    last_wait: Constant<Bits<4>>,
}

/// Bits of the table; all are set for the last one, the reuse distances.
const TABLE_MASK: u64 = 3 << TABLE_AT;
/// Bits of the index within a table.
const INDEX_MASK: u64 = (1 << TABLE_AT) - 1;

/// Returns the bits of rank * 16 + bank, the index of a tally, that no command of this memory sets.
pub fn unused_bank_bits(memory: &MemoryDescription) -> u64 {
    let bits = |axis| (1u64 << memory.map.bits(axis)) - 1;
    !(TABLE_MASK | bits(Axis::Rank) << 4 | bits(Axis::Bank)) & 0xff
}

impl DumpUnit {
    /// Builds the unit for one memory, with `ticks` from one dump to the next.
    pub fn new(memory: &MemoryDescription, ticks: u64) -> Self {
        let head = |kind: u32| {
            Constant::new(u64::from(record::WORD_ESCAPE | kind << record::KIND_AT).into())
        };
        let other = |index: u16| {
            let value = (CountGroup::Other as u32) << record::GROUP_AT | u32::from(index);
            Constant::new(u64::from(value).into())
        };
        let place = |bits: u32| Constant::new(u64::from(bits).into());
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
                last_index: Constant::new(((1u64 << (HOT_PARTS_LOG2 + HOT_BUCKETS_LOG2)) - 1).into()),
                part_mask: Constant::new(((1u64 << HOT_BUCKETS_LOG2) - 1).into()),
                unused_bank_bits: Constant::new(unused_bank_bits(memory).into()),
                unused_reuse_bits: Constant::new((INDEX_MASK & !u64::from(record::REUSE_COLD)).into()),
                last_reuse: Constant::new((TABLE_MASK | u64::from(record::REUSE_COLD)).into()),
                due_ticks: Constant::new(ticks.into()),
                dump_at: place(record::DUMP_AT),
                group_at: place(record::GROUP_AT),
                part_at: place(record::INTERVAL_PART_AT),
                clock_low_bits: place(SlotClock::LOW_BITS),
                clock_mid_bits: place(u32::BITS - SlotClock::LOW_BITS),
                table_at: Constant::new(u64::from(TABLE_AT).into()),
                bucket_bits: Constant::new(u64::from(HOT_BUCKETS_LOG2).into()),
                reuse_table: Constant::new((CountGroup::Reuse as u64).into()),
                last_part: Constant::new(((1u64 << HOT_PARTS_LOG2) - 1).into()),
                // Sixteen clocks are more than a run takes to its bucket.
                last_wait: Constant::new(15u64.into()),
            }
            default: clock, dump, all, turns_off, access, tick, due, dumped, may_send, offers,
                record_kind, taken, held, now, second, high, low, flush, clear_order, drain, frozen,
                part_frozen, index, take_entry, entry_taken, take_tally, tally_taken,
                clear_accesses, clear_rows, clear_runs, next_part, spread_select, settled,
                reuse_settled, entry_count, entry_votes, entry_page, entry_used, tally,
                accesses_skipped, rows_skipped, runs_skipped, state, content, table_index,
                all_tables, number, records, part, selected_spread, ticks, is_due, all_due,
                access_during_dump, waited, requests_entry, requests_tally, first_high, first_low,
                used, busy, all_under_way, is_held, next, value, head, place, table_state,
                unused_bits, tally_after, part_end, clock_high
        }
    }
}

impl Logic for DumpUnit {
    update_in_parts!(Schedule, Words, Sequence, Position);
}
