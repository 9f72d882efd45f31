//! Calls of the procedure linkage table to calls of the functions that they get to, where that is settled.
//!
//! An entry of the table jumps to what the dynamic linker has written for it. Where the linker has made that
//! unwritable (`PT_GNU_RELRO` of a file bound as a whole, ld(1): `-z now -z relro`), it stays.

use std::collections::HashMap;
use std::ops::Range;

use iced_x86::{Code, Instruction};

use super::loaded::Loaded;
use crate::disassembly::{Call, bytes_of, instructions};
use crate::ptrace::{Mapping, Process, PtraceError, mappings};

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
    if image.function_at(entry).is_some() {
        return None;
    }
    let bytes = bytes_of(image, entry, ENTRY_BYTES)?;
    let mut code = instructions(bytes, entry).skip_while(|one| one.code() == Code::Endbr64);
    let jump: Instruction = code.next()?;
    let is_jump = jump.code() == Code::Jmp_rm64 && jump.is_ip_rel_memory_operand();
    is_jump.then(|| jump.ip_rel_memory_address())
}

/// What each slot holds that the process cannot write to, as addresses of the file.
fn settled(
    process: &Process,
    slots: &HashMap<u64, Option<u64>>,
    bias: u64,
) -> Result<HashMap<u64, u64>, PtraceError> {
    let slots: Vec<u64> = slots.values().flatten().map(|slot| slot.wrapping_add(bias)).collect();
    let mut settled = HashMap::with_capacity(slots.len());
    for mapping in mappings(process.pid)?.iter().filter(|mapping| !mapping.writable) {
        let is_in = |slot: &&u64| holds(mapping, **slot);
        let own: Vec<u64> = slots.iter().filter(is_in).copied().collect();
        let (Some(first), Some(last)) = (own.iter().min(), own.iter().max()) else { continue };
        let mut bytes = vec![0; (last + SLOT_BYTES - first) as usize];
        process.read(*first, &mut bytes)?;
        for slot in &own {
            let at = (slot - first) as usize;
            let value =
                bytes[at..at + SLOT_BYTES as usize].try_into().map_or(0, u64::from_le_bytes);
            settled.insert(slot.wrapping_sub(bias), value.wrapping_sub(bias));
        }
    }
    Ok(settled)
}

fn holds(mapping: &Mapping, slot: u64) -> bool {
    let Range { start, end } = mapping.start..mapping.end;
    start <= slot && slot.checked_add(SLOT_BYTES).is_some_and(|behind| behind <= end)
}
