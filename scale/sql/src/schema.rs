//! Defines the columns of the tables for the query engine: the columns of the parts, then `run`,
//! `board` and `hour`.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::table_schema::TableSchema;
use hmtt_dataset::{Kind, Table};

/// Names of the partition columns, in their order.
pub const PARTITIONS: [&str; 3] = ["run", "board", "hour"];

static SCHEMAS: LazyLock<Vec<TableSchema>> =
    LazyLock::new(|| Table::ALL.into_iter().map(schema).collect());

/// Schema of a table: columns of its files, and its partition columns.
pub fn of_table(table: Table) -> &'static TableSchema {
    &SCHEMAS[table as usize]
}

/// The partition columns as a schema.
pub fn of_partitions() -> SchemaRef {
    Arc::new(Schema::new(partition_fields()))
}

/// The query engine's type for a kind of column.
pub fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Number => DataType::Int64,
        Kind::Real => DataType::Float64,
        Kind::Flag => DataType::Boolean,
        Kind::Text => DataType::Utf8View,
        Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
    }
}

fn partition_fields() -> Vec<Field> {
    let kinds = [DataType::Utf8View, DataType::Utf8View, DataType::Int64];
    let fields = PARTITIONS.into_iter().zip(kinds);
    fields.map(|(name, kind)| Field::new(name, kind, false)).collect()
}

fn schema(table: Table) -> TableSchema {
    let field = |column: &hmtt_dataset::Column| {
        Field::new(column.name, data_type(column.kind), !column.is_required)
    };
    let file: Vec<Field> = table.columns().iter().map(field).collect();
    let partitions: Vec<_> = partition_fields().into_iter().map(Arc::new).collect();
    TableSchema::builder(Arc::new(Schema::new(file))).with_table_partition_cols(partitions).build()
}
