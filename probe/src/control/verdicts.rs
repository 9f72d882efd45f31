//! Decides which functions of a program can be tagged, before anything is changed.

use nix::unistd::Pid;

use super::{TagError, abandoned, comparison, loaded};
use crate::address::LoadBias;
use crate::disassembly::{Block, Disassembly, FileIndex, Granularity, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::{self, Mapping, ReadMemory, RunningMemory};
use crate::selection::Selection;

/// All functions of a program. Each comes with the changes that tagging it would make, or with the
/// reason why it cannot be tagged.
pub fn verdicts(image: &Image) -> Vec<(&Function, Result<Rewrite, Refusal>)> {
    let functions: Vec<&Function> = image.functions.iter().collect();
    let rewrites = Disassembly::new(image, &FileIndex::new(image)).rewrites(&functions, true);
    functions.into_iter().zip(rewrites).collect()
}

/// Compares an image with the memory of a process that has loaded the file, and records the
/// differences in the image: functions that differ are refused.
///
/// `bias`: as returned by [`bias`](super::bias). Returns whether the comparison was made. It is not
/// made while tags are in the process, because their jumps differ from the file.
pub fn compare(
    image: &mut Image,
    bias: LoadBias,
    mapped: &[Mapping],
    memory: &RunningMemory,
) -> bool {
    if abandoned::is_tagged(mapped) {
        return false;
    }
    let read = |address, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
    image.differing = comparison::differences(image, bias, &loaded::ALL, std::iter::empty(), read);
    true
}

/// The functions of a program whose loops or blocks are chosen. Each comes with the changes that
/// tagging all chosen functions would make to it, or with the reason why it cannot be tagged. Where
/// loops are chosen, blocks to which a loop exits are not listed, because not all sinks tag such
/// blocks.
pub fn finer_verdicts<'a>(
    image: &'a Image,
    selection: &Selection,
) -> Vec<(&'a Function, Result<Rewrite, Refusal>)> {
    let chosen = image.functions.iter();
    let chosen =
        chosen.filter_map(|function| Some((function, selection.granularity(function, None)?)));
    let chosen: Vec<(&Function, Granularity)> = chosen.collect();
    let rewrites =
        Disassembly::new(image, &FileIndex::new(image)).rewrites_with_granularity(&chosen, true);
    let outcomes = chosen.into_iter().zip(rewrites);
    let finer = outcomes.filter(|((_, granularity), _)| *granularity != Granularity::Function);
    finer
        .map(|((function, granularity), mut rewrite)| {
            if let (Granularity::Loops, Ok(rewrite)) = (granularity, &mut rewrite) {
                let is_head =
                    |block: &Block| block.is_loop || block.refusal == Some(Refusal::Irregular);
                rewrite.blocks.retain(is_head);
            }
            (function, rewrite)
        })
        .collect()
}

/// Reads the program file of a process. The file is the one that the process executes, even if it
/// is in another mount namespace or was renamed.
///
/// # Errors
/// [`TagError::Ptrace`] if the process has no program or its file cannot be opened,
/// [`TagError::Program`] if the file is damaged.
pub fn program_image(pid: Pid, selection: &Selection) -> Result<Image, TagError> {
    let (file, path) = ptrace::program(pid)?;
    let mut image = Image::from_file(file, &path)?;
    if selection.has_sources() {
        image.find_sources()?;
    }
    Ok(image)
}
