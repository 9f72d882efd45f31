//! Recognises completed commands: counts consecutive accesses to one configuration register.
//!
//! Accesses come from the event source, in each clock and before the event queue. So a command is
//! recognised even if its accesses do not fit the queue. Only accesses to the register window
//! count: other accesses may come between them. An access to another register starts a new count,
//! and so does a silence as long as the timeout (the MTT paper, section 3.2).
//!
//! ```text
//! clock         _/0\_/1\_/2\_
//! in_registers      <A >
//! complete, register    <A >
//! ```

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

use crate::reset::{ClearedRegister, Domain, Register};

/// See the module's description.
#[derive(LogicBlock)]
pub struct Sequence {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// A clock of the slot passes.
    pub passes: Signal<In, Bit>,
    /// The clock has an access to the window.
    pub in_registers: Signal<In, Bit>,
    /// Bits 31..0 of the address of that access.
    pub low: Signal<In, Bits<32>>,
    /// The access of the clock before completes a command.
    pub complete: Signal<Out, Bit>,
    /// Register of the command.
    pub register: Signal<Out, Bits<9>>,
    register_accessed: Register<Bit>,
    accessed_register: Register<Bits<9>>,
    last: Register<Bits<9>>,
    /// The access is to the same register as the one before, within the timeout.
    same_register: Register<Bit>,
    counting: Register<Bit>,
    /// Clocks since the last access to the window, up to the timeout.
    since: ClearedRegister<Bits<13>>,
    count: ClearedRegister<Bits<8>>,
    one_missing: Register<Bit>,
    shifted: Signal<Local, Bits<32>>,
    continues: Signal<Local, Bit>,
    timed_out: Signal<Local, Bit>,
    register_before: Signal<Local, Bits<9>>,
    stride: Constant<Bits<32>>,
    two_before: Constant<Bits<8>>,
    timeout_at: Constant<Bits<4>>,
}

impl Sequence {
    /// Builds the detector for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        assert_eq!(config::DEFAULT_TIMEOUT, 1 << 12, "the width of `since`");
        block! {
            Self {
                stride: Constant::new(u64::from(memory.config_stride_log2).into()),
                two_before: Constant::new(u64::from(memory.config_count - 2).into()),
                timeout_at: Constant::new(u64::from(config::DEFAULT_TIMEOUT.ilog2()).into()),
            }
            default: clock, passes, in_registers, low, complete, register, register_accessed,
                accessed_register, last, same_register, counting, since, count, one_missing,
                shifted, continues, timed_out, register_before
        }
    }
}

impl Logic for Sequence {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            register_accessed,
            accessed_register,
            last,
            same_register,
            counting,
            since,
            count,
            one_missing
        );
        // A shift is slow to simulate, so it is left out in most clocks.
        self.shifted.next = bits::<32>(0);
        if self.in_registers.val() {
            self.shifted.next = self.low.val() >> self.stride.val();
        }
        self.register_accessed.d.next = self.passes.val() & self.in_registers.val();
        self.accessed_register.d.next = self.shifted.val().get_bits::<9>(0);
        self.register_before.next = self.last.q.val();
        if self.register_accessed.q.val() {
            self.register_before.next = self.accessed_register.q.val();
        }
        // The timeout is a power of two, so one bit of the counter says that it has passed.
        self.timed_out.next = self.since.q.val().get_bit(self.timeout_at.val().index());
        self.same_register.d.next = (self.shifted.val().get_bits::<9>(0)
            == self.register_before.val())
            & !self.timed_out.val();
        if self.passes.val() {
            if !self.timed_out.val() {
                self.since.d.next = self.since.q.val() + 1;
            }
            if self.in_registers.val() {
                self.since.d.next = bits::<13>(1);
            }
        }

        self.register.next = self.accessed_register.q.val();
        self.continues.next = self.same_register.q.val() & self.counting.q.val();
        // `one_missing` is set only while accesses are counted.
        self.complete.next =
            self.register_accessed.q.val() & self.same_register.q.val() & self.one_missing.q.val();
        if self.register_accessed.q.val() {
            self.last.d.next = self.accessed_register.q.val();
            self.count.d.next = bits::<8>(1);
            self.counting.d.next = true;
            self.one_missing.d.next = self.two_before.val() == 0;
            if self.continues.val() {
                self.count.d.next = self.count.q.val() + 1;
                self.one_missing.d.next = self.count.q.val() == self.two_before.val();
                if self.one_missing.q.val() {
                    self.count.d.next = bits::<8>(0);
                    self.counting.d.next = false;
                    self.one_missing.d.next = false;
                }
            }
        }
    }
}
