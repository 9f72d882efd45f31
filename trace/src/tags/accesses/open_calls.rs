//! Stores the open calls of all threads, which can end in any order.
//!
//! The calls of a thread are a linked list from the innermost to the outermost call. Within it, the
//! calls of one function are another linked list. So an entry and an exit take constant time at any
//! depth. A call takes memory only while it is open.

use crate::tags::hash::FastMap;
use hmtt_files::tag_log::FunctionId;

/// The index of no call.
const NONE: usize = usize::MAX;

/// An element of [`OpenCalls::calls`]: an open call, or free.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    number: FunctionId,
    /// Index of the next outer call, which the thread entered before this call. In a free element,
    /// index of the next free element.
    outer: usize,
    /// Index of the next inner call, which the thread entered after this call.
    inner: usize,
    /// Index of the previous open call of the same function by the same thread.
    same: usize,
    /// Block that the call has entered last.
    block: Option<FunctionId>,
}

/// Open calls of all threads.
#[derive(Clone, Debug)]
pub struct OpenCalls {
    calls: Vec<OpenCall>,
    /// Index of the first free element.
    free: usize,
    /// Index of the innermost call of each thread.
    innermost: Vec<usize>,
    /// Index of the innermost call of each function in each thread, by [`key`].
    latest: FastMap<u64, usize>,
}

impl Default for OpenCalls {
    fn default() -> Self {
        let (calls, innermost, latest) = Default::default();
        OpenCalls { calls, free: NONE, innermost, latest }
    }
}

/// Key of a function in a thread. It is unique, because no file is large enough for a log of 2^32
/// threads.
const fn key(thread: usize, number: FunctionId) -> u64 {
    (thread as u64) << 32 | number.0 as u64
}

impl OpenCalls {
    /// The function of a thread's innermost call, and the block that this call has entered last.
    pub fn innermost(&self, thread: usize) -> Option<(FunctionId, Option<FunctionId>)> {
        let place = *self.innermost.get(thread)?;
        self.calls.get(place).map(|call| (call.number, call.block))
    }

    /// Sets the block of a thread's innermost call. Does nothing if the thread has no open call.
    pub fn begin_block(&mut self, thread: usize, block: FunctionId) {
        let place = self.innermost.get(thread).copied().unwrap_or(NONE);
        if let Some(call) = self.calls.get_mut(place) {
            call.block = Some(block);
        }
    }

    /// Adds a call of a function by a thread.
    pub fn enter(&mut self, thread: usize, number: FunctionId) {
        if self.innermost.len() <= thread {
            self.innermost.resize(thread + 1, NONE);
        }
        let outer = self.innermost[thread];
        let same = self.latest.get(&key(thread, number)).copied().unwrap_or(NONE);
        let call = OpenCall { number, outer, inner: NONE, same, block: None };
        let place = match self.calls.get_mut(self.free) {
            Some(free) => {
                let next = std::mem::replace(free, call).outer;
                std::mem::replace(&mut self.free, next)
            }
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        };
        if let Some(outer) = self.calls.get_mut(outer) {
            outer.inner = place;
        }
        self.innermost[thread] = place;
        self.latest.insert(key(thread, number), place);
    }

    /// Removes a thread's innermost call of a function. Returns the function, and the block that
    /// the call has entered last. `None` if the thread has no such call.
    pub fn leave(
        &mut self,
        thread: usize,
        number: FunctionId,
    ) -> Option<(FunctionId, Option<FunctionId>)> {
        let place = self.latest.get(&key(thread, number)).copied()?;
        let OpenCall { outer, inner, same, block, .. } = self.calls[place];
        match self.calls.get_mut(inner) {
            Some(inner) => inner.outer = outer,
            None => self.innermost[thread] = outer,
        }
        if let Some(outer) = self.calls.get_mut(outer) {
            outer.inner = inner;
        }
        match same {
            NONE => drop(self.latest.remove(&key(thread, number))),
            same => drop(self.latest.insert(key(thread, number), same)),
        }
        self.calls[place].outer = std::mem::replace(&mut self.free, place);
        Some((number, block))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn calls_are_those_of_plain_stacks(
            deeds in prop::collection::vec((0usize..3, (0u32..6).prop_map(FunctionId), 0u32..10), 0..600),
        ) {
            let (mut open, mut stacks) = (OpenCalls::default(), vec![Vec::new(); 3]);
            let (mut count, mut most) = (0, 0);
            for (thread, number, deed) in deeds {
                let stack: &mut Vec<(FunctionId, Option<FunctionId>)> = &mut stacks[thread];
                match deed {
                    0..5 => {
                        stack.push((number, None));
                        open.enter(thread, number);
                        count += 1;
                    }
                    5..9 => {
                        let place = stack.iter().rposition(|call| call.0 == number);
                        let left = place.map(|place| stack.remove(place));
                        prop_assert_eq!(open.leave(thread, number), left);
                        count -= usize::from(left.is_some());
                    }
                    _ => {
                        stack.iter_mut().last().into_iter().for_each(|call| call.1 = Some(number));
                        open.begin_block(thread, number);
                    }
                }
                most = most.max(count);
                prop_assert_eq!(open.calls.len(), most);
                for (thread, stack) in stacks.iter().enumerate() {
                    prop_assert_eq!(open.innermost(thread), stack.last().copied());
                }
            }
        }
    }
}
