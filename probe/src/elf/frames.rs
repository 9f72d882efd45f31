//! Reads the instruction ranges of unwind information.
//!
//! Compilers emit one range for each function and one for each separate part of a function. So
//! ranges distinguish functions where symbols do not. The ranges are read from `.eh_frame`, or from
//! the address in the segment `PT_GNU_EH_FRAME`. Damaged data end the reading; ranges that were
//! read before are kept.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde,
    CommonInformationEntry, EhFrame, EhFrameHdr, EndianSlice, Pointer, Register, UnwindSection,
    X86_64,
};
use object::elf::{PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{ProgramHeader, SectionHeader};

use super::layout::{ENDIAN, File, Layout};

/// A range of instructions with unwind information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Address range; not empty.
    pub range: Range<u64>,
    /// Whether the stack at the start of the range is in the state that a call leaves. If not, the
    /// range is a part of a function.
    pub called: bool,
    /// Address of the range's table of landing pads.
    pub landing_pads: Option<u64>,
}

type Bytes<'data> = EndianSlice<'data, gimli::LittleEndian>;
/// A canonical frame address: register and offset; `None` if it is an expression.
type Cfa = Option<(Register, i64)>;
/// Canonical frame address directly after a call.
const CALLED: Cfa = Some((X86_64::RSP, 8));
/// Bytes of an address.
const ADDRESS_SIZE: u8 = 8;

/// CIEs by their offsets, each with its initial canonical frame address. Ranges share CIEs.
type Common<'data> = HashMap<usize, (CommonInformationEntry<Bytes<'data>>, Cfa)>;

/// Reads the ranges, by address. Ranges of the linker's stubs are left out.
pub(super) fn read(file: &File, layout: &Layout) -> Vec<Frame> {
    let Some((address, bytes)) = entries_at(file) else { return Vec::new() };
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut section = EhFrame::new(bytes, gimli::LittleEndian);
    section.set_address_size(ADDRESS_SIZE);
    let mut frames = read_entries(&section, &bases);
    frames.retain(|frame| layout.is_code(frame.range.start));
    frames.sort_by_key(|frame| (frame.range.start, frame.range.end));
    frames.dedup_by_key(|frame| frame.range.start);
    frames
}

/// Address and bytes of the entries. The bytes may extend behind the last entry.
pub(super) fn entries_at<'data>(file: &File<'data>) -> Option<(u64, &'data [u8])> {
    section(file).or_else(|| segment(file))
}

fn read_entries(section: &EhFrame<Bytes>, bases: &BaseAddresses) -> Vec<Frame> {
    let (mut frames, mut common) = (Vec::new(), Common::new());
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        match entry {
            CieOrFde::Cie(entry) => {
                let cfa = first_cfa(entry.instructions(section, bases), &entry, None);
                common.insert(entry.offset(), (entry, cfa));
            }
            CieOrFde::Fde(partial) => {
                // Only FDEs behind their CIE are read: so each CIE is read once, however many
                // ranges use it.
                let Some((cie, cfa)) = common.get(&partial.cie_offset().0) else { continue };
                let Ok(fde) = partial.parse(|_, _, _| Ok(cie.clone())) else { continue };
                let start = fde.initial_address();
                let Some(end) = start.checked_add(fde.len()) else { continue };
                if start < end {
                    let cfa = first_cfa(fde.instructions(section, bases), cie, *cfa);
                    let called = cfa == CALLED && !cie.is_signal_trampoline();
                    let landing_pads = match fde.lsda() {
                        Some(Pointer::Direct(address)) => Some(address),
                        _ => None,
                    };
                    frames.push(Frame { range: start..end, called, landing_pads });
                }
            }
        }
    }
    frames
}

/// Evaluates the call frame instructions that hold at the first instruction of a range.
fn first_cfa<'data>(
    mut instructions: CallFrameInstructionIter<Bytes<'data>>,
    common: &CommonInformationEntry<Bytes<'data>>,
    mut cfa: Cfa,
) -> Cfa {
    use CallFrameInstruction as I;
    let factored = |offset: i64| offset.wrapping_mul(common.data_alignment_factor());
    while let Ok(Some(instruction)) = instructions.next() {
        cfa = match (instruction, cfa) {
            (I::AdvanceLoc { .. } | I::SetLoc { .. }, _) => return cfa,
            (I::DefCfa { register, offset }, _) => Some((register, offset.cast_signed())),
            (I::DefCfaSf { register, factored_offset }, _) => {
                Some((register, factored(factored_offset)))
            }
            (I::DefCfaRegister { register }, Some((_, offset))) => Some((register, offset)),
            (I::DefCfaOffset { offset }, Some((register, _))) => {
                Some((register, offset.cast_signed()))
            }
            (I::DefCfaOffsetSf { factored_offset }, Some((register, _))) => {
                Some((register, factored(factored_offset)))
            }
            (I::DefCfaExpression { .. }, _) => None,
            _ => cfa,
        };
    }
    cfa
}

/// Address and bytes of the section `.eh_frame`.
fn section<'data>(file: &File<'data>) -> Option<(u64, &'data [u8])> {
    let (_, header) = file.elf_section_table().section_by_name(ENDIAN, b".eh_frame")?;
    let bytes = header.data(ENDIAN, file.data()).ok()?;
    Some((header.sh_addr(ENDIAN), bytes)).filter(|(_, bytes)| !bytes.is_empty())
}

/// Address and bytes of the entries in a file without section headers. The bytes extend to the end
/// of the segment; a terminator ends the entries.
fn segment<'data>(file: &File<'data>) -> Option<(u64, &'data [u8])> {
    let segments = file.elf_program_headers();
    let header = segments.iter().find(|header| header.p_type(ENDIAN) == PT_GNU_EH_FRAME)?;
    let bytes = header.data(ENDIAN, file.data()).ok()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.p_vaddr(ENDIAN));
    let parsed = EhFrameHdr::new(bytes, gimli::LittleEndian).parse(&bases, ADDRESS_SIZE).ok()?;
    let Pointer::Direct(address) = parsed.eh_frame_ptr() else { return None };
    segments.iter().filter(|header| header.p_type(ENDIAN) == PT_LOAD).find_map(|header| {
        let bytes = header.data(ENDIAN, file.data()).ok()?;
        let skipped = usize::try_from(address.checked_sub(header.p_vaddr(ENDIAN))?).ok()?;
        Some((address, bytes.get(skipped..)?)).filter(|(_, bytes)| !bytes.is_empty())
    })
}
