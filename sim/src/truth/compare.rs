//! Compares two lists of events and shows the first difference with its context.

use std::fmt;

use hmtt_format::Event;

/// Number of equal events shown before the first difference.
const BEFORE: usize = 3;
/// Number of events shown from the first difference on.
const AFTER: usize = 5;

/// The expected and the sent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    name: &'static str,
    accesses: usize,
    expected: Vec<Event>,
    sent: Vec<Event>,
    difference: Option<usize>,
}

impl Comparison {
    /// Compares two lists. `accesses`: number of accesses that the expected events represent.
    pub fn new(
        name: &'static str,
        accesses: usize,
        expected: Vec<Event>,
        sent: Vec<Event>,
    ) -> Self {
        let common = expected.iter().zip(&sent).take_while(|(a, b)| a == b).count();
        let difference = (common < expected.len().max(sent.len())).then_some(common);
        Comparison { name, accesses, expected, sent, difference }
    }

    /// Whether both lists are equal.
    pub const fn equal(&self) -> bool {
        self.difference.is_none()
    }

    fn noun(&self) -> &'static str {
        if self.name == "faults" { "faults" } else { "accesses" }
    }
}

impl fmt::Display for Comparison {
    /// Formats one line if the lists are equal, otherwise the first difference with its context.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, noun, accesses) = (self.name, self.noun(), self.accesses);
        let Some(at) = self.difference else {
            return write!(f, "{name}: {accesses} {noun}, all equal");
        };
        let (expected, sent) = (self.expected.len(), self.sent.len());
        writeln!(
            f,
            "{name}: {accesses} {noun}, first difference at record {at} \
             ({expected} expected, {sent} sent)"
        )?;
        for event in &self.expected[at.saturating_sub(BEFORE)..at] {
            writeln!(f, "    {event}")?;
        }
        let mut list = |mark: char, events: &[Event]| {
            for event in events.iter().skip(at).take(AFTER) {
                writeln!(f, "  {mark} {event}")?;
            }
            Ok(())
        };
        list('-', &self.expected)?;
        list('+', &self.sent)?;
        write!(f, "  (- expected, + sent)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_format::truth::parse_line;

    fn events(text: &str) -> Vec<Event> {
        text.split(',').map(|line| Event::Access(parse_line(line).unwrap().unwrap())).collect()
    }

    #[test]
    fn equal_lists_are_one_line() {
        let comparison = Comparison::new("truth", 2, events("1 R 40"), events("1 R 40"));
        assert!(comparison.equal());
        assert_eq!(comparison.to_string(), "truth: 2 accesses, all equal");
    }

    #[test]
    fn the_first_difference_is_shown_with_its_context() {
        let expected = events("1 R 40,2 R 40,3 R 40,4 R 40,5 R 40,6 W 80");
        let sent = events("1 R 40,2 R 40,3 R 40,4 R 40,5 W 40");
        let comparison = Comparison::new("truth", 6, expected, sent);
        insta::assert_snapshot!(comparison, @r"
        truth: 6 accesses, first difference at record 4 (6 expected, 5 sent)
            2 R 40
            3 R 40
            4 R 40
          - 5 R 40
          - 6 W 80
          + 5 W 40
          (- expected, + sent)
        ");
    }

    #[test]
    fn a_missing_tail_is_a_difference() {
        assert!(!Comparison::new("truth", 2, events("1 R 40,2 R 40"), events("1 R 40")).equal());
        assert!(!Comparison::new("truth", 1, events("1 R 40"), events("1 R 40,2 R 40")).equal());
    }
}
