//! Searches memory of a process: touched pages only, piece by piece, limited by a budget.
//!
//! The process is stopped meanwhile, and the process itself decides how much memory it has. So each
//! search has one budget for the whole process. A process that exceeds the budget is refused,
//! because an incomplete search could miss what it is made for.

use std::ops::Range;

use super::escape::is_asked_to_end;
use super::search_budget::SearchBudget;
use super::touched::TouchedPages;
use super::{Mapping, PtraceError, ReadMemory};
use crate::address::RunAddr;
use crate::stubs::layout::PAGE_BYTES;

/// Bytes of memory that are read at once.
const PIECE: u64 = 1 << 20;
/// Bytes of memory that are searched before a signal can end the search. A shorter search is
/// completed, so that an attachment ends in order.
const SHORT: u64 = 16 << 20;

/// Reads the touched parts of a range of a mapping in pieces. `each` gets the address of a piece,
/// its number of bytes, its bytes, and the budget. The bytes are followed by up to `overlap` bytes
/// from behind the piece, as far as these can be read. Pages that cannot be read are skipped.
///
/// # Errors
/// [`PtraceError::TooMuchMemory`] if the budget is exceeded, [`PtraceError::Interrupted`] if a
/// signal asks this program to end a long search, [`PtraceError::Ended`] if the process has ended;
/// errors of `each`.
pub(crate) fn for_each_piece(
    memory: &impl ReadMemory,
    pages: &TouchedPages,
    (mapping, range): (&Mapping, Range<RunAddr>),
    overlap: u64,
    budget: &mut SearchBudget,
    mut each: impl FnMut(RunAddr, usize, &[u8], &mut SearchBudget) -> Result<(), PtraceError>,
) -> Result<(), PtraceError> {
    let mut rest = range;
    let mut bytes = Vec::new();
    while rest.start < rest.end {
        let (parts, next) = pages.first_parts(mapping, &rest, budget)?;
        rest.start = next;
        for part in parts {
            let mut at = part.start;
            let mut size = PIECE;
            while at < part.end {
                if memory.may_be_interrupted() && budget.spent() > SHORT && is_asked_to_end() {
                    return Err(PtraceError::Interrupted(memory.pid()));
                }
                let own = (size - at.0 % PAGE_BYTES).min(part.end - at);
                let length = (own + overlap).min(mapping.end - at);
                budget.take(length)?;
                bytes.resize(length as usize, 0);
                match memory.read(at, &mut bytes) {
                    Ok(()) => each(at, own as usize, &bytes, budget)?,
                    Err(error @ PtraceError::Ended(_)) => return Err(error),
                    // A page cannot be read, so the rest is read page by page.
                    Err(_) if size > PAGE_BYTES => {
                        size = PAGE_BYTES;
                        continue;
                    }
                    Err(_) if overlap > 0 && length > own => {
                        bytes.truncate(own as usize);
                        if memory.read(at, &mut bytes).is_ok() {
                            each(at, own as usize, &bytes, budget)?;
                        }
                    }
                    Err(_) => {}
                }
                at = at + own;
            }
        }
    }
    Ok(())
}
