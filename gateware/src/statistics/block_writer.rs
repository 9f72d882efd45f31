//! Packs records into blocks in the packet FIFO, and decides where each frame starts and ends.
//!
//! The records come from `traces` and from the analysis; the blocks go to the Tx thread, which
//! sends each as a frame.
//!
//! A block is opened only when the FIFO can take the longest one, so an open block never has to
//! wait. It starts with a sync that states clock, segment, accesses and losses before its first
//! record ([`hmtt_format::frame::Sync`]). It is closed when it holds as many words as the threshold
//! says, when it has waited for a whole tick, or before settings change. Records for which no block
//! can be opened are counted as lost, and the next sync carries the count. Reports
//! ([`super::report_words`]) are blocks of their own: at the start, after every change of settings,
//! once a second, and three times at the end.
//!
//! In the FIFO a descriptor word precedes each block. The low half of the descriptor is the payload
//! header of the frame. The descriptor is written last.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! record         <A >                    offered with `advance`: taken
//! needs              <A >                what the record needs is known; the state machine decides
//! chosen                 <A >            a half or a word, and its address
//! write                      <A >        to the FIFO
//! ```
//!
//! An access, a tag, a fault and a short page run take two clocks each, other records more.
//! `AwaitRecord` and `AwaitInBlock` only choose the next state, and that state acts; this keeps
//! both paths short.
//!
//! ```text
//!   +-> AwaitRecord --+-- report ---> OpenReport, OpenEnd --+
//!   |       |         |                                     v
//!   |       |         +-- data ------------------------> Opening -> SyncFirst -> SyncSecond
//!   |       v                                                                  |     |
//!   |   CountLost, CountPassed, CountTick                                 data |     | report
//!   |       |                                                                  v     v
//!   +-- Examine, Taken <----- the record is complete ---------------- AwaitInBlock  AwaitReport
//!   |                                                                          |     |
//!   |                                                        the block is full |     | last word
//!   |                                                                          v     |
//!   +-- AwaitRepeat <- AwaitSpace <- Describe <- StoreLast <---------------- Close   |
//!                                                    ^-------------------------------+
//! ```
//!
//! ```text
//! State         waits for            does                               next
//! AwaitRecord   a record             (no block is open)                 data: Opening; without space: CountLost
//!                                                                       tick: OpenReport if a report is due and there
//!                                                                             is space, else CountTick
//!                                                                       start: OpenReport, stop: OpenEnd (with space)
//!                                                                       others: CountPassed
//! CountLost                          counts the record as lost          Examine
//! CountPassed                        counts time and missed events      Examine
//! CountTick                          marks an open block as old         Taken
//! OpenReport                         starts the next second             Opening
//! OpenEnd                                                               Opening
//! Opening                            keeps the clock for the sync       SyncFirst
//! SyncFirst                          writes a word                      SyncSecond
//! SyncSecond                         writes a word                      data: AwaitInBlock, else AwaitReport
//! AwaitInBlock  a record             writes a half or a single word     written: Examine
//!                                                                       block full or nearly: Close
//!                                                                       much time: SkipTime, segment: SetSegment
//!                                                                       words: FillWord if a half is written,
//!                                                                              else FirstWord
//!                                                                       tick: CountTick, but Close if the block is
//!                                                                             old or a report is due; others: Close
//! SkipTime                           writes a half with the time        Examine; Taken if that was all
//! SetSegment                         writes a half with the segment     Examine
//! FillWord                           writes an empty half               AwaitInBlock
//! FirstWord                          writes a word                      SecondWord if there is one, else Examine
//! SecondWord                         writes a word                      partial slice: ThirdWord, else Examine
//! ThirdWord                          writes a word                      Examine
//! AwaitReport   the last word        writes a word in each clock        StoreLast
//! Close                              fills the last word                StoreLast
//! StoreLast                          (the count of words follows)       Describe
//! Describe                           writes the descriptor              AwaitSpace
//! AwaitSpace    `space_available`,   (counts clocks)                    report: Taken, else AwaitRepeat
//!               valid for this block
//! AwaitRepeat   end: space                                              data: AwaitRecord
//!                                                                       end: Opening, after the last one Taken
//! Taken                              (the next record is examined)      Examine
//! Examine                            (`needs` follows the record)       AwaitInBlock if a block is open,
//!                                                                       else AwaitRecord
//! ```
//!
//! The update has three parts: `ports` connects the units, `values` computes the half of a record
//! and the amounts that the record adds to counts, `sequence` is the state machine.

