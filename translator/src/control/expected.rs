//! Finds blocks that a process is expected to execute, because earlier runs executed them, and
//! records the executed blocks for later runs.
//!
//! Example: the list of a file contains the blocks A, B, C and D, in this order. If a thread needs
//! B, this module returns B, C and D, so that they are translated for the same request. Blocks that
//! were returned for an earlier request are left out.

use std::collections::HashMap;
use std::sync::Arc;

use hmtt_files::block_list::ListedBlock;
use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::build_id;
use hmtt_probe::ptrace::{FileId, Mapping};

use crate::block_lists::{BlockLists, ListName};
use crate::code::Expected;
use crate::profile::{BlockCount, CodeFiles};

/// Maximum number of blocks that are translated ahead for one request.
const AHEAD: usize = 256;
/// Maximum number of blocks of all lists that a process reads.
const MOST_LISTED: usize = 1 << 20;

/// Blocks that earlier runs have executed in the files of a process.
pub struct ExpectedBlocks {
    lists: Option<Arc<BlockLists>>,
    /// Build identifier of the program; empty if it has none or is not known yet.
    program: Vec<u8>,
    files: HashMap<Place, FileBlocks>,
    /// Sum of the numbers of listed blocks of all files.
    listed: usize,
}

/// A mapping of a file: first address, file, and offset in the file.
type Place = (RunAddr, FileId, u64);

/// The listed blocks of a file. Each block is returned at most once.
struct FileBlocks {
    /// Build identifier of the file; empty if it has none.
    build_id: Vec<u8>,
    blocks: Vec<ListedBlock>,
    /// Index of each block, by its offset in the file.
    index: HashMap<u64, u32>,
    /// A union-find structure, with an entry for each block and for the end of the list. The entry
    /// is the block's own index if the block was not returned yet. Otherwise it is the index of a
    /// later block, and all blocks in between were returned, too. Example: after the blocks 0 and 1
    /// of 3 were returned, the entries are 1, 2, 2, 3.
    next: Vec<u32>,
}

fn place(mapping: &Mapping) -> Option<Place> {
    Some((mapping.start, mapping.file?, mapping.offset))
}

impl ExpectedBlocks {
    /// Prepares to read lists; `None`: there are no lists.
    pub fn new(lists: Option<Arc<BlockLists>>) -> Self {
        ExpectedBlocks { lists, program: Vec::new(), files: HashMap::new(), listed: 0 }
    }

    /// Returns the block at an address of a mapping and the blocks that follow it in the list of
    /// the mapped file, without the ones that were returned before. `mappings`: executable
    /// mappings; `files`: the files of the process.
    pub fn follow(
        &mut self,
        at: RunAddr,
        mapping: &Mapping,
        mappings: &[Mapping],
        files: &CodeFiles,
    ) -> Vec<Expected> {
        let (Some(lists), Some(place)) = (&self.lists, place(mapping)) else { return Vec::new() };
        let id = |mapping: &Mapping| files.file_of(mapping).and_then(|file| build_id(&file));
        if self.files.is_empty() {
            let program = mappings.iter().find(|mapping| files.is_program(mapping)).and_then(id);
            self.program = program.unwrap_or_default();
        }
        let file = self.files.entry(place).or_insert_with(|| {
            let build_id = id(mapping).unwrap_or_default();
            let mut blocks = lists.read(ListName { program: &self.program, file: &build_id });
            blocks.truncate(MOST_LISTED - self.listed);
            self.listed += blocks.len();
            FileBlocks::new(blocks, build_id)
        });
        let offset = at - mapping.start + mapping.offset;
        let expected = file.follow(offset).filter_map(|block| {
            let at = mapping.start.checked_add(block.offset.checked_sub(mapping.offset)?)?;
            let ListedBlock { direct, indirect, .. } = block;
            (at < mapping.end).then_some(Expected { at, direct, indirect })
        });
        expected.collect()
    }

    /// Writes the list of each file in which a block was executed that the list does not contain.
    /// `forms`: whether direct transfers, and whether indirect transfers, lead to a block.
    pub fn write(&self, executed: &[BlockCount], forms: impl Fn(u32) -> [bool; 2]) {
        let Some(lists) = &self.lists else { return };
        let mut files: HashMap<&[u8], (&FileBlocks, Vec<ListedBlock>)> = HashMap::new();
        for block in executed {
            let Some((mapping, place)) =
                block.mapping.as_ref().and_then(|mapping| Some((mapping, place(mapping)?)))
            else {
                continue;
            };
            let file = self.files.get(&place).filter(|file| !file.build_id.is_empty());
            let Some(file) = file else { continue };
            let [direct, indirect] = forms(block.number);
            let offset = block.code.start - mapping.start + mapping.offset;
            let (_, new) = files.entry(&file.build_id).or_insert_with(|| (file, Vec::new()));
            new.push(ListedBlock { offset, direct, indirect });
        }
        for (file_id, (file, executed)) in files {
            let executed = merge(executed);
            if !file.contains(&executed) {
                let name = ListName { program: &self.program, file: file_id };
                // Other processes may have written the list meanwhile.
                let blocks = merge(executed.into_iter().chain(lists.read(name)));
                // Without a list, the next start is only slower.
                let _ = lists.write(name, &blocks);
            }
        }
    }
}

