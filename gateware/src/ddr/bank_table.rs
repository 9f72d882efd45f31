//! Commands to what each finds: whether its bank is open, what its row has seen since ACTIVATE, and
//! which JEDEC distances still run.
//!
//! ```text
//! clock         _/0\_/1\_/2\_/3\_
//! op, ranks...      <A ><B >
//! found                 .   <A ><B >   two edges later
//! ```
//!
//! The first edge spreads a command to one select line for each bank; at the second each bank and rank
//! changes its own state by itself, and what was there before is gathered. So a command meets all that
//! earlier ones did, one clock before included, and no path is longer than a gather. The Verilog has
//! only the banks, ranks and timers the memory has; the model knows them by number.
//!
//! A bank has one timer: tRCD while it is open, tRP while it is closed. A rank has one as well, for
//! tRFC, tXS or tMRD: in each of them all banks are closed and ACTIVATE is refused.

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::Axis;
use rust_hdl::prelude::*;

use crate::reset::domain::Edge;
use crate::reset::{Domain, Edges};

mod verilog;

/// Place of each kind of command in `op`, a bit each; no bit for a clock without command.
#[allow(missing_docs)] // the names are JEDEC's
pub mod op {
    pub const ACTIVATE: u32 = 0;
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const PRECHARGE: u32 = 3;
    pub const PRECHARGE_ALL: u32 = 4;
    /// REFRESH; self-refresh entry where CKE falls.
    pub const REFRESH: u32 = 5;
    pub const MODE_REGISTER_SET: u32 = 6;
    pub const ZQ_CALIBRATION: u32 = 7;
    pub const RESERVED: u32 = 8;
    pub const BURST_TERMINATE: u32 = 9;
}

/// What a command finds.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Found {
    /// The command, see [`op`].
    pub op: Bits<10>,
    /// Lowest rank it goes to.
    pub rank: Bits<2>,
    /// Bank address; pins the memory lacks are 0.
    pub ba: Bits<4>,
    /// It goes to several ranks.
    pub several: Bit,
    /// Its bank is open.
    pub open: Bit,
    /// No READ or WRITE since the ACTIVATE.
    pub fresh: Bit,
    /// A PRECHARGE of just this bank had closed its row before, and no PRECHARGE ALL or REFRESH came since.
    pub conflict: Bit,
    /// Its bank is within tRCD or tRP.
    pub bank_busy: Bit,
    /// Any bank of its ranks is open.
    pub any_open: Bit,
    /// Any bank of its ranks is within tRP.
    pub any_in_rp: Bit,
    /// Its lowest busy rank is within: 0 none, 1 tRFC, 2 tXS, 3 tMRD.
    pub window: Bits<2>,
    /// Ranks whose REFRESH is overdue since this clock, whatever the command.
    pub overdue: Bits<4>,
}

/// Place of the windows in [`Found::window`].
const RFC: u8 = 1;
const XS: u8 = 2;
const MRD: u8 = 3;

/// Sizes and distances of a memory.
#[derive(Clone, Debug)]
struct Shape {
    ranks: usize,
    banks: usize,
    trcd: u32,
    trp: u32,
    windows: [u32; 4],
    refresh_limit: u32,
}

/// A command, spread out: the first edge.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    op: u32,
    a10: bool,
    ranks: u8,
    asleep: u8,
    woken: u8,
    ba: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    open: bool,
    fresh: bool,
    conflict: bool,
    left: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    window: u8,
    left: u32,
    self_refresh: bool,
    refreshes: bool,
    since: u32,
    overdue: bool,
}

/// All state.
#[derive(Clone, Debug)]
struct State {
    spread: Spread,
    /// A distance runs, so that a clock without command changes something.
    running: bool,
    banks: Vec<Bank>,
    ranks: [Rank; 4],
}

impl State {
    fn at_power_on(banks: usize) -> Self {
        Self {
            spread: Spread::default(),
            running: false,
            banks: vec![Bank::default(); banks],
            ranks: [Rank::default(); 4],
        }
    }

