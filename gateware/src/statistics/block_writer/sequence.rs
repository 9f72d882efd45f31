//! Decides when blocks are opened and closed and which words are written: the state machine of the
//! block writer.
//!
//! The table of states is in the description of [`super`].

use rust_hdl::prelude::*;

use super::{BlockWriter, State};
use crate::block::Part;
use crate::record::RecordKind;
use crate::statistics::word_source::Source;

/// See the module's description.
pub(super) struct Sequence;

impl<const N: usize> Part<Sequence> for BlockWriter<N> {
    #[hdl_gen]
    fn update(&mut self) {
        // Decided a clock ahead, to keep the path of a record short.
        self.full.d.next = self.port.full.val();
        self.writes_word.d.next = self.intake.word_now.val();
        self.writes_direct_next.next = (self.intake.half_now.val()
            | (self.intake.word_now.val() & !self.port.low_missing.val()))
            & self.open.q.val()
            & ((self.state.q.val() == State::AwaitInBlock)
                | (self.state.q.val() == State::Examine))
            & !self.port.full.val()
            & !self.writes_direct.q.val();
        self.takes_next.next = false;
        self.writes_direct.d.next = self.writes_direct_next.val();
        self.intake.time_written.next = false;
        self.intake.segment_written.next = false;
        self.port.source.next = Source::Half;
        self.port.push_half.next = self.writes_direct.q.val() & !self.writes_word.q.val();
        self.port.push_word.next = self.writes_direct.q.val() & self.writes_word.q.val();
        if self.writes_direct.q.val() {
            self.port.source.next = self.intake.needs.val().source;
        }
        self.port.describe.next = false;
        self.port.restart.next = false;
        self.accounts.account.next = self.writes_direct.q.val();
        self.accounts.pass.next = self.writes_direct.q.val() & self.intake.needs.val().timed;
        self.accounts.lose.next = false;
        self.accounts.set_clock.next = false;
        self.third.next =
            (self.intake.held.val().kind == RecordKind::Slice) & self.slice_partial.val();
        self.report_due.d.next =
            self.report_due.q.val() | (self.ticks.q.val() == self.second.val());
        self.index.d.next = bits::<6>(0);

        match self.state.q.val() {
            State::AwaitRecord => {
                self.port.restart.next = true;
                self.repeated.d.next = bits::<2>(0);
                self.aged.d.next = false;
                self.kind.d.next = self.data_kind.val();
                if self.intake.needs.val().data {
                    self.state.d.next = State::Opening;
                    if !self.space_available.val() {
                        self.state.d.next = State::CountLost;
                        self.takes_next.next = true;
                    }
                } else if self.intake.needs.val().known {
                    match self.intake.held.val().kind {
                        RecordKind::Tick => {
                            if self.report_due.q.val() & self.space_available.val() {
                                self.state.d.next = State::OpenReport;
                            } else {
                                self.state.d.next = State::CountTick;
                            }
                        }
                        RecordKind::Start => {
                            if self.space_available.val() {
                                self.state.d.next = State::OpenReport;
                            }
                        }
                        RecordKind::Stop => {
                            if self.space_available.val() {
                                self.state.d.next = State::OpenEnd;
                            }
                        }
                        _ => {
                            self.state.d.next = State::CountPassed;
                            self.takes_next.next = true;
                        }
                    }
                }
            }
            State::CountLost => {
                self.accounts.account.next = true;
                self.accounts.pass.next = self.intake.needs.val().timed;
                self.accounts.lose.next = true;
                self.intake.segment_written.next = self.intake.needs.val().segment;
                self.state.d.next = State::Examine;
            }
            State::CountPassed => {
                self.accounts.account.next = true;
                self.accounts.pass.next = self.intake.needs.val().timed;
                self.accounts.lose.next = self.intake.held.val().kind == RecordKind::Overrun;
                self.state.d.next = State::Examine;
            }
            State::CountTick => {
                self.aged.d.next = true;
                self.ticks.d.next = self.ticks.q.val() + 1;
                self.takes_next.next = true;
                self.state.d.next = State::Taken;
            }
            State::OpenReport => {
                self.accounts.set_clock.next = self.intake.held.val().kind == RecordKind::Start;
                self.ticks.d.next = bits::<24>(0);
                self.report_due.d.next = false;
                self.kind.d.next = self.info_kind.val();
                self.state.d.next = State::Opening;
            }
            State::OpenEnd => {
                self.kind.d.next = self.end_kind.val();
                self.state.d.next = State::Opening;
            }
            State::Opening => {
                self.sync_clock.d.next = self.now.val();
                if self.kind.q.val() == self.data_kind.val() {
                    self.sync_clock.d.next = self.accounts.base.val();
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
                self.state.d.next = State::AwaitReport;
                if self.kind.q.val() == self.data_kind.val() {
                    self.open.d.next = true;
                    self.state.d.next = State::AwaitInBlock;
                }
            }
            State::AwaitInBlock => {
                if self.writes_direct.q.val() {
                    self.state.d.next = State::Examine;
                } else if self.intake.needs.val().known & self.full.q.val() {
                    self.state.d.next = State::Close;
                } else if self.intake.needs.val().skip {
                    self.state.d.next = State::SkipTime;
                } else if self.intake.needs.val().segment {
                    self.state.d.next = State::SetSegment;
                } else if self.intake.needs.val().word {
                    if self.port.low_missing.val() {
                        self.state.d.next = State::FillWord;
                    } else if self.intake.needs.val().single {
                        // The word is being written.
                        self.state.d.next = State::AwaitInBlock;
                    } else if self.port.nearly_full.val() {
                        self.state.d.next = State::Close;
                    } else {
                        self.state.d.next = State::FirstWord;
                        self.takes_next.next = !self.intake.needs.val().more;
                    }
                } else if self.intake.needs.val().known & !self.intake.needs.val().data {
                    self.state.d.next = State::Close;
                    if self.intake.needs.val().tick & !self.aged.q.val() & !self.report_due.q.val()
                    {
                        self.state.d.next = State::CountTick;
                    }
                }
            }
            State::SkipTime => {
                self.port.push_half.next = true;
                self.port.half.next = self.empty_half.val() | bit_cast::<32, 25>(self.delta.val());
                self.accounts.pass.next = true;
                self.intake.time_written.next = true;
                self.state.d.next = State::Examine;
                if !self.intake.needs.val().data {
                    self.takes_next.next = true;
                    self.state.d.next = State::Taken;
                }
            }
            State::SetSegment => {
                self.port.push_half.next = true;
                self.port.half.next = self.segment_half.val()
                    | (bit_cast::<32, 12>(self.value_segment.val()) << self.segment_at.val());
                self.intake.segment_written.next = true;
                self.state.d.next = State::Examine;
            }
            State::FillWord => {
                // The next record takes whole words.
                self.port.push_half.next = true;
                self.port.half.next = self.empty_half.val();
                self.state.d.next = State::AwaitInBlock;
            }
            State::FirstWord => {
                self.port.push_word.next = true;
                self.port.source.next = self.intake.needs.val().source;
                self.index.d.next = self.second_word.val();
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
                self.index.d.next = self.third_word.val();
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
            State::AwaitReport => {
                self.port.push_word.next = true;
                self.port.source.next = Source::Other;
                self.index.d.next = self.index.q.val() + 1;
                if self.words.report_last.val() {
                    self.state.d.next = State::StoreLast;
                }
            }
            State::Close => {
                self.port.push_half.next = self.port.low_missing.val();
                self.port.half.next = self.empty_half.val();
                self.open.d.next = false;
                self.state.d.next = State::StoreLast;
            }
            State::StoreLast => {
                self.state.d.next = State::Describe;
            }
            State::Describe => {
                self.port.source.next = Source::Descriptor;
                self.port.describe.next = true;
                self.space_wait.d.next = bits::<4>(0);
                self.state.d.next = State::AwaitSpace;
            }
            State::AwaitSpace => {
                // `space_available` is valid some clocks after the block ends.
                self.space_wait.d.next = self.space_wait.q.val() + 1;
                if self.space_wait.q.val() == self.space_wait_clocks.val() {
                    self.port.restart.next = true;
                    self.state.d.next = State::AwaitRepeat;
                    if self.kind.q.val() == self.info_kind.val() {
                        self.takes_next.next = true;
                        self.state.d.next = State::Taken;
                    }
                }
            }
            State::AwaitRepeat => {
                self.state.d.next = State::AwaitRecord;
                if self.kind.q.val() == self.end_kind.val() {
                    self.state.d.next = State::AwaitRepeat;
                    if self.repeated.q.val() == self.last_repeat.val() {
                        self.takes_next.next = true;
                        self.state.d.next = State::Taken;
                    } else if self.space_available.val() {
                        self.repeated.d.next = self.repeated.q.val() + 1;
                        self.state.d.next = State::Opening;
                    }
                }
            }
            State::Taken => {
                self.state.d.next = State::Examine;
            }
            State::Examine => {
                self.state.d.next = State::AwaitRecord;
                if self.open.q.val() {
                    self.state.d.next = State::AwaitInBlock;
                }
            }
            _ => {
                self.state.d.next = State::AwaitRecord;
            }
        }
        self.intake.consumes.next = self.writes_direct_next.val() | self.takes_next.val();
    }
}
