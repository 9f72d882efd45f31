//! Measures all queries with one number of executors, as the first process of its namespaces.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Taken};
use crate::outside::{job, path};

/// Runs of a query, of which the shortest counts, and the seconds after which there is no other
/// run.
const RUNS: usize = 3;
const MOST_S: f64 = 20.0;

/// A scan, and queries of docs/queries: a join with grouping by time, grouping by pages, distinct
/// pages, a window.
pub const QUERIES: [(&str, &str); 5] = [
    (
        "sums of two columns",
        "select count(*), sum(case when is_write then 1 else 0 end), max(clock) from accesses",
    ),
    ("bandwidth.sql", include_str!("../../../../docs/queries/bandwidth.sql")),
    ("hottest-pages.sql", include_str!("../../../../docs/queries/hottest-pages.sql")),
    ("working-set.sql", include_str!("../../../../docs/queries/working-set.sql")),
    ("idle-times.sql", include_str!("../../../../docs/queries/idle-times.sql")),
];
/// Queries of the data set of small parts: all parts, and those of an hour.
pub const PART_QUERIES: [(&str, &str); 2] = [
    ("all parts", QUERIES[0].1),
    (
        "the parts of an hour",
        "select count(*), sum(case when is_write then 1 else 0 end), max(clock) from accesses \
         where hour = 2023111501",
    ),
];

/// Measures, and prints a JSON object.
pub fn run(text: &OsStr) -> Result<()> {
    // The first process of a namespace takes all others with it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let job = job(text)?;
    let executors = job["executors"].as_u64().context("no number of executors")? as usize;
    let data = [path(&job, "large")?, path(&job, "parts")?];
    let (groups, temporary) = (path(&job, "groups")?, path(&job, "temporary")?);
    let cluster = Cluster::start(executors, &groups, &temporary, &data)?;
    let [large, parts] = &data;
    let measured = json!({
        "large": measure(&cluster, &QUERIES, large)?,
        "parts": measure(&cluster, &PART_QUERIES, parts)?,
    });
    Ok(writeln!(std::io::stdout(), "{measured}")?)
}

fn measure(cluster: &Cluster, queries: &[(&str, &str)], data: &Path) -> Result<Value> {
    let measured = queries.iter().map(|(name, sql)| {
        let usage = shortest(cluster, sql, data)?;
        eprintln!("{} executors, {name}: {:.2} s", cluster.executors(), usage.wall);
        let Taken { wall, executors_cpu, client_cpu, bytes, rows } = usage;
        Ok(json!({
            "wall": wall,
            "executors_cpu": executors_cpu,
            "client_cpu": client_cpu,
            "exchanged": bytes.exchanged,
            "planned": bytes.planned,
            "assigned": bytes.assigned,
            "rows": rows,
        }))
    });
    measured.collect::<Result<Vec<_>>>().map(Value::Array)
}

fn shortest(cluster: &Cluster, sql: &str, data: &Path) -> Result<Taken> {
    let mut least = cluster.query(sql, data)?;
    let mut seconds = least.wall;
    for _ in 1..RUNS {
        if seconds > MOST_S {
            break;
        }
        let usage = cluster.query(sql, data)?;
        ensure!(usage.rows == least.rows, "{sql}: results differ from run to run");
        seconds += usage.wall;
        if usage.wall < least.wall {
            least = usage;
        }
    }
    Ok(least)
}