    fn clear(&mut self) {
        *self = Self::at_power_on(self.banks.len());
    }
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct BankTable {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// Command, see [`op`].
    pub op: Signal<In, Bits<10>>,
    /// Address pin A10.
    pub a10: Signal<In, Bit>,
    /// Ranks the command goes to; none without command.
    pub ranks: Signal<In, Bits<4>>,
    /// Those of them whose CKE falls.
    pub asleep: Signal<In, Bits<4>>,
    /// Ranks whose CKE rises, command or not.
    pub woken: Signal<In, Bits<4>>,
    /// Bank address pins.
    pub ba: Signal<In, Bits<4>>,
    /// What the command of two clocks before finds.
    pub found: Signal<Out, Found>,
    _shape: Shape,
    _state: State,
    /// What an edge brought, taken in after it.
    _incoming: Option<Spread>,
    _edges: Edges,
}

impl BankTable {
    /// The banks and ranks of one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let ranks = usize::from(memory.ranks());
        let banks = 1 << memory.bits(Axis::Bank);
        block! {
            Self {
                _shape: Shape {
                    ranks,
                    banks,
                    trcd: memory.trcd_clocks.into(),
                    trp: memory.trp_clocks.into(),
                    windows: [
                        0,
                        memory.trfc_clocks.into(),
                        memory.txs_clocks.into(),
                        memory.tmrd_clocks.into(),
                    ],
                    refresh_limit: memory.refresh_limit_clocks,
                },
                _state: State::at_power_on(ranks * banks),
                _incoming: None,
            }
            default: clock, op, a10, ranks, asleep, woken, ba, found, _edges
        }
    }

    fn spread(&self) -> Spread {
        let present = (1 << self._shape.ranks) - 1;
        Spread {
            op: self.op.val().index() as u32,
            a10: self.a10.val(),
            ranks: self.ranks.val().index() as u8 & present,
            asleep: self.asleep.val().index() as u8,
            woken: self.woken.val().index() as u8,
            ba: self.ba.val().index() & (self._shape.banks - 1),
        }
    }
}

fn is(op: u32, kind: u32) -> bool {
    op >> kind & 1 != 0
}

/// Clocks left after the one that starts a distance of `clocks`.
fn left(clocks: u32) -> u32 {
    clocks.saturating_sub(1)
}

impl Shape {
    /// What the spread command finds.
    fn found(&self, state: &State) -> Found {
        let Spread { op, ranks, ba, .. } = state.spread;
        let chosen = |rank: &usize| ranks >> rank & 1 != 0;
        let banks = |rank: usize| &state.banks[rank * self.banks..(rank + 1) * self.banks];
        let mut found =
            Found { op: u64::from(op).into(), ba: (ba as u64).into(), ..Default::default() };
        for (number, rank) in state.ranks[..self.ranks].iter().enumerate() {
            found.overdue = found.overdue.replace_bit(number, rank.overdue);
        }
        if op == 0 {
            return found;
        }
        found.several = ranks.count_ones() > 1;
        for rank in (0..self.ranks).rev().filter(chosen) {
            let bank = banks(rank)[ba];
            found.rank = (rank as u64).into();
            found.open |= bank.open;
            found.fresh |= bank.fresh;
            found.conflict |= bank.conflict;
            found.bank_busy |= bank.left != 0;
            found.any_open |= banks(rank).iter().any(|bank| bank.open);
            found.any_in_rp |= banks(rank).iter().any(|bank| !bank.open && bank.left != 0);
            if state.ranks[rank].left != 0 {
                found.window = u64::from(state.ranks[rank].window).into();
            }
        }
        found
    }

    /// The second edge.
    fn advance(&self, state: &mut State) {
        let Spread { op, woken, .. } = state.spread;
        let quiet = op == 0 && woken == 0 && !state.running;
        state.running = false;
        for rank in 0..self.ranks {
            let banks = rank * self.banks..(rank + 1) * self.banks;
            let any_open = !quiet && state.banks[banks.clone()].iter().any(|bank| bank.open);
            for (bank, number) in banks.zip(0..).filter(|_| !quiet) {
                state.banks[bank] = self.bank(state, rank, number, state.banks[bank]);
                state.running |= state.banks[bank].left != 0;
            }
            state.ranks[rank] = self.rank(&state.spread, rank, state.ranks[rank], any_open);
            state.running |= state.ranks[rank].left != 0;
        }
    }

