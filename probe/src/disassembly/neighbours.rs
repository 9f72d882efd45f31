//! Islands for functions that found none: what their neighbours leave free is used, or some of a neighbour's
//! instructions are moved to make room.

use std::collections::BTreeMap;
use std::ops::Range;

use super::body::Body;
use super::flow::Flow;
use super::islands::{FAR, REACH, island_near};
use super::region::Ground;
use super::rewrite::{Jump, Region, Rewrite};
use super::{JUMP_BYTES, Refusal};
use crate::elf::Image;

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
