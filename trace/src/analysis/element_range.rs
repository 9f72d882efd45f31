//! Describes elements of a string instruction as one range.

use super::Batch;

/// Elements of a string instruction at consecutive addresses, which are too many to be passed on
/// one by one. For example, a `rep stosq` that fills 1 GiB can be one range of 2^27 elements of 8
/// bytes. Analyses that only add up count the elements; for other analyses the elements are a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementRange {
    /// The lowest address of the elements.
    pub address: u64,
    /// Number of elements, at least one.
    pub elements: u64,
    /// Bytes of each element, at least one.
    pub size: u32,
    /// Whether the elements are written; if not, they are read.
    pub is_write: bool,
    /// Address of the instruction.
    pub instruction: u64,
    /// The function of the instruction, by the function's number in the source; 0 if the function
    /// is not known.
    pub function: u32,
    /// The thread that has made the accesses, by the thread's number in the system.
    pub thread: u32,
}

impl ElementRange {
    /// Bytes of all elements, at most 2^64 - 1.
    pub fn bytes(&self) -> u64 {
        self.elements.saturating_mul(self.size.into())
    }

    /// Address of the last byte; at most the end of the address space.
    pub fn last(&self) -> u64 {
        self.address.saturating_add(self.bytes().max(1) - 1)
    }

    /// Calls `add` with a batch of the first element alone. The group of the first element is the
    /// group of the whole range.
    pub fn first_element(&self, add: impl FnOnce(&Batch<'_>)) {
        let (functions, instructions) = ([self.function], [self.instruction]);
        let (addresses, writes, sizes) = ([self.address], [self.is_write], [self.size]);
        let batch = Batch::new(&addresses, &writes)
            .with_sizes(&sizes)
            .with_instructions(&instructions)
            .with_functions(&functions)
            .with_thread(self.thread);
        add(&batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_with_the_address_space() {
        let range = ElementRange {
            address: 0x1000,
            elements: 5,
            size: 8,
            is_write: true,
            instruction: 1,
            function: 2,
            thread: 3,
        };
        assert_eq!((range.bytes(), range.last()), (40, 0x1027));
        let forged = ElementRange { elements: u64::MAX, ..range };
        assert_eq!((forged.bytes(), forged.last()), (u64::MAX, u64::MAX));
        range.first_element(|batch| {
            assert_eq!((batch.addresses(), batch.functions()), (&[0x1000][..], Some(&[2][..])));
            assert_eq!((batch.len(), batch.thread()), (1, Some(3)));
        });
    }
}
