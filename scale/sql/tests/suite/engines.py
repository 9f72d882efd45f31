"""Compares the rows of queries in Spark or Polars with those of Parquet files:
engines.py spark|spark-cluster|polars DATASET QUERY.sql RESULT.parquet [QUERY.sql RESULT.parquet]...

Prints for each query its name, and the number of rows if all are equal, to the last digit, or the reason why not. The tables
are views of the data set's Parquet files. The functions of hmtt-sql that the queries use are SQL functions, written from
docs/sql.md, in Spark; Polars has no such functions.
"""

import datetime
import os
import sys
import time
from pathlib import Path

import pyarrow.parquet

TABLES = ["accesses", "pages", "slices", "gaps", "tags", "events", "calls", "runs", "threads"]
LINE = 200


def coordinate(masks):
    """The number whose bits are the XOR of address bits: of a memory that the tests know (tests/support/src/card.rs)."""
    bits = [f"shiftleft(CAST(bit_count(a & {mask}) & 1 AS BIGINT), {bit})" for bit, mask in enumerate(masks)]
    return " | ".join(bits)


def spark(data, master):
    from pyspark.sql import SparkSession

    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
    }
    builder = SparkSession.builder.master(master).appName("hmtt")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        folder = Path(data, f"kind={table}")
        if folder.is_dir():
            frame = session.read.option("basePath", str(folder)).parquet(str(folder))
            frame.withColumn("hour", frame["hour"].cast("bigint")).createOrReplaceTempView(table)
    functions = {
        "page": "shiftright(a, 12)",
        "line": "shiftright(a, 6)",
        "bank": coordinate([0b101 << 14, 0b101 << 15]),
        "row": coordinate([1 << 16 + bit for bit in range(13)]),
    }
    for name, body in functions.items():
        session.sql(f"CREATE TEMPORARY FUNCTION `{name}`(a BIGINT) RETURNS BIGINT RETURN {body}")

    def rows(query):
        frame = session.sql(query)
        return frame.columns, [tuple(row) for row in frame.collect()]

    return rows


def polars(data):
    import polars

    context = polars.SQLContext()
    for table in TABLES:
        folder = Path(data, f"kind={table}")
        if folder.is_dir():
            schema = {"run": polars.String, "board": polars.String, "hour": polars.Int64}
            files = str(folder / "**/*.parquet")
            frame = polars.scan_parquet(files, hive_partitioning=True, hive_schema={"kind": polars.String, **schema})
            context.register(table, frame)

    def rows(query):
        frame = context.execute(query, eager=True)
        return frame.columns, frame.rows()

    return rows


def comparable(value):
    """Times as those of UTC."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return value.replace(tzinfo=datetime.timezone.utc)
        return value.astimezone(datetime.timezone.utc)
    return value


def difference(columns, theirs, result):
    """Where the rows differ; None if all are equal."""
    ours = pyarrow.parquet.read_table(result)
    if ours.column_names != list(columns):
        return f"columns: {ours.column_names}, not {columns}"
    ours = list(zip(*(column.to_pylist() for column in ours.columns)))
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}"
    for number, (one, other) in enumerate(zip(ours, theirs)):
        if tuple(map(comparable, one)) != tuple(map(comparable, other)):
            return f"row {number}: {one}, not {other}"
    return None


def main(engine, data, *pairs):
    if engine == "polars":
        rows = polars(data)
    else:
        rows = spark(data, "local[2]" if engine == "spark" else "local-cluster[2,1,1024]")
    for query, result in zip(pairs[::2], pairs[1::2]):
        name = Path(query).name
        lines = Path(query).read_text().splitlines()
        text = "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
        try:
            columns, theirs = rows(text)
        except BaseException as error:  # Polars' panics are no exceptions
            reason = " ".join(str(error).split())[:LINE]
            print(f"{name}\trefused\t{reason}")
            continue
        found = difference(columns, theirs, result)
        print(f"{name}\tdiffers\t{found}" if found else f"{name}\tequal\t{len(theirs)}", flush=True)


# Spark returns times in the zone of the process, without it.
os.environ["TZ"] = "UTC"
time.tzset()
main(*sys.argv[1:])
