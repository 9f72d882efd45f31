//! Makes heartbeat frames, and drives the LED of the link.
//!
//! A heartbeat is due when the DDR clock is lost or found again, and when no frame was sent for a
//! second. It depends on no register of the DDR domain, so it is also sent while the DDR clock is
//! stopped. The Tx thread signals that it begins a heartbeat (`taken`) and then reads its groups of
//! 32 bits, one at a time.
//!
//! ```text
//! taken   _/T\_________________________
//! step    ________/T\____/T\____/T\____     four clocks apart or more
//! group       <header      ><0 high ><0 low ...    three clocks after the step
//! ```

use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::{
    FrameKind, HEADER_KIND_AT, HEADER_VERSION_AT, HEADER_WORDS_AT, HEARTBEAT_RUNNING_AT,
    HEARTBEAT_WORDS,
};
use rust_hdl::prelude::*;

use super::ports::BeatSource;
use crate::reset::{ClearedRegister, Domain, KeptRegister, Register};

/// Transmit clocks of a tick of silence, and of the link's LED: 524 us.
pub const TICK_CLOCKS: u64 = 1 << HEADER_WORDS_AT;
/// Ticks of silence before a heartbeat: a second.
pub const SILENCE_TICKS: u64 = 1907;
/// Ticks for which the link's LED is on after a frame: 1/16 s.
const LED_TICKS: u64 = 119;

/// See the module's description.
#[derive(LogicBlock)]
pub struct Heartbeat {
    /// Transmit clock domain, 125 MHz. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The DDR clock is stopped.
    pub lost: Signal<In, Bit>,
    /// Heartbeats, for the Tx thread.
    pub beat: BeatSource,
    /// A frame was sent a short time ago.
    pub link_led: Signal<Out, Bit>,
    was_lost: Register<Bit>,
    losses: Register<Bits<16>>,
    is_due: Register<Bit>,
    low: Register<Bits<16>>,
    low_full: Register<Bit>,
    mid_step: Register<Bit>,
    mid: Register<Bits<16>>,
    mid_full: Register<Bit>,
    high_step: Register<Bit>,
    high: Register<Bits<16>>,
    silent_ticks: ClearedRegister<Bits<12>>,
    silence_full: Register<Bit>,
    was_sent: Register<Bit>,
    ends_silence: Register<Bit>,
    led_ticks_left: KeptRegister<Bits<7>>,
    led_on: Register<Bit>,
    take_low: Register<Bit>,
    take_mid: Register<Bit>,
    take_high: Register<Bit>,
    kept_lost: KeptRegister<Bit>,
    kept_losses: KeptRegister<Bits<16>>,
    kept_low: KeptRegister<Bits<16>>,
    kept_mid: KeptRegister<Bits<16>>,
    kept_high: KeptRegister<Bits<16>>,
    index: KeptRegister<Bits<3>>,
    step_taken: Register<Bit>,
    next_group: KeptRegister<Bits<32>>,
    header: Constant<Bits<32>>,
    running_bit: Constant<Bits<32>>,
    silence_limit: Constant<Bits<12>>,
    led_ticks: Constant<Bits<7>>,
    word_0_high: Constant<Bits<3>>,
    word_0_low: Constant<Bits<3>>,
    word_1_high: Constant<Bits<3>>,
    word_1_low: Constant<Bits<3>>,
    part_full: Constant<Bits<16>>,
    part_bits: Constant<Bits<5>>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::after(SILENCE_TICKS)
    }
}

impl Heartbeat {
    /// Builds a heartbeat that is due after `silence_limit` ticks of silence, 1 to 4095.
    pub fn after(silence_limit: u64) -> Self {
        let header = u32::from(FORMAT_VERSION) << HEADER_VERSION_AT
            | (FrameKind::Heartbeat as u32) << HEADER_KIND_AT
            | u32::from(HEARTBEAT_WORDS) << HEADER_WORDS_AT;
        block! {
            Self {
                header: Constant::new(u64::from(header).into()),
                running_bit: Constant::new((1u64 << HEARTBEAT_RUNNING_AT).into()),
                silence_limit: Constant::new(silence_limit.into()),
                led_ticks: Constant::new(LED_TICKS.into()),
                word_0_high: Constant::new(1u64.into()),
                word_0_low: Constant::new(2u64.into()),
                word_1_high: Constant::new(3u64.into()),
                word_1_low: Constant::new(4u64.into()),
                part_full: Constant::new(u64::from(u16::MAX).into()),
                part_bits: Constant::new(u64::from(u16::BITS).into()),
            }
            default: clock, lost, beat, link_led, was_lost, losses, is_due,
                low, low_full, mid_step, mid, mid_full, high_step, high, silent_ticks, silence_full,
                was_sent, ends_silence, led_ticks_left, led_on, take_low, take_mid, take_high,
                kept_lost, kept_losses, kept_low, kept_mid, kept_high, index, step_taken, next_group
        }
    }
}

