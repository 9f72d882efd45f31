//! Tests conditions on accesses while a capture is decoded, so that rows are built only from
//! accesses that can be in the result.
//!
//! Only comparisons of a column with a constant are used. The engine tests all conditions again, so
//! a condition that is not understood here costs time but changes no result.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use hmtt::analysis::PAGE_LOG2;

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low: i64,
    high: i64,
}

impl Default for Range {
    fn default() -> Self {
        Range { low: i64::MIN, high: i64::MAX }
    }
}

impl Range {
    /// Whether a number is in the range.
    #[inline]
    pub fn has(self, number: i64) -> bool {
        self.low <= number && number <= self.high
    }

    fn restrict(&mut self, low: i64, high: i64) {
        self.low = self.low.max(low);
        self.high = self.high.min(high);
    }

    fn is_all(self) -> bool {
        self == Range::default()
    }
}

/// Conditions on an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessFilter {
    /// Allowed session numbers.
    pub session: Range,
    /// Allowed arrivals, in milliseconds.
    pub arrival: Range,
    clock: Range,
    address: Range,
    is_write: Option<bool>,
    is_never: bool,
}

impl AccessFilter {
    /// Derives the conditions from the filters of a query.
    pub fn new(filters: &[Expr]) -> Self {
        let mut access_filter = AccessFilter::default();
        filters.iter().flat_map(split_conjunction).for_each(|filter| access_filter.add(filter));
        access_filter
    }

    /// Whether an access can be in the result, by its clock, address and direction.
    #[inline]
    pub fn has(&self, clock: i64, address: i64, is_write: bool) -> bool {
        self.clock.has(clock)
            && self.address.has(address)
            && self.is_write.is_none_or(|wanted| wanted == is_write)
    }

    /// Whether the conditions concern frames only, so that all accesses of a chosen frame can be in
    /// the result.
    pub fn is_of_frames(&self) -> bool {
        self.clock.is_all() && self.address.is_all() && self.is_write.is_none()
    }

    /// Whether accesses of a frame can be in the result, by the frame's session and arrival.
    pub fn has_frame(&self, session: i64, arrival: i64) -> bool {
        !self.is_never && self.session.has(session) && self.arrival.has(arrival)
    }

    fn add(&mut self, filter: &Expr) {
        match filter {
            Expr::Column(column) if column.name() == "is_write" => self.direction(true),
            Expr::Not(inner) if column_name(inner) == Some("is_write") => self.direction(false),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (column, operator, constant) = match (column_name(left), column_name(right)) {
                    (Some(name), None) => (name, Some(*op), right),
                    (None, Some(name)) => (name, op.swap(), left),
                    _ => return,
                };
                if let (Some(operator), Some(number)) = (operator, number(constant)) {
                    self.compare(column, operator, number);
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let range = (column_name(expr), number(low), number(high));
                if let (Some(column), Some(low), Some(high)) = range {
                    self.restrict(column, low, high);
                }
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let numbers: Option<Vec<i64>> = list.iter().map(number).collect();
                let range = numbers.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
                if let (Some(column), Some((low, high))) = (column_name(expr), range) {
                    self.restrict(column, low, high);
                }
            }
            _ => {}
        }
    }

    fn direction(&mut self, is_write: bool) {
        self.is_never |= self.is_write.is_some_and(|wanted| wanted != is_write);
        self.is_write = Some(is_write);
    }

    fn compare(&mut self, column: &str, operator: Operator, number: i64) {
        if column == "is_write" {
            if operator == Operator::Eq {
                self.direction(number != 0);
            }
            return;
        }
        match operator {
            Operator::Eq => self.restrict(column, number, number),
            Operator::LtEq => self.restrict(column, i64::MIN, number),
            Operator::GtEq => self.restrict(column, number, i64::MAX),
            Operator::Lt => match number.checked_sub(1) {
                Some(high) => self.restrict(column, i64::MIN, high),
                None => self.is_never = true,
            },
            Operator::Gt => match number.checked_add(1) {
                Some(low) => self.restrict(column, low, i64::MAX),
                None => self.is_never = true,
            },
            _ => {}
        }
    }

    fn restrict(&mut self, column: &str, low: i64, high: i64) {
        match column {
            "session" => self.session.restrict(low, high),
            "arrival" => self.arrival.restrict(low, high),
            "clock" => self.clock.restrict(low, high),
            "address" => self.address.restrict(low, high),
            "page" => {
                let (low, high) = addresses(low, high);
                self.address.restrict(low, high);
            }
            _ => {}
        }
    }
}

/// Returns the first and last address of a range of pages.
fn addresses(first: i64, last: i64) -> (i64, i64) {
    let limit = i64::MAX >> PAGE_LOG2;
    let low =
        if first < -limit { i64::MIN } else { first.min(limit + 1).saturating_mul(1 << PAGE_LOG2) };
    let high = if last >= limit {
        i64::MAX
    } else {
        (last + 1).max(-limit).saturating_mul(1 << PAGE_LOG2).saturating_sub(1)
    };
    (low, high)
}

fn column_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Column(column) => Some(column.name()),
        _ => None,
    }
}

/// Returns the number of a constant, if its type is the type of a column of accesses.
fn number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        Expr::Literal(ScalarValue::TimestampMillisecond(time, _), _) => *time,
        Expr::Literal(ScalarValue::Boolean(flag), _) => flag.map(i64::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn conditions_restrict_accesses() {
        let filter = AccessFilter::new(&[
            col("clock").gt(lit(10_i64)).and(lit(20_i64).gt_eq(col("clock"))),
            col("page").eq(lit(2_i64)),
            col("is_write"),
            col("session").in_list(vec![lit(1_i64), lit(3_i64)], false),
            col("page").not_eq(lit(9_i64)),
        ]);
        assert!(filter.has(11, 8192, true) && filter.has(20, 12_287, true));
        for (clock, address, is_write) in [
            (10, 8192, true),
            (21, 8192, true),
            (11, 8191, true),
            (11, 12_288, true),
            (11, 8192, false),
        ] {
            assert!(!filter.has(clock, address, is_write), "{clock} {address}");
        }
        assert!(filter.has_frame(2, 0) && !filter.has_frame(0, 0) && !filter.has_frame(4, 0));
        assert!(!filter.is_of_frames());
        let both = AccessFilter::new(&[col("is_write"), !col("is_write")]);
        assert!(!both.has_frame(0, 0));
        let none = AccessFilter::new(&[col("clock").lt(lit(i64::MIN))]);
        assert!(!none.has_frame(0, 0));
        let arrival = ScalarValue::TimestampMillisecond(Some(5), Some("UTC".into()));
        let frames = AccessFilter::new(&[col("arrival").gt_eq(lit(arrival))]);
        assert!(frames.has_frame(0, 5) && !frames.has_frame(0, 4) && frames.is_of_frames());
    }

    #[test]
    fn pages_at_the_ends_of_the_address_space_are_ranges() {
        assert_eq!(addresses(0, 0), (0, 4095));
        assert_eq!(addresses(-1, -1), (-4096, -1));
        assert_eq!(addresses(i64::MIN, i64::MAX), (i64::MIN, i64::MAX));
        let last = i64::MAX >> PAGE_LOG2;
        assert_eq!(addresses(last, last), (last << PAGE_LOG2, i64::MAX));
        assert_eq!(addresses(last + 1, i64::MAX).1, i64::MAX);
    }
}
