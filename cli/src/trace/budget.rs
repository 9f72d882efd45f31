//! Keeps the slowdown of a recorded program below what is asked (`--budget`).
//!
//! While a program is recorded, this estimates how far it would have come natively in the same
//! time. Where that is too little
//!
//! 1. less is recorded of functions, first of those with the fewest known accesses for what they
//!    cost ([`levels`]), as long as at least `LEAST_KNOWN` of all accesses remain known;
//! 2. if that does not suffice, the program runs natively from time to time, for as long as brings
//!    it back below the slowdown that is asked, and all is recorded in between.
//!
//! # The estimate
//!
//! While the program is recorded for `on` seconds, its threads use `cpu` seconds of processors, and
//! this process `own` seconds. Then it is taken to have come as far as natively in
//!
//! ```text
//! busy = min(on, cpu)     idle = min(on - busy - own, on * waits)
//! native = idle + busy / RECORDED
//! ```
//!
//! `waits` is the share of the time in which it used no processor when it ran natively, 0 before
//! that. `RECORDED` is how many times its native processor time a program uses while all of its
//! accesses are recorded; the rest of the slowdown is waiting for this process. A program for which
//! that is more exceeds the budget. Times in which it runs natively count as they are.

mod costs;
mod levels;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hmtt_translator::control::{Extents, FunctionKey, Left, processor_time};
use hmtt_translator::extent::{Chunk, Extent, Omega, Selector};
use hmtt_translator::recorded::Choice;
use nix::time::ClockId;
use nix::unistd::Pid;

use costs::Costs;
pub use costs::{Counter, CountingSink};
use levels::{Level, choose};

/// Processor time of a program while all accesses are recorded, as a multiple of that of a native
/// run: 2.1 to 2.4 for LuaJIT, bzip2 and fib.
const RECORDED: f64 = 2.5;
/// The part of the budget that is used: the rest is for what cannot be made up for, at the end and
/// by estimates.
const USED: f64 = 0.8;
/// Least share of accesses that are known if the program is recorded all the time.
const LEAST_KNOWN: f64 = 0.1;
/// Shares of the accesses of a function with different addresses that may be recorded, in percent.
const SHARES: [u32; 5] = [10, 25, 50, 75, 100];
/// How long the program is recorded at first, and later: this share of the time before, and not
/// longer than that.
const FIRST: Duration = Duration::from_millis(100);
const SHARE_OF_TIME: u32 = 20;
const LONGEST: Duration = Duration::from_secs(1);
const LONGEST_WITHOUT_PAUSE: Duration = Duration::from_secs(10);
/// Shortest time in which a program runs natively: it is stopped before and after that.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// By how much a program may be slowed down: the additional time, as a share of the native time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget(f64);

impl Budget {
    /// The part of it that is used.
    fn used(self) -> Budget {
        Budget(USED * self.0)
    }
}

impl std::str::FromStr for Budget {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let percent: f64 =
            number.parse().with_context(|| format!("{text} is no share, such as 50%"))?;
        ensure!((1.0..=10_000.0).contains(&percent), "{text}: 1% to 10000% is expected");
        Ok(Budget(percent / 100.0))
    }
}

/// Times of a window in which the program was recorded, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    /// From its start to its end.
    on: f64,
    /// Processor time of the program, and of this process.
    cpu: f64,
    own: f64,
    /// Units that were written.
    units: f64,
    /// The share of native times in which the program used no processor.
    waits: f64,
}

impl Window {
    /// How long the program waited, and how long its own work would have taken natively.
    fn idle_and_work(&self) -> (f64, f64) {
        let busy = self.on.min(self.cpu);
        let idle = (self.on - busy - self.own).min(self.on * self.waits).max(0.0);
        (idle, busy / RECORDED)
    }

    /// How many units may be written in a window in which the program does the same, without native
    /// times.
    fn most_units(&self, Budget(budget): Budget) -> f64 {
        let (idle, work) = self.idle_and_work();
        let without = idle + RECORDED * work;
        let each = (self.on - without).max(f64::EPSILON) / self.units.max(1.0);
        ((1.0 + budget) * (idle + work) - without).max(0.0) / each
    }
}

/// Time since the slowdown was at most what is asked.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Time that has passed, and the estimated time of a native run, in seconds.
    passed: f64,
    native: f64,
}

