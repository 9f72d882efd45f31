//! Finds the functions of a map whose tags a card cannot have seen, because its window is smaller
//! than the map, or off.

use std::fmt;

use hmtt_format::tag_log::FunctionId;
use hmtt_format::tag_map::{TagMap, Window};

use super::steps::Steps;

/// Functions and blocks of which a trace has no tag, whether they were called or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnseenFunctions {
    /// Their tags are outside of the window.
    Outside {
        /// Their number.
        count: usize,
        /// Bytes of the card's window.
        window_bytes: u64,
        /// Bytes that the window needs for all functions.
        needed_bytes: u64,
    },
    /// The card's window was off as long as its reports are in the trace. Holds the number of all
    /// functions.
    WindowOff(usize),
}

/// Numbers of the functions and blocks of a map.
pub fn numbers(map: &TagMap) -> Vec<FunctionId> {
    let functions = map.functions.iter().map(|function| function.number);
    functions.chain(map.blocks.iter().map(|block| block.number)).collect()
}

impl UnseenFunctions {
    /// Compares the window of a map with that of the card, as its reports state it; `None` if all
    /// tags are within it, or if either of them is not known.
    pub fn find(numbers: &[FunctionId], window: Option<&Window>, steps: &Steps) -> Option<Self> {
        let window = window?;
        let Some(bytes) = steps.window_bytes else {
            let is_off = steps.reports > 0 && steps.tags == 0 && !numbers.is_empty();
            return is_off.then_some(UnseenFunctions::WindowOff(numbers.len()));
        };
        // A map that does not state its window's address is taken to describe the card's window.
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
