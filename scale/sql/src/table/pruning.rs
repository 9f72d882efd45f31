//! Decides which partitions can have rows of a result, by the names of their folders.
//!
//! Conditions on `run`, `board` and `hour` alone are decided exactly. Other conditions exclude a
//! partition by its hour: all arrivals of its rows, or the ends of its calls, are within the hour.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray,
};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use hmtt_dataset::{Hour, Table};

use crate::schema::{self, PARTITIONS};

const HOUR: Duration = Duration::from_secs(3600);

/// The names of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Name of the run.
    pub run: String,
    /// Name of the board.
    pub board: String,
    /// The hour in which its rows arrived.
    pub hour: Hour,
}

/// The value of the column `hour`.
pub fn hour_number(hour: Hour) -> i64 {
    hour.to_string().parse().unwrap_or_default()
}

/// Whether a condition depends on the partition alone.
pub fn is_of_partition(filter: &Expr) -> bool {
    let columns = filter.column_refs();
    !columns.is_empty()
        && !filter.is_volatile()
        && columns.iter().all(|column| PARTITIONS.contains(&column.name()))
}

/// Conditions on partitions.
#[derive(Clone, Debug)]
pub struct PartitionFilter {
    /// A condition on the partition columns alone.
    exact: Option<Arc<dyn PhysicalExpr>>,
    /// A condition on any columns.
    other: Option<Arc<PruningPredicate>>,
    time: &'static str,
}

impl PartitionFilter {
    /// Builds the conditions of a query on a table. `predicate`: all conditions.
    pub fn new(
        session: &dyn Session,
        filters: &[Expr],
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        table: Table,
    ) -> Result<Self> {
        let schema = DFSchema::try_from(schema::of_partitions())?;
        let exact = filters.iter().filter(|filter| is_of_partition(filter)).cloned();
        let exact = conjunction(exact)
            .map(|filter| session.create_physical_expr(filter, &schema))
            .transpose()?;
        let time = table.time();
        let table = schema::of_table(table).table_schema();
        let pruning = |predicate: &Arc<dyn PhysicalExpr>| {
            let builder = PruningPredicateBuilder::new().with_file_schema(table.clone());
            builder.try_build(predicate.clone()).map(Arc::new)
        };
        // A condition that cannot exclude any partition is not an error.
        let other = predicate.and_then(|predicate| pruning(predicate).ok());
        Ok(PartitionFilter { exact, other, time })
    }

    /// Whether each partition can have rows of the result.
    pub fn keeps(&self, places: &[Place]) -> Result<Vec<bool>> {
        let mut keeps = vec![true; places.len()];
        if places.is_empty() {
            return Ok(keeps);
        }
        if let Some(other) = &self.other {
            keeps = other.prune(&Places { places, time: self.time })?;
        }
        if let Some(exact) = &self.exact {
            let columns = PARTITIONS.map(|name| column(places, name)).into_iter().flatten();
            let batch = RecordBatch::try_new(schema::of_partitions(), columns.collect())?;
            let values = exact.evaluate(&batch)?.into_array(places.len())?;
            let flags = values.as_any().downcast_ref::<BooleanArray>();
            for (keep, flag) in keeps.iter_mut().zip(flags.into_iter().flatten()) {
                *keep &= flag == Some(true);
            }
        }
        Ok(keeps)
    }
}

/// Values of a partition column.
fn column(places: &[Place], name: &str) -> Option<ArrayRef> {
    let texts = |field: fn(&Place) -> &str| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(places.iter().map(field)))
    };
    match name {
        "run" => Some(texts(|place| &place.run)),
        "board" => Some(texts(|place| &place.board)),
        "hour" => {
            let hours = places.iter().map(|place| hour_number(place.hour));
            Some(Arc::new(Int64Array::from_iter_values(hours)))
        }
        _ => None,
    }
}

/// Bounds of the values in partitions.
struct Places<'a> {
    places: &'a [Place],
    /// Name of the time column whose values are within the hour of the partition.
    time: &'static str,
}

impl Places<'_> {
    fn bounds(&self, column: &Column, arrival: impl Fn(Duration) -> i64) -> Option<ArrayRef> {
        if column.name() != self.time {
            return self::column(self.places, column.name());
        }
        let times = self.places.iter().map(|place| arrival(place.hour.begin()));
        let times = TimestampMillisecondArray::from_iter_values(times);
        Some(Arc::new(times.with_timezone("UTC")))
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl PruningStatistics for Places<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, milliseconds)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |begin| milliseconds(begin + HOUR) - 1)
    }

    fn num_containers(&self) -> usize {
        self.places.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
