//! Keeps the slowdown of a recorded program below the limit that the user gives (`--budget`).
//!
//! While a program is recorded, this module estimates the time that a native run would have taken
//! for the same work. If the slowdown is too large, two things follow:
//!
//! 1. Less is recorded of some functions, first of the functions with the fewest known accesses
//!    for their cost ([`levels`]). At least `LEAST_KNOWN` of all accesses must remain known.
//! 2. If that does not suffice, the program runs natively from time to time, long enough to bring
//!    the slowdown below the limit. Then everything is recorded between the native times.
//!
//! # The estimate
//!
//! A window is a time in which the program is recorded. Let it be `on` seconds long, let the
//! program's threads use `cpu` seconds of processor time, and let this process use `own` seconds.
//! Then the estimated time of a native run is
//!
//! ```text
//! busy = min(on, cpu)     idle = min(on - busy - own, on * waits)
//! native = idle + busy / RECORDED
//! ```
//!
//! `waits` is the fraction of native time in which the program used no processor; it is 0 before
//! the first native time. `RECORDED` is the factor by which the program's processor time grows
//! while all of its accesses are recorded. The rest of the slowdown is waiting for this process. If
//! a program's factor is larger than `RECORDED`, it exceeds the budget. Native times count as they
//! are. Example: with `on` 1 s, `cpu` 1 s, `own` 0.5 s and `waits` 0, the window has done the work
//! of 0.4 s.

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

/// Processor time of a program while all accesses are recorded, divided by the processor time of a
/// native run. Measured: 2.1 to 2.4 for LuaJIT, bzip2 and fib.
const RECORDED: f64 = 2.5;
/// The fraction of the budget that is planned for. The rest covers errors of the estimate, and the
/// last window, which no native time follows.
const USED: f64 = 0.8;
/// Minimum fraction of accesses that must be known if the program is recorded all the time.
const LEAST_KNOWN: f64 = 0.1;
/// Percentages of a function's accesses with different addresses that may be recorded.
const SHARES: [u32; 5] = [10, 25, 50, 75, 100];
/// Length of the first window, and minimum length of later windows.
const FIRST: Duration = Duration::from_millis(100);
/// A window after a native time, or after a change of levels, lasts at most one part in this number
/// of the time since the start.
const SHARE_OF_TIME: u32 = 20;
/// Maximum length of such a window.
const LONGEST: Duration = Duration::from_secs(1);
/// Maximum length of any other window, which lasts at most twice as long as the window before it.
const LONGEST_WITHOUT_PAUSE: Duration = Duration::from_secs(10);
/// Shortest native time. The program is stopped before and after it, so shorter times would not
/// pay.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The permitted slowdown: the additional time, as a fraction of the native time. Example: 0.5
/// allows 1.5 times the native time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget(f64);

impl Budget {
    /// The fraction of the budget that is planned for.
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

/// Durations of a window, in seconds. In a window the program is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    /// Length of the window.
    on: f64,
    /// Processor time of the program.
    cpu: f64,
    /// Processor time of this process.
    own: f64,
    /// Number of units (8 bytes each) that the program's threads wrote.
    units: f64,
    /// Fraction of native time in which the program used no processor.
    waits: f64,
}

impl Window {
    /// Estimates the time in which the program waited, and the native time of its own work. The sum
    /// is the estimated native time of the window.
    fn idle_and_work(&self) -> (f64, f64) {
        let busy = self.on.min(self.cpu);
        let idle = (self.on - busy - self.own).min(self.on * self.waits).max(0.0);
        (idle, busy / RECORDED)
    }

    /// Number of units that the program may write in a window with the same work, so that the
    /// budget is kept without native times.
    fn most_units(&self, Budget(budget): Budget) -> f64 {
        let (idle, work) = self.idle_and_work();
        let without = idle + RECORDED * work;
        let each = (self.on - without).max(f64::EPSILON) / self.units.max(1.0);
        ((1.0 + budget) * (idle + work) - without).max(0.0) / each
    }
}

/// Sums of durations since the slowdown was last within the budget, or since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Time that has passed, in seconds.
    passed: f64,
    /// Estimated time of a native run with the same work, in seconds.
    native: f64,
}

impl Times {
    /// Seconds for which the program must run natively until the slowdown is within the budget. 0
    /// if it is within the budget now.
    fn pause(&self, Budget(budget): Budget) -> f64 {
        ((self.passed - (1.0 + budget) * self.native) / budget).max(0.0)
    }
}

/// Decides when a program is recorded, and how much of each function.
pub struct Regulator {
    budget: Budget,
    /// The levels of recording a function: from nothing to everything that the user has chosen.
    levels: Vec<Extent>,
    counter: Arc<Mutex<Counter>>,
    /// The current level of each function, which the recorder reads.
    pub extents: Arc<Extents>,
    chosen: HashMap<FunctionKey, Extent>,
    started: Instant,
    /// Begin of the current window, and the processor times of the program and of this process at
    /// that time.
    begin: (Instant, Duration, Duration),
    /// Begin of the current native time; `None` while the program is recorded.
    left: Option<Left>,
    /// Sum of the native times in seconds, and the processor time that the program used in them.
    natively: (f64, f64),
    /// Length of the next window.
    on: Duration,
    since: Times,
    all: Times,
    /// Number of windows so far.
    windows: u64,
    /// Total length of the windows so far, in seconds.
    recorded: f64,
}

