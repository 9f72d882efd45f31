//! Compares planned changes of compiled programs with the branches that objdump lists.

pub(crate) mod overlapping_code;
mod planning_time;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::{Disassembly, FileIndex, Granularity, JUMP_BYTES, Jump, Region, Rewrite, SHORT_BYTES};
use crate::elf::Image;
use crate::elf::tests::programs::{Programs, run};

/// The branches of a program, as objdump lists them.
#[derive(Default)]
struct Listing {
    /// Branches and calls: address and target.
    branches: Vec<(u64, u64)>,
    /// Address after each call.
    returns: Vec<u64>,
    /// Addresses of return instructions.
    exits: Vec<u64>,
}

fn listing(path: &Path) -> Option<Listing> {
    let text = run("objdump", &["-d", "--no-show-raw-insn", "-w", path.to_str()?])?;
    let (mut listing, mut called) = (Listing::default(), false);
    for line in text.lines() {
        let Some((address, rest)) = line.trim_start().split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        if std::mem::take(&mut called) {
            listing.returns.push(address);
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let mnemonics = ["bnd", "notrack", "repz"];
        let words: Vec<&str> = words.into_iter().filter(|word| !mnemonics.contains(word)).collect();
        let Some(mnemonic) = words.first() else { continue };
        called = mnemonic.starts_with("call");
        if mnemonic.starts_with("ret") {
            listing.exits.push(address);
        }
        let branches = called || mnemonic.starts_with('j') || mnemonic.starts_with("loop");
        let target = words.get(1).and_then(|word| u64::from_str_radix(word, 16).ok());
        if let Some(target) = target.filter(|_| branches) {
            listing.branches.push((address, target));
        }
    }
    Some(listing)
}

/// Ranges that are overwritten: each region's jump and each island, end by start.
fn written(rewrites: &[Rewrite]) -> BTreeMap<u64, u64> {
    let mut ranges = BTreeMap::new();
    let mut add = |start: u64, bytes: u64| {
        assert_eq!(ranges.insert(start, start + bytes), None, "{start:x} is written twice");
    };
    for region in rewrites.iter().flat_map(|rewrite| &rewrite.regions) {
        match region.jump {
            Jump::Near => add(region.start(), JUMP_BYTES as u64),
            Jump::Missing => unreachable!(),
            Jump::Island(island) => {
                add(region.start(), SHORT_BYTES);
                add(island, JUMP_BYTES as u64);
            }
        }
    }
    ranges
}

/// Panics unless only a region's own instructions lead into its middle.
fn check(path: &Path, listing: &Listing, image: &Image, rewrites: &[Rewrite]) {
    let written = written(rewrites);
    let mut end = 0;
    for (start, after) in &written {
        assert!(*start >= end, "{}: {start:x} overlaps", path.display());
        end = *after;
    }
    let mut regions: BTreeMap<u64, &Region> = BTreeMap::new();
    for region in rewrites.iter().flat_map(|rewrite| &rewrite.regions) {
        regions.insert(region.start(), region);
    }
    let inside = |address: u64| {
        let (_, region) = regions.range(..address).next_back()?;
        (address < region.limit).then_some(*region)
    };
    let redirects = rewrites.iter().flat_map(|rewrite| &rewrite.redirects);
    let redirected: HashSet<u64> = redirects.map(|instruction| instruction.ip()).collect();
    for (from, to) in &listing.branches {
        if let Some(region) = inside(*to) {
            let own = (region.start()..region.limit).contains(from);
            assert!(
                own || redirected.contains(from),
                "{}: {from:x} leads to {to:x}, in {:x}",
                path.display(),
                region.start()
            );
        }
    }
    for address in &listing.returns {
        assert!(inside(*address).is_none(), "{}: a call returns to {address:x}", path.display());
    }
    for function in &image.functions {
        assert!(inside(function.start).is_none(), "{}: {}", path.display(), function.name);
    }
}

/// Number of return instructions in functions that no region or detour covers.
fn untagged(listing: &Listing, image: &Image, rewrites: &[Rewrite]) -> usize {
    let moved = rewrites.iter().flat_map(|rewrite| rewrite.regions.iter().chain(&rewrite.detours));
    let moved: HashSet<u64> =
        moved.flat_map(|region| &region.instructions).map(|instruction| instruction.ip()).collect();
    let in_function = |address: &&u64| image.function_at(**address).is_some();
    let exits = listing.exits.iter().filter(in_function);
    exits.filter(|address| !moved.contains(address)).count()
}

/// Like [`check`], with all blocks requested, most of which must be tagged.
fn check_blocks(path: &Path, listing: &Listing, image: &Image) {
    let functions: Vec<_> =
        image.functions.iter().map(|function| (function, Granularity::Blocks)).collect();
    for exits in [true, false] {
        let rewrites = Disassembly::new(image, &FileIndex::new(image))
            .rewrites_with_granularity(&functions, exits);
        let rewrites: Vec<Rewrite> = rewrites.into_iter().filter_map(Result::ok).collect();
        check(path, listing, image, &rewrites);
        let blocks: usize = rewrites.iter().map(|rewrite| rewrite.blocks.len()).sum();
        let tagged: usize = rewrites.iter().map(|rewrite| rewrite.tagged_blocks().count()).sum();
        let refused = image.functions.len() - rewrites.len();
        println!("{}: {tagged} of {blocks} blocks, {refused} functions refused", path.display());
        assert!(tagged * 4 >= blocks * 3, "{}: {tagged} of {blocks} blocks", path.display());
        assert!(refused * 200 <= image.functions.len(), "{}: {refused}", path.display());
    }
}

#[test]
fn no_branch_leads_into_overwritten_bytes() {
    let programs = Programs::new();
    for path in programs.all() {
        let (Some(listing), Ok(image)) = (listing(&path), Image::read(&path)) else { continue };
        let functions: Vec<_> = image.functions.iter().collect();
        let rewrites = Disassembly::new(&image, &FileIndex::new(&image)).rewrites(&functions, true);
        let rewrites: Vec<Rewrite> = rewrites.into_iter().filter_map(Result::ok).collect();
        check(&path, &listing, &image, &rewrites);
        let refused = image.functions.len() - rewrites.len();
        // A `switch` whose cases are a byte and a return has no space for any jump. A function that
        // is entered at computed places, such as `__memcpy_ssse3`, is changed at its first
        // instruction only.
        let hidden = rewrites.iter().filter(|rewrite| !rewrite.hidden.is_empty()).count();
        let untagged = untagged(&listing, &image, &rewrites);
        println!(
            "{}: {} functions, {refused} refused; {} returns, {untagged} not tagged",
            path.display(),
            image.functions.len(),
            listing.exits.len()
        );
        // Few functions are taken for such by mistake: code behind a call that does not return
        // seems to use their addresses.
        assert!(refused * 150 <= image.functions.len(), "{}", path.display());
        assert!(hidden * 250 <= image.functions.len(), "{}", path.display());
        check_blocks(&path, &listing, &image);
    }
}