    fn bank(&self, state: &State, rank: usize, number: usize, mut bank: Bank) -> Bank {
        let Spread { op, a10, ranks, ba, .. } = state.spread;
        bank.left = bank.left.saturating_sub(1);
        if op == 0 || ranks >> rank & 1 == 0 {
            return bank;
        }
        let one_rank = ranks.is_power_of_two();
        if is(op, op::PRECHARGE_ALL) && bank.open {
            bank.left = left(self.trp);
        }
        if is(op, op::REFRESH) {
            bank.left = if bank.open { 0 } else { bank.left };
        }
        if is(op, op::PRECHARGE_ALL) || is(op, op::REFRESH) {
            bank.open = false;
            bank.conflict = false;
        }
        if number != ba {
            return bank;
        }
        let column = is(op, op::READ) || is(op, op::WRITE);
        if is(op, op::ACTIVATE) {
            let was_open = bank.open;
            bank.open = !was_open && state.ranks[rank].left == 0 && one_rank;
            bank.fresh = true;
            bank.conflict &= !was_open;
            bank.left = if bank.open { left(self.trcd) } else { 0 };
        } else if column {
            bank.fresh &= !bank.open || !one_rank;
            if a10 {
                bank.left = if bank.open { 0 } else { bank.left };
                bank.open = false;
                bank.conflict = false;
            }
        } else if is(op, op::PRECHARGE) && bank.open {
            bank.open = false;
            bank.conflict = true;
            bank.left = left(self.trp);
        }
        bank
    }

    fn rank(&self, spread: &Spread, number: usize, mut rank: Rank, any_open: bool) -> Rank {
        let bit = |ranks: u8| ranks >> number & 1 != 0;
        let busy = rank.left != 0;
        let command = |kind| is(spread.op, kind) && bit(spread.ranks);
        let refresh = command(op::REFRESH) && !bit(spread.asleep);
        let entry = command(op::REFRESH) && bit(spread.asleep);
        let exit = rank.self_refresh && bit(spread.woken);
        rank.left = rank.left.saturating_sub(1);
        if refresh && !any_open {
            (rank.window, rank.left) = (RFC, left(self.windows[usize::from(RFC)]));
        } else if exit {
            (rank.window, rank.left) = (XS, left(self.windows[usize::from(XS)]));
        } else if command(op::MODE_REGISTER_SET) && !busy && !any_open {
            (rank.window, rank.left) = (MRD, left(self.windows[usize::from(MRD)]));
        }
        rank.self_refresh = entry || rank.self_refresh && !bit(spread.woken);
        // A period is overdue once, and the next one starts with a REFRESH.
        let due = rank.refreshes && rank.since == self.refresh_limit;
        rank.overdue = due && !refresh && !entry && !exit;
        rank.since += u32::from(rank.refreshes);
        if refresh || exit {
            (rank.refreshes, rank.since) = (self.refresh_limit != 0, 1);
        } else if entry || due {
            rank.refreshes = false;
        }
        rank
    }
}

impl Logic for BankTable {
    fn update(&mut self) {
        let edge = self._edges.next(&self.clock);
        if self.clock.val().reset {
            if self.clock.changed {
                self._state.clear();
            }
            self._incoming = None;
            self.found.next = Found::default();
            return;
        }
        match edge {
            Some(Edge::Rising) => {
                // A second evaluation on this edge finds the same.
                let found = self._shape.found(&self._state);
                if self.found.val() != found {
                    self.found.next = found;
                }
                self._incoming = Some(self.spread());
            }
            Some(Edge::Falling) => {
                if let Some(incoming) = self._incoming.take() {
                    self._shape.advance(&mut self._state);
                    self._state.spread = incoming;
                }
            }
            None => {}
        }
    }

    fn connect(&mut self) {
        self.found.connect();
    }

    fn hdl(&self) -> Verilog {
        Verilog::Custom(verilog::of(&self._shape))
    }

    fn timing(&self) -> Vec<TimingInfo> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        vec![TimingInfo {
            name: "bank_table".into(),
            clock: "clock".into(),
            inputs: names(&["op", "a10", "ranks", "asleep", "woken", "ba"]),
            outputs: names(&["found"]),
        }]
    }
}