/// Merges blocks at the same offset. The merged block has the forms of all of them.
fn merge(blocks: impl IntoIterator<Item = ListedBlock>) -> Vec<ListedBlock> {
    let mut merged: Vec<ListedBlock> = Vec::new();
    let mut index = HashMap::new();
    for block in blocks {
        let number = *index.entry(block.offset).or_insert(merged.len());
        match merged.get_mut(number) {
            Some(known) => {
                known.direct |= block.direct;
                known.indirect |= block.indirect;
            }
            None => merged.push(block),
        }
    }
    merged
}

impl FileBlocks {
    fn new(blocks: Vec<ListedBlock>, build_id: Vec<u8>) -> Self {
        let blocks = merge(blocks);
        let numbers = 0..blocks.len() as u32;
        let index = blocks.iter().map(|block| block.offset).zip(numbers).collect();
        let next = (0..=blocks.len() as u32).collect();
        FileBlocks { build_id, blocks, index, next }
    }

    /// Returns the index of the first block, from `at` on, that was not returned yet; the number of
    /// all blocks if there is none.
    fn find_next(&mut self, mut at: u32) -> u32 {
        while self.next[at as usize] != at {
            let next = self.next[at as usize];
            self.next[at as usize] = self.next[next as usize];
            at = self.next[at as usize];
        }
        at
    }

    /// Returns blocks from the one at `offset` on, at most [`AHEAD`].
    fn follow(&mut self, offset: u64) -> impl Iterator<Item = ListedBlock> + '_ {
        let mut at = self.index.get(&offset).copied().unwrap_or(self.blocks.len() as u32);
        let next = move || {
            at = self.find_next(at);
            let block = *self.blocks.get(at as usize)?;
            self.next[at as usize] = at + 1;
            Some(block)
        };
        std::iter::from_fn(next).take(AHEAD)
    }

    /// Whether all of `blocks` are listed, with their forms.
    fn contains(&self, blocks: &[ListedBlock]) -> bool {
        blocks.iter().all(|block| {
            let known = self.index.get(&block.offset).map(|at| self.blocks[*at as usize]);
            known.is_some_and(|known| {
                known.direct >= block.direct && known.indirect >= block.indirect
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(offset: u64) -> ListedBlock {
        ListedBlock { offset, direct: true, indirect: false }
    }

    fn offsets(blocks: impl IntoIterator<Item = ListedBlock>) -> Vec<u64> {
        blocks.into_iter().map(|block| block.offset).collect()
    }

    #[test]
    fn each_block_is_named_once() {
        let blocks = (0..600).map(|number| listed(number * 3 % 600 + number / 200));
        let mut file = FileBlocks::new(blocks.chain([listed(0), listed(5)]).collect(), vec![1]);
        assert_eq!(file.blocks.len(), 600);
        let first = offsets(file.follow(30));
        assert_eq!((first.len(), &first[..3]), (AHEAD, &[30, 33, 36][..]));
        let second = offsets(file.follow(0));
        assert_eq!(second[..11], [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, file.blocks[266].offset]);
        assert_eq!(offsets(file.follow(30)).len(), 600 - 2 * AHEAD);
        assert!(offsets(file.follow(30)).is_empty());
        assert!(offsets(file.follow(7777)).is_empty());
        assert!(offsets(FileBlocks::new(Vec::new(), Vec::new()).follow(0)).is_empty());
    }

    #[test]
    fn blocks_at_one_offset_have_the_forms_of_all() {
        let landing = ListedBlock { direct: false, indirect: true, ..listed(2) };
        let both = ListedBlock { direct: true, ..landing };
        assert_eq!(merge([listed(3), landing, listed(2)]), [listed(3), both]);
        let file = FileBlocks::new(vec![listed(1), listed(2)], vec![1]);
        assert!(file.contains(&[listed(2)]));
        assert!(!file.contains(&[listed(1), landing]) && !file.contains(&[listed(3)]));
    }
}
