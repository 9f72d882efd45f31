//! When a block of the card is evaluated: at a rising edge unless nothing can come of it, and when one
//! of its inputs moves.
//!
//! rust-hdl evaluates a block in passes over everything in it. A clock takes a pass for each level of
//! blocks down to a register; on the pass after that the register answers. If nothing changes on the
//! pass on which the deepest registers answer, then the data inputs of all registers are as they were
//! before the edge, and their outputs equal them: further edges change nothing either, until an input
//! moves. So the block rests, and its edges are left out.
//!
//! This needs registers whose depths differ by one level at most: of a shallower one both the answer
//! and what follows from it would be over when the deepest ones answer. And it needs a block without
//! other state than registers and block RAM, whose second write of the same word changes nothing, and
//! with one clock. Other blocks never rest. Neither does any block in reset: block RAM clears itself there
//! word by word, which shows nowhere else.

use rust_hdl::prelude::*;

use super::inputs::{ClockInput, Inputs};
use crate::reset::Domain;

/// More passes than the longest combinational path has blocks.
pub const SETTLE_PASSES: usize = 100;

/// What is known of a block between evaluations.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Passes from the clock's rise until the deepest registers have answered.
    latch_passes: usize,
    can_rest: bool,
    rests: bool,
    /// The clock has risen and not yet fallen within the block.
    risen: bool,
    /// Something changed on the last pass of the rise.
    busy: bool,
}

impl Activity {
    /// Of a block that may rest.
    ///
    /// # Panics
    /// When [`Inputs::NAMES`] does not name the block's inputs.
    pub fn of<B: Inputs>(block: &B) -> Self {
        let shape = Shape::of(block);
        let missing = shape.inputs.iter().find(|name| !B::NAMES.contains(&name.as_str()));
        assert_eq!(missing, None, "an input that the list of inputs does not name");
        let Depths { least, most } = shape.registers;
        let can_rest = most > 0 && most - least <= 1 && shape.clocks == 1;
        Activity { latch_passes: most + 1, can_rest, rests: false, risen: false, busy: false }
    }

    /// Of a block that never rests.
    pub fn restless<B: Inputs>(block: &B) -> Self {
        Activity { can_rest: false, ..Self::of(block) }
    }

    /// Gives the block a rising edge while its inputs stand still, as hardware does.
    pub fn rise<B: Block, C: ClockInput>(&mut self, block: &mut B, clock: fn(&mut B) -> &mut C) {
        if self.rests {
            return;
        }
        clock(block).set_level(true);
        for _ in 0..self.latch_passes {
            block.update_all();
        }
        clock(block).set_level(false);
        self.risen = true;
        self.busy = block.has_changed();
        if self.busy {
            // Its outputs follow its registers before others look at them.
            block.update_all();
        } else {
            self.rests = self.can_rest && !clock(block).in_reset();
        }
    }

    /// Settles the block if its clock is to fall or an input has moved. Returns whether its outputs may
    /// have changed since others last looked.
    pub fn settle<B: Inputs>(&mut self, block: &mut B) -> bool {
        let moved = block.moved();
        if !moved && !self.risen {
            return false;
        }
        assert!(simulate(block, SETTLE_PASSES), "a block settles");
        let changed = moved || self.busy;
        self.rests &= !moved;
        self.risen = false;
        self.busy = false;
        changed
    }
}

/// Levels of clock inputs down to the registers of a block; 0 and 0 without registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Depths {
    least: usize,
    most: usize,
}

/// What a probe finds in a block.
#[derive(Debug, Default)]
struct Shape {
    /// Its inputs but for clocks.
    inputs: Vec<String>,
    /// How many clocks it has.
    clocks: usize,
    registers: Depths,
    /// Blocks within blocks that the probe is in: clocks, and the registers found so far.
    open: Vec<(usize, Depths)>,
}

impl Shape {
    fn of<B: Block>(block: &B) -> Self {
        let mut shape = Shape::default();
        block.accept("block", &mut shape);
        shape
    }
}

impl Depths {
    /// Of the registers of both.
    fn with(self, other: Depths) -> Depths {
        match (self.most, other.most) {
            (0, _) => other,
            (_, 0) => self,
            _ => Depths { least: self.least.min(other.least), most: self.most.max(other.most) },
        }
    }
}

impl Probe for Shape {
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.open.push(Default::default());
    }

    fn visit_atom(&mut self, name: &str, signal: &dyn Atom) {
        if signal.kind() != AtomKind::InputParameter {
            return;
        }
        let outermost = self.open.len() == 1;
        let Some((clocks, _)) = self.open.last_mut() else { return };
        let kind = signal.descriptor().name;
        if kind == Clock::descriptor().name || kind == Domain::descriptor().name {
            *clocks += 1;
        } else if outermost {
            self.inputs.push(name.to_owned());
        }
    }

    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        let Some((clocks, within)) = self.open.pop() else { return };
        // A block with a clock and no registers within is one itself.
        let found = match clocks {
            0 => within,
            _ => Depths { least: within.least + 1, most: within.most + 1 },
        };
        match self.open.last_mut() {
            Some((_, registers)) => *registers = registers.with(found),
            None => (self.clocks, self.registers) = (clocks, found),
        }
    }
}
