//! Runs one saturation as the command line describes it. The counts add up if the records that were
//! received and the records that were reported lost are all that were produced.

use anyhow::Result;
use hmtt_sim::engine::Options;
use hmtt_sim::saturation::{self, Found, Saturation};
use hmtt_sim::schedule::tx_period_of;
use serde_json::json;

use crate::args::SaturateArguments;
use crate::report::{self, Progress};

/// Runs a saturation and prints the result. Returns whether the counts add up.
pub fn saturate(arguments: &SaturateArguments) -> Result<bool> {
    let what = Saturation {
        pattern: arguments.pattern.into(),
        burst_length: arguments.burst,
        clocks: arguments.clocks,
        seed: arguments.seed,
        fifo: arguments.fifo,
        engine: Options {
            kind: arguments.engine.into(),
            cache: arguments.cache.clone(),
            tx_period_ps: tx_period_of(arguments.link_mbps),
            compiling: report::compiling(arguments.json),
            ..Options::default()
        },
    };
    let progress = Progress::new(Some(what.clocks), arguments.json);
    let results = saturation::run(&what, &mut |clocks| progress.at(clocks))?;
    progress.finish();
    if arguments.json {
        print_json(&results)?
    } else {
        print(&what, &results)
    }
    let Found { outcome, verdict, .. } = results;
    Ok(verdict.wrong.is_none() && outcome.violations.is_empty() && outcome.flaws.is_empty())
}

fn print(what: &Saturation, results: &Found) {
    let Found { outcome, verdict, paper } = results;
    let summary = &outcome.summary;
    match &verdict.wrong {
        None => {
            println!("received {} + reported lost {} = produced", verdict.received, verdict.lost)
        }
        Some(wrong) => println!("wrong: {wrong}"),
    }
    if let Some(clock) = verdict.first_lost {
        println!(
            "lost from clock {clock} on, in {} gaps; {} after the clock of the next sync",
            verdict.gaps, verdict.late
        );
    }
    println!("FIFO at most {} of {} words", summary.fifo_peak_words, what.fifo.words());
    match paper.first_lost {
        None => println!("64-bit records in 128 KB: none lost"),
        Some(clock) => println!(
            "64-bit records in 128 KB: {} of {} lost ({:.1} %), from clock {clock} on",
            paper.lost,
            paper.produced,
            paper.lost_percent()
        ),
    }
    report!("{summary}");
}

fn print_json(results: &Found) -> Result<()> {
    let Found { outcome, verdict, paper } = results;
    let mut object = serde_json::to_value(&outcome.summary)?;
    object["received_records"] = verdict.received.into();
    object["placed_records"] = verdict.lost.into();
    object["late_records"] = verdict.late.into();
    object["gap_count"] = verdict.gaps.into();
    object["first_lost_clock"] = verdict.first_lost.into();
    object["wrong"] = verdict.wrong.clone().into();
    object["paper"] = json!({
        "produced_records": paper.produced,
        "card_lost_records": paper.lost,
        "first_lost_clock": paper.first_lost,
    });
    println!("{}", serde_json::to_string_pretty(&object)?);
    Ok(())
}
