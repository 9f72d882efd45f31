//! Jumps of two bytes to islands within their reach: five bytes that nothing needs any more.
//!
//! A function finds its own where it can. For the rest, what its neighbours leave free is used, or some of
//! a neighbour's instructions are moved to make room.

use std::collections::BTreeMap;
use std::ops::Range;

use super::body::Body;
use super::flow::Flow;
use super::region::{Ground, Span};
use super::rewrite::{Jump, Region, Rewrite, SHORT_BYTES};
use super::{JUMP_BYTES, Refusal};
use crate::elf::Image;

/// Distances that a jump of two bytes surely reaches.
const REACH: u64 = 110;
/// From how far before a function it is looked for what reaches into it: no region reaches over where another function
/// begins, and little else is taken.
const LONGEST_TAKEN: u64 = 1 << 10;
/// How far a region that makes room may reach, in instructions.
const LONGEST: usize = 8;
/// Farther from a place than this, nothing matters for a region that makes room for it: jumps of two bytes do not
/// reach it, and no region is so long.
pub(super) const FAR: u64 = REACH + LONGEST_TAKEN;

/// Takes five free bytes within reach of a jump of two bytes.
pub(super) fn island(free: &mut [Range<u64>], from: u64) -> Option<u64> {
    let behind = from + SHORT_BYTES;
    let reaches = |at: u64| i8::try_from(at.wrapping_sub(behind).cast_signed()).is_ok();
    for range in free {
        let first = range.start.max(behind.saturating_sub(i8::MIN.unsigned_abs().into()));
        if reaches(first) && first + JUMP_BYTES as u64 <= range.end {
            // What is before it is lost, and seldom missed.
            range.start = first + JUMP_BYTES as u64;
            return Some(first);
        }
    }
    None
}

/// The same of many free ranges, by address, of which few are near.
pub(super) fn island_near(free: &mut [Range<u64>], from: u64) -> Option<u64> {
    let far = u64::from(u8::MAX);
    let first = free.partition_point(|range| range.end + far < from);
    let last = free.partition_point(|range| range.start < from + far);
    island(free.get_mut(first..last)?, from)
}

impl Ground<'_> {
    /// A region whose jump leaves five bytes free within reach of an address, apart from others.
    pub fn spare(&self, at: u64, taken: &[Range<u64>]) -> Option<Span> {
        let body = self.body;
        let all = body.instructions.len();
        let least = 2 * JUMP_BYTES as u64;
        let before = body.instructions.partition_point(|one| one.ip() + REACH <= at);
        let behind = body.instructions.partition_point(|one| one.ip() < at + REACH);
        (before.max(1)..behind).find_map(|first| {
            let ends = first + 1..=(first + LONGEST).min(all);
            let spans = ends.map_while(|end| self.close(first, end).ok());
            let fits = |span: &Span| {
                let start = body.address(span.first);
                let apart = |other: &Range<u64>| span.room <= other.start || other.end <= start;
                span.first > 0
                    && span.room - start >= least
                    && start.abs_diff(at) < REACH
                    && taken.iter().all(apart)
            };
            spans.into_iter().find(fits)
        })
    }
}

/// What neighbours can give.
pub(super) struct Neighbours<'a> {
    pub image: &'a Image,
    pub flow: &'a Flow,
    /// Bytes that nothing needs, by address.
    pub free: Vec<Range<u64>>,
    /// What regions, islands and redirected branches take.
    pub taken: BTreeMap<u64, u64>,
    /// The function that was looked at last, by its first address.
    pub last: Option<(u64, Result<Body, Refusal>)>,
}

impl Neighbours<'_> {
    /// Finds the islands that a function did not find by itself.
    ///
    /// # Errors
    /// [`Refusal`] if there is none for its entry.
    pub fn complete(&mut self, rewrite: &mut Rewrite) -> Result<(), Refusal> {
        let mut given: Vec<Region> = Vec::new();
        for region in &mut rewrite.regions {
            if region.jump != Jump::Missing {
                continue;
            }
            let start = region.start();
            let island = self.near(start).or_else(|| {
                given.push(self.make_room(start)?);
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
                        // What would have been moved for it stays.
                        let stays = |free: &Range<u64>| {
                            given
                                .iter()
                                .any(|one| one.start() < free.start && free.start <= one.room)
                        };
                        self.free.retain(|free| !stays(free));
                        return Err(Refusal::TooShort);
                    }
                },
                None => {
                    let exits = region.leavings.iter();
                    let exits = exits.map(|(index, _)| region.instructions[*index].ip());
                    rewrite.hidden.extend(exits.map(|address| (address, Refusal::TooShort)));
                }
            }
        }
        rewrite.regions.retain(|region| region.jump != Jump::Missing);
        rewrite.regions.extend(given);
        Ok(())
    }

    /// Whether no region but the one that begins where this one does takes any of it.
    fn is_free(&self, region: &Region) -> bool {
        self.taken.range(region.start() + 1..region.room).next().is_none()
    }

    fn near(&mut self, at: u64) -> Option<u64> {
        island_near(&mut self.free, at)
    }

    /// Moves instructions of a neighbour.
    fn make_room(&mut self, at: u64) -> Option<Region> {
        let functions = &self.image.functions;
        let first = functions.partition_point(|one| one.start + one.size + REACH < at);
        let near = functions[first..].iter().take_while(|one| one.start < at + REACH);
        for function in near {
            let range = function.start..function.start + function.size;
            // Many places of a large function may need room: it is read once.
            if self.last.as_ref().is_none_or(|(start, _)| *start != range.start) {
                self.last =
                    Some((range.start, Body::read(self.image, range.clone(), range.clone())));
            }
            let Some((_, Ok(body))) = &self.last else { continue };
            let ground = Ground { image: self.image, flow: self.flow, body };
            let (first, last) = (at.saturating_sub(FAR), at + FAR);
            let taken = self.taken.range(first..last).map(|(start, end)| *start..*end);
            let near = |address| self.free.partition_point(|other| other.start < address);
            let free = self.free[near(first)..near(last)].iter().cloned();
            let taken = taken.chain(free);
            let taken: Vec<_> = taken.filter(|other| other.end > range.start).collect();
            let Some(span) = ground.spare(at, &taken) else { continue };
            let start = body.address(span.first);
            self.taken.insert(start, span.room);
            let behind = start + JUMP_BYTES as u64..span.room;
            let place = self.free.partition_point(|other| other.start < behind.start);
            self.free.insert(place, behind);
            return Some(Region {
                instructions: body.instructions[span.first..span.end].to_vec(),
                entry: false,
                leavings: Vec::new(),
                room: span.room,
                jump: Jump::Near,
            });
        }
        None
    }
}
