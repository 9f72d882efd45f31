//! Chooses a level of recording for each function, so that as many accesses as possible are known
//! for a limited number of units.
//!
//! Each function has several levels, of which one is chosen. This is a knapsack problem with
//! multiple choice. A step raises a function to a higher level. Steps are taken in the order of
//! their gain per unit, which is optimal up to one step (H. Kellerer, U. Pferschy, D. Pisinger,
//! *Knapsack Problems*, 2004, 11.2).

use std::cmp::Ordering;

/// Cost and gain of a level in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// Units that are written.
    pub units: f64,
    /// Accesses whose addresses are known.
    pub accesses: f64,
}

/// A step that raises a function to a higher level.
#[derive(Clone, Copy, Debug)]
struct Step {
    function: usize,
    to: usize,
    units: f64,
    /// Gain in accesses, divided by the cost in units.
    worth: f64,
}

/// The steps of a function between the levels on their upper convex hull. So no step has a higher
/// worth than the step before it. Without a step, the function has its first level. Example: levels
/// of (0, 0), (1, 1) and (2, 4) units and accesses have one step, from the first level to the last;
/// its worth is 2.
fn steps(function: usize, levels: &[Level]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (to, level) in levels.iter().enumerate().skip(1) {
        loop {
            let from = levels[steps.last().map_or(0, |step| step.to)];
            let (units, accesses) = (level.units - from.units, level.accesses - from.accesses);
            if accesses <= 0.0 {
                break;
            }
            let worth = if units > 0.0 { accesses / units } else { f64::INFINITY };
            match steps.last() {
                Some(last) if last.worth < worth => drop(steps.pop()),
                _ => {
                    steps.push(Step { function, to, units: units.max(0.0), worth });
                    break;
                }
            }
        }
    }
    steps
}

/// Chooses a level of each function. All levels together may cost at most `most_units` more than
/// the first levels. Returns the index of each function's level. Example: functions with the levels
/// (0, 0), (2, 4) and (0, 0), (2, 2) and 3 units get the levels 1 and 0.
pub fn choose(functions: &[Vec<Level>], most_units: f64) -> Vec<usize> {
    let mut candidates: Vec<Step> =
        functions.iter().enumerate().flat_map(|(at, levels)| steps(at, levels)).collect();
    // The sort is stable, so the steps of a function stay in their order.
    candidates.sort_by(|one, other| other.worth.partial_cmp(&one.worth).unwrap_or(Ordering::Equal));
    let mut chosen = vec![0; functions.len()];
    let mut is_full = vec![false; functions.len()];
    let mut left = most_units;
    for step in candidates {
        if is_full[step.function] || step.units > left {
            is_full[step.function] = true;
            continue;
        }
        left -= step.units;
        chosen[step.function] = step.to;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level((units, accesses): (u16, u16)) -> Level {
        Level { units: units.into(), accesses: accesses.into() }
    }

    /// Maximum number of known accesses by any choice of levels.
    fn best(functions: &[Vec<Level>], most_units: f64) -> f64 {
        let Some((first, rest)) = functions.split_first() else { return 0.0 };
        let base = first[0].units;
        let fits = first.iter().filter(|one| one.units - base <= most_units);
        let each = fits.map(|one| one.accesses + best(rest, most_units - (one.units - base)));
        each.fold(0.0, f64::max)
    }

    #[test]
    fn the_worthiest_steps_are_taken_first() {
        let functions = vec![
            [(0, 0), (10, 100), (20, 120)].map(level).to_vec(),
            [(0, 0), (10, 30), (20, 90)].map(level).to_vec(),
        ];
        assert_eq!(choose(&functions, 0.0), [0, 0]);
        assert_eq!(choose(&functions, 10.0), [1, 0]);
        // The second level of the second function has a lower worth than its third level, so it is
        // skipped.
        assert_eq!(choose(&functions, 30.0), [1, 2]);
        assert_eq!(choose(&functions, 40.0), [2, 2]);
    }

    proptest! {
        #[test]
        fn choices_fit_and_lack_at_most_one_step(
            functions in prop::collection::vec(
                prop::collection::vec((0_u16..100, 0_u16..100), 0..5), 1..5),
            most in 0_u16..300,
        ) {
            // Levels cost and gain more and more.
            let sums = |steps: &Vec<(u16, u16)>| {
                let mut sum = (0, 0);
                let next = |(units, accesses): &(u16, u16)| {
                    sum = (sum.0 + units, sum.1 + accesses);
                    level(sum)
                };
                [Level::default()].into_iter().chain(steps.iter().map(next)).collect::<Vec<_>>()
            };
            let functions: Vec<Vec<Level>> = functions.iter().map(sums).collect();
            let chosen = choose(&functions, most.into());
            let sum = |field: fn(&Level) -> f64| -> f64 {
                functions.iter().zip(&chosen).map(|(levels, at)| field(&levels[*at])).sum()
            };
            prop_assert!(sum(|one| one.units) <= f64::from(most));
            let greatest = functions.iter().flat_map(|levels| levels.last());
            let greatest = greatest.map(|one| one.accesses).fold(0.0, f64::max);
            let lacking = best(&functions, most.into()) - sum(|one| one.accesses);
            prop_assert!(lacking <= greatest, "{} lacking", lacking);
        }
    }
}
