//! Converts accesses of any size to requests for lines of 64 bytes.
//!
//! Simulators transfer a line for each request. An access that is shorter than a line is a burst.
//! Bursts of one line become one request, by the card's rule at line granularity (docs/format.md,
//! *Line mode*): a burst joins the last request if it has the same line and direction, the request
//! does not have this burst of the line yet, and its first burst was at most [`WINDOW`] clocks ago.
//! A longer access becomes a request for each of its lines.
//!
//! ```text
//! access of 32 bytes   request
//! clock 10 R 0x100     read line 0x100
//! clock 12 R 0x120     none: it joins the last request
//! clock 14 R 0x100     read line 0x100, because the request has this burst already
//! ```

use hmtt_format::Direction;
use hmtt_format::memory::DEFAULT_MERGE_WINDOW;

use super::{LINE_BYTES, Request};

/// Maximum number of clocks from the first burst of a request to its last burst.
const WINDOW: u64 = DEFAULT_MERGE_WINDOW as u64;
/// Maximum size of an access in bytes: a page. Only a forged file states a larger size, which
/// counts as unknown.
const MOST_BYTES: u32 = 4096;

/// The last request for a line that bursts may still join.
#[derive(Clone, Copy, Debug)]
struct OpenLine {
    /// Number of the line.
    line: u64,
    direction: Direction,
    first_clock: u64,
    /// A bit for each burst of the line that the request has. The first burst has the lowest bit.
    seen: u64,
}

/// Converts accesses to requests for lines.
#[derive(Clone, Debug, Default)]
pub struct LineRequests {
    open: Option<OpenLine>,
    merged_bursts: u64,
}

impl LineRequests {
    /// Number of bursts that joined the request of another burst.
    pub fn merged_bursts(&self) -> u64 {
        self.merged_bursts
    }

    /// Ends the last request, so that no later burst joins it.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// The requests for an access of `bytes` bytes. An access of unknown size (0, no power of two,
    /// or more than a page) is one request.
    pub fn requests(
        &mut self,
        access: Request,
        bytes: u32,
    ) -> impl Iterator<Item = Request> + use<> {
        let is_known = bytes <= MOST_BYTES && bytes.is_power_of_two();
        let is_burst = is_known && u64::from(bytes) < LINE_BYTES;
        let (address, count) = if !is_known {
            (access.address, 1)
        } else if is_burst {
            let is_merged = self.is_merged(&access, bytes);
            self.merged_bursts += u64::from(is_merged);
            (access.address & !(LINE_BYTES - 1), u64::from(!is_merged))
        } else {
            (access.address, u64::from(bytes) / LINE_BYTES)
        };
        if !is_burst {
            self.open = None;
        }
        (0..count).filter_map(move |line| {
            let address = address.checked_add(line * LINE_BYTES)?;
            Some(Request { address, ..access })
        })
    }

    /// Whether a burst joins the last request. If not, the burst begins a new request.
    fn is_merged(&mut self, burst: &Request, bytes: u32) -> bool {
        let Request { clock, direction, address } = *burst;
        let line = address / LINE_BYTES;
        let bit = 1u64 << (address % LINE_BYTES / u64::from(bytes));
        if let Some(open) = &mut self.open
            && (open.line, open.direction) == (line, direction)
            && open.seen & bit == 0
            && clock.checked_sub(open.first_clock).is_some_and(|clocks| clocks <= WINDOW)
        {
            open.seen |= bit;
            return true;
        }
        self.open = Some(OpenLine { line, direction, first_clock: clock, seen: bit });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(lines: &mut LineRequests, clock: u64, address: u64, bytes: u32) -> Vec<u64> {
        let access = Request { clock, direction: Direction::Read, address };
        lines.requests(access, bytes).map(|request| request.address).collect()
    }

    #[test]
    fn a_burst_joins_the_line_within_the_window() {
        let mut lines = LineRequests::default();
        assert_eq!(addresses(&mut lines, 10, 0x70, 16), [0x40]);
        assert_eq!(addresses(&mut lines, 10 + WINDOW, 0x40, 16), [0u64; 0]);
        // The first of these bursts is too late, so it begins a new request. The second burst joins
        // that request.
        assert_eq!(addresses(&mut lines, 11 + WINDOW, 0x50, 16), [0x40]);
        assert_eq!(addresses(&mut lines, 12 + WINDOW, 0x60, 16), [0u64; 0]);
        // Each of these bursts begins a new request: it is the same burst again, it has another
        // line, or its clock goes back.
        assert_eq!(addresses(&mut lines, 13 + WINDOW, 0x60, 16), [0x40]);
        assert_eq!(addresses(&mut lines, 14 + WINDOW, 0x80, 16), [0x80]);
        assert_eq!(addresses(&mut lines, 1, 0x90, 16), [0x80]);
        lines.close();
        assert_eq!(addresses(&mut lines, 2, 0xa0, 16), [0x80]);
        assert_eq!(lines.merged_bursts(), 2);
    }

    #[test]
    fn a_longer_access_is_a_request_for_each_line() {
        let mut lines = LineRequests::default();
        assert_eq!(addresses(&mut lines, 0, 0x80, 128), [0x80, 0xc0]);
        assert_eq!(addresses(&mut lines, 0, 0x81, 64), [0x81]);
        // These sizes count as unknown: 0, no power of two, and more than a page.
        for bytes in [0, 48, 8192, u32::MAX] {
            assert_eq!(addresses(&mut lines, 0, 0x81, bytes), [0x81]);
        }
        assert_eq!(addresses(&mut lines, 0, u64::MAX, 128), [u64::MAX]);
    }
}
