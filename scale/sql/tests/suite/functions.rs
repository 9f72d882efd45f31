//! Tests the functions in queries.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hmtt::analysis::source::{Part, Source};
use hmtt::analysis::split::{By, Functions, SplitFold};
use hmtt::analysis::summary::Summary;
use hmtt_files::tag_log::{Content, FunctionId, Header, Mark, TagEvent};
use hmtt_test_support::tag_log::Log;

use crate::samples::{capture, captures, dataset, map, tag_map};
use crate::{hmtt_sql, rows, succeed};

#[test]
fn functions_at_clocks_are_those_of_the_analyses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.pcapng");
    capture(&path, 1, 200, Duration::from_millis(5), 77);
    let map_path = tag_map(folder.path());
    let sql = "select function_at(clock), count(*), sum(case when is_write then 1 else 0 end) from accesses \
               group by 1 order by 1";
    let arguments =
        ["--format", "csv", "--map", map_path.to_str().unwrap(), sql, path.to_str().unwrap()];
    let mut function_sums = BTreeMap::new();
    for line in succeed(&arguments).lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let count = |place: usize| cells[place].parse::<u64>().unwrap();
        // Before the first tag no function is open.
        let name = if cells[0].is_empty() { "(no function)" } else { cells[0] };
        let sums: &mut (u64, u64) = function_sums.entry(name.to_owned()).or_default();
        *sums = (sums.0 + count(1), sums.1 + count(2));
    }
    let by = By::Function(Functions { map: Some(map()), inclusive: false });
    let mut fold = SplitFold::new(by, Summary::default());
    let ending = Source::open(&path).unwrap().read(&mut |memory, part| match part {
        // The table of accesses has no page runs.
        Part::PageRun(_) => {}
        part => fold.part(memory, part),
    });
    assert!(ending.failure.is_none());
    let (groups, _) = fold.finish();
    let expected: BTreeMap<String, (u64, u64)> = groups
        .into_iter()
        .map(|group| (group.name, (group.sums.accesses, group.sums.writes)))
        .collect();
    assert_eq!(expected.len(), 3, "{expected:?}");
    assert_eq!(function_sums, expected);
}

/// Writes a log whose ticks are nanoseconds, with the marks of a capture, whose clocks take 10 ns.
/// `calls`: function, clock and whether it is left.
fn log_beside(path: &Path, capture: &Path, calls: &[(u32, u64, bool)]) {
    let tick = |clock: u64| 1_000_000 + 10 * clock;
    let header = Header { is_timed: true, tsc_hz: 1_000_000_000, pid: 1, ..Header::default() };
    let mut log = Log::new(&header);
    let marks = "select clock, register from tags where register is not null order by clock";
    for mark in rows(marks, capture) {
        let (clock, register) = mark.split_once(',').unwrap();
        let at = tick(clock.parse().unwrap());
        let (tsc_before, tsc_after) = (at - 5, at + 5);
        let register = register.parse().unwrap();
        log.chunk(0, Content::Mark(Mark { register, tsc_before, tsc_after }));
    }
    let event = |(number, clock, is_exit): &(u32, u64, bool)| TagEvent {
        tsc: tick(*clock),
        sp: 4096 - 64 * number,
        number: FunctionId(*number),
        is_exit: *is_exit,
    };
    let events: Vec<TagEvent> = calls.iter().map(event).collect();
    log.events(1, &events, true);
    std::fs::write(path, log.0).unwrap();
    std::fs::write(path.with_extension("tags.json"), serde_json::to_string(&map()).unwrap())
        .unwrap();
}

