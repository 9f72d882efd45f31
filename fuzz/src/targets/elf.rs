//! Checks that a program file has functions that do not overlap and lie within the file's code, or
//! is rejected.

use std::ops::Range;
use std::path::Path;

use hmtt_probe::elf::Image;

/// Reads a program and checks each of its ranges.
pub fn check(bytes: &[u8]) {
    let Ok(image) = Image::parse(bytes, Path::new("x")) else { return };
    let functions = image.functions.iter().map(|function| {
        assert!(function.size > 0 && !function.name.is_empty(), "{function:?}");
        let last = function.start + (function.size - 1);
        assert_eq!(image.function_at(function.start), Some(function));
        assert_eq!(image.function_at(last), Some(function));
        function.start..last + 1
    });
    let mut ranges: Vec<Range<u64>> = functions.chain(image.fragments.iter().cloned()).collect();
    ranges.sort_by_key(|range| range.start);
    let text = image.text.iter().map(|text| text.start..text.start + text.bytes.len() as u64);
    let text: Vec<Range<u64>> = text.collect();
    for ranges in [&ranges, &text] {
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:x?}");
    }
    for range in &ranges {
        let inside = |text: &Range<u64>| text.start <= range.start && range.end <= text.end;
        assert!(range.start < range.end && text.iter().any(inside), "{range:x?}");
    }
    if let Some(main) = image.main() {
        assert!(text.iter().any(|text| text.contains(&main)), "{main:#x}");
    }
}
