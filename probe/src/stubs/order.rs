//! A function's regions to the order of their stubs, and to where they lead.

use std::collections::HashSet;

use iced_x86::Instruction;

use crate::disassembly::{Leaving, Region, Rewrite, goes_on, is_call};

/// Regions in the order their stubs are made: that of the entry, which often branches to others, behind
/// those that it may branch to, and before the one it goes on in and those that lead to it.
pub(super) fn in_order(rewrite: &Rewrite, start: u64) -> Vec<&Region> {
    let entry = rewrite.regions.iter().find(|region| region.entry);
    let next = entry.and_then(behind);
    let mut regions: Vec<&Region> = rewrite.regions.iter().collect();
    let leads_to = |region: &Region, address| {
        region.instructions.iter().any(|one| one.near_branch_target() == address)
    };
    regions.sort_by_cached_key(|region| match region {
        region if region.entry => 1,
        region if next == Some(region.start()) => 2,
        region => u8::from(leads_to(region, start)) * 3,
    });
    regions
}

/// Where control goes on behind a region, if it does.
pub(super) fn behind(region: &Region) -> Option<u64> {
    let last = region.instructions.last()?;
    (goes_on(last) && !is_call(last)).then(|| last.next_ip())
}

/// Where jumps to functions lead that are in regions or redirected.
pub(super) fn jumps(rewrite: &Rewrite) -> impl Iterator<Item = u64> + '_ {
    let detours: HashSet<u64> = rewrite.detours.iter().map(Region::start).collect();
    let in_regions = rewrite.regions.iter().flat_map(|region| &region.leavings);
    let in_regions = in_regions.filter_map(|(_, leaving)| match leaving {
        Leaving::Jump(target) => Some(*target),
        _ => None,
    });
    let redirected = rewrite.redirects.iter().map(Instruction::near_branch_target);
    in_regions.chain(redirected.filter(move |target| !detours.contains(target)))
}
