//! Checks the unwind rows of stubs, and their table as gimli reads it.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, LittleEndian, UnwindSection};
use hmtt_probe::address::FileAddr;
use hmtt_probe::stubs::Stubs;
use hmtt_probe::unwind::{Origin, Row, TablePlacement, max_table_bytes, table};

use super::program::Program;

/// Distance from the end of the stubs to the tables.
const DISTANCE: u64 = 1 << 16;

/// Unwind rows by address.
pub(super) struct Rows(Vec<Row>);

impl Rows {
    pub fn new(stubs: &Stubs) -> Rows {
        Rows(stubs.rows().0)
    }

    /// Panics unless the row at `address` leads to the instruction `original`. `address` is a
    /// boundary of a stub, at which a thread has the same state as without tags.
    pub fn check(&self, address: u64, original: u64) {
        let behind = self.0.partition_point(|row| row.at <= address);
        let row = behind.checked_sub(1).map(|before| self.0[before]);
        let Some(Row { at, origin, lowered }) = row else { panic!("{address:x} has no row") };
        let origin_address = match origin {
            Origin::At(old) => Some(old),
            Origin::Copy(old) => Some(old.wrapping_add(address - at)),
            Origin::Shared(_) => None,
        };
        assert_eq!((origin_address, lowered), (Some(original), 0), "{address:x}");
    }
}

/// Panics unless each byte from the first stub on has a row, and an entry in a readable table.
pub(super) fn check(program: &Program, stubs: &Stubs) {
    let (rows, end) = stubs.rows();
    assert_eq!(end.0, program.stubs_at + stubs.code().len() as u64);
    let Some(first) = rows.first() else {
        return;
    };
    assert_eq!(first.at, program.stubs_at, "bytes before the first row");
    assert!(rows.windows(2).all(|pair| pair[0].at < pair[1].at), "{rows:x?}");
    assert!(rows.last().is_some_and(|last| last.at < end.0), "{rows:x?}");
    let (bias, at) = (program.bias, program.bias.to_run(end).wrapping_add(DISTANCE));
    let bytes = table(&rows, TablePlacement { at, end, bias }).expect("it is near");
    assert!(bytes.len() <= max_table_bytes(&rows), "{} bytes for {} rows", bytes.len(), rows.len());
    let header = EhFrameHdr::new(&bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(at.0);
    let header = header.parse(&bases, 8).expect("it is a header");
    let gimli::Pointer::Direct(frame_at) = header.eh_frame_ptr() else { panic!("it is direct") };
    let frame = EhFrame::new(&bytes[(frame_at - at.0) as usize..], LittleEndian);
    let bases = bases.set_eh_frame(frame_at);
    let (mut entries, mut next) = (frame.entries(&bases), bias.to_run(FileAddr(first.at)).0);
    while let Some(entry) = entries.next().expect("it is an entry") {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry = partial.parse(EhFrame::cie_from_offset).expect("its CIE is there");
        assert_eq!(entry.initial_address(), next);
        next = entry.initial_address() + entry.len();
    }
    assert_eq!(next, bias.to_run(end).0);
}
