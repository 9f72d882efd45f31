//! Accesses to completed commands: counts consecutive accesses to one configuration register.
//!
//! `consecutive` is judged among accesses to the window only: other traffic interleaves freely,
//! another register starts over, and so does a silence as long as the timeout (the MTT paper,
//! section 3.2).

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

/// See the module's description.
#[derive(LogicBlock)]
pub struct Sequence {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// An item passes on this clock.
    pub passes: Signal<In, Bit>,
    /// It is an access to the window.
    pub in_registers: Signal<In, Bit>,
    /// Bits 31..0 of its address.
    pub low: Signal<In, Bits<32>>,
    /// Clocks since the item before.
    pub gap: Signal<In, Bits<16>>,
    /// The access completes a command.
    pub complete: Signal<Out, Bit>,
    /// Register the access names.
    pub register: Signal<Out, Bits<9>>,
    last: DFF<Bits<9>>,
    silence: DFF<Bits<13>>,
    count: DFF<Bits<8>>,
    nearly: DFF<Bit>,
    named: Signal<Local, Bits<32>>,
    clocks: Signal<Local, Bits<18>>,
    late: Signal<Local, Bit>,
    goes_on: Signal<Local, Bit>,
    counted: Signal<Local, Bits<8>>,
    stride: Constant<Bits<32>>,
    needed_before: Constant<Bits<8>>,
    too_long: Constant<Bits<13>>,
}

impl Sequence {
    /// Looks for sequences of the length and register spacing a memory asks for.
    pub fn new(memory: &MemoryDescription) -> Self {
        Self {
            clock: Default::default(),
            passes: Default::default(),
            in_registers: Default::default(),
            low: Default::default(),
            gap: Default::default(),
            complete: Default::default(),
            register: Default::default(),
            last: Default::default(),
            silence: Default::default(),
            count: Default::default(),
            nearly: Default::default(),
            named: Default::default(),
            clocks: Default::default(),
            late: Default::default(),
            goes_on: Default::default(),
            counted: Default::default(),
            stride: Constant::new(u64::from(memory.config_stride_log2).into()),
            needed_before: Constant::new(u64::from(memory.config_count - 1).into()),
            too_long: Constant::new(u64::from(config::DEFAULT_TIMEOUT).into()),
        }
    }
}

impl Logic for Sequence {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, last, silence, count, nearly);
        // Shifts are slow to simulate, and idle clocks are many.
        self.named.next = bits::<32>(0);
        if self.in_registers.val() {
            self.named.next = self.low.val() >> self.stride.val();
        }
        self.register.next = self.named.val().get_bits::<9>(0);
        // Long enough is long enough: the silence stands still beyond the timeout, a power of two.
        self.clocks.next =
            bit_cast::<18, 13>(self.silence.q.val()) + bit_cast::<18, 16>(self.gap.val());
        self.late.next = self.clocks.val().get_bits::<6>(12) != 0;
        self.goes_on.next = (self.register.val() == self.last.q.val())
            & !self.late.val()
            & (self.count.q.val() != 0);
        self.counted.next = bits::<8>(1);
        if self.goes_on.val() {
            self.counted.next = self.count.q.val() + 1;
        }
        self.complete.next =
            self.passes.val() & self.in_registers.val() & self.goes_on.val() & self.nearly.q.val();
        if self.passes.val() {
            self.silence.d.next = self.clocks.val().get_bits::<13>(0);
            if self.late.val() {
                self.silence.d.next = self.too_long.val();
            }
            if self.in_registers.val() {
                self.silence.d.next = bits::<13>(0);
                self.last.d.next = self.register.val();
                self.count.d.next = self.counted.val();
                self.nearly.d.next = self.counted.val() == self.needed_before.val();
                if self.complete.val() {
                    self.count.d.next = bits::<8>(0);
                    self.nearly.d.next = false;
                }
            }
        }
    }
}
