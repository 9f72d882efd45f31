//! Reads our Parquet files with an independent database.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_format::FORMAT_VERSION;

use super::samples::everything;
use super::{converted, lines, output, text};
use crate::card::Card;
use crate::{capture_file, skipped};

/// Path of the Python with DuckDB that `make setup` installs.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/python3");
    let import = Command::new(&python).args(["-c", "import duckdb"]).output();
    import.is_ok_and(|output| output.status.success()).then_some(python)
}

/// Returns the rows of a query, with fields separated by spaces. `FILE` stands for the file.
fn query(python: &Path, file: &Path, sql: &str) -> Vec<String> {
    let script = "import duckdb, sys\n\
                  for row in duckdb.sql(sys.argv[1]).fetchall(): print(*row)";
    let sql = sql.replace("FILE", &format!("'{}'", text(file)));
    let output = Command::new(python).args(["-c", script, &sql]).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    lines(&output.stdout).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_database_reads_the_accesses_of_the_truth() {
    let Some(python) = python() else { return skipped("no DuckDB; run `make setup`") };
    let (frames, truth) = Card::new().session(50, 370);
    let parquet = output("database", "parquet");
    converted(&capture_file("database.pcapng", &frames), &parquet);
    let sql = "select clock, case when is_write then 'W' else 'R' end, to_hex(address) from FILE";
    let rows = query(&python, &parquet, &format!("{sql} where kind = 'access'"));
    let expected: Vec<String> = truth.iter().map(ToString::to_string).collect();
    let lower: Vec<String> = rows
        .iter()
        .map(|row| {
            let (rest, address) = row.rsplit_once(' ').unwrap();
            format!("{rest} {}", address.to_lowercase())
        })
        .collect();
    assert!(lower == expected);
    let clock = truth[9000].clock;
    let after =
        query(&python, &parquet, &format!("select count(*) from FILE where clock > {clock}"));
    let expected = truth.iter().filter(|access| access.clock > clock).count();
    assert_eq!(after, [expected.to_string()]);
}

#[test]
fn a_database_reads_statistics_and_metadata() {
    let Some(python) = python() else { return skipped("no DuckDB; run `make setup`") };
    let (frames, truth) = Card::new().session(10, 370);
    let parquet = output("statistics", "parquet");
    let capture = capture_file("statistics.pcapng", &frames);
    converted(&capture, &parquet);
    let sql = "select stats_min_value, stats_max_value, encodings, compression \
               from parquet_metadata(FILE) where path_in_schema = ";
    let last = truth.last().unwrap().clock;
    let statistics = query(&python, &parquet, &format!("{sql} 'clock'"));
    assert_eq!(statistics, [format!("0 {last} PLAIN, RLE ZSTD")]);
    let most = truth.iter().map(|access| access.address.0).max().unwrap();
    let statistics = query(&python, &parquet, &format!("{sql} 'address'"));
    assert!(statistics[0].starts_with(&format!("0 {most} ")), "{statistics:?}");
    assert!(statistics[0].contains("PLAIN"), "{statistics:?}");
    let small = output("statistics-small", "parquet");
    let arguments = ["convert", text(&capture), text(&small), "--encoding", "small"];
    assert_eq!(crate::hmtt(&arguments).status.code(), Some(0));
    let sql = "select stats_max_value, encodings from parquet_metadata(FILE) where path_in_schema = 'clock'";
    assert_eq!(query(&python, &small, sql), [format!("{last} RLE, DELTA_BINARY_PACKED")]);
    let sql = "select decode(value) from parquet_kv_metadata(FILE) where decode(key) = ";
    let version = FORMAT_VERSION.to_string();
    for (key, value) in [("tck_ps", "10000"), ("unit_bytes", "64"), ("format_version", &version)] {
        assert_eq!(query(&python, &parquet, &format!("{sql} 'hmtt.{key}'")), [value]);
    }
}

#[test]
fn a_database_reads_every_kind_and_its_details() {
    let Some(python) = python() else { return skipped("no DuckDB; run `make setup`") };
    let parquet = output("details", "parquet");
    converted(&capture_file("details.pcapng", &everything()), &parquet);
    let kinds = query(&python, &parquet, "select count(distinct kind) from FILE");
    assert_eq!(kinds, ["13"]);
    let sql =
        "select sum((detail->>'lost_accesses')::int) from FILE where kind = 'gap' and session = 0";
    assert_eq!(query(&python, &parquet, sql), ["29"]);
    let sql =
        "select clock, start_clock, duration_clocks, reads, writes from FILE where kind = 'slice'";
    assert!(query(&python, &parquet, sql).contains(&"500 500 100 3 4".to_owned()));
    assert_eq!(query(&python, &parquet, "select max(session) from FILE"), ["1"]);
}