fn own_time() -> Duration {
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

impl Regulator {
    /// Creates a regulator before the first window. `choice`: the accesses that are recorded of a
    /// block at the highest level.
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

    /// The counter of costs, which observes everything that is recorded.
    pub fn counter(&self) -> Arc<Mutex<Counter>> {
        self.counter.clone()
    }

    /// Length of the next window.
    pub fn on(&self) -> Duration {
        self.on
    }

    /// Starts a window. Before the first window the process has not run natively.
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

    /// Adds a time that has passed, and the estimated native time of the same work.
    fn add(&mut self, passed: f64, native: f64) {
        for times in [&mut self.since, &mut self.all] {
            times.passed += passed;
            times.native += native;
        }
    }

    /// Fraction of native time in which the program used no processor.
    fn waits(&self) -> f64 {
        let (time, cpu) = self.natively;
        if time > 0.0 { (1.0 - cpu / time).max(0.0) } else { 0.0 }
    }

    /// Ends a window. Returns how long the program must run natively now; 0 if recording can
    /// continue.
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
        let longest = if pause > 0.0 || has_changed {
            LONGEST.min(self.started.elapsed() / SHARE_OF_TIME)
        } else {
            LONGEST_WITHOUT_PAUSE.min(2 * self.on)
        };
        self.on = longest.max(FIRST);
        if pause <= 0.0 {
            self.since = Times::default();
            return Duration::ZERO;
        }
        Duration::from_secs_f64(pause).max(SHORTEST_PAUSE)
    }

    /// Plans the levels of all functions for the next window. Returns whether a level has changed.
    fn plan(&mut self, window: &Window, costs: &Costs) -> bool {
        let chosen = self.extents_for(window, costs);
        let has_changed = chosen != self.chosen;
        if has_changed {
            self.extents.replace(chosen.clone());
            self.chosen = chosen;
        }
        has_changed
    }

    /// Chooses a level for each function. A function without an entry has the highest level; an
    /// empty map means that all functions have the highest level.
    fn extents_for(&self, window: &Window, costs: &Costs) -> HashMap<FunctionKey, Extent> {
        let most = window.most_units(self.budget.used());
        let last = self.levels.len() - 1;
        let known: Vec<(&FunctionKey, &Vec<Level>)> = costs.functions.iter().collect();
        let index = |extent: Extent| self.levels.iter().position(|level| *level == extent);
        let now = |key: &FunctionKey| {
            index(self.chosen.get(key).copied().unwrap_or_default()).unwrap_or(last)
        };
        // Blocks of a path share slots, so fewer units are written than the blocks need one by one.
        let planned: f64 = known.iter().map(|(key, levels)| levels[now(key)].units).sum();
        let written = costs.seen_units.saturating_sub(costs.seen_numbers) as f64;
        let shared = if planned > 0.0 { written / planned } else { 1.0 };
        let scale = window.units / (costs.seen_units as f64).max(1.0);
        let most = (most / scale - costs.seen_numbers as f64) / shared.max(f64::EPSILON);
        let sum = |value: fn(&Level) -> f64, at: &dyn Fn(usize) -> usize| -> f64 {
            known.iter().enumerate().map(|(one, (_, levels))| value(&levels[at(one)])).sum()
        };
        if sum(|level| level.units, &|_| last) <= most {
            return HashMap::new();
        }
        let levels: Vec<Vec<Level>> =
            known.iter().map(|(_, levels)| levels[..last].to_vec()).collect();
        let best = choose(&levels, most.max(0.0));
        let total = sum(|level| level.accesses, &|_| last);
        if most <= 0.0 || sum(|level| level.accesses, &|one| best[one]) < LEAST_KNOWN * total {
            return HashMap::new();
        }
        let extents =
            known.iter().zip(best).map(|((key, _), at)| ((*key).clone(), self.levels[at]));
        extents.collect()
    }

    /// A sentence on how often and how long the program was recorded until now. The slowdown in the
    /// sentence is the slowdown until the end of the last complete window.
    pub fn summary(&self) -> String {
        let (mut windows, mut recorded) = (self.windows, self.recorded);
        if self.left.is_none() {
            windows += 1;
            recorded += self.begin.0.elapsed().as_secs_f64();
        }
        let Times { passed, native } = self.all;
        let slowdown = if native > 0.0 { format!("{:.2}", passed / native) } else { "-".into() };
        let elapsed = self.started.elapsed().as_secs_f64();
        format!(
            "the program was recorded {windows} times, for {recorded:.3} s of {elapsed:.3} s; estimated slowdown: {slowdown}"
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
        // A program that waits while this process computes makes no progress.
        assert_eq!(Window { own: 2.0, ..window }.idle_and_work(), (0.0, 0.0));
        assert_eq!(Window { own: 0.25, cpu: 0.5, ..window }.idle_and_work(), (0.25, 0.2));
        // A program that only computed in its native times does not wait now.
        assert_eq!(Window { waits: 0.0, ..window }.idle_and_work(), (0.0, 0.0));
        // Two threads make no more progress than one.
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

    /// A function with 1,000 executions of a block. `levels`: for each level, the slots of the
    /// block and its known accesses.
    fn function(levels: &[(f64, f64)]) -> Vec<Level> {
        let thousand = |(units, accesses): &(f64, f64)| Level {
            units: 1000.0 * units,
            accesses: 1000.0 * accesses,
        };
        levels.iter().map(thousand).collect()
    }

    /// Costs of two functions. In `few`, a few recorded accesses tell most addresses. In `many`,
    /// all accesses have different addresses.
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

    /// A window of one second. The program waits for units to be written during the fraction
    /// `waits`, and computes in the rest.
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
        // The native time is 0.2 s. Four fifths of the budget allow 0.62 s. The program itself
        // needs 0.5 s, so 0.12 s are left for units: a quarter of the units that were written.
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
