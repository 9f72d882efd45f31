//! Resolves calls through the procedure linkage table: finds the functions that they reach, where
//! the target cannot change.
//!
//! An entry of the table jumps to the address that the dynamic linker has written to its slot. For
//! example `call f@plt` reaches `jmp [rip+slot]`, and the slot holds the address of `f`. The
//! address is final if the linker has made the slot read-only (`PT_GNU_RELRO` of a file that is
//! bound at load time, ld(1): `-z now -z relro`).

use std::collections::{BTreeSet, HashMap};

use iced_x86::{Code, Instruction};

use super::loaded::LoadedFile;
use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{Call, bytes_of, instructions};
use crate::ptrace::{Mapping, PtraceError, Stopped, mappings};
use crate::stubs::layout::PAGE_BYTES;

/// Maximum length of an entry up to the end of its jump, in bytes: `endbr64`,
/// `bnd jmp [rip+disp32]`.
const ENTRY_BYTES: u64 = 11;
/// Bytes of a slot, which holds an address.
const SLOT_BYTES: u64 = 8;

/// Replaces the target of calls that reach a function of the same file through the table: the new
/// target is the function itself.
pub(super) fn resolve(
    process: &Stopped<'_>,
    loaded: &LoadedFile,
    calls: &mut [Call],
) -> Result<(), PtraceError> {
    let mut slots: HashMap<u64, Option<FileAddr>> = HashMap::new();
    for call in calls.iter() {
        slots.entry(call.target).or_insert_with(|| slot(loaded, call.target));
    }
    slots.retain(|_, slot| slot.is_some());
    if slots.is_empty() {
        return Ok(());
    }
    let final_targets = final_targets(process, &slots, loaded.bias)?;
    for call in calls.iter_mut() {
        let slot = slots.get(&call.target).copied().flatten();
        let function = slot.and_then(|slot| final_targets.get(&slot).copied());
        call.target = function.map_or(call.target, |function| function.0);
    }
    Ok(())
}

/// Address of the slot that an entry of the table jumps through; `None` if there is no such entry.
fn slot(loaded: &LoadedFile, entry: u64) -> Option<FileAddr> {
    let image = &loaded.image;
    let is_settled = image.memory_difference(&(entry..entry.saturating_add(ENTRY_BYTES))).is_none();
    if !is_settled || image.function_at(entry).is_some() {
        return None;
    }
    let bytes = bytes_of(image, entry, ENTRY_BYTES)?;
    let mut code =
        instructions(bytes, entry).skip_while(|instruction| instruction.code() == Code::Endbr64);
    let jump: Instruction = code.next()?;
    let is_jump = jump.code() == Code::Jmp_rm64 && jump.is_ip_rel_memory_operand();
    is_jump.then(|| FileAddr(jump.ip_rel_memory_address()))
}

/// Contents of each slot that the process cannot write to, as addresses in the file. Slots that
/// cannot be read are left out.
fn final_targets(
    process: &Stopped<'_>,
    slots: &HashMap<u64, Option<FileAddr>>,
    bias: LoadBias,
) -> Result<HashMap<FileAddr, FileAddr>, PtraceError> {
    let slots = slots.values().flatten().map(|slot| bias.to_run(*slot));
    let slots: BTreeSet<RunAddr> = slots.collect();
    let mut final_targets = HashMap::with_capacity(slots.len());
    for Mapping { start, end, .. } in
        mappings(process.pid)?.iter().filter(|mapping| !mapping.writable)
    {
        let Some(last) = end.checked_sub(SLOT_BYTES) else { continue };
        let own: Vec<RunAddr> = slots.range(*start..=last.max(*start)).copied().collect();
        for group in own.chunk_by(|slot, next| *next - *slot < PAGE_BYTES) {
            let (first, last) = (group[0], group[group.len() - 1]);
            let mut bytes = vec![0; (last + SLOT_BYTES - first) as usize];
            if process.read(first, &mut bytes).is_err() {
                continue;
            }
            for slot in group {
                let at = (*slot - first) as usize;
                let value = bytes[at..].first_chunk().map_or(0, |value| u64::from_le_bytes(*value));
                final_targets.insert(bias.to_file(*slot), bias.to_file(RunAddr(value)));
            }
        }
    }
    Ok(final_targets)
}
