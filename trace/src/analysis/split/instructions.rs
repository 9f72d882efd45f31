//! Numbers the groups of a program's functions.

#[cfg(feature = "access-traces")]
use hmtt_files::access_trace::Function;

use super::NOT_KNOWN;
use super::labels::{Label, Labels};

/// The functions of one program.
#[derive(Debug, Default)]
pub struct Instructions {
    /// Labels of functions that have no group yet, by number, from 1 on.
    labels: Vec<Option<Label>>,
    /// Groups of the other functions, by number. Number 0 stands for code whose function is not
    /// known.
    groups: Vec<Option<usize>>,
}

impl Instructions {
    /// Takes the next functions.
    #[cfg(feature = "access-traces")]
    pub fn add(&mut self, functions: &[Function]) {
        self.labels.extend(functions.iter().map(|function| {
            let name = match function.name.as_str() {
                "" => "(no function)".to_owned(),
                name => name.to_owned(),
            };
            Some(Label { name, object: function.path.clone() })
        }));
    }

    /// The group of a function, by its number.
    pub fn group(&mut self, number: u32, labels: &mut Labels) -> usize {
        let at = number as usize;
        if let Some(group) = self.groups.get(at).copied().flatten() {
            return group;
        }
        let own = at.checked_sub(1).and_then(|at| self.labels.get_mut(at)?.take());
        let group = labels.number(own.unwrap_or_else(|| Label::new(NOT_KNOWN)));
        // A number without a description, as in a damaged file, is looked up each time, so that
        // memory stays bounded.
        if at <= self.labels.len() {
            if self.groups.len() <= at {
                self.groups.resize(at + 1, None);
            }
            self.groups[at] = Some(group);
        }
        group
    }
}
