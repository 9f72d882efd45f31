//! Calls of the procedure linkage table to calls of the functions that they get to, where that is settled.
//!
//! An entry of the table jumps to what the dynamic linker has written for it. Where the linker has made that
//! unwritable (`PT_GNU_RELRO` of a file bound as a whole, ld(1): `-z now -z relro`), it stays.

use std::collections::{BTreeSet, HashMap};

use iced_x86::{Code, Instruction};

use super::loaded::Loaded;
use crate::disassembly::{Call, bytes_of, instructions};
use crate::ptrace::{Mapping, Process, PtraceError, mappings};
use crate::stubs::layout::PAGE_BYTES;

/// Most bytes of an entry up to its jump's end: `endbr64`, `bnd jmp [rip+disp32]`.
const ENTRY_BYTES: u64 = 11;
/// Of an address.
const SLOT_BYTES: u64 = 8;

/// Lets calls lead to functions of the same file that they get to by an entry of the table.
pub(super) fn resolve(
    process: &Process,
    loaded: &Loaded,
    calls: &mut [Call],
) -> Result<(), PtraceError> {
    let mut slots: HashMap<u64, Option<u64>> = HashMap::new();
    for call in calls.iter() {
        slots.entry(call.target).or_insert_with(|| slot(loaded, call.target));
    }
    slots.retain(|_, slot| slot.is_some());
    if slots.is_empty() {
        return Ok(());
    }
    let settled = settled(process, &slots, loaded.bias)?;
    for call in calls.iter_mut() {
        let slot = slots.get(&call.target).copied().flatten();
        let function = slot.and_then(|slot| settled.get(&slot).copied());
        call.target = function.unwrap_or(call.target);
    }
    Ok(())
}

/// Where the file has the address that an entry of the table jumps to; `None` if there is no such entry.
fn slot(loaded: &Loaded, entry: u64) -> Option<u64> {
    let image = &loaded.image;
    let is_settled = image.unsettled(&(entry..entry.saturating_add(ENTRY_BYTES))).is_none();
    if !is_settled || image.function_at(entry).is_some() {
        return None;
    }
    let bytes = bytes_of(image, entry, ENTRY_BYTES)?;
    let mut code = instructions(bytes, entry).skip_while(|one| one.code() == Code::Endbr64);
    let jump: Instruction = code.next()?;
    let is_jump = jump.code() == Code::Jmp_rm64 && jump.is_ip_rel_memory_operand();
    is_jump.then(|| jump.ip_rel_memory_address())
}

/// What each slot holds that the process cannot write to, as addresses of the file. What cannot be read is not settled.
fn settled(
    process: &Process,
    slots: &HashMap<u64, Option<u64>>,
    bias: u64,
) -> Result<HashMap<u64, u64>, PtraceError> {
    let slots = slots.values().flatten().map(|slot| slot.wrapping_add(bias));
    let slots: BTreeSet<u64> = slots.collect();
    let mut settled = HashMap::with_capacity(slots.len());
    for Mapping { start, end, .. } in mappings(process.pid)?.iter().filter(|one| !one.writable) {
        let Some(last) = end.checked_sub(SLOT_BYTES) else { continue };
        let own: Vec<u64> = slots.range(*start..=last.max(*start)).copied().collect();
        for group in own.chunk_by(|one, next| next - one < PAGE_BYTES) {
            let (first, last) = (group[0], group[group.len() - 1]);
            let mut bytes = vec![0; (last + SLOT_BYTES - first) as usize];
            if process.read(first, &mut bytes).is_err() {
                continue;
            }
            for slot in group {
                let at = (slot - first) as usize;
                let value = bytes[at..].first_chunk().map_or(0, |value| u64::from_le_bytes(*value));
                settled.insert(slot.wrapping_sub(bias), value.wrapping_sub(bias));
            }
        }
    }
    Ok(settled)
}
