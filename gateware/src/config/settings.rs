//! Keeps the settings, and changes them when a completed command is carried out.
//!
//! The straps give the power-on settings; `restore` sets these again.
//!
//! ```text
//! clock          _/0\_/1\_/2\_
//! register          <A ........    the register that a completed command names
//! is_.., changes..      <A ....    its meaning
//! apply                 /~~\__    the command is carried out
//! settings                  <new
//! ```

use hmtt_format::config::{self, Granularity, Mode};
use rust_hdl::prelude::*;

use super::Settings;
use crate::reset::{Domain, Register};
use crate::table::Table;

/// Places of the power-on settings on the strap pins; the mode is at 0.
const STRAP_BURST_AT: u8 = 2;
const STRAP_FREQUENCY_AT: u8 = 3;
const STRAP_SLICE_AT: u8 = 4;
const STRAP_ANALYSIS_AT: u8 = 9;

/// Returns the levels of the 16 strap pins for given power-on settings.
pub fn straps(
    mode: Mode,
    granularity: Granularity,
    frequency: bool,
    slice_code: u8,
    analysis: bool,
) -> u16 {
    mode as u16
        | u16::from(granularity == Granularity::Burst) << STRAP_BURST_AT
        | u16::from(frequency) << STRAP_FREQUENCY_AT
        | u16::from(slice_code.min(config::SLICE_CODES - 1)) << STRAP_SLICE_AT
        | u16::from(analysis) << STRAP_ANALYSIS_AT
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct SettingsRegister {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Strap pins, in the layout of [`straps`].
    pub straps: Signal<In, Bits<16>>,
    /// Set the power-on settings on this clock.
    pub restore: Signal<In, Bit>,
    /// Carry out the command of `register` on this clock.
    pub apply: Signal<In, Bit>,
    /// Register of the last completed command ([`hmtt_format::config`]).
    pub register: Signal<In, Bits<9>>,
    /// The command changes settings (no mark, start, stop or reset); a clock late.
    pub changes: Signal<Out, Bit>,
    /// The command changes the length of slices; a clock late.
    pub changes_slice: Signal<Out, Bit>,
    /// The command is a software mark; a clock late.
    pub is_mark: Signal<Out, Bit>,
    /// The command is start; a clock late.
    pub is_start: Signal<Out, Bit>,
    /// The command is stop; a clock late.
    pub is_stop: Signal<Out, Bit>,
    /// The command is reset; a clock late.
    pub is_reset: Signal<Out, Bit>,
    /// Settings in force.
    pub settings: Signal<Out, Settings>,
    current: Register<Settings>,
    ready: Register<Bit>,
    changing: Register<Bit>,
    slicing: Register<Bit>,
    marking: Register<Bit>,
    starting: Register<Bit>,
    stopping: Register<Bit>,
    resetting: Register<Bit>,
    offset: Signal<Local, Bits<9>>,
    base: Signal<Local, Bits<32>>,
    in_slices: Signal<Local, Bit>,
    in_thresholds: Signal<Local, Bit>,
    in_nibbles: Signal<Local, Bit>,
    mode_line: Constant<Bits<9>>,
    mode_page: Constant<Bits<9>>,
    mode_frequency: Constant<Bits<9>>,
    mode_analysis: Constant<Bits<9>>,
    analysis_on: Constant<Bits<9>>,
    analysis_off: Constant<Bits<9>>,
    frequency_on: Constant<Bits<9>>,
    frequency_off: Constant<Bits<9>>,
    granularity_line: Constant<Bits<9>>,
    granularity_burst: Constant<Bits<9>>,
    slice_first: Constant<Bits<9>>,
    slice_end: Constant<Bits<9>>,
    threshold_first: Constant<Bits<9>>,
    threshold_end: Constant<Bits<9>>,
    nibble_first: Constant<Bits<9>>,
    nibble_end: Constant<Bits<9>>,
    tag_on: Constant<Bits<9>>,
    tag_off: Constant<Bits<9>>,
    kernel_enter: Constant<Bits<9>>,
    kernel_exit: Constant<Bits<9>>,
    start: Constant<Bits<9>>,
    stop: Constant<Bits<9>>,
    reset: Constant<Bits<9>>,
    thresholds: Table<3, 8>,
    power_on_threshold: Constant<Bits<8>>,
    line: Constant<Bits<2>>,
    page: Constant<Bits<2>>,
    frequency: Constant<Bits<2>>,
    analysis: Constant<Bits<2>>,
    free_mark_at: Constant<Bits<4>>,
    nibble_bits: Constant<Bits<3>>,
    top_nibble_at: Constant<Bits<5>>,
    burst_strap: Constant<Bits<4>>,
    frequency_strap: Constant<Bits<4>>,
    slice_strap: Constant<Bits<4>>,
    analysis_strap: Constant<Bits<4>>,
}

impl Default for SettingsRegister {
    fn default() -> Self {
        let register = |number: u16| Constant::new(u64::from(number).into());
        block! {
            Self {
                mode_line: register(config::MODE_LINE),
                mode_page: register(config::MODE_PAGE),
                mode_frequency: register(config::MODE_FREQUENCY),
                mode_analysis: register(config::MODE_ANALYSIS),
                analysis_on: register(config::ANALYSIS_ON),
                analysis_off: register(config::ANALYSIS_OFF),
                frequency_on: register(config::FREQUENCY_ON),
                frequency_off: register(config::FREQUENCY_OFF),
                granularity_line: register(config::GRANULARITY_LINE),
                granularity_burst: register(config::GRANULARITY_BURST),
                slice_first: register(config::SLICE_FIRST),
                slice_end: register(config::SLICE_FIRST + u16::from(config::SLICE_CODES)),
                threshold_first: register(config::THRESHOLD_FIRST),
                threshold_end: register(config::THRESHOLD_FIRST + 8),
                nibble_first: register(config::TAG_NIBBLE_FIRST),
                nibble_end: register(config::TAG_NIBBLE_FIRST + 16),
                tag_on: register(config::TAG_ON),
                tag_off: register(config::TAG_OFF),
                kernel_enter: register(config::MARK_KERNEL_ENTER),
                kernel_exit: register(config::MARK_KERNEL_EXIT),
                start: register(config::START),
                stop: register(config::STOP),
                reset: register(config::RESET),
                thresholds: Table::new((0..8).map(|offset| config::threshold_words(offset).into())),
                power_on_threshold: Constant::new(u64::from(config::threshold_words(7)).into()),
                line: Constant::new((Mode::Line as u64).into()),
                page: Constant::new((Mode::Page as u64).into()),
                frequency: Constant::new((Mode::Frequency as u64).into()),
                analysis: Constant::new((Mode::Analysis as u64).into()),
                free_mark_at: Constant::new(u64::from(config::MARK_FREE_FIRST.trailing_zeros()).into()),
                nibble_bits: Constant::new(4u64.into()),
                top_nibble_at: Constant::new(28u64.into()),
                burst_strap: Constant::new(u64::from(STRAP_BURST_AT).into()),
                frequency_strap: Constant::new(u64::from(STRAP_FREQUENCY_AT).into()),
                slice_strap: Constant::new(u64::from(STRAP_SLICE_AT).into()),
                analysis_strap: Constant::new(u64::from(STRAP_ANALYSIS_AT).into()),
            }
            default: clock, straps, restore, apply, register, changes, changes_slice, is_mark,
                is_start, is_stop, is_reset, settings, current, ready, changing, slicing, marking,
                starting, stopping, resetting, offset, base, in_slices, in_thresholds, in_nibbles
        }
    }
}

impl Logic for SettingsRegister {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, current, ready, changing, slicing, marking, starting, stopping, resetting
        );
        self.changes.next = self.changing.q.val();
        self.changes_slice.next = self.slicing.q.val();
        self.is_mark.next = self.marking.q.val();
        self.is_start.next = self.starting.q.val();
        self.is_stop.next = self.stopping.q.val();
        self.is_reset.next = self.resetting.q.val();
        self.starting.d.next = self.register.val() == self.start.val();
        self.stopping.d.next = self.register.val() == self.stop.val();
        self.resetting.d.next = self.register.val() == self.reset.val();
        self.ready.d.next = true;
        self.thresholds.index.next = self.register.val().get_bits::<3>(0);
        self.settings.next = self.current.q.val();
        // Marks for free use are the upper half of the registers.
        self.marking.d.next = self.register.val().get_bit(self.free_mark_at.val().index())
            | (self.register.val() == self.kernel_enter.val())
            | (self.register.val() == self.kernel_exit.val());
        self.in_slices.next = (self.register.val() >= self.slice_first.val())
            & (self.register.val() < self.slice_end.val());
        self.in_thresholds.next = (self.register.val() >= self.threshold_first.val())
            & (self.register.val() < self.threshold_end.val());
        self.in_nibbles.next = (self.register.val() >= self.nibble_first.val())
            & (self.register.val() < self.nibble_end.val());
        self.slicing.d.next = self.in_slices.val();
        self.changing.d.next = self.in_slices.val()
            | self.in_thresholds.val()
            | self.in_nibbles.val()
            | (self.register.val() == self.mode_line.val())
            | (self.register.val() == self.mode_page.val())
            | (self.register.val() == self.mode_frequency.val())
            | (self.register.val() == self.mode_analysis.val())
            | (self.register.val() == self.analysis_on.val())
            | (self.register.val() == self.analysis_off.val())
            | (self.register.val() == self.frequency_on.val())
            | (self.register.val() == self.frequency_off.val())
            | (self.register.val() == self.granularity_line.val())
            | (self.register.val() == self.granularity_burst.val())
            | (self.register.val() == self.tag_on.val())
            | (self.register.val() == self.tag_off.val());
        self.base.next = self.current.q.val().tag_low;
        self.offset.next = self.register.val() - self.slice_first.val();
        if self.apply.val() {
            if self.register.val() == self.mode_line.val() {
                self.current.d.next.mode = self.line.val();
            } else if self.register.val() == self.mode_page.val() {
                self.current.d.next.mode = self.page.val();
            } else if self.register.val() == self.mode_frequency.val() {
                self.current.d.next.mode = self.frequency.val();
            } else if self.register.val() == self.mode_analysis.val() {
                self.current.d.next.mode = self.analysis.val();
            } else if self.register.val() == self.analysis_on.val() {
                self.current.d.next.analysis = true;
            } else if self.register.val() == self.analysis_off.val() {
                self.current.d.next.analysis = false;
            } else if self.register.val() == self.frequency_on.val() {
                self.current.d.next.frequency = true;
            } else if self.register.val() == self.frequency_off.val() {
                self.current.d.next.frequency = false;
            } else if self.register.val() == self.granularity_line.val() {
                self.current.d.next.burst = false;
            } else if self.register.val() == self.granularity_burst.val() {
                self.current.d.next.burst = true;
            } else if self.register.val() == self.tag_on.val() {
                self.current.d.next.tag = true;
            } else if self.register.val() == self.tag_off.val() {
                self.current.d.next.tag = false;
            } else if self.in_slices.val() {
                self.current.d.next.slice = self.offset.val().get_bits::<5>(0);
            } else if self.in_thresholds.val() {
                self.current.d.next.threshold = self.thresholds.word.val();
            } else if self.in_nibbles.val() {
                self.current.d.next.tag_high = (self.current.q.val().tag_high
                    << self.nibble_bits.val())
                    | bit_cast::<8, 4>(
                        self.base.val().get_bits::<4>(self.top_nibble_at.val().index()),
                    );
                self.current.d.next.tag_low = (self.base.val() << self.nibble_bits.val())
                    | bit_cast::<32, 4>(self.register.val().get_bits::<4>(0));
            }
        }
        if self.restore.val() | !self.ready.q.val() {
            self.current.d.next.mode = self.straps.val().get_bits::<2>(0);
            self.current.d.next.burst = self.straps.val().get_bit(self.burst_strap.val().index());
            self.current.d.next.frequency =
                self.straps.val().get_bit(self.frequency_strap.val().index());
            self.current.d.next.slice =
                self.straps.val().get_bits::<5>(self.slice_strap.val().index());
            self.current.d.next.analysis =
                self.straps.val().get_bit(self.analysis_strap.val().index());
            self.current.d.next.threshold = self.power_on_threshold.val();
            self.current.d.next.tag = false;
            self.current.d.next.tag_low = bits::<32>(0);
            self.current.d.next.tag_high = bits::<8>(0);
        }
    }
}
