//! Places and routes a mapped design with several seeds, several at a time.
//!
//! Seeds are begun in order, and each begun seed is finished. So the number of tried seeds depends
//! on how many run at the same time, but the lowest seed that meets timing is always tried.

use std::fs;
use std::sync::Mutex;
use std::thread;

use super::family::report_name;
use super::report::{self, Routed};
use super::{BitstreamError, Plan};

#[derive(Default)]
struct Progress {
    next: u32,
    done: bool,
    routed: Vec<Routed>,
    error: Option<BitstreamError>,
}

/// Places and routes one seed after the other, until a seed meets each clock or all seeds were
/// tried.
pub fn sweep(plan: &Plan, progress: &(dyn Fn(&str) + Sync)) -> Result<Vec<Routed>, BitstreamError> {
    let shared = Mutex::new(Progress { next: 1, ..Progress::default() });
    let take = || {
        let mut shared = shared.lock().expect("no thread panics");
        let seed = shared.next;
        let more = !shared.done && shared.error.is_none() && seed <= plan.seeds;
        shared.next += 1;
        more.then_some(seed)
    };
    let work = || {
        while let Some(seed) = take() {
            let result = route(plan, seed);
            let mut shared = shared.lock().expect("no thread panics");
            match result {
                Ok(routed) => {
                    progress(&super::table::line(&routed));
                    shared.done |= routed.met() && !plan.sweep;
                    shared.routed.push(routed);
                }
                Err(error) => shared.error = Some(error),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..plan.jobs.min(plan.seeds as usize) {
            scope.spawn(work);
        }
    });
    let mut shared = shared.into_inner().expect("no thread panics");
    match shared.error {
        Some(error) => Err(error),
        None => {
            shared.routed.sort_by_key(|routed| routed.seed);
            Ok(shared.routed)
        }
    }
}

fn route(plan: &Plan, seed: u32) -> Result<Routed, BitstreamError> {
    plan.tools.run(plan.folder, &plan.family.place(plan.constraints, seed))?;
    let path = plan.folder.join(report_name(seed));
    let text =
        fs::read_to_string(&path).map_err(|error| BitstreamError::File(path.clone(), error))?;
    report::read(&text, seed, plan.family, plan.requirements)
        .map_err(|why| BitstreamError::Report(path, why))
}
