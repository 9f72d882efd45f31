//! Accesses to completed commands: counts consecutive accesses to one configuration register.
//!
//! `consecutive` is judged among accesses to the window only: other traffic interleaves freely,
//! another register starts over, and so does a silence longer than the timeout (the MTT paper,
//! section 3.2).

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

/// See the module's description.
#[derive(LogicBlock)]
pub struct Sequence {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// An access is being looked at on this clock, once.
    pub access: Signal<In, Bit>,
    /// Bits 31..0 of its address.
    pub low: Signal<In, Bits<32>>,
    /// Bits 39..32 of its address.
    pub high: Signal<In, Bits<8>>,
    /// When it happened.
    pub at: Signal<In, Bits<32>>,
    /// The access completes a command.
    pub complete: Signal<Out, Bit>,
    /// Register it names.
    pub register: Signal<Out, Bits<9>>,
    last: DFF<Bits<9>>,
    last_at: DFF<Bits<32>>,
    count: DFF<Bits<8>>,
    scaled: Signal<Local, Bits<32>>,
    beyond: Signal<Local, Bits<32>>,
    silence: Signal<Local, Bits<32>>,
    in_registers: Signal<Local, Bit>,
    goes_on: Signal<Local, Bit>,
    counted: Signal<Local, Bits<8>>,
    stride: Constant<Bits<5>>,
    registers: Constant<Bits<5>>,
    timeout: Constant<Bits<32>>,
    needed: Constant<Bits<8>>,
}

impl Sequence {
    /// Looks for sequences of the length and register spacing a memory asks for.
    pub fn new(memory: &MemoryDescription) -> Self {
        Self {
            clock: Default::default(),
            access: Default::default(),
            low: Default::default(),
            high: Default::default(),
            at: Default::default(),
            complete: Default::default(),
            register: Default::default(),
            last: Default::default(),
            last_at: Default::default(),
            count: Default::default(),
            scaled: Default::default(),
            beyond: Default::default(),
            silence: Default::default(),
            in_registers: Default::default(),
            goes_on: Default::default(),
            counted: Default::default(),
            stride: Constant::new(u64::from(memory.config_stride_log2).into()),
            registers: Constant::new(u64::from(config::REGISTERS_LOG2).into()),
            timeout: Constant::new(u64::from(config::DEFAULT_TIMEOUT).into()),
            needed: Constant::new(u64::from(memory.config_count).into()),
        }
    }
}

impl Logic for Sequence {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, last, last_at, count);
        // Shifts are slow to simulate, and idle clocks are many.
        self.scaled.next = bits::<32>(0);
        self.beyond.next = bits::<32>(0);
        if self.access.val() {
            self.scaled.next = self.low.val() >> self.stride.val();
            self.beyond.next = self.scaled.val() >> self.registers.val();
        }
        self.in_registers.next = (self.beyond.val() == 0) & (self.high.val() == 0);
        self.register.next = self.scaled.val().get_bits::<9>(0);
        self.silence.next = self.at.val() - self.last_at.q.val();
        self.goes_on.next = (self.register.val() == self.last.q.val())
            & (self.silence.val() <= self.timeout.val())
            & (self.count.q.val() != 0);
        self.counted.next = bits::<8>(1);
        if self.goes_on.val() {
            self.counted.next = self.count.q.val() + 1;
        }
        self.complete.next = false;
        if self.access.val() & self.in_registers.val() {
            self.last.d.next = self.register.val();
            self.last_at.d.next = self.at.val();
            self.count.d.next = self.counted.val();
            if self.counted.val() == self.needed.val() {
                self.complete.next = true;
                self.count.d.next = bits::<8>(0);
            }
        }
    }
}
