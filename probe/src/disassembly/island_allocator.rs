//! Allocates islands for functions that have no free bytes of their own. An island is placed in
//! bytes that adjacent functions leave free, or in place of instructions of an adjacent function,
//! which are moved.

use std::collections::BTreeMap;
use std::ops::Range;

use super::body::Body;
use super::code_index::CodeIndex;
use super::islands::{FAR, REACH, island_near};
use super::region::RegionFinder;
use super::rewrite::{Jump, Region, Rewrite};
use super::{JUMP_BYTES, Refusal};
use crate::elf::Image;

/// Allocates islands in the free bytes of all functions.
pub(super) struct IslandAllocator<'a> {
    pub image: &'a Image,
    pub code_index: &'a CodeIndex,
    /// Bytes that are unused after the rewrites are applied, in address order.
    pub free: Vec<Range<u64>>,
    /// Ranges that regions, islands and redirected branches occupy: end by start.
    pub taken: BTreeMap<u64, u64>,
    /// The adjacent function that was decoded last, with its start.
    pub last: Option<(u64, Result<Body, Refusal>)>,
}

impl IslandAllocator<'_> {
    /// Allocates the islands that a function lacks.
    ///
    /// # Errors
    /// [`Refusal`] if there is no island for the function's entry.
    pub fn complete(&mut self, rewrite: &mut Rewrite) -> Result<(), Refusal> {
        let mut added: Vec<Region> = Vec::new();
        for region in &mut rewrite.regions {
            if region.jump != Jump::Missing {
                continue;
            }
            let start = region.start();
            let island = self.near(start).or_else(|| {
                added.push(self.free_island_space(start)?);
                self.near(start)
            });
            match island {
                Some(island) => {
                    region.jump = Jump::Island(island);
                    self.taken.insert(island, island + JUMP_BYTES as u64);
                }
                None if region.entry => match rewrite.fallback.take() {
                    Some(fallback) if self.is_free(&fallback) => *region = fallback,
                    _ => {
                        // Instructions that were moved for this function alone stay in place.
                        let is_added = |free: &Range<u64>| {
                            added
                                .iter()
                                .any(|one| one.start() < free.start && free.start <= one.limit)
                        };
                        self.free.retain(|free| !is_added(free));
                        return Err(Refusal::TooShort);
                    }
                },
                None => {
                    let exits = region.exit_sites.iter();
                    let exits = exits.map(|(index, _)| region.instructions[*index].ip());
                    rewrite.hidden.extend(exits.map(|address| (address, Refusal::TooShort)));
                }
            }
        }
        rewrite.regions.retain(|region| region.jump != Jump::Missing);
        rewrite.regions.extend(added);
        Ok(())
    }

    /// Whether a region overlaps no other region. The region that it replaces, which begins at the
    /// same address, does not count.
    fn is_free(&self, region: &Region) -> bool {
        self.taken.range(region.start() + 1..region.limit).next().is_none()
    }

    fn near(&mut self, at: u64) -> Option<u64> {
        island_near(&mut self.free, at)
    }

    /// Moves instructions of an adjacent function to free five bytes near an address. Returns the
    /// region of these instructions.
    fn free_island_space(&mut self, at: u64) -> Option<Region> {
        let functions = &self.image.functions;
        let first =
            functions.partition_point(|function| function.start + function.size + REACH < at);
        let near = functions[first..].iter().take_while(|function| function.start < at + REACH);
        for function in near {
            let range = function.start..function.start + function.size;
            // The last function is kept, because many places of a large function may need space.
            if self.last.as_ref().is_none_or(|(start, _)| *start != range.start) {
                self.last =
                    Some((range.start, Body::read(self.image, range.clone(), range.clone())));
            }
            let Some((_, Ok(body))) = &self.last else { continue };
            let finder = RegionFinder { image: self.image, code_index: self.code_index, body };
            let (first, last) = (at.saturating_sub(FAR), at + FAR);
            let obstacles = self.taken.range(first..last).map(|(start, end)| *start..*end);
            let near = |address| self.free.partition_point(|other| other.start < address);
            let free = self.free[near(first)..near(last)].iter().cloned();
            let obstacles = obstacles.chain(free);
            let obstacles: Vec<_> = obstacles.filter(|other| other.end > range.start).collect();
            let Some(span) = finder.find_movable(at, &obstacles) else { continue };
            let start = body.address(span.first);
            self.taken.insert(start, span.limit);
            let after = start + JUMP_BYTES as u64..span.limit;
            let place = self.free.partition_point(|other| other.start < after.start);
            self.free.insert(place, after);
            return Some(Region {
                instructions: body.instructions[span.first..span.end].to_vec(),
                entry: false,
                exit_sites: Vec::new(),
                limit: span.limit,
                jump: Jump::Near,
            });
        }
        None
    }
}
