//! Assigns numbers in a file to functions, blocks and paths.
//!
//! A program numbers its functions, blocks and paths from 1 on again each time that its recording
//! is resumed. A function, block or path that is equal to an earlier one keeps the number of the
//! earlier one in the file, and is not described again:
//!
//! ```text
//! recording   functions of the program   numbers in the file   described
//! first       1: f, 2: g                 1, 2                  f, g
//! resumed     1: g, 2: h, 3: f           2, 3, 1               h
//! ```

use std::collections::HashMap;

use hmtt_files::access_trace::{BlockAccesses, Function, Part, Repeated};

/// The numbers that were assigned in a file so far.
#[derive(Clone, Debug, Default)]
pub struct FileNumbers {
    functions: HashMap<Function, u32>,
    /// The first number in the file of each block and path.
    blocks: HashMap<BlockAccesses, u32>,
    /// The last number in the file that a block or path has.
    last: u32,
    /// For each number of a function in the program, from 1 on, the number in the file.
    current_functions: Vec<u32>,
    /// For each number of a block or path in the program, from 1 on, the number in the file.
    current: Vec<u32>,
}

/// The result of adding blocks and paths.
pub struct Added {
    /// The blocks and paths that are new in the file. They name functions and parts by their
    /// numbers in the file.
    pub new: Vec<BlockAccesses>,
    /// The number in the file for each number of the program that was added, in order.
    pub numbers: Vec<u32>,
}

/// The number in the file for a number of the program. 0 stays 0. A number that the program has not
/// assigned becomes `u32::MAX`, which the file does not assign either.
fn in_file(numbers: &[u32], number: u32) -> u32 {
    match number {
        0 => 0,
        _ => numbers.get(number as usize - 1).copied().unwrap_or(u32::MAX),
    }
}

impl FileNumbers {
    /// States that the program numbers functions, blocks and paths from 1 on again.
    pub fn begin(&mut self) {
        self.current_functions.clear();
        self.current.clear();
    }

    /// Adds the next functions of the program. Returns the functions that are new in the file.
    pub fn add_functions(&mut self, functions: &[Function]) -> Vec<Function> {
        let mut new = Vec::new();
        for function in functions {
            let next = self.functions.len() as u32 + 1;
            let number = *self.functions.entry(function.clone()).or_insert(next);
            if number == next {
                new.push(function.clone());
            }
            self.current_functions.push(number);
        }
        new
    }

    /// Adds the next blocks and paths of the program.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) -> Added {
        let (mut new, mut numbers) = (Vec::new(), Vec::new());
        for block in blocks {
            let part = |part: &Part| Part { block: in_file(&self.current, part.block), ..*part };
            let parts = block.parts.iter().map(part).collect();
            let function = in_file(&self.current_functions, block.function);
            let first = in_file(&self.current, block.repeated.first);
            let repeated = Repeated { first, ..block.repeated };
            let block = BlockAccesses { function, parts, repeated, ..block.clone() };
            let count = block.numbers() as u32;
            let next = self.last + 1;
            let first = *self.blocks.entry(block.clone()).or_insert(next);
            if first == next {
                self.last += count;
                new.push(block);
            }
            self.current.extend(first..first + count);
            numbers.extend(first..first + count);
        }
        Added { new, numbers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_keeps_its_number() {
        let function = |start| Function { start, ..Function::default() };
        let block = |start, function| BlockAccesses { start, function, ..BlockAccesses::default() };
        let path = |function, blocks: [u32; 2]| BlockAccesses {
            parts: blocks.map(|block| Part { block, instructions: 1, slots: 0 }).to_vec(),
            ..block(0x1000, function)
        };
        let mut numbers = FileNumbers::default();
        assert_eq!(numbers.add_functions(&[function(1), function(2)]).len(), 2);
        let added = numbers.add_blocks(&[block(0x1000, 1), block(0x2000, 2), path(1, [1, 2])]);
        assert_eq!((added.new.len(), added.numbers), (3, vec![1, 2, 3, 4]));
        numbers.begin();
        assert_eq!(numbers.add_functions(&[function(2), function(3), function(1)]), [function(3)]);
        let paths = [path(3, [2, 1]), path(3, [2, 2])];
        let next =
            [&[block(0x2000, 1), block(0x1000, 3)], &paths[..], &[block(0x2000, 2)]].concat();
        let Added { new, numbers } = numbers.add_blocks(&next);
        // The new path names its function and its blocks by their numbers in the file.
        assert_eq!(new, [path(1, [1, 1]), block(0x2000, 3)]);
        assert_eq!(numbers, [2, 1, 3, 4, 5, 6, 7]);
    }
}
