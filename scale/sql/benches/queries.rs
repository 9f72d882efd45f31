//! Compares scans and aggregates of `hmtt-sql` with DuckDB on the same files: `make bench-scale`.
//!
//! A data set is generated in `target/bench`: half of the accesses are in 16 streams of consecutive
//! lines, half are random in 1 GiB, on two boards. Both programs run in turn, as processes of their
//! own with one thread; the time is the processor time of the process, user and system, without
//! that of a query which reads nothing. So other load on the machine changes it little. The ratio
//! is the median of those of the pairs.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_dataset::{AddOptions, Dataset, Table};
use hmtt_test_support::traffic::Traffic;

const PAIRS: usize = 5;
/// Accesses of a capture that is added at once.
const OF_CAPTURE: u64 = 50_000_000;

/// Queries of which each is a scan and an aggregate. The last one reads nothing.
const QUERIES: [(&str, &str); 6] = [
    (
        "sums of two columns",
        "select count(*), sum(case when is_write then 1 else 0 end), max(clock) from accesses",
    ),
    (
        "by direction",
        "select is_write, count(*), min(address), max(address) from accesses group by is_write",
    ),
    (
        "by second and board",
        "select board, date_trunc('second', arrival), count(*) from accesses group by 1, 2",
    ),
    (
        "a condition on addresses",
        "select count(*), min(clock) from accesses where address between 268435456 and 536870911",
    ),
    (
        "hottest pages",
        "select page, count(*) as n from accesses group by page order by n desc, page limit 20",
    ),
    ("nothing", "select count(*) from runs where run = 'none'"),
];

/// The data set, which is generated once.
fn dataset(folder: &Path, accesses: u64) -> PathBuf {
    let data = folder.join(format!("accesses-{accesses}"));
    if data.is_dir() {
        return data;
    }
    std::fs::create_dir_all(folder).unwrap();
    let dataset = Dataset::new(&data);
    for number in 0..accesses.div_ceil(OF_CAPTURE) {
        let path = folder.join("capture.pcapng");
        let of_capture = OF_CAPTURE.min(accesses - number * OF_CAPTURE);
        Traffic::dense(of_capture, 0x9e37_79b9_7f4a_7c15 + number).write(&path);
        let receiver = format!("rack{number}");
        dataset.add(&path, &AddOptions { run: "bench", receiver: Some(&receiver) }).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
    data
}

/// Processor seconds of a command, as the shell states them.
fn processor_time(command: &mut Command) -> f64 {
    let before = children();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    children() - before
}

/// Processor seconds of all children that have ended.
fn children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // cutime and cstime, in ticks of 10 ms.
    fields[13..15].iter().map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let accesses = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let accesses: u64 = accesses.unwrap_or(100_000_000);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = dataset(&here.join("../../target/bench/scale"), accesses);
    let dataset = Dataset::new(&data);
    let parts = dataset.parts_of(Table::Accesses).unwrap();
    let bytes: u64 = parts.iter().map(|(_, path)| data.join(path).metadata().unwrap().len()).sum();
    println!("{accesses} accesses in {} parts, {bytes} bytes\n", parts.len());
    let python =
        ["scale", "tools"].map(|folder| here.join("../../target").join(folder).join("bin/python3"));
    let python = python.into_iter().find(|python| {
        Command::new(python)
            .args(["-c", "import duckdb"])
            .output()
            .is_ok_and(|run| run.status.success())
    });
    let python = python.expect("DuckDB: run `sh tools/setup.sh scale`");
    let script = "import duckdb, sys\n\
                  duckdb.sql('set threads = 1')\n\
                  for table in ('accesses', 'runs'):\n\
                  \x20   files = f'{sys.argv[1]}/kind={table}/**/*.parquet'\n\
                  \x20   duckdb.sql(f\"create view {table} as select * from read_parquet('{files}', hive_partitioning = true)\")\n\
                  duckdb.sql(f\"copy ({sys.argv[2]}) to '/dev/null' (format csv)\")";
    let ours = |sql: &str| {
        let program = env!("CARGO_BIN_EXE_hmtt-sql");
        processor_time(Command::new(program).args(["--threads", "1", sql]).arg(&data))
    };
    let theirs =
        |sql: &str| processor_time(Command::new(&python).args(["-c", script]).arg(&data).arg(sql));
    let times: Vec<(Vec<f64>, Vec<f64>)> = QUERIES
        .iter()
        .map(|(_, sql)| (0..PAIRS).map(|_| (ours(sql), theirs(sql))).unzip())
        .collect();
    let (our_start, their_start) = times.last().unwrap().clone();
    let (our_start, their_start) = (median(our_start), median(their_start));
    println!("| query | hmtt-sql, s | M accesses/s | DuckDB, s | ratio of speeds |");
    println!("|---|---:|---:|---:|---:|");
    for ((name, _), (ours, theirs)) in QUERIES.iter().zip(&times).take(QUERIES.len() - 1) {
        let pairs = ours.iter().zip(theirs);
        let ratios =
            pairs.map(|(ours, theirs)| (theirs - their_start) / (ours - our_start)).collect();
        let (ours, theirs) =
            (median(ours.clone()) - our_start, median(theirs.clone()) - their_start);
        let speed = accesses as f64 / ours / 1e6;
        println!("| {name} | {ours:.2} | {speed:.0} | {theirs:.2} | {:.2} |", median(ratios));
    }
    println!(
        "\nwithout the start of the programs: hmtt-sql {our_start:.2} s, DuckDB in Python {their_start:.2} s"
    );
}
