//! Generates the stub of one region: its moved instructions with the tags among them.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

use super::moved_code::{MovedCode, TagSpace, encode};
use super::order::continuation;
use super::{Changes, Context, StubError, StubErrorReason, Stubs, jump, lookup};
use super::{Origin, Row, TagCode, TagPlace};
use crate::address::FileAddr;
use crate::disassembly::{ExitKind, JUMP_BYTES, Region, Rewrite, is_call};

/// Length of `push qword [rip+disp32]`, in bytes.
const PUSH_BYTES: usize = 6;

impl Stubs {
    /// Generates an exit tag, and behind it a jump to another function or to the start of this
    /// function. Returns the address of the tag.
    pub(super) fn exit_jump(&mut self, context: &Context, target: u64) -> Result<u64, StubError> {
        self.align();
        let start = self.end();
        let is_other = target != context.start;
        let place = if is_other { TagPlace::exit(context.id) } else { context.restart };
        let code = self.tag(&place, start, target)?;
        let from = start.wrapping_add(code.len() as u64);
        self.rows.push(Row { at: from, origin: Origin::At(target), lowered: 0 });
        let distance = target.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)).cast_signed();
        if i32::try_from(distance).is_err() {
            return Err(StubError { at: start, reason: StubErrorReason::TargetTooFar(target) });
        }
        self.code.extend(code);
        self.code.extend(jump(from, target));
        Ok(start)
    }

    /// Generates the code of a tag and adds its rows. `origin`: address of the original instruction
    /// that follows.
    fn tag(&mut self, place: &TagPlace, at: u64, origin: u64) -> Result<Vec<u8>, StubError> {
        if let Some(at) = self.tags.next_cold() {
            let lowered = place.below();
            self.cold_rows.push(Row { at, origin: Origin::At(origin), lowered });
        }
        let code = self.tags.code(place, at)?;
        if !code.is_empty() {
            self.rows.push_tag(at, origin, self.tags.lowered(place));
        }
        Ok(code)
    }

    /// Generates the search of unwind tables that runs before the stub of the entry. Returns its
    /// address; `None` if this function does not search tables.
    pub(super) fn lookup_stub(
        &mut self,
        rewrite: &Rewrite,
        region: &Region,
        context: &Context,
        stub: u64,
    ) -> Result<Option<u64>, StubError> {
        let lookup =
            self.lookup.filter(|lookup| region.entry && lookup.function.0 == context.start);
        // At the head of a loop the registers that the search changes may be live.
        let Some(lookup) = lookup.filter(|_| rewrite.entry_loop.is_none()) else { return Ok(None) };
        self.align();
        let at = self.end();
        let code = lookup::code(lookup.list, at, stub);
        self.code.extend(code.map_err(StubError::encoding(at))?);
        self.rows.push(Row { at, origin: Origin::At(context.start), lowered: 0 });
        Ok(Some(at))
    }

    /// Generates the stub of a region. `falls_into_next`: the stub of the code behind the region
    /// follows directly, so no jump is needed.
    pub(super) fn add_region(
        &mut self,
        region: &Region,
        falls_into_next: bool,
        context: &Context,
        changes: &mut Changes,
    ) -> Result<u64, StubError> {
        let start = self.end();
        let MovedCode { instructions, places, tags, constant, origins, .. } =
            self.collect(region, falls_into_next, context)?;
        let (mut bytes, offsets) = encode(&instructions, start)?;
        let end_of_code = bytes.len() as u32;
        if let Some((value, at)) = constant {
            // The return address that the push reads is stored behind the code, where control never
            // arrives.
            bytes.resize(bytes.len().next_multiple_of(8), 0xcc);
            let push = offsets[at] as usize;
            let displacement = (bytes.len() - push - PUSH_BYTES) as u32;
            bytes.extend(value.0.to_le_bytes());
            bytes[push + 2..push + PUSH_BYTES].copy_from_slice(&displacement.to_le_bytes());
        }
        let mut tags = tags.into_iter().peekable();
        for (index, origin, lowered) in origins {
            let (Origin::At(address) | Origin::Copy(address)) = origin else { continue };
            while let Some(space) = tags.next_if(|space| space.at < index) {
                self.fill(&space, address, start, &offsets, &mut bytes, changes)?;
            }
            let Some(offset) = offsets.get(index) else { continue };
            let end = offsets.get(index + 1).copied().unwrap_or(end_of_code);
            let is_one = *offset as usize + length(&bytes[*offset as usize..]) == end as usize;
            // If an instruction was rewritten as several, the row of the first one holds for all of
            // them.
            let origin = if is_one { origin } else { Origin::At(address) };
            self.rows.push(Row { at: start.wrapping_add((*offset).into()), origin, lowered });
        }
        // A tag may be behind the last instruction if the stub of the following code follows
        // directly.
        for space in tags {
            self.fill(&space, space.original, start, &offsets, &mut bytes, changes)?;
        }
        self.code.extend(bytes);
        let place = |(old, at): &(u64, usize)| {
            (FileAddr(*old), FileAddr(start.wrapping_add(offsets[*at].into())))
        };
        changes.moved.extend(places.iter().map(place));
        Ok(start)
    }

    /// Generates the code of a tag in its space. `origin`: address of the original instruction
    /// whose unwind information holds within the tag.
    fn fill(
        &mut self,
        space: &TagSpace,
        origin: u64,
        start: u64,
        offsets: &[u32],
        bytes: &mut [u8],
        changes: &mut Changes,
    ) -> Result<(), StubError> {
        let offset = offsets[space.at] as usize;
        let tag = start.wrapping_add(offset as u64);
        let code = self.tag(&space.place, tag, origin)?;
        bytes[offset..offset + code.len()].copy_from_slice(&code);
        let end = tag.wrapping_add(code.len() as u64);
        changes.tags.push(TagCode::in_file(tag, end, space.original));
        Ok(())
    }

    /// Collects the instructions of a region's stub, with spaces for its tags.
    fn collect(
        &self,
        region: &Region,
        falls_into_next: bool,
        context: &Context,
    ) -> Result<MovedCode, StubError> {
        let mut moved = MovedCode { original: region.start(), ..MovedCode::default() };
        // Branches to the entry lead to the entry's tag, and branches to the head of a block to its
        // tag.
        let is_branch_target = region.entry
            && context.check == 0
            && moved.add_tag(&self.tags, context.entry, region.start())?;
        for (index, instruction) in region.instructions.iter().enumerate() {
            moved.original = instruction.ip();
            // The entry tag follows the stack check, which is repeated after the stack has grown. A
            // branch to the instruction after the check does not enter the function.
            if region.entry && index == context.check && index > 0 {
                moved.add_tag(&self.tags, context.entry, 0)?;
            }
            moved.places.push((instruction.ip(), moved.instructions.len()));
            let exit_site = region.exit_sites.iter().find(|(at, _)| *at == index);
            let (mut instruction, head) = (*instruction, context.heads.get(&instruction.ip()));
            let at = instruction.ip();
            if is_branch_target && index == 0 {
                instruction.set_ip(0);
            }
            if let Some(place) = head
                && moved.add_tag(&self.tags, *place, instruction.ip())?
            {
                instruction.set_ip(0);
            }
            self.add_moved(&mut moved, instruction, at, exit_site.map(|(_, how)| *how), context)?;
        }
        if region.entry && context.check > 0 && context.check == region.instructions.len() {
            // All moved instructions belong to the stack check, so the entry tag follows them.
            moved.original = region.instructions.last().map_or(0, Instruction::next_ip);
            moved.add_tag(&self.tags, context.entry, 0)?;
        }
        let last = region.instructions.last().copied().unwrap_or_default();
        if last.is_call_near() || last.is_call_near_indirect() {
            let ip = moved.instructions.pop().map_or(0, |call| call.ip());
            moved.origins.pop();
            moved.push_call(last, self.bias.to_run(FileAddr(last.next_ip())), ip);
        } else if let Some(next) = continuation(region).filter(|_| !falls_into_next) {
            let to = context.copies.get(&next).copied().unwrap_or(next);
            let back = Instruction::with_branch(Code::Jmp_rel32_64, to);
            moved.push_jump(back.unwrap_or_default(), next);
        }
        Ok(moved)
    }

    /// Adds a copy of an instruction, with a tag if it is an exit site. `at`: original address of
    /// the instruction.
    fn add_moved(
        &self,
        moved: &mut MovedCode,
        mut instruction: Instruction,
        at: u64,
        exit_site: Option<ExitKind>,
        context: &Context,
    ) -> Result<(), StubError> {
        match exit_site {
            Some(ExitKind::Return | ExitKind::Computed) => {
                // Branches to the exit site lead to its tag.
                let place = TagPlace::exit(context.id);
                if moved.add_tag(&self.tags, place, instruction.ip())? {
                    instruction.set_ip(0);
                }
            }
            _ => {
                let target = instruction.near_branch_target();
                // The region may be in an adjacent function. A jump there is no exit of this
                // function.
                let exit = exit_site.and_then(|_| context.exits.get(&target));
                let copy = || context.copies.get(&target).filter(|_| !is_call(&instruction));
                if let Some(to) = exit.or_else(|| context.detours.get(&target)).or_else(copy) {
                    instruction.set_near_branch64(*to);
                }
            }
        }
        moved.push_copy(instruction, at);
        Ok(())
    }
}

/// Length in bytes of the first instruction of some code.
fn length(code: &[u8]) -> usize {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode().len()
}