use hmtt_format::block::UNIT_NONE;
use hmtt_format::config::Mode;
use hmtt_format::frame::{END_REPEATS, FrameKind};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{MemoryDescription, record};
use rust_hdl::prelude::*;

use super::SlotClock;
use super::accounts::Accounts;
use super::record_intake::RecordIntake;
use super::word_port::{COMMIT_CLOCKS, WordPort};
use super::word_request::WordReader;
use crate::config::Settings;
use crate::fifo::packet_fifo::SPACE_LATENCY;
use crate::fifo::ports::FifoWriter;
use crate::record::Record;
use crate::reset::{ClearedRegister, Domain, Register};
use ports::Ports;
use sequence::Sequence;
use values::Values;

mod ports;
mod sequence;
mod values;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitRecord,
    CountLost,
    CountPassed,
    CountTick,
    OpenReport,
    OpenEnd,
    Opening,
    SyncFirst,
    SyncSecond,
    AwaitInBlock,
    SkipTime,
    SetSegment,
    FillWord,
    FirstWord,
    SecondWord,
    ThirdWord,
    AwaitReport,
    Close,
    StoreLast,
    Describe,
    AwaitSpace,
    AwaitRepeat,
    Taken,
    Examine,
}

/// See the module's description. `N`: log2 of the FIFO's words.
#[derive(LogicBlock)]
pub struct BlockWriter<const N: usize> {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Record that is offered; `Nothing` when there is none.
    pub record: Signal<In, Record>,
    /// If `advance` is high, there is a record in `record`.
    pub offered: Signal<In, Bit>,
    /// The record is taken on this clock.
    pub advance: Signal<Out, Bit>,
    /// The block writer has no record.
    pub free: Signal<Out, Bit>,
    /// The block writer has neither a record nor an open block.
    pub idle: Signal<Out, Bit>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// READs and WRITEs of the slice, in modes in which slices count as accesses.
    pub slice_accesses: Signal<In, Bits<32>>,
    /// The slice's record has a third word.
    pub slice_partial: Signal<In, Bit>,
    /// Words of other units.
    pub words: WordReader,
    /// The FIFO has space for the longest block.
    pub space_available: Signal<In, Bit>,
    /// Write port of the FIFO.
    pub write: FifoWriter<N>,
    /// A record has been lost since the reset.
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
    writes_direct: Register<Bit>,
    writes_word: Register<Bit>,
    ticks: ClearedRegister<Bits<24>>,
    report_due: Register<Bit>,
    index: Register<Bits<6>>,
    space_wait: Register<Bits<4>>,
    sync_clock: Register<SlotClock>,
    unit: Register<Bits<4>>,
    no_number: Register<Bit>,
    access_half: Signal<Local, Bits<32>>,
    delta: Signal<Local, Bits<25>>,
    value_segment: Signal<Local, Bits<12>>,
    missed: Signal<Local, Bits<32>>,
    lost_now: Signal<Local, Bits<24>>,
    third: Signal<Local, Bit>,
    writes_direct_next: Signal<Local, Bit>,
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
    space_wait_clocks: Constant<Bits<4>>,
    number_bits: Constant<Bits<5>>,
    faults_at: Constant<Bits<4>>,
    second_word: Constant<Bits<6>>,
    third_word: Constant<Bits<6>>,
}

impl<const N: usize> BlockWriter<N> {
    /// Builds the block for one memory.
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
                space_wait_clocks: Constant::new((SPACE_LATENCY as u64 + COMMIT_CLOCKS).into()),
                number_bits: place(record::NUMBER_BITS),
                // The value of an overrun: 32 bits of accesses, 6 bits of faults.
                faults_at: Constant::new(u64::from(u32::BITS - record::NUMBER_BITS).into()),
                second_word: Constant::new(1u64.into()),
                third_word: Constant::new(2u64.into()),
            }
            default: clock, record, offered, advance, free, idle, settings, now, slice_accesses,
                slice_partial, words, space_available, write, lossy, intake, accounts, port, state,
                kind, repeated, aged, open, full, writes_direct, writes_word, ticks, report_due,
                index, space_wait, sync_clock, unit, no_number, access_half, delta, value_segment,
                missed, lost_now, third, writes_direct_next, takes_next
        }
    }
}
impl<const N: usize> Logic for BlockWriter<N> {
    update_in_parts!(Ports, Values, Sequence);
}
