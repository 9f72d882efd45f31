//! Holds a set of disjoint spans of a body, which is searched by instruction index in logarithmic
//! time.

use std::collections::BTreeMap;

use super::super::body::Body;
use super::super::region::Span;

/// Disjoint spans, by the index of their first instruction.
#[derive(Debug, Default)]
pub(super) struct Spans(BTreeMap<usize, Span>);

impl Spans {
    /// Adds a span. It must not overlap the other spans.
    pub fn push(&mut self, span: Span) {
        self.0.insert(span.first, span);
    }

    /// All spans, in program order.
    pub fn iter(&self) -> impl Iterator<Item = &Span> {
        self.0.values()
    }

    /// Whether a span contains an instruction.
    pub fn has(&self, index: usize) -> bool {
        let before = self.0.range(..=index).next_back();
        before.is_some_and(|(_, span)| index < span.end)
    }

    /// Spans that overlap an address range.
    pub fn within<'a>(
        &'a self,
        body: &'a Body,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = &'a Span> {
        let after = body.instructions.partition_point(|instruction| instruction.ip() < end);
        let before = self.0.range(..after).rev().map(|(_, span)| span);
        before.take_while(move |span| start < span.limit)
    }

    /// Removes the spans that contain instructions of an index range.
    pub fn remove(&mut self, first: usize, end: usize) {
        while let Some((number, _)) =
            self.0.range(..end).next_back().filter(|(_, span)| first < span.end)
        {
            let number = *number;
            self.0.remove(&number);
        }
    }
}

impl Extend<Span> for Spans {
    fn extend<I: IntoIterator<Item = Span>>(&mut self, spans: I) {
        spans.into_iter().for_each(|span| self.push(span));
    }
}

impl IntoIterator for Spans {
    type Item = Span;
    type IntoIter = std::collections::btree_map::IntoValues<usize, Span>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_values()
    }
}
