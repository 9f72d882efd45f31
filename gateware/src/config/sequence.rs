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
    /// The access that passed on the clock before may complete a command.
    pub pending: Signal<Out, Bit>,
    /// It does.
    pub complete: Signal<Out, Bit>,
    /// Register it names.
    pub register: Signal<Out, Bits<9>>,
    passed: DFF<Bit>,
    named_now: DFF<Bit>,
    named: DFF<Bits<9>>,
    passed_gap: DFF<Bits<16>>,
    last: DFF<Bits<9>>,
    same: DFF<Bit>,
    counting: DFF<Bit>,
    silence: DFF<Bits<12>>,
    quiet: DFF<Bit>,
    count: DFF<Bits<8>>,
    nearly: DFF<Bit>,
    shifted: Signal<Local, Bits<32>>,
    short_gap: Signal<Local, Bits<16>>,
    clocks: Signal<Local, Bits<13>>,
    late: Signal<Local, Bit>,
    goes_on: Signal<Local, Bit>,
    register_before: Signal<Local, Bits<9>>,
    stride: Constant<Bits<32>>,
    two_before: Constant<Bits<8>>,
}

impl Sequence {
    /// Looks for sequences of the length and register spacing a memory asks for.
    pub fn new(memory: &MemoryDescription) -> Self {
        assert_eq!(config::DEFAULT_TIMEOUT, 1 << 12, "the width of `silence`");
        Self {
            clock: Default::default(),
            passes: Default::default(),
            in_registers: Default::default(),
            low: Default::default(),
            gap: Default::default(),
            pending: Default::default(),
            complete: Default::default(),
            register: Default::default(),
            passed: Default::default(),
            named_now: Default::default(),
            named: Default::default(),
            passed_gap: Default::default(),
            last: Default::default(),
            same: Default::default(),
            counting: Default::default(),
            silence: Default::default(),
            quiet: Default::default(),
            count: Default::default(),
            nearly: Default::default(),
            shifted: Default::default(),
            short_gap: Default::default(),
            clocks: Default::default(),
            late: Default::default(),
            goes_on: Default::default(),
            register_before: Default::default(),
            stride: Constant::new(u64::from(memory.config_stride_log2).into()),
            two_before: Constant::new(u64::from(memory.config_count - 2).into()),
        }
    }
}

impl Logic for Sequence {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, passed, named_now, named, passed_gap, last, same, counting, silence,
            quiet, count, nearly
        );
        // Shifts are slow to simulate, and idle clocks are many.
        self.shifted.next = bits::<32>(0);
        if self.in_registers.val() {
            self.shifted.next = self.low.val() >> self.stride.val();
        }
        self.passed.d.next = self.passes.val();
        self.named_now.d.next = self.passes.val() & self.in_registers.val();
        self.named.d.next = self.shifted.val().get_bits::<9>(0);
        self.passed_gap.d.next = self.gap.val();
        self.register_before.next = self.last.q.val();
        if self.named_now.q.val() {
            self.register_before.next = self.named.q.val();
        }
        self.same.d.next = self.shifted.val().get_bits::<9>(0) == self.register_before.val();

        self.pending.next = self.named_now.q.val() & self.nearly.q.val();
        self.register.next = self.named.q.val();
        // The timeout is a power of two: a carry out of the sum is a silence too long, for ever.
        self.short_gap.next = self.passed_gap.q.val();
        self.clocks.next = bit_cast::<13, 12>(self.silence.q.val())
            + bit_cast::<13, 12>(self.short_gap.val().get_bits::<12>(0));
        self.late.next = self.clocks.val().get_bit(12)
            | self.quiet.q.val()
            | (self.short_gap.val().get_bits::<4>(12) != 0);
        self.goes_on.next = self.same.q.val() & !self.late.val() & self.counting.q.val();
        self.complete.next = self.named_now.q.val() & self.goes_on.val() & self.nearly.q.val();
        if self.passed.q.val() {
            self.silence.d.next = self.clocks.val().get_bits::<12>(0);
            self.quiet.d.next = self.late.val();
        }
        if self.named_now.q.val() {
            self.silence.d.next = bits::<12>(0);
            self.quiet.d.next = false;
            self.last.d.next = self.named.q.val();
            self.count.d.next = bits::<8>(1);
            self.counting.d.next = true;
            self.nearly.d.next = self.two_before.val() == 0;
            if self.goes_on.val() {
                self.count.d.next = self.count.q.val() + 1;
                self.nearly.d.next = self.count.q.val() == self.two_before.val();
                if self.nearly.q.val() {
                    self.count.d.next = bits::<8>(0);
                    self.counting.d.next = false;
                    self.nearly.d.next = false;
                }
            }
        }
    }
}