#[test]
fn functions_at_clocks_are_those_of_a_log_that_shares_marks() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("one.pcapng"), folder.path().join("prog.tags"));
    capture(&path, 1, 200, Duration::from_millis(5), 77);
    // Between frames there are no accesses for many clocks, so an error of the relation does not
    // matter.
    let ends: Vec<u64> = rows("select max(clock) from accesses group by arrival order by 1", &path)
        .iter()
        .map(|clock| clock.parse::<u64>().unwrap() + 1000)
        .collect();
    let [begin, inner, outer, end] = [20, 40, 70, 100].map(|frame| ends[frame]);
    let calls = [(0, begin, false), (1, inner, false), (1, outer, true), (0, end, true)];
    log_beside(&log, &path, &calls);
    let arguments = |sql: &str| {
        let words =
            ["--format", "csv", "--log", log.to_str().unwrap(), sql, path.to_str().unwrap()];
        succeed(&words).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let counts = arguments(
        "select function_at(clock) as function, count(*) from accesses group by 1 order by 1",
    );
    let expected = format!(
        "select case when clock < {begin} then null when clock < {inner} or clock >= {outer} and clock < {end} then 'outer' \
         when clock < {outer} then 'inner' else '(no function)' end as function, count(*) from accesses group by 1 order by 1"
    );
    let expected = rows(&expected, &path);
    assert_eq!(expected.len(), 4, "{expected:?}");
    assert_eq!(counts, expected);
    // A log of another time.
    let sql = "select function_at(clock) from accesses";
    log_beside(&log, &path, &calls[..0]);
    let other = folder.path().join("other.pcapng");
    capture(&other, 1, 4, Duration::from_millis(5), 3);
    let output = hmtt_sql(&["--log", log.to_str().unwrap(), sql, other.to_str().unwrap()]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("no marks in common"), "{complaint}");
}

#[test]
fn functions_of_several_sessions_need_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let map = tag_map(folder.path());
    let (map, data) = (map.to_str().unwrap(), data.to_str().unwrap());
    let output = hmtt_sql(&["--map", map, "select function_at(clock) from accesses", data]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("function_at(clock, capture, session)"), "{complaint}");
    let output = hmtt_sql(&["select function_at(clock) from accesses", data]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("--map"), "{complaint}");
}

#[test]
fn addresses_can_have_hexadecimal_digits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.pcapng");
    capture(&path, 1, 200, Duration::from_millis(5), 77);
    let [middle] = &rows("select cast(avg(address) as bigint) from accesses", &path)[..] else {
        panic!("not one row");
    };
    let middle: u64 = middle.parse().unwrap();
    let count = |number: &str| {
        let sql =
            format!("select count(*), to_hex({number}) from accesses where address >= {number}");
        rows(&sql, &path)
    };
    let hex_rows = count(&format!("0x{middle:x}"));
    assert_eq!(hex_rows, count(&middle.to_string()));
    assert!(
        hex_rows[0].ends_with(&format!(",{middle:x}")) && !hex_rows[0].starts_with("0,"),
        "{hex_rows:?}"
    );
}

/// Checks that results have addresses where the query chooses them, and numbers where it computes
/// them.
#[test]
fn addresses_that_a_query_chooses_are_printed_as_addresses() {
    let worked =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../trace/examples/worked.pcapng"));
    let subquery = "(select address from accesses where clock = 22)";
    for (query, expected) in [
        ("select address as place from accesses where clock < 28", "0x12348140"),
        (
            "select min(address), sum(address), count(*) as address from accesses",
            "0x12348140,1221730880,4",
        ),
        (
            "select address + 64, address - address, -address, to_hex(address) from ONE",
            "305430912,0,-305430848,12348140",
        ),
        (
            "select max(page) as address, cast(min(address) as varchar) from accesses",
            "74568,305430848",
        ),
        (
            "select case when clock < 0 then 16 else address end, coalesce(address, 0) from accesses where clock = 22",
            "0x12348140,0x12348140",
        ),
        (
            "select (select max(address) from accesses), nullif(address, address) from ONE",
            "0x12348fc0,",
        ),
        (
            "with a as (select address as b from ONE) select a.b, x.b from a cross join a as x",
            "0x12348140,0x12348140",
        ),
        (
            "select address from ONE union all select null union all select 16 order by 1",
            "0x10 0x12348140 \"\"",
        ),
        (
            "select address from ONE union all select clock from accesses where clock = 22 order by 1",
            "22 305430848",
        ),
        (
            "select address, count(*) from accesses group by rollup(address) order by 2 desc limit 1",
            ",4",
        ),
        (
            "select distinct on (page) address, clock from accesses order by page, clock",
            "0x12348140,22",
        ),
        (
            "select lag(address) over (order by clock), first_value(address) over (order by clock), row_number() over (order by clock) from accesses where clock < 148 order by clock",
            ",0x12348140,1 0x12348140,0x12348140,2",
        ),
        ("select unnest(array_agg(address)), 1 from ONE", "0x12348140,1"),
        (
            "with recursive t(address) as (select 1 union all select address + 1 from t where address < 3) select max(address) from t",
            "3",
        ),
    ] {
        let query_rows = rows(&query.replace("ONE", subquery), worked);
        assert_eq!(query_rows.join(" "), expected, "{query}");
    }
}

