//! Tells the user when the order of rows of several boards is not known.
//!
//! Each session of a card has its own clock count. A query that sorts rows of several boards by
//! `clock` is answered with a note that the clocks are not related. A query that sorts by `arrival`
//! gets a note that arrivals of different boards have the order of the receiver. `docs/sql.md`
//! describes what to do instead.

use std::collections::BTreeSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use hmtt_dataset::{Partition, Table};

use crate::sources::Sources;

/// Boards of the sources, as far as they are known without reading rows.
#[derive(Debug, Default)]
pub struct Boards {
    names: BTreeSet<(String, String)>,
    /// Captures, whose boards are not known before they are decoded.
    captures: usize,
}

impl Boards {
    /// The boards of data sets, by the names of their folders.
    pub fn of(sources: &Sources) -> Self {
        let mut boards = Boards { captures: sources.captures.len(), ..Boards::default() };
        for dataset in &sources.datasets {
            for (partition, _) in dataset.parts_of(Table::Runs).unwrap_or_default() {
                boards.names.insert((partition.run, partition.board));
            }
        }
        for part in sources.remotes.iter().flat_map(|remote| remote.parts_of(Table::Runs)) {
            let Partition { run, board, .. } = &part.partition;
            boards.names.insert((run.clone(), board.clone()));
        }
        boards
    }

    /// Returns the note for a query; `None` if it does not sort rows of several boards by `clock`
    /// or `arrival`.
    pub fn note(&self, plan: &LogicalPlan) -> Result<Option<String>> {
        let several = self.names.len() + self.captures > 1;
        if !several {
            return Ok(None);
        }
        let mut note = None;
        plan.apply_with_subqueries(|plan| {
            if let LogicalPlan::Sort(sort) = plan {
                let keys: Vec<&str> =
                    sort.expr.iter().filter_map(|key| column(&key.expr)).collect();
                let clock = keys.iter().position(|name| ["clock", "arrival"].contains(name));
                let apart = |name: &&str| ["session", "board", "capture"].contains(name);
                let is_apart = |clock: usize| keys[..clock].iter().any(apart);
                if let Some(place) = clock.filter(|clock| !is_apart(*clock))
                    && !chooses_a_board(plan)?
                {
                    note = Some(text(keys[place]));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(note)
    }
}

fn text(key: &str) -> String {
    let reason = match key {
        "clock" => "each session of a board counts clocks of its own",
        _ => "arrivals have the order in which the receiver got the frames",
    };
    format!(
        "rows of several boards are sorted by {key}: their order is not known, because {reason}; see \
         known_order in docs/sql.md"
    )
}

fn column(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Column(column) => Some(column.name()),
        _ => None,
    }
}

/// Whether a condition of the plan restricts it to one board or capture.
fn chooses_a_board(plan: &LogicalPlan) -> Result<bool> {
    let mut is_chosen = false;
    let mut look = |filter: &Expr| {
        filter.apply(|part| {
            if let Expr::BinaryExpr(comparison) = part {
                let names = [column(&comparison.left), column(&comparison.right)];
                let is_board =
                    names.iter().flatten().any(|name| ["board", "capture"].contains(name));
                is_chosen |= is_board && comparison.op == datafusion::logical_expr::Operator::Eq;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    };
    plan.apply(|plan| {
        match plan {
            LogicalPlan::Filter(filter) => drop(look(&filter.predicate)?),
            LogicalPlan::TableScan(scan) => {
                for filter in &scan.filters {
                    look(filter)?;
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_chosen)
}
