//! Encodes unwind tables for stubs: `.eh_frame` with an `.eh_frame_hdr`, from [`Row`]s.
//!
//! A stub has no frame of its own. Its table describes it as a function that the original
//! instruction has called, with the original instruction's own address as the return address and
//! the same registers:
//!
//! ```text
//! CFA = rsp + 8 + lowered     rsp = CFA - 8     return address = the original instruction
//! ```
//!
//! In its next step the unwinder uses the unwind table, personality routine and call sites of the
//! function itself, so these need not be copied. No return address points into a stub. So only the
//! innermost frame, or a frame that a signal has interrupted, can be in a stub. The CIE has
//! augmentation `S`: the resulting address belongs to the next instruction to be executed, and is
//! not an address after a call.
//!
//! The CFA is 8 bytes above the stack pointer because libgcc identifies a frame by its CFA, minus 1
//! in a frame that a signal interrupted. With `CFA = rsp`, libgcc would take the stub and its
//! function for one frame, and its second phase would abort.
//!
//! Not described: the values of `rax`, `rdx`, `r11` and flags that a tag has saved. No landing pad
//! uses them.

mod encoder;
mod symbol_file;
#[cfg(test)]
pub(crate) mod tests;

use crate::address::{FileAddr, LoadBias, RunAddr};
pub use crate::stubs::{Origin, Row};
use encoder::Encoder;
pub use symbol_file::{SymbolFile, frames};

/// Bytes of a node in the list of tables, before the node's `.eh_frame_hdr`
/// ([`crate::stubs::lookup`]).
pub const NODE_BYTES: usize = 64;
/// Maximum number of rows of one FDE. An unwinder finds the FDE by a binary search, and then reads
/// its rows one after the other.
const ROWS_PER_FDE: usize = 64;

/// Position of a table, and of the code that it describes.
#[derive(Clone, Copy, Debug)]
pub struct TablePlacement {
    /// Address of the `.eh_frame_hdr`, with which the table begins.
    pub at: RunAddr,
    /// Address behind the code of the last row.
    pub end: FileAddr,
    /// Load bias of the file. Rows have addresses in the file.
    pub bias: LoadBias,
}

/// Maximum size of a table, in bytes.
pub fn max_table_bytes(rows: &[Row]) -> usize {
    encoder::FIXED_BYTES
        + rows.len() * encoder::ROW_BYTES
        + rows.len().div_ceil(ROWS_PER_FDE) * encoder::FDE_BYTES
}

/// Encodes a table. `rows`: in ascending order. `None` if the table is too far from the code that
/// it describes.
pub fn table(rows: &[Row], place: TablePlacement) -> Option<Vec<u8>> {
    let groups = rows.chunks(ROWS_PER_FDE);
    let mut encoder = Encoder::new(place.at, groups.len());
    for (number, group) in groups.enumerate() {
        let next = rows.get((number + 1) * ROWS_PER_FDE).map_or(place.end, |row| FileAddr(row.at));
        encoder.fde(group, next, place.bias)?;
    }
    encoder.finish()
}