impl Times {
    /// For how long the program is to run natively.
    fn pause(&self, Budget(budget): Budget) -> f64 {
        ((self.passed - (1.0 + budget) * self.native) / budget).max(0.0)
    }
}

/// Decides when a program is recorded, and how much of it.
pub struct Regulator {
    budget: Budget,
    /// How much can be recorded of a function, the least first; the last one is all that is chosen.
    levels: Vec<Extent>,
    counter: Arc<Mutex<Counter>>,
    /// How much is recorded of each function.
    pub extents: Arc<Extents>,
    chosen: HashMap<FunctionKey, Extent>,
    started: Instant,
    /// When recording has begun, and the processor times of the program and of this process then.
    begin: (Instant, Duration, Duration),
    /// Since when the program runs natively.
    left: Option<Left>,
    /// How long it ran natively, and the processor time that it used then, in seconds.
    natively: (f64, f64),
    /// How long the program is recorded next.
    on: Duration,
    since: Times,
    all: Times,
    /// How often it was recorded, and for how long.
    windows: u64,
    recorded: f64,
}

fn own_time() -> Duration {
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

impl Regulator {
    /// Nothing was recorded. `choice`: what is recorded of all blocks if that does not cost too
    /// much.
    pub fn new(budget: Budget, choice: Choice, chunk: Chunk) -> Self {
        let most = match choice.selector {
            Selector::Every => Omega::ALL,
            Selector::Representatives { omega, .. } => omega,
        };
        let shares = SHARES.iter().filter_map(|share| Omega::from_percent(*share).ok());
        let shares = shares.filter(|share| *share < most || choice.selector == Selector::Every);
        let shares = shares.map(|omega| Extent::By(Selector::Representatives { omega, chunk }));
        let levels: Vec<Extent> =
            [Extent::Nothing].into_iter().chain(shares).chain([Extent::Chosen]).collect();
        let now = Instant::now();
        Regulator {
            budget,
            counter: Arc::new(Mutex::new(Counter::new(levels.clone(), choice))),
            levels,
            extents: Arc::default(),
            chosen: HashMap::new(),
            started: now,
            begin: (now, Duration::ZERO, own_time()),
            left: None,
            natively: (0.0, 0.0),
            on: FIRST,
            since: Times::default(),
            all: Times::default(),
            windows: 0,
            recorded: 0.0,
        }
    }

    /// What counts the costs.
    pub fn counter(&self) -> Arc<Mutex<Counter>> {
        self.counter.clone()
    }

    /// How long the program is recorded next.
    pub fn on(&self) -> Duration {
        self.on
    }

    /// Recording begins, behind a time in which the process has run natively.
    pub fn begin(&mut self, pid: Pid) {
        let (now, cpu) = (Instant::now(), processor_time(pid));
        if let Some(Left { at, used }) = self.left.take() {
            let native = now.duration_since(at).as_secs_f64();
            self.add(native, native);
            self.natively.0 += native;
            self.natively.1 += cpu.saturating_sub(used).as_secs_f64();
        }
        self.begin = (now, cpu, own_time());
    }

    /// Time has passed.
    fn add(&mut self, passed: f64, native: f64) {
        for times in [&mut self.since, &mut self.all] {
            times.passed += passed;
            times.native += native;
        }
    }

    /// The share of native times in which the program used no processor.
    fn waits(&self) -> f64 {
        let (time, cpu) = self.natively;
        if time > 0.0 { (1.0 - cpu / time).max(0.0) } else { 0.0 }
    }

    /// Recording has ended. Returns for how long the program is to run natively.
    pub fn pause(&mut self, left: Left) -> Duration {
        let Left { at, used } = left;
        let (begin, cpu, own) = self.begin;
        let costs = costs::take(&self.counter);
        let window = Window {
            on: at.duration_since(begin).as_secs_f64(),
            cpu: used.saturating_sub(cpu).as_secs_f64(),
            own: own_time().saturating_sub(own).as_secs_f64(),
            units: costs.units as f64,
            waits: self.waits(),
        };
        self.left = Some(left);
        let (idle, work) = window.idle_and_work();
        self.windows += 1;
        self.recorded += window.on;
        self.add(window.on, idle + work);
        let pause = self.since.pause(self.budget.used());
        let has_changed = self.plan(&window, &costs);
        let longest = match pause > 0.0 || has_changed {
            true => LONGEST.min(self.started.elapsed() / SHARE_OF_TIME),
            false => LONGEST_WITHOUT_PAUSE.min(2 * self.on),
        };
        self.on = longest.max(FIRST);
        if pause <= 0.0 {
            self.since = Times::default();
            return Duration::ZERO;
        }
        Duration::from_secs_f64(pause).max(SHORTEST_PAUSE)
    }

    /// Decides how much is recorded of each function from now on. Returns whether that has changed.
    fn plan(&mut self, window: &Window, costs: &Costs) -> bool {
        let chosen = self.extents_for(window, costs);
        let has_changed = chosen != self.chosen;
        if has_changed {
            self.extents.replace(chosen.clone());
            self.chosen = chosen;
        }
        has_changed
    }

    /// How much may be recorded of each function. Without entries, all that is chosen.
    fn extents_for(&self, window: &Window, costs: &Costs) -> HashMap<FunctionKey, Extent> {
        let most = window.most_units(self.budget.used());
        let last = self.levels.len() - 1;
        let known: Vec<(&FunctionKey, &Vec<Level>)> = costs.functions.iter().collect();
        let index = |extent: Extent| self.levels.iter().position(|level| *level == extent);
        let now = |key: &FunctionKey| {
            index(self.chosen.get(key).copied().unwrap_or_default()).unwrap_or(last)
        };
        // Blocks of a path share slots, so fewer are written than each block for itself has.
        let planned: f64 = known.iter().map(|(key, levels)| levels[now(key)].units).sum();
        let written = costs.seen_units.saturating_sub(costs.seen_numbers) as f64;
        let shared = if planned > 0.0 { written / planned } else { 1.0 };
        let scale = window.units / (costs.seen_units as f64).max(1.0);
        let most = (most / scale - costs.seen_numbers as f64) / shared.max(f64::EPSILON);
        let sum = |of: fn(&Level) -> f64, at: &dyn Fn(usize) -> usize| -> f64 {
            known.iter().enumerate().map(|(one, (_, levels))| of(&levels[at(one)])).sum()
        };
        if sum(|level| level.units, &|_| last) <= most {
            return HashMap::new();
        }
        let levels: Vec<Vec<Level>> =
            known.iter().map(|(_, levels)| levels[..last].to_vec()).collect();
        let best = choose(&levels, most.max(0.0));
        let all = sum(|level| level.accesses, &|_| last);
        if most <= 0.0 || sum(|level| level.accesses, &|one| best[one]) < LEAST_KNOWN * all {
            return HashMap::new();
        }
        let extents =
            known.iter().zip(best).map(|((key, _), at)| ((*key).clone(), self.levels[at]));
        extents.collect()
    }

    /// What was recorded until now, in a sentence. The slowdown is that until recording has ended
    /// the last time.
    pub fn summary(&self) -> String {
        let (mut windows, mut recorded) = (self.windows, self.recorded);
        if self.left.is_none() {
            windows += 1;
            recorded += self.begin.0.elapsed().as_secs_f64();
        }
        let Times { passed, native } = self.all;
        let slowdown = if native > 0.0 { format!("{:.2}", passed / native) } else { "-".into() };
        let all = self.started.elapsed().as_secs_f64();
        format!(
            "the program was recorded {windows} times, for {recorded:.3} s of {all:.3} s; estimated slowdown: {slowdown}"
        )
    }
}

#[cfg(test)]
mod tests {
    use hmtt_translator::recorded::{Scope, Silence};
    use hmtt_translator::selection::Equality;

    use super::*;

    fn regulator(budget: &str, selector: Selector) -> Regulator {
        let (equality, direction, silence) = (Equality::Values, None, Silence::Never);
        let choice = Choice { selector, scope: Scope::Block, equality, direction, silence };
        Regulator::new(budget.parse().unwrap(), choice, Chunk::new(64).unwrap())
    }

    #[test]
    fn budgets_are_shares() {
        assert_eq!("50%".parse::<Budget>().unwrap(), Budget(0.5));
        assert_eq!("200".parse::<Budget>().unwrap(), Budget(2.0));
        for text in ["", "x", "0%", "-5%", "nan", "inf", "1e9%", "50%%"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_waiting_and_work_count_as_progress() {
        let window = Window { on: 1.0, waits: 1.0, ..Window::default() };
        // A program that sleeps loses nothing.
        assert_eq!(window.idle_and_work(), (1.0, 0.0));
        // What it waits for while this process computes is no progress.
        assert_eq!(Window { own: 2.0, ..window }.idle_and_work(), (0.0, 0.0));
        assert_eq!(Window { own: 0.25, cpu: 0.5, ..window }.idle_and_work(), (0.25, 0.2));
        // One that used to compute only does not wait now.
        assert_eq!(Window { waits: 0.0, ..window }.idle_and_work(), (0.0, 0.0));
        // Two threads come no farther than one.
        assert_eq!(Window { cpu: 2.0, ..window }.idle_and_work(), (0.0, 0.4));
    }

    #[test]
    fn pauses_bring_the_slowdown_to_the_budget() {
        let mut times = Times { passed: 1.0, native: 0.4 };
        let pause = times.pause(Budget(0.5));
        times.passed += pause;
        times.native += pause;
        assert!((times.passed / times.native - 1.5).abs() < 1e-9, "{times:?}");
        assert_eq!(Times { passed: 1.0, native: 0.7 }.pause(Budget(0.5)), 0.0);
    }

    /// A function with 1,000 executions of a block, whose levels have these slots and known
    /// accesses.
    fn function(levels: &[(f64, f64)]) -> Vec<Level> {
        let thousand = |(units, accesses): &(f64, f64)| Level {
            units: 1000.0 * units,
            accesses: 1000.0 * accesses,
        };
        levels.iter().map(thousand).collect()
    }

    /// What two functions cost: in one, few accesses have most addresses; in the other all have
    /// different ones.
    fn costs() -> Costs {
        let few =
            [(0.0, 0.0), (1.0, 8.0), (1.0, 8.0), (1.0, 8.0), (1.0, 8.0), (2.0, 10.0), (10.0, 10.0)];
        let many = [
            (0.0, 0.0),
            (1.0, 1.0),
            (2.0, 2.0),
            (5.0, 5.0),
            (7.0, 7.0),
            (10.0, 10.0),
            (10.0, 10.0),
        ];
        let functions =
            [(("few".into(), 1), function(&few)), (("many".into(), 2), function(&many))];
        Costs {
            units: 22_000,
            seen_units: 22_000,
            seen_numbers: 2_000,
            functions: functions.into(),
        }
    }

    /// A second, of which the program waits so much for units to be written, and computes in the
    /// rest.
    fn window(waits: f64) -> Window {
        Window { on: 1.0, cpu: 1.0 - waits, own: 1.0, units: 22_000.0, waits: 0.0 }
    }

    #[test]
    fn all_is_recorded_if_the_budget_suffices() {
        let regulator = regulator("300%", Selector::Every);
        assert!(regulator.extents_for(&window(0.1), &costs()).is_empty());
    }

    #[test]
    fn functions_that_tell_less_for_their_cost_are_recorded_less() {
        // The native time is 0.2 s. Of four fifths of the budget, 0.82 s, 0.5 s are needed by the
        // program itself, and 0.12 s are left for units: a quarter of those that were written.
        let regulator = regulator("262.5%", Selector::Every);
        let chosen = regulator.extents_for(&window(0.5), &costs());
        let share = |percent| {
            let omega = Omega::from_percent(percent).unwrap();
            Extent::By(Selector::Representatives { omega, chunk: Chunk::new(64).unwrap() })
        };
        assert_eq!(chosen[&("few".into(), 1)], share(100));
        assert_eq!(chosen[&("many".into(), 2)], share(10));
    }

    #[test]
    fn all_is_recorded_from_time_to_time_if_shares_do_not_suffice() {
        let regulator = regulator("50%", Selector::Every);
        assert!(regulator.extents_for(&window(0.5), &costs()).is_empty());
    }

    #[test]
    fn no_more_is_recorded_than_is_asked() {
        let chunk = Chunk::new(16).unwrap();
        let omega = Omega::from_percent(50).unwrap();
        let regulator = regulator("150%", Selector::Representatives { omega, chunk });
        let percent = |extent: &Extent| match extent {
            Extent::By(Selector::Representatives { omega, .. }) => Some(omega.percent()),
            _ => None,
        };
        let levels: Vec<_> = regulator.levels.iter().map(percent).collect();
        assert_eq!(levels, [None, Some(10), Some(25), None]);
        assert_eq!(regulator.levels.last(), Some(&Extent::Chosen));
    }
}
