//! Defines ordered tables of rules. The first rule whose condition holds decides.

/// A rule of a [`Table`]. It decides if its condition holds and no earlier rule's condition holds.
pub(super) struct Rule<E, D> {
    /// The condition in words, and the reason why it decides.
    #[cfg_attr(not(test), expect(dead_code, reason = "documents the rule, and names it in tests"))]
    pub because: &'static str,
    pub when: fn(&E) -> bool,
    pub then: D,
}

/// Rules in order: the first one whose condition holds decides.
pub(super) struct Table<E: 'static, D: 'static> {
    pub rules: &'static [Rule<E, D>],
    /// The decision if no rule applies.
    pub otherwise: D,
}

impl<E, D: Copy> Table<E, D> {
    pub fn decide(&self, evidence: &E) -> D {
        let rule = self.rules.iter().position(|rule| (rule.when)(evidence));
        #[cfg(test)]
        tests::note(rule.map_or("otherwise", |rule| self.rules[rule].because));
        rule.map_or(self.otherwise, |rule| self.rules[rule].then)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::Table;

    thread_local! {
        static DECIDED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Records that a rule has decided.
    pub fn note(because: &'static str) {
        DECIDED.with_borrow_mut(|decided| _ = decided.insert(because));
    }

    /// Returns the rules that have decided in this thread.
    pub fn decided() -> BTreeSet<&'static str> {
        DECIDED.with_borrow(Clone::clone)
    }

    /// Decides about all cases, and checks that the table has no unneeded part. Each rule has to be
    /// the first that applies to some case, and without the rule the decision about this case has
    /// to differ. To at least one case no rule applies.
    pub fn check<E: Copy + 'static, D: Copy + PartialEq + std::fmt::Debug>(
        table: &Table<E, D>,
        cases: &[E],
    ) {
        let mut is_needed = vec![false; table.rules.len() + 1];
        for evidence in cases {
            let applies = |from: usize| {
                (from..table.rules.len()).find(|at| (table.rules[*at].when)(evidence))
            };
            let then = |at: Option<usize>| at.map_or(table.otherwise, |at| table.rules[at].then);
            let first = applies(0);
            assert_eq!(table.decide(evidence), then(first));
            match first {
                Some(at) => is_needed[at] |= then(applies(at + 1)) != table.rules[at].then,
                None => is_needed[table.rules.len()] = true,
            }
        }
        let unneeded: Vec<_> =
            table.rules.iter().zip(&is_needed).filter(|(_, needed)| !**needed).collect();
        let unneeded: Vec<_> = unneeded.iter().map(|(rule, _)| rule.because).collect();
        assert!(unneeded.is_empty(), "rules that decide nothing: {unneeded:?}");
        assert!(is_needed[table.rules.len()], "no evidence is left to no rule");
    }
}
