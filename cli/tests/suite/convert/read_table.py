# Prints the number of rows and the sums of clocks and addresses of Parquet files, read with one library.
# usage: read_table.py duckdb|pyarrow|polars|fastparquet FILE...
import sys

SUMMED = ["clock", "address"]


def total(values):
    return sum(int(value) for value in values if value is not None and value == value)


def with_duckdb(path):
    import duckdb

    table = f"read_parquet('{path}', hive_partitioning = false)"
    names = [name for name in SUMMED if name in duckdb.sql(f"select * from {table}").columns]
    sums = "".join(f"sum({name}), " for name in names)
    # Counts of all columns have each of them decoded.
    row = duckdb.sql(f"select count(*), {sums} count(columns(*)) from {table}").fetchall()[0]
    return row[0], {name: [total] for name, total in zip(names, row[1:])}


def with_pyarrow(path):
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(path).read()
    columns = {name: table[name].to_pylist() for name in SUMMED if name in table.column_names}
    return table.num_rows, columns


def with_polars(path):
    import polars

    table = polars.read_parquet(path, hive_partitioning=False)
    return len(table), {name: table[name].to_list() for name in SUMMED if name in table.columns}


def with_fastparquet(path):
    import fastparquet

    # The text of details and names is checked too: it must be decodable.
    table = fastparquet.ParquetFile(path).to_pandas()
    columns = {}
    for name in SUMMED:
        if name in table.columns:
            columns[name] = table[name].dropna().tolist()
    return len(table), columns


read = globals()["with_" + sys.argv[1]]
for path in sys.argv[2:]:
    rows, columns = read(path)
    print(rows, *(total(columns[name]) if name in columns else "-" for name in SUMMED))
