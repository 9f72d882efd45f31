//! Finds the columns of a result that contain addresses, so that they are printed in hexadecimal,
//! as by all other commands.
//!
//! Addresses have the same type as other numbers. So this module follows the query from the
//! `address` columns of the tables up to the result. `min(address)` chooses an address and `address
//! as place` renames one: their columns are addresses. `sum(address)` and `address - 4096` compute
//! other numbers.

use arrow::datatypes::DataType;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{AggregateFunction, Case, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{Distinct, Expr, Join, JoinType, LogicalPlan, TableScan};

use crate::table::TraceTable;

/// The column of addresses in the tables.
const ADDRESS: &str = "address";
/// Aggregate and window functions whose result is one value of their first argument, or a list of
/// its values.
const CHOOSE: [&str; 9] = [
    "any_value",
    "array_agg",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "max",
    "min",
    "nth_value",
];
/// Functions whose result is one of their arguments.
const CHOOSE_OF_ALL: [&str; 5] = ["coalesce", "greatest", "ifnull", "least", "nvl"];

/// What the values of a column or an expression mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Addresses of a table.
    Address,
    /// A constant of the query. Together with addresses it counts as an address.
    Constant,
    /// Other values.
    Other,
}

use Meaning::{Address, Constant, Other};

/// Returns for each column of a result whether it contains addresses.
pub fn of_result(plan: &LogicalPlan) -> Vec<bool> {
    columns(plan).into_iter().map(|meaning| meaning == Address).collect()
}

/// The common meaning of values from several sources. Addresses and constants together are
/// addresses; addresses and other values are not.
fn common(meanings: impl IntoIterator<Item = Meaning>) -> Meaning {
    meanings.into_iter().fold(Constant, |before, next| match (before, next) {
        (Constant, other) | (other, Constant) => other,
        (Address, Address) => Address,
        _ => Other,
    })
}

/// The meaning of each column of a plan.
fn columns(plan: &LogicalPlan) -> Vec<Meaning> {
    let width = plan.schema().fields().len();
    let mut meanings = match plan {
        LogicalPlan::TableScan(scan) => of_table(scan),
        LogicalPlan::Projection(node) => all(&node.expr, &node.input),
        LogicalPlan::Distinct(Distinct::On(node)) => all(&node.select_expr, &node.input),
        LogicalPlan::Distinct(Distinct::All(input)) => columns(input),
        LogicalPlan::Filter(node) => columns(&node.input),
        LogicalPlan::Sort(node) => columns(&node.input),
        LogicalPlan::Limit(node) => columns(&node.input),
        LogicalPlan::Repartition(node) => columns(&node.input),
        LogicalPlan::SubqueryAlias(node) => columns(&node.input),
        LogicalPlan::Subquery(node) => columns(&node.subquery),
        LogicalPlan::Window(node) => {
            let mut meanings = columns(&node.input);
            meanings.extend(all(&node.window_expr, &node.input));
            meanings
        }
        LogicalPlan::Aggregate(node) => {
            let mut meanings = groups(&node.group_expr, &node.input);
            // If there are several grouping sets, the engine adds a column with the number of the
            // set.
            meanings.resize(width.saturating_sub(node.aggr_expr.len()), Other);
            meanings.extend(all(&node.aggr_expr, &node.input));
            meanings
        }
        LogicalPlan::Join(join) => of_join(join),
        LogicalPlan::Union(node) => {
            let inputs: Vec<_> = node.inputs.iter().map(|input| columns(input)).collect();
            let place = |place: usize| common(inputs.iter().map(|input| input[place]));
            (0..width).map(place).collect()
        }
        LogicalPlan::Unnest(node) => {
            let input = columns(&node.input);
            node.dependency_indices.iter().map(|place| input[*place]).collect()
        }
        LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => vec![Constant; width],
        _ => Vec::new(),
    };
    meanings.resize(width, Other);
    meanings
}

fn of_table(scan: &TableScan) -> Vec<Meaning> {
    // Tables of the engine itself, and of recursive queries, have columns of any meaning.
    let is_ours = source_as_provider(&scan.source).is_ok_and(|table| table.is::<TraceTable>());
    let meaning = |name: &str| if is_ours && name == ADDRESS { Address } else { Other };
    scan.projected_schema.fields().iter().map(|field| meaning(field.name())).collect()
}

fn of_join(join: &Join) -> Vec<Meaning> {
    match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => columns(&join.left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => columns(&join.right),
        _ => [columns(&join.left), columns(&join.right)].concat(),
    }
}

fn groups(expressions: &[Expr], input: &LogicalPlan) -> Vec<Meaning> {
    match expressions {
        [Expr::GroupingSet(sets)] => all(sets.distinct_expr(), input),
        _ => all(expressions, input),
    }
}

/// The meanings of expressions over a plan.
fn all<'a>(expressions: impl IntoIterator<Item = &'a Expr>, input: &LogicalPlan) -> Vec<Meaning> {
    let (schema, columns) = (input.schema(), columns(input));
    expressions.into_iter().map(|expression| of_expression(expression, schema, &columns)).collect()
}

fn of_expression(expression: &Expr, schema: &DFSchema, columns: &[Meaning]) -> Meaning {
    let meaning = |part: &Expr| of_expression(part, schema, columns);
    let of_first = |parts: &[Expr]| parts.first().map_or(Other, meaning);
    match expression {
        Expr::Column(column) => match schema.maybe_index_of_column(column) {
            Some(place) => columns[place],
            None => Other,
        },
        Expr::Literal(..) => Constant,
        Expr::Alias(alias) => meaning(&alias.expr),
        Expr::Cast(cast) if is_wide(cast.field.data_type()) => meaning(&cast.expr),
        Expr::TryCast(cast) if is_wide(cast.field.data_type()) => meaning(&cast.expr),
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter().map(|(_, result)| result).chain(else_expr);
            common(results.map(|result| meaning(result)))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            "nullif" => of_first(args),
            "nvl2" => common(args.iter().skip(1).map(meaning)),
            name if CHOOSE_OF_ALL.contains(&name) => common(args.iter().map(meaning)),
            _ => Other,
        },
        Expr::AggregateFunction(AggregateFunction { func, params })
            if CHOOSE.contains(&func.name()) =>
        {
            of_first(&params.args)
        }
        Expr::WindowFunction(function) => {
            let WindowFunction { fun, params } = &**function;
            if CHOOSE.contains(&fun.name()) { of_first(&params.args) } else { Other }
        }
        Expr::ScalarSubquery(query) => {
            self::columns(&query.subquery).first().copied().unwrap_or(Other)
        }
        _ => Other,
    }
}

/// Whether a type of numbers can hold all addresses.
pub fn is_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64)
}
