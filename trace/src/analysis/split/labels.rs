//! Numbers groups by their labels, up to a limit.

use std::collections::HashMap;

use super::OTHERS;

/// The name of a group, and the file of its function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// Name of the group. A name in parentheses is not the name of a function.
    pub name: String,
    /// Path of the function's file; empty if it has none.
    pub object: String,
}

impl Label {
    /// A label without a file.
    pub fn new(name: impl Into<String>) -> Label {
        Label { name: name.into(), object: String::new() }
    }
}

/// The groups so far.
#[derive(Clone, Debug)]
pub struct Labels {
    most: usize,
    numbers: HashMap<Label, usize>,
    all: Vec<Label>,
    others: Option<usize>,
}

impl Labels {
    /// Begins without groups. `most`: maximum number of groups, besides the group [`OTHERS`].
    pub fn new(most: usize) -> Labels {
        Labels { most, numbers: HashMap::new(), all: Vec::new(), others: None }
    }

    /// The number of the group with a label. A new label gets a new number, or the number of
    /// [`OTHERS`] if there are too many.
    pub fn number(&mut self, label: Label) -> usize {
        if let Some(number) = self.numbers.get(&label) {
            return *number;
        }
        let next = self.all.len();
        if self.numbers.len() < self.most {
            self.all.push(label.clone());
            self.numbers.insert(label, next);
            return next;
        }
        *self.others.get_or_insert_with(|| {
            self.all.push(Label::new(OTHERS));
            next
        })
    }

    /// A note for people on the group [`OTHERS`]; `None` if there is no such group.
    pub fn note_on_others(&self) -> Option<String> {
        let most = self.most;
        let note = || {
            format!(
                "{OTHERS} has the groups whose first accesses come after those of the first {most} groups, \
                 also groups with many accesses"
            )
        };
        self.others.map(|_| note())
    }

    /// All groups, by number.
    pub fn all(&self) -> &[Label] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_limit_are_one() {
        let mut labels = Labels::new(2);
        assert_eq!((labels.number(Label::new("a")), labels.note_on_others()), (0, None));
        let numbers = ["a", "b", "a", "c", "d", "b"].map(|name| labels.number(Label::new(name)));
        assert_eq!(numbers, [0, 1, 0, 2, 2, 1]);
        assert_eq!(labels.all().last(), Some(&Label::new(OTHERS)));
        assert!(labels.note_on_others().is_some_and(|note| note.contains("first 2 groups")));
    }
}
