//! Divides the memory of a query among its operators.
//!
//! Three kinds of operators reserve memory:
//!
//! - Sorts and groups write to disk when they exceed their share.
//! - A sort merges its own pieces. With less memory it merges fewer pieces at once.
//! - All other operators (joins, merges of sorted partitions) end the query if they get no memory.
//!
//! If a pool gives away all free memory, a sort can take the memory that the merge of the sorted
//! partitions needs a moment later. Then the result depends on which thread was faster. In this
//! pool each kind has a part that the other kinds cannot take.

use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, PoisonError};

use datafusion::common::{DataFusionError, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// Eighths of the memory for the operators that write to disk, while there are merges of sorts.
const SPILLING_EIGHTHS: usize = 4;
/// Eighths of the memory for the merges of sorts.
const MERGING_EIGHTHS: usize = 3;
/// Eighths of the memory for both kinds together. The rest is for other operators alone.
const SHARED_EIGHTHS: usize = SPILLING_EIGHTHS + MERGING_EIGHTHS;
/// Start of the name under which DataFusion reserves memory for the merge of a sort's pieces.
const MERGE_OF_A_SORT: &str = "ExternalSorterMerge";

/// A memory limit with a part for each kind of operator.
#[derive(Debug)]
pub struct DividedPool {
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    spilling: Use,
    merging: Use,
    other: Use,
}

/// What the operators of one kind use.
#[derive(Debug, Default)]
struct Use {
    operators: usize,
    /// Largest number of operators at one time, since there was last no operator. A share does not
    /// grow when one operator has ended, because another one may still merge pieces that it has
    /// sorted with a smaller share.
    most: usize,
    bytes: usize,
}

impl Use {
    fn add(&mut self) {
        self.operators += 1;
        self.most = self.most.max(self.operators);
    }

    fn remove(&mut self) {
        self.operators -= 1;
        if self.operators == 0 {
            self.most = 0;
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Spilling,
    Merging,
    Other,
}

impl Kind {
    fn of(consumer: &MemoryConsumer) -> Self {
        if consumer.can_spill() {
            Kind::Spilling
        } else if consumer.name().starts_with(MERGE_OF_A_SORT) {
            Kind::Merging
        } else {
            Kind::Other
        }
    }
}

impl State {
    fn of(&mut self, consumer: &MemoryConsumer) -> &mut Use {
        match Kind::of(consumer) {
            Kind::Spilling => &mut self.spilling,
            Kind::Merging => &mut self.merging,
            Kind::Other => &mut self.other,
        }
    }

    /// Bytes that a reservation of `held` bytes can still grow by.
    fn left(&self, kind: Kind, held: usize, bytes: usize) -> usize {
        let rest = bytes.saturating_sub(self.other.bytes);
        // There are as many merges of sorts as sorts, so the larger number is used.
        let most = self.spilling.most.max(self.merging.most);
        let share = |eighths: usize| rest / 8 * eighths / most.max(1);
        match kind {
            Kind::Spilling if self.merging.most == 0 => share(SHARED_EIGHTHS).saturating_sub(held),
            Kind::Spilling => share(SPILLING_EIGHTHS).saturating_sub(held),
            Kind::Merging => share(MERGING_EIGHTHS).saturating_sub(held),
            Kind::Other => {
                let shared =
                    (self.spilling.bytes + self.merging.bytes).min(bytes / 8 * SHARED_EIGHTHS);
                rest.saturating_sub(shared)
            }
        }
    }
}

impl DividedPool {
    /// Creates a pool of this size in bytes.
    pub fn new(bytes: usize) -> Self {
        DividedPool { bytes, state: Mutex::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Display for DividedPool {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}({} bytes)", self.name(), self.bytes)
    }
}

impl MemoryPool for DividedPool {
    fn name(&self) -> &str {
        "divided"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.with(|state| state.of(consumer).add());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.with(|state| state.of(consumer).remove());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.with(|state| state.of(reservation.consumer()).bytes += additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.with(|state| state.of(reservation.consumer()).bytes -= shrink);
    }

    fn try_grow(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
    ) -> Result<(), DataFusionError> {
        let consumer = reservation.consumer();
        self.with(|state| {
            let left = state.left(Kind::of(consumer), reservation.size(), self.bytes);
            if additional > left {
                return Err(resources_datafusion_err!(
                    "{} needs {additional} bytes beside its {}, and can have {left} of {} for the query",
                    consumer.name(),
                    reservation.size(),
                    self.bytes
                ));
            }
            state.of(consumer).bytes += additional;
            Ok(())
        })
    }

    fn reserved(&self) -> usize {
        self.with(|state| state.spilling.bytes + state.merging.bytes + state.other.bytes)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MIB: usize = 1 << 20;

    fn reservation(pool: &Arc<dyn MemoryPool>, name: &str, spills: bool) -> MemoryReservation {
        MemoryConsumer::new(name).with_can_spill(spills).register(pool)
    }

    /// Grows a reservation in steps as far as possible.
    fn fill(reservation: &MemoryReservation) -> usize {
        while reservation.try_grow(MIB).is_ok() {}
        reservation.size() / MIB
    }

    #[test]
    fn a_sort_leaves_memory_to_its_merges_and_to_those_of_partitions() {
        let pool: Arc<dyn MemoryPool> = Arc::new(DividedPool::new(64 * MIB));
        let sorts =
            ["ExternalSorter[0]", "ExternalSorter[1]"].map(|name| reservation(&pool, name, true));
        assert_eq!(sorts.each_ref().map(fill), [28, 28]);
        let merges =
            [0, 1].map(|part| reservation(&pool, &format!("{MERGE_OF_A_SORT}[{part}]"), false));
        assert_eq!(merges.each_ref().map(fill), [12, 12]);
        let partitions = reservation(&pool, "SortPreservingMergeExec[0]", false);
        assert_eq!(fill(&partitions), 8);
        // The bytes that sorts reserved before the merges began remain, but cannot grow.
        assert_eq!(sorts.each_ref().map(fill), [28, 28]);
        assert_eq!(pool.reserved(), (56 + 24 + 8) * MIB);
        drop((sorts, merges));
        assert_eq!(fill(&partitions), 64);
        drop(partitions);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_joins_hold_is_not_for_sorts() {
        let pool: Arc<dyn MemoryPool> = Arc::new(DividedPool::new(64 * MIB));
        let join = reservation(&pool, "HashJoinInput", false);
        join.try_grow(48 * MIB).unwrap();
        let sort = reservation(&pool, "ExternalSorter[0]", true);
        assert_eq!(fill(&sort), 14);
        assert_eq!(fill(&join), 50);
        let error = join.try_grow(MIB).unwrap_err().to_string();
        assert!(error.contains("HashJoinInput needs 1048576 bytes beside its 52428800"), "{error}");
    }
}
