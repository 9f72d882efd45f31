//! Prints what selective traces would record: as text, and as JSON with the names of
//! docs/glossary.md.

use std::io::{self, Write};

use hmtt::cache::Counters;
use hmtt_files::access_trace::Accuracy;
use hmtt_translator::selection::{Equality, Selector};
use serde_json::{Value, json};

use super::caches::Caches;
use super::evaluation::{Results, Sharing};
use crate::trace::info::{chosen, with};

/// `part` / `whole`; `None` if `whole` is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Misses as a fraction of all requested lines; `None` if no line was requested.
fn miss_rate(Counters { hits, misses, .. }: Counters) -> Option<f64> {
    share(misses, hits + misses)
}

/// A fraction in percent, or `-`.
fn percent(share: Option<f64>, decimals: usize) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.decimals$}", 100.0 * share))
}

/// Name of the rule by which two accesses have equal addresses.
fn equality(results: &Results) -> &'static str {
    match results.settings.equality {
        Equality::Versions => "versions",
        Equality::Values => "values",
    }
}

/// A setting with its results: a row of the table.
struct Row {
    selector: Selector,
    accuracy: Accuracy,
    sharing: Sharing,
    miss_rate: Option<f64>,
}

impl Row {
    fn all(results: &Results) -> impl Iterator<Item = Self> {
        let settings = results.settings.selectors().iter().enumerate();
        settings.map(|(setting, selector)| Row {
            selector: *selector,
            accuracy: results.accuracies[setting],
            sharing: results.sharing[setting],
            miss_rate: results.caches.as_ref().and_then(|all| miss_rate(all.chosen(setting))),
        })
    }

    /// The percentage of representatives, and the size of chunks in bytes. `None` for the setting
    /// that records all accesses.
    fn setting(&self) -> Option<(u32, u64)> {
        match self.selector {
            Selector::Every => None,
            Selector::Representatives { omega, chunk } => Some((omega.percent(), chunk.get())),
        }
    }

    fn text(&self) -> String {
        let Row { accuracy, sharing, .. } = self;
        let (omega, chunk) = self.setting().map_or_else(
            || ("all".into(), "-".into()),
            |(omega, chunk)| (format!("{omega}%"), chunk.to_string()),
        );
        let payoff = accuracy.payoff().map_or_else(|| "-".into(), |payoff| format!("{payoff:.2}"));
        format!(
            "{omega:>5} {chunk:>6} {:>13} {:>6} {:>6} {:>6} {payoff:>6} {:>13} {:>12} {:>6} {:>7}",
            accuracy.traced,
            percent(accuracy.traced_share(), 1),
            percent(accuracy.minimal(), 1),
            percent(accuracy.alignment_independent(), 1),
            sharing.checked,
            sharing.different,
            percent(share(sharing.different, sharing.checked), 1),
            percent(self.miss_rate, 3),
        )
    }

    fn json(&self) -> Value {
        let Row { accuracy, sharing: Sharing { checked, different }, miss_rate, .. } = *self;
        let (omega, chunk) = self.setting().unzip();
        let setting = json!({ "omega_percent": omega, "chunk_bytes": chunk });
        let more = json!({
            "recorded_share": accuracy.traced_share(),
            "checked_accesses": checked,
            "false_accesses": different,
            "false_share": share(different, checked),
            "cache_miss_rate": miss_rate,
        });
        with(with(setting, chosen(accuracy)), more)
    }
}

/// The results as a table.
pub fn text(results: &Results, output: &mut dyn Write) -> io::Result<()> {
    let Results { accesses, executions, caches, .. } = results;
    writeln!(output, "{accesses} accesses in {executions} executed blocks")?;
    if let Some(caches) = caches {
        let configuration = caches.configuration();
        writeln!(
            output,
            "first cache of {} KiB, {} ways, lines of {}: {} % of the lines of all accesses miss",
            configuration.size_bytes as f64 / 1024.0,
            configuration.ways,
            configuration.line_bytes,
            percent(miss_rate(caches.full()), 3)
        )?;
        if caches.unknown() > 0 {
            let unknown = caches.unknown();
            writeln!(output, "{unknown} accesses are left out: their addresses are not known")?;
        }
        if let Some(refused) = caches.refused() {
            writeln!(output, "of these, {refused}")?;
        }
    }
    writeln!(
        output,
        "{:>5} {:>6} {:>13} {:>6} {:>6} {:>6} {:>6} {:>13} {:>12} {:>6} {:>7}",
        "omega",
        "chunk",
        "recorded",
        "%",
        "MA %",
        "AIA %",
        "payoff",
        "near",
        "false",
        "%",
        "miss %"
    )?;
    Row::all(results).try_for_each(|row| writeln!(output, "{}", row.text()))
}

/// The results as JSON.
pub fn json(results: &Results) -> Value {
    let Results { accesses, executions, caches, unplanned, .. } = results;
    json!({
        "equality": equality(results),
        "executed_blocks": executions,
        "all_accesses": u64::try_from(*accesses).unwrap_or(u64::MAX),
        "unevaluated_blocks": unplanned,
        "cache_miss_rate": caches.as_ref().and_then(|caches| miss_rate(caches.full())),
        "unknown_accesses": caches.as_ref().map(Caches::unknown),
        "settings": Row::all(results).map(|row| row.json()).collect::<Vec<_>>(),
    })
}
