//! Compares results of the cluster with those of the embedded engine.

use std::path::{Path, PathBuf};

use hmtt_sql::output::{Format, RowWriter};
use hmtt_sql::{Engine, EngineOptions, Sources};

use crate::cluster::Cluster;
use crate::samples::{dataset, tag_map};

/// Queries whose shapes Ballista treats differently: unions, joins, constants, windows and our
/// aggregates.
const QUERIES: &[&str] = &[
    "select count(*) as n from accesses",
    "select count(*) as n from accesses where clock >= 0",
    "select * from runs",
    "select * from threads",
    "select * from calls where depth % 2 = 1",
    "select board, function, caller, count(*) as n, sum(self_ns) as ns from calls group by board, function, caller",
    "select t.board, t.session, count(c.function) as n from threads t left join calls c \
     on c.capture = t.capture and c.session = t.session group by t.board, t.session",
    "select c.function, count(*) as n from calls c join accesses a on a.run <> c.run where a.clock % 50 = 0 group by 1",
    "select run, board, session, clock, address, arrival from accesses where page % 7 = 3",
    "select count(*) as n from (select clock from accesses union all select clock from accesses)",
    "select clock from accesses where page < 9 union all select clock from tags union all select clock from tags",
    "select board from accesses where page < 9 union select board from tags",
    "select count(*) as n from accesses union all select count(*) from tags where clock > 5",
    "select 1 as n union all select clock from tags",
    "select 1 as n union all select max(clock) from tags union all select 2",
    "select clock, n from tags cross join (select count(*) as n from accesses)",
    "select clock, n from (select count(*) as n from accesses) cross join tags",
    "select count(*) as n from tags where clock > (select avg(clock) from accesses)",
    "select count(*) as n from accesses where page in (select 2 * session + register from tags)",
    "select count(*) as n from accesses where page not in (select register from tags where register is not null)",
    "select t.clock, a.page from tags t left join accesses a on a.clock = t.clock and a.board = t.board",
    "select t.board, count(a.page) as n from tags t full join accesses a on a.page = t.clock group by t.board",
    "select r.board, a.page from runs r right join (select distinct board, page from accesses where page < 20) a \
     on a.board = r.board and r.session > 100",
    "select board, max(clock) over (partition by board) as last from tags",
    "select board, row_number() over (order by board, capture, session, clock) as n from tags",
    "select board, histogram(clock) as clocks from accesses group by board",
    "select histogram(page, 64) as pages from accesses",
    "select capture, session, approx_stack_distance(page, clock) as d from accesses group by capture, session",
    "select board, line(address) as line, count(*) as n from accesses where page(address) = 4 group by 1, 2",
    "select bank(address, board, run) as bank, max(row(address, board, run)) as r from accesses group by 1",
    "select time_ns(a.clock, r.zero_time_ns, r.clock_ns) as t, known_order(a.clock, 1, r.session, 2) as o \
     from tags a join runs r on a.capture = r.capture and a.session = r.session",
    "select sum(n) as n from (select count(*) as n from accesses group by board having count(*) > 10)",
    "select board, clock from tags order by clock, board limit 7",
    "select distinct run from accesses where board = 'no such board'",
    "select count(*) as n from accesses where board = 'no such board'",
    "with a as (select page, board, count(*) as n from accesses group by page, board) \
     select x.board, sum(x.n * y.n) as n from a x join a y on x.page = y.page group by x.board",
];

/// The rows of a query by the embedded engine, as JSON lines.
pub fn embedded(sql: &str, data: &Path, map: &Path) -> String {
    let options = EngineOptions { map: Some(map.to_owned()), ..EngineOptions::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut output = Vec::new();
    runtime.block_on(async {
        let sources = Sources::open(&[data.to_owned()]).await.unwrap();
        let engine = Engine::new(sources, &options).unwrap();
        let query = engine.query(sql).await.unwrap();
        let (schema, addresses) = (query.schema(), query.addresses());
        let mut writer = RowWriter::new(Format::Jsonl, schema, addresses, &mut output).unwrap();
        for batch in query.collect().await.unwrap() {
            writer.write(&batch).unwrap();
        }
        writer.finish().unwrap();
    });
    String::from_utf8(output).unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A query of the cluster, as JSON lines.
fn of_cluster(cluster: &Cluster, sql: &str, data: &Path, map: &Path) -> String {
    let map = map.to_str().unwrap();
    cluster.succeed(&["--format", "jsonl", "--map", map, sql], data)
}

#[test]
fn documented_queries_have_the_results_of_the_embedded_engine() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let map = tag_map(folder.path());
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/queries");
    let mut queries: Vec<PathBuf> =
        std::fs::read_dir(queries).unwrap().map(|entry| entry.unwrap().path()).collect();
    queries.sort();
    assert!(queries.len() >= 10, "{queries:?}");
    let cluster = Cluster::start(2, &data);
    for path in queries {
        let sql = std::fs::read_to_string(&path).unwrap();
        let expected = embedded(&sql, &data, &map);
        assert!(!expected.is_empty(), "{}", path.display());
        let [map, file] = [&map, &path].map(|path| path.to_str().unwrap());
        let cluster_rows =
            cluster.succeed(&["--format", "jsonl", "--map", map, "--file", file], &data);
        assert_eq!(cluster_rows, expected, "{file}");
    }
    // Results that were read are removed.
    cluster.wait_for_results(false);
}

#[test]
fn all_shapes_of_queries_have_the_rows_of_the_embedded_engine() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let map = tag_map(folder.path());
    let cluster = Cluster::start(2, &data);
    for sql in QUERIES {
        // Shown if a query fails.
        println!("{sql}");
        let (expected, cluster_rows) =
            (embedded(sql, &data, &map), of_cluster(&cluster, sql, &data, &map));
        assert_eq!(sorted(&cluster_rows), sorted(&expected), "{sql}");
    }
}