impl Logic for Heartbeat {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            was_lost,
            losses,
            is_due,
            low,
            low_full,
            mid_step,
            mid,
            mid_full,
            high_step,
            high,
            silent_ticks,
            silence_full,
            was_sent,
            ends_silence,
            led_ticks_left,
            led_on,
            take_low,
            take_mid,
            take_high,
            kept_lost,
            kept_losses,
            kept_low,
            kept_mid,
            kept_high,
            index,
            step_taken,
            next_group
        );
        // The transmit clock has three parts, with a carry of two clocks: `mid` belongs to the
        // `low` of two clocks before, and `high` to the `low` of three clocks before.
        self.low.d.next = self.low.q.val() + 1;
        self.low_full.d.next = self.low.q.val() == self.part_full.val();
        self.mid_step.d.next = self.low_full.q.val();
        self.mid_full.d.next = self.mid.q.val() == self.part_full.val();
        self.high_step.d.next = self.mid_step.q.val() & self.mid_full.q.val();
        if self.mid_step.q.val() {
            self.mid.d.next = self.mid.q.val() + 1;
        }
        if self.high_step.q.val() {
            self.high.d.next = self.high.q.val() + 1;
        }

        self.silence_full.d.next = self.silent_ticks.q.val() == self.silence_limit.val();
        self.led_on.d.next = self.led_ticks_left.q.val() != 0;
        if self.mid_step.q.val() {
            self.silent_ticks.d.next = self.silent_ticks.q.val() + 1;
            if self.led_on.q.val() {
                self.led_ticks_left.d.next = self.led_ticks_left.q.val() - 1;
            }
        }
        self.was_sent.d.next = self.beat.sent.val();
        if self.was_sent.q.val() {
            self.led_ticks_left.d.next = self.led_ticks.val();
        }
        self.ends_silence.d.next = self.beat.sent.val() | self.beat.taken.val();
        if self.ends_silence.q.val() {
            self.silent_ticks.d.next = bits::<12>(0);
        }

        self.was_lost.d.next = self.lost.val();
        if self.lost.val() & !self.was_lost.q.val() {
            self.losses.d.next = self.losses.q.val() + 1;
        }
        if self.beat.taken.val() {
            self.is_due.d.next = false;
            self.index.d.next = bits::<3>(0);
        }
        // The comparison is two clocks late, so it is ignored for two clocks after a heartbeat was
        // taken.
        if ((self.silence_full.q.val() & !self.beat.taken.val()) & !self.take_low.q.val())
            & !self.take_mid.q.val()
        {
            self.is_due.d.next = true;
        }
        if self.lost.val() != self.was_lost.q.val() {
            self.is_due.d.next = true;
        }

        self.take_low.d.next = self.beat.taken.val();
        self.take_mid.d.next = self.take_low.q.val();
        self.take_high.d.next = self.take_mid.q.val();
        if self.beat.taken.val() {
            self.kept_low.d.next = self.low.q.val();
            self.kept_lost.d.next = self.was_lost.q.val();
            self.kept_losses.d.next = self.losses.q.val();
        }
        if self.take_mid.q.val() {
            self.kept_mid.d.next = self.mid.q.val();
        }
        if self.take_high.q.val() {
            self.kept_high.d.next = self.high.q.val();
        }
        self.step_taken.d.next = self.beat.step.val();
        if self.step_taken.q.val() {
            self.index.d.next = self.index.q.val() + 1;
        }
        self.next_group.d.next = self.header.val();
        if self.index.q.val() == self.word_0_high.val() {
            self.next_group.d.next = bits::<32>(0);
            if !self.kept_lost.q.val() {
                self.next_group.d.next = self.running_bit.val();
            }
        }
        if self.index.q.val() == self.word_0_low.val() {
            self.next_group.d.next = bit_cast::<32, 16>(self.kept_losses.q.val());
        }
        if self.index.q.val() == self.word_1_high.val() {
            self.next_group.d.next = bit_cast::<32, 16>(self.kept_high.q.val());
        }
        if self.index.q.val() == self.word_1_low.val() {
            self.next_group.d.next = (bit_cast::<32, 16>(self.kept_mid.q.val())
                << self.part_bits.val())
                | bit_cast::<32, 16>(self.kept_low.q.val());
        }
        self.beat.group.next = self.next_group.q.val();
        self.beat.due.next = self.is_due.q.val();
        self.link_led.next = self.led_on.q.val();
    }
}
