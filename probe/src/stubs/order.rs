//! Orders the regions of a function for code generation.

use std::collections::HashSet;

use iced_x86::Instruction;

use crate::disassembly::{ExitKind, Region, Rewrite, falls_through, is_call};

/// Returns the regions in the order in which their stubs are generated. Stubs can branch directly
/// only to stubs that exist already. The entry often branches to other regions, so these come
/// before it. The region that the entry falls through to comes behind it, and so do the regions
/// that branch to the entry.
pub(super) fn in_order(rewrite: &Rewrite, start: u64) -> Vec<&Region> {
    let entry = rewrite.regions.iter().find(|region| region.entry);
    let next = entry.and_then(continuation);
    let mut regions: Vec<&Region> = rewrite.regions.iter().collect();
    let leads_to = |region: &Region, address| {
        region.instructions.iter().any(|instruction| instruction.near_branch_target() == address)
    };
    regions.sort_by_cached_key(|region| match region {
        region if region.entry => 1,
        region if next == Some(region.start()) => 2,
        region => u8::from(leads_to(region, start)) * 3,
    });
    regions
}

/// Address at which control continues behind a region; `None` if the region ends with a jump, a
/// return or a call.
pub(super) fn continuation(region: &Region) -> Option<u64> {
    let last = region.instructions.last()?;
    (falls_through(last) && !is_call(last)).then(|| last.next_ip())
}

/// Targets of tail calls: of tail calls in regions, and of redirected tail calls.
pub(super) fn jumps(rewrite: &Rewrite) -> impl Iterator<Item = u64> + '_ {
    let detours: HashSet<u64> = rewrite.detours.iter().map(Region::start).collect();
    let in_regions = rewrite.regions.iter().flat_map(|region| &region.exit_sites);
    let in_regions = in_regions.filter_map(|(_, exit_site)| match exit_site {
        ExitKind::Jump(target) => Some(*target),
        _ => None,
    });
    let redirected = rewrite.redirects.iter().map(Instruction::near_branch_target);
    in_regions.chain(redirected.filter(move |target| !detours.contains(target)))
}
