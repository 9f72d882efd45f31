//! Follows the changes of ownership, and states which functions own the next access.

use std::collections::BTreeSet;

use super::owners::{Change, Kind, Owner};

/// The owners of the next access: functions, but not their blocks and loops.
#[derive(Clone, Debug)]
pub struct CurrentOwners {
    /// Owner of own accesses.
    own: Owner,
    /// Owners of inclusive accesses.
    open: BTreeSet<Owner>,
}

impl Default for CurrentOwners {
    fn default() -> Self {
        CurrentOwners { own: Owner::Outside, open: BTreeSet::from([Owner::Outside]) }
    }
}

impl CurrentOwners {
    /// Applies a change. Changes of blocks and loops are ignored.
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

    /// The innermost function; [`Owner::Outside`] if no function is open, and
    /// [`Owner::SeveralThreads`] if several threads have open functions.
    pub fn own(&self) -> Owner {
        self.own
    }

    /// All open functions, each once. If [`CurrentOwners::own`] is no function, this owner alone.
    pub fn inclusive(&self) -> impl Iterator<Item = Owner> {
        let is_function = matches!(self.own, Owner::Function(_));
        let open = self.open.iter().copied().filter(move |_| is_function);
        open.filter(|owner| matches!(owner, Owner::Function(_)))
            .chain((!is_function).then_some(self.own))
    }
}
