"""Compares the rows of a query in DuckDB with those of a Parquet file: compare.py DATASET QUERY.sql RESULT.parquet

Prints the number of rows if all are equal, to the last digit. The tables are views of the data set's Parquet files; the
functions of hmtt-sql that the queries use are macros, written from docs/sql.md.
"""

import sys
from pathlib import Path

import duckdb

TABLES = ["accesses", "pages", "slices", "gaps", "tags", "events", "calls", "runs", "threads"]


def coordinate(masks):
    """The number whose bits are the XOR of address bits: of a memory that the tests know (tests/support/src/card.rs)."""
    bits = [f"((bit_count(a & {mask}::BIGINT) & 1)::BIGINT << {bit})" for bit, mask in enumerate(masks)]
    return " | ".join(bits)


def connect(data):
    database = duckdb.connect()
    database.sql("SET TimeZone = 'UTC'")
    for table in TABLES:
        if Path(data, f"kind={table}").is_dir():
            files = f"{data}/kind={table}/**/*.parquet"
            types = "{'hour': BIGINT, 'run': VARCHAR, 'board': VARCHAR}"
            read = f"read_parquet('{files}', hive_partitioning = true, hive_types = {types})"
            database.sql(f"CREATE VIEW {table} AS SELECT * FROM {read}")
    database.sql("CREATE MACRO page(a) AS a >> 12")
    database.sql("CREATE MACRO line(a) AS a >> 6")
    database.sql(f"CREATE MACRO bank(a) AS {coordinate([0b101 << 14, 0b101 << 15])}")
    database.sql(f"CREATE MACRO row(a) AS {coordinate([1 << 16 + bit for bit in range(13)])}")
    return database


def comparable(relation):
    """Times as text, which needs no package of time zones."""
    columns = [
        f'CAST("{name}" AS VARCHAR) AS "{name}"' if "TIME ZONE" in str(kind) else f'"{name}"'
        for name, kind in zip(relation.columns, relation.types)
    ]
    return relation.project(", ".join(columns))


def main(data, query, result):
    database = connect(data)
    theirs = database.sql(Path(query).read_text().strip().rstrip(";"))
    names = theirs.columns
    theirs = comparable(theirs).fetchall()
    ours = database.sql(f"SELECT * FROM read_parquet('{result}')")
    if ours.columns != names:
        sys.exit(f"columns: {ours.columns}, not {names}")
    ours = comparable(ours).fetchall()
    if len(ours) != len(theirs):
        sys.exit(f"{len(ours)} rows, not {len(theirs)}")
    for number, (one, other) in enumerate(zip(ours, theirs)):
        if one != other:
            sys.exit(f"row {number}: {one}, not {other}")
    print(len(ours))


main(*sys.argv[1:])