#[test]
fn pages_and_lines_are_parts_of_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let sql = "select count(*) from accesses where page(address) <> page or line(address) <> address / 64";
    assert_eq!(rows(sql, &data), ["0"]);
    let named = "select count(*) from accesses where page(address) = 4097";
    let plain = "select count(*) from accesses where page = 4097";
    assert_eq!(rows(named, &data), rows(plain, &data));
    let sql = "select page(-1), line(64), page(null)";
    assert_eq!(rows(sql, &data), ["-1,1,"]);
}

#[test]
fn banks_and_rows_can_be_those_of_a_board_and_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let sql = "select count(*) from accesses where bank(address) <> bank(address, board) \
               or row(address) <> row(address, board, run)";
    assert_eq!(rows(sql, &data), ["0"]);
    // The map of the samples: bank bit 0 is the XOR of the address bits 14 and 16, and rows begin
    // at bit 16.
    let sql = "select bank(16384), bank(65536), bank(81920), row(65536), bank(null)";
    assert_eq!(rows(sql, &data), ["1,1,0,1,"]);
    let text = data.to_str().unwrap();
    let output = hmtt_sql(&["select bank(address, 'eth9') from accesses", text]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("board eth9 has reported no map"), "{complaint}");
}

#[test]
fn histograms_are_counts_of_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let sql = "with h as (select board, unnest(histogram(clock, 1000000)) as range from accesses group by board) \
               select board, range['at_least'], range['at_most'], range['count'] from h order by 1, 2";
    let plain = "select board, clock / 1000000 * 1000000 as low, clock / 1000000 * 1000000 + 999999, count(*) from accesses \
                 group by 1, 2, 3 order by 1, 2";
    let histogram_rows = rows(sql, &data);
    assert!(histogram_rows.len() > 10);
    assert_eq!(histogram_rows, rows(plain, &data));
    let sql = "select sum(range['count']) from (select unnest(histogram(address)) as range from accesses)";
    assert_eq!(rows(sql, &data), rows("select count(*) from accesses", &data));
    let output = hmtt_sql(&["select histogram(clock, 0) from accesses", data.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn stack_distances_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let sql = "select capture, session, approx_stack_distance(page, clock) as distances from accesses \
               group by capture, session order by capture, session";
    let text = data.to_str().unwrap();
    let run = |threads: &str| succeed(&["--format", "jsonl", "--threads", threads, sql, text]);
    assert_eq!(run("1"), run("7"));
    let first = rows(
        "select capture, session, (approx_stack_distance(page, clock))['first_touches'] from accesses group by 1, 2 \
         order by 1, 2",
        &data,
    );
    let pages = "select capture, session, count(distinct page) * 1.0e0 from accesses group by 1, 2 order by 1, 2";
    assert_eq!(first, rows(pages, &data));
}

#[test]
fn the_order_of_two_boards_is_known_beyond_their_errors() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let sql = "select known_order(0, 1.0, 3, 1.0), known_order(3, 1.0, 0, 1.0), known_order(0, 2.0, 3, 1.0)";
    assert_eq!(rows(sql, &data), ["-1,1,"]);
    let sql = "select count(*) from runs where abs(time_ns(first_clock, zero_time_ns, clock_ns) / 1000000 - \
               cast(first_arrival as bigint)) > error_ns / 1e6 + 2";
    assert_eq!(rows(sql, &data), ["0"]);
    let note = |sql: &str| {
        let output = hmtt_sql(&[sql, data.to_str().unwrap()]);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let sorted = "select board, clock from accesses order by clock limit 3";
    assert!(note(sorted).contains("their order is not known"), "{}", note(sorted));
    for sql in [
        "select board, clock from accesses where board = 'eth1' and run = 'day' order by clock limit 3",
        "select board, clock from accesses order by board, run, clock limit 3",
        "select board, count(*) as clocks from accesses group by board order by clocks",
    ] {
        assert_eq!(note(sql), "", "{sql}");
    }
}

#[test]
fn maps_that_differ_need_the_board() {
    // One capture alone has one map.
    let folder = tempfile::tempdir().unwrap();
    let [night, _] = captures(folder.path());
    let sql = "select count(distinct bank(address)) from accesses";
    assert_eq!(rows(sql, &night), ["4"]);
}
