//! Parses damaged and made-up files: the result is an error or a valid image, never a panic.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::programs::Programs;
use crate::elf::{ElfError, Image};

/// Panics unless an image has the documented invariants.
pub(super) fn check(image: &Image) {
    let functions = image.functions.iter().map(|f| {
        assert!(f.size > 0 && !f.name.is_empty(), "{f:?}");
        assert_eq!(image.function_at(f.start), Some(f));
        assert_eq!(image.function_at(f.start + f.size - 1), Some(f));
        f.start..f.start + f.size
    });
    let functions: Vec<_> = functions.collect();
    let text = image.text.iter().map(|t| t.start..t.start + t.bytes.len() as u64);
    let text: Vec<_> = text.collect();
    let apart = |ranges: &[std::ops::Range<u64>]| {
        ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
    };
    assert!(apart(&functions) && apart(&text) && apart(&image.fragments));
    let mut ranges = [functions, image.fragments.clone()].concat();
    ranges.sort_by_key(|range| range.start);
    assert!(apart(&ranges));
    for range in &ranges {
        assert!(range.start < range.end);
        let inside = |t: &&std::ops::Range<u64>| t.start <= range.start && range.end <= t.end;
        assert!(text.iter().find(inside).is_some(), "{range:x?}");
    }
    let _ = image.main();
}

/// Small files with and without symbols.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let programs = Programs::new();
    let mut paths = vec!["/bin/true".into()];
    paths.extend(programs.c("hostile", &["-O2"]));
    paths.extend(programs.cxx("hostile-cxx", &["-O1"]));
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
});

/// Changed bytes, more often in headers and tables than elsewhere, and the remaining length of the
/// file in 1/1024.
fn damage() -> impl Strategy<Value = (usize, Vec<(usize, usize, u64)>, usize)> {
    let change = (0usize..4, any::<usize>(), prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)]);
    let left = prop_oneof![3 => Just(1024usize), 1 => 0usize..1024];
    (any::<usize>(), prop::collection::vec(change, 0..12), left)
}

fn damaged((file, changes, left): (usize, Vec<(usize, usize, u64)>, usize)) -> Option<Vec<u8>> {
    let mut bytes = FILES.get(file % FILES.len().max(1))?.clone();
    let length = bytes.len();
    for (place, at, value) in changes {
        let sections = u64::from_le_bytes(bytes[0x28..0x30].try_into().ok()?) as usize % length;
        let at = match place {
            0 => at % 64,
            1 => 64 + at % (13 * 56),
            2 => sections + at % (length - sections),
            _ => at % length,
        };
        let width = 1 << (value % 4);
        let end = (at + width).min(length);
        let value = value.rotate_right(2).to_le_bytes();
        bytes[at..end].copy_from_slice(&value[..end - at]);
    }
    bytes.truncate(length * left / 1024);
    Some(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn damaged_files_give_errors_or_valid_images(damage in damage()) {
        if let Some(bytes) = damaged(damage)
            && let Ok(image) = Image::parse(&bytes, Path::new("damaged"))
        {
            check(&image);
        }
    }
}

#[test]
fn files_that_are_not_programs_are_refused() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
        let error = Image::parse(bytes, Path::new("none")).unwrap_err();
        assert!(matches!(error, ElfError::NotElf { .. }), "{error}");
        assert!(error.to_string().starts_with("none: "));
    }
    for path in ["/nowhere/at/all", "/dev/zero", "/"] {
        assert!(matches!(Image::read(Path::new(path)), Err(ElfError::Read { .. })), "{path}");
    }
}

#[test]
fn segments_that_share_bytes_are_refused() {
    const HEADERS: usize = 60_000;
    let Some(file) = FILES.first() else { return };
    let mut bytes = vec![0; 64 + HEADERS * 56];
    bytes[..64].copy_from_slice(&file[..64]);
    bytes[0x20..0x30].copy_from_slice(&[64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes[0x38..0x40].copy_from_slice(&[0x60, 0xea, 0x40, 0, 0, 0, 0, 0]);
    let size = bytes.len() as u64;
    for (index, header) in bytes[64..].chunks_mut(56).enumerate() {
        header[..8].copy_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
        header[16..24].copy_from_slice(&(index as u64 * 0x100_0000).to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
    }
    let error = Image::parse(&bytes, Path::new("large")).unwrap_err();
    assert!(error.to_string().contains("larger than the file"), "{error}");
}

#[test]
fn symbols_that_share_a_long_name_are_refused() {
    // Section headers: the null one, names, symbols.
    const NAME: usize = 1 << 20;
    const SYMBOLS: usize = 10_000;
    let Some(file) = FILES.first() else { return };
    let (names, symbols) = (64 + 3 * 64, 64 + 3 * 64 + NAME);
    let mut bytes = file[..64].to_vec();
    bytes[0x20..0x30].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
    bytes[0x38..0x40].copy_from_slice(&[0, 0, 64, 0, 3, 0, 1, 0]);
    let header = |kind: u32, offset: usize, size: usize, link: u32, entry: u64| {
        let words = [0, offset as u64, size as u64, u64::from(link), 1, entry];
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        let start = [0, kind, 0, 0].into_iter().flat_map(u32::to_le_bytes);
        start.chain(words).collect::<Vec<u8>>()
    };
    bytes.extend(header(0, 0, 0, 0, 0));
    bytes.extend(header(3, names, NAME, 0, 0));
    bytes.extend(header(2, symbols, SYMBOLS * 24, 1, 24));
    bytes.resize(symbols - 1, b'n');
    bytes.push(0);
    for _ in 0..SYMBOLS {
        bytes.extend([0, 0, 0, 0, 0x12, 0, 1, 0]);
        bytes.extend([0; 16]);
    }
    let error = Image::parse(&bytes, Path::new("large")).unwrap_err();
    assert!(error.to_string().contains("share their bytes"), "{error}");
}
