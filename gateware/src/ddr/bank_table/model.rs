//! Simulates the bank table. `super::verilog` describes the same hardware.

use super::{CommandLines, Found, Window};

/// Sizes and timing distances of a memory.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) ranks: usize,
    pub(super) banks: usize,
    pub(super) trcd: u32,
    pub(super) trp: u32,
    pub(super) trfc: u32,
    pub(super) txs: u32,
    pub(super) tmrd: u32,
    pub(super) refresh_limit: u32,
}

/// A command as the first edge registers it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    pub(super) op: CommandLines,
    pub(super) a10: bool,
    pub(super) ranks: u8,
    pub(super) cke_falls: u8,
    pub(super) cke_rises: u8,
    pub(super) ba: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bank {
    open: bool,
    fresh: bool,
    conflict: bool,
    left: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rank {
    window: Window,
    left: u32,
    self_refresh: bool,
    refreshes: bool,
    since: u32,
    overdue: bool,
}

impl Rank {
    fn begin(&mut self, window: Window, shape: &Shape) {
        (self.window, self.left) = (window, left(shape.clocks(window)));
    }
}

/// State of the table.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) spread: Spread,
    /// A timer runs, so a clock without a command changes state.
    running: bool,
    pub(super) banks: Vec<Bank>,
    pub(super) ranks: [Rank; 4],
}

impl State {
    pub(super) fn at_power_on(banks: usize) -> Self {
        Self {
            spread: Spread::default(),
            running: false,
            banks: vec![Bank::default(); banks],
            ranks: [Rank::default(); 4],
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::at_power_on(self.banks.len());
    }
}

/// Returns the number of clocks that remain of a distance of `clocks` after its first clock.
pub(super) fn left(clocks: u32) -> u32 {
    clocks.saturating_sub(1)
}

impl Shape {
    pub(super) fn clocks(&self, window: Window) -> u32 {
        match window {
            Window::Elapsed => 0,
            Window::Rfc => self.trfc,
            Window::Xs => self.txs,
            Window::Mrd => self.tmrd,
        }
    }

    /// Returns the state that the registered command finds.
    pub(super) fn found(&self, state: &State) -> Found {
        let Spread { op, ranks, ba, .. } = state.spread;
        let chosen = |rank: &usize| ranks >> rank & 1 != 0;
        let banks = |rank: usize| &state.banks[rank * self.banks..(rank + 1) * self.banks];
        let mut findings = Found { op, ba: (ba as u64).into(), ..Default::default() };
        for (number, rank) in state.ranks[..self.ranks].iter().enumerate() {
            findings.overdue = findings.overdue.replace_bit(number, rank.overdue);
        }
        if !op.any() {
            return findings;
        }
        findings.several = ranks.count_ones() > 1;
        for rank in (0..self.ranks).rev().filter(chosen) {
            let bank = banks(rank)[ba];
            findings.rank = (rank as u64).into();
            findings.open |= bank.open;
            findings.fresh |= bank.fresh;
            findings.conflict |= bank.conflict;
            findings.bank_busy |= bank.left != 0;
            findings.any_open |= banks(rank).iter().any(|bank| bank.open);
            findings.any_in_rp |= banks(rank).iter().any(|bank| !bank.open && bank.left != 0);
            if state.ranks[rank].left != 0 {
                findings.window = state.ranks[rank].window;
            }
        }
        findings
    }

    /// Applies the registered command: the second edge.
    pub(super) fn advance(&self, state: &mut State) {
        let Spread { op, cke_rises, .. } = state.spread;
        let quiet = !op.any() && cke_rises == 0 && !state.running;
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
        if !op.any() || ranks >> rank & 1 == 0 {
            return bank;
        }
        let one_rank = ranks.is_power_of_two();
        if op.precharge_all && bank.open {
            bank.left = left(self.trp);
        }
        if op.refresh {
            bank.left = if bank.open { 0 } else { bank.left };
        }
        if op.precharge_all || op.refresh {
            bank.open = false;
            bank.conflict = false;
        }
        if number != ba {
            return bank;
        }
        let column = op.read || op.write;
        if op.activate {
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
        } else if op.precharge && bank.open {
            bank.open = false;
            bank.conflict = true;
            bank.left = left(self.trp);
        }
        bank
    }

    fn rank(&self, spread: &Spread, number: usize, mut rank: Rank, any_open: bool) -> Rank {
        let bit = |ranks: u8| ranks >> number & 1 != 0;
        let busy = rank.left != 0;
        let chosen = bit(spread.ranks);
        let refresh = chosen && spread.op.refresh && !bit(spread.cke_falls);
        let entry = chosen && spread.op.refresh && bit(spread.cke_falls);
        let exit = rank.self_refresh && bit(spread.cke_rises);
        rank.left = rank.left.saturating_sub(1);
        if refresh && !any_open {
            rank.begin(Window::Rfc, self);
        } else if exit {
            rank.begin(Window::Xs, self);
        } else if chosen && spread.op.mode_register_set && !busy && !any_open {
            rank.begin(Window::Mrd, self);
        }
        rank.self_refresh = entry || rank.self_refresh && !bit(spread.cke_rises);
        // A period becomes overdue once; a REFRESH begins the next one.
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
