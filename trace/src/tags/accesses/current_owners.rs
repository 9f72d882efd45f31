//! Keeps which functions own accesses at the current time, from changes of ownership.

use std::collections::BTreeSet;

use super::owners::{Change, Kind, Owner};

/// Owners of the next access. Blocks and loops, which are parts of functions, are not among them.
#[derive(Clone, Debug)]
pub struct CurrentOwners {
    own: Owner,
    open: BTreeSet<Owner>,
}

impl Default for CurrentOwners {
    fn default() -> Self {
        CurrentOwners { own: Owner::Outside, open: BTreeSet::from([Owner::Outside]) }
    }
}

impl CurrentOwners {
    /// Applies a change.
    pub fn change(&mut self, change: Change) {
        let Change { kind, owner, is_start } = change;
        if matches!(owner, Owner::Block(_) | Owner::OutsideBlocks(_) | Owner::Loop(_)) {
            return;
        }
        match (kind, is_start) {
            (Kind::Own, true) => self.own = owner,
            (Kind::Own, false) => {}
            (Kind::Inclusive, true) => drop(self.open.insert(owner)),
            (Kind::Inclusive, false) => drop(self.open.remove(&owner)),
        }
    }

    /// The innermost function; or that there is none, or that several threads have open functions.
    pub fn own(&self) -> Owner {
        self.own
    }

    /// All open functions, each once; or what [`CurrentOwners::own`] is, if that is no function.
    pub fn inclusive(&self) -> impl Iterator<Item = Owner> {
        let is_function = matches!(self.own, Owner::Function(_));
        let open = self.open.iter().copied().filter(move |_| is_function);
        open.filter(|owner| matches!(owner, Owner::Function(_)))
            .chain((!is_function).then_some(self.own))
    }
}
