//! Joins consecutive accesses to one page into runs.
//!
//! Accesses come from the traces; runs go to `hot_pages`, begins of runs to `reuse`.
//!
//! ```text
//! clock     _/0\_/1\_/2\_
//! access       <A >        compared with the page before
//! begins           <A >    the access is to another page; run_valid: the run before it has ended
//! ```
//!
//! A run of 512 accesses is passed on, and the next run has the rest.

use hmtt_format::MemoryDescription;
use hmtt_format::memory::PAGE_LOG2;
use rust_hdl::prelude::*;

use crate::reset::{ClearedRegister, Domain, Register};

/// Accesses after which a run is passed on, a power of two.
const MAX_RUN_ACCESSES: u64 = 512;

/// See the module's description.
#[derive(LogicBlock)]
pub struct PageRuns {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// An access.
    pub access: Signal<In, Bit>,
    /// Page of the access.
    pub page: Signal<In, Bits<28>>,
    /// End the current run.
    pub flush: Signal<In, Bit>,
    /// The next access begins a run, whatever its page.
    pub clear_order: Signal<In, Bit>,
    /// An access begins a run.
    pub begins: Signal<Out, Bit>,
    /// Page of the run that begins.
    pub begun: Signal<Out, Bits<28>>,
    /// A run, or 512 accesses of it, has ended.
    pub run_valid: Signal<Out, Bit>,
    /// Page of the run that has ended.
    pub run_page: Signal<Out, Bits<28>>,
    /// Accesses of the run that has ended.
    pub run_accesses: Signal<Out, Bits<10>>,
    seen: Register<Bit>,
    same: Register<Bit>,
    known: Register<Bit>,
    last: Register<Bits<28>>,
    open: Register<Bit>,
    current: Register<Bits<28>>,
    accesses: ClearedRegister<Bits<10>>,
    masked: Signal<Local, Bits<28>>,
    full: Signal<Local, Bit>,
    ends: Signal<Local, Bit>,
    page_mask: Constant<Bits<28>>,
    full_bit: Constant<Bits<10>>,
}

/// Returns the bits that a page number of this memory can have.
pub fn page_mask(memory: &MemoryDescription) -> u64 {
    let highest = u64::BITS - memory.map.named_bits().leading_zeros();
    ((1u64 << highest) - 1) >> PAGE_LOG2 & 0xfff_ffff
}

impl PageRuns {
    /// Builds the unit for one memory. Bits that no page number has are left out.
    pub fn new(memory: &MemoryDescription) -> Self {
        block! {
            Self {
                page_mask: Constant::new(page_mask(memory).into()),
                full_bit: Constant::new(MAX_RUN_ACCESSES.into()),
            }
            default: clock, access, page, flush, clear_order, begins, begun, run_valid, run_page,
                run_accesses, seen, same, known, last, open, current, accesses, masked, full, ends
        }
    }
}

impl Logic for PageRuns {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, seen, same, known, last, open, current, accesses);
        self.masked.next = self.page.val() & self.page_mask.val();
        self.seen.d.next = self.access.val();
        if self.access.val() {
            self.last.d.next = self.masked.val();
            self.same.d.next = self.known.q.val() & (self.masked.val() == self.last.q.val());
            self.known.d.next = true;
        }
        if self.clear_order.val() {
            self.known.d.next = false;
        }
        self.full.next = (self.accesses.q.val() & self.full_bit.val()) != 0;
        self.ends.next = self.seen.q.val() & (!self.same.q.val() | self.full.val());
        self.begins.next = self.seen.q.val() & !self.same.q.val();
        self.begun.next = self.last.q.val();
        self.run_valid.next = self.open.q.val() & (self.ends.val() | self.flush.val());
        self.run_page.next = self.current.q.val();
        self.run_accesses.next = self.accesses.q.val();
        if self.flush.val() {
            self.open.d.next = false;
            self.accesses.d.next = bits::<10>(0);
        }
        if self.seen.q.val() {
            self.open.d.next = true;
            self.accesses.d.next = self.accesses.q.val() + 1;
            if self.ends.val() | self.flush.val() {
                self.accesses.d.next = bits::<10>(1);
                self.current.d.next = self.last.q.val();
            }
        }
    }
}
