//! Finds the functions and blocks of a map whose tags a card cannot have recorded, because the tags
//! are outside of the card's window, or because the window was off.

use std::fmt;

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{TagMap, Window};

use super::steps::Steps;

/// Functions and blocks that cannot have a tag in a trace, even if they were executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnseenFunctions {
    /// The tags of these functions and blocks are outside of the window.
    Outside {
        /// Number of these functions and blocks.
        count: usize,
        /// Size of the card's window, in bytes.
        window_bytes: u64,
        /// Size that the window would need for the tags of all functions and blocks, in bytes.
        needed_bytes: u64,
    },
    /// The card's window was off in all of its reports in the trace. Holds the number of all
    /// functions and blocks.
    WindowOff(usize),
}

/// Numbers of the functions and blocks of a map.
pub fn numbers(map: &TagMap) -> Vec<FunctionId> {
    let functions = map.functions.iter().map(|function| function.number);
    functions.chain(map.blocks.iter().map(|block| block.number)).collect()
}

impl UnseenFunctions {
    /// Compares the window of a map with the window that the card has reported. `None` if all tags
    /// are within the card's window, or if one of the two windows is not known.
    pub fn find(numbers: &[FunctionId], window: Option<&Window>, steps: &Steps) -> Option<Self> {
        let window = window?;
        let Some(bytes) = steps.window_bytes else {
            let is_off = steps.reports > 0 && steps.tags == 0 && !numbers.is_empty();
            return is_off.then_some(UnseenFunctions::WindowOff(numbers.len()));
        };
        // A map without an address for its window must mean the card's window.
        let base = steps.window.filter(|_| window.address != 0).unwrap_or(window.address);
        let before = window.address.saturating_sub(base);
        let end = |number: &FunctionId| {
            let events = 2 * (u64::from(number.0) + 1);
            before.saturating_add(events.saturating_mul(window.stride_bytes.into()))
        };
        let count = numbers.iter().filter(|number| end(number) > bytes).count();
        let needed_bytes = numbers.iter().map(end).max().unwrap_or(0);
        (count > 0).then_some(UnseenFunctions::Outside { count, window_bytes: bytes, needed_bytes })
    }
}

/// `functions and blocks whose tags are outside of the card's window, so that the trace has none of
/// their calls: 3 (...)`
impl fmt::Display for UnseenFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnseenFunctions::Outside { count, window_bytes, needed_bytes } => write!(
                f,
                "functions and blocks whose tags are outside of the card's window, so that the trace has none of their \
                 calls: {count} (the window has {window_bytes} bytes, and {needed_bytes} are needed)"
            ),
            UnseenFunctions::WindowOff(count) => write!(
                f,
                "functions and blocks of which the trace has no calls, because the card's tag window was off: {count} \
                 (`hmtt ctl tag-window on` turns it on)"
            ),
        }
    }
}
