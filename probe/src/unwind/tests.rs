//! Compares unwind tables, as gimli reads them, with the behaviour of stubs: from each instruction
//! of a stub, execution is modelled up to the next original instruction.

mod model;
mod programs;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Operation, Register, RegisterRule,
    UnwindContext, UnwindSection,
};

use super::{TablePlacement, frames, max_table_bytes, table};
use crate::address::{FileAddr, LoadBias};
use crate::elf::Image;
use crate::stubs::{Changes, Stubs};
use model::Model;

type Reader<'a> = gimli::EndianSlice<'a, LittleEndian>;

const RSP: Register = Register(7);
const RETURN_ADDRESS: Register = Register(16);
/// Registers that functions preserve, by their DWARF numbers.
const KEPT: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// Distance of the tables from the stubs, in bytes.
const DISTANCE: u64 = 1 << 24;

/// An encoded table.
struct Table {
    bytes: Vec<u8>,
    bases: BaseAddresses,
    frame_at: usize,
}

/// The unwind information for an address.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Address of the original instruction, or the place where it is stored.
    pc: Pc,
    /// Value to be added to the stack pointer.
    rsp: i64,
    /// Registers on the stack, by DWARF number, and their offsets from the original stack pointer.
    kept: Vec<(u16, i64)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Pc {
    Is(u64),
    InR11,
    /// On the stack, at this offset from the original stack pointer.
    At(i64),
}

impl Table {
    fn of(stubs: &Stubs, bias: LoadBias) -> Self {
        let (rows, end) = stubs.rows();
        let at = bias.to_run(end) + DISTANCE;
        let bytes = table(&rows, TablePlacement { at, end, bias }).unwrap();
        assert!(
            bytes.len() <= max_table_bytes(&rows),
            "{} bytes for {} rows",
            bytes.len(),
            rows.len()
        );
        let to_frame = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        let frame_at = 4 + to_frame as usize;
        let bases = BaseAddresses::default().set_eh_frame_hdr(at.0);
        let bases = bases.set_eh_frame((at + frame_at as u64).0);
        let apart = frames(&bytes, at).unwrap();
        let table = Table { bytes, bases, frame_at };
        let start = bias.to_run(rows.first().map_or(end, |row| FileAddr(row.at))).0;
        let end = bias.to_run(end).0;
        covers(&table.frame(), &table.bases, start, end);
        covers(&EhFrame::new(&apart, LittleEndian), &BaseAddresses::default(), start, end);
        table
    }

    fn frame(&self) -> EhFrame<Reader<'_>> {
        EhFrame::new(&self.bytes[self.frame_at..], LittleEndian)
    }

    fn find(&self, context: &mut UnwindContext<usize>, address: u64) -> Found {
        let header = EhFrameHdr::new(&self.bytes, LittleEndian).parse(&self.bases, 8).unwrap();
        let search = header.table().unwrap();
        let frame = self.frame();
        let fde = search.fde_for_address(&frame, &self.bases, address, EhFrame::cie_from_offset);
        let fde = fde.unwrap_or_else(|error| panic!("{address:x}: {error}"));
        let row = fde.unwind_info_for_address(&frame, &self.bases, context, address).unwrap();
        let CfaRule::RegisterAndOffset { register: RSP, offset: cfa } = *row.cfa() else {
            panic!("{:?}", row.cfa())
        };
        let Some(RegisterRule::ValOffset(above)) = row.register(RSP) else { panic!("{row:?}") };
        let kept = KEPT.into_iter().filter_map(|number| match row.register(Register(number)) {
            Some(RegisterRule::Offset(offset)) => Some((number, offset - above)),
            None => None,
            other => panic!("{address:x}: {other:?}"),
        });
        let kept = kept.collect();
        let pc = match row.register(RETURN_ADDRESS) {
            Some(RegisterRule::ValExpression(expression)) => {
                let expression = expression.get(&frame).unwrap();
                let mut operations = expression.operations(fde.cie().encoding());
                let operation = operations.next().unwrap().unwrap();
                assert_eq!(operations.next().unwrap(), None);
                match operation {
                    Operation::Address { address } => Pc::Is(address),
                    Operation::RegisterOffset { register: RETURN_ADDRESS, offset, .. } => {
                        Pc::Is(address.wrapping_add_signed(offset))
                    }
                    other => panic!("{other:?}"),
                }
            }
            Some(RegisterRule::Register(Register(11))) => Pc::InR11,
            Some(RegisterRule::Offset(offset)) => Pc::At(offset - above),
            other => panic!("{address:x}: {other:?}"),
        };
        Found { pc, rsp: cfa + above, kept }
    }
}

/// Panics unless every address of a range is in exactly one FDE.
fn covers(frame: &EhFrame<Reader<'_>>, bases: &BaseAddresses, start: u64, end: u64) {
    let mut entries = frame.entries(bases);
    let mut next = start;
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        assert!(fde.cie().is_signal_trampoline());
        assert_eq!(fde.initial_address(), next);
        next = fde.initial_address() + fde.len();
    }
    assert_eq!(next, end);
}

/// Panics unless the table is right at each instruction of the stubs that can be reached. Returns
/// the number of these instructions.
pub(crate) fn check(image: &Image, stubs: &Stubs, changes: &[&Changes], bias: LoadBias) -> usize {
    let table = Table::of(stubs, bias);
    let there = |address: u64| bias.to_run(FileAddr(address)).0;
    let mut context = UnwindContext::new();
    let model = Model::new(image, stubs, changes);
    let reached = model.reached(changes);
    for address in &reached {
        let state = table.find(&mut context, there(*address));
        let Some((pc, rsp)) = model.leads(*address) else { continue };
        let expected = Found { pc: Pc::Is(there(pc)), rsp, kept: Vec::new() };
        assert_eq!(state, expected, "{}", model.shown(*address));
    }
    for (address, pushed, rsp) in model.shared() {
        let state = table.find(&mut context, there(address));
        let place =
            |number| pushed.iter().find(|(register, _)| *register == number).map(|(_, at)| *at);
        let kept = KEPT.into_iter().filter_map(|number| Some((number, place(number)?)));
        let pc = place(11).map_or(Pc::InR11, Pc::At);
        let expected = Found { pc, rsp, kept: kept.collect() };
        assert_eq!(state, expected, "{}", model.shown(address));
    }
    reached.len()
}
