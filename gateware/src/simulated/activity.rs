//! Decides when a block of the card is evaluated: at a rising edge unless nothing can change, and
//! when one of its inputs changes.
//!
//! rust-hdl evaluates a block in passes over all blocks that it contains. After a clock edge, each
//! pass reaches one level of blocks further down to the registers, and a register changes in the
//! pass after the one that has reached it. Suppose that nothing changes in the pass in which the
//! deepest registers would change. Then each register has the value of its data input, as before
//! the edge, and further edges change nothing either, until an input changes. So the block is idle,
//! and its edges are skipped.
//!
//! This is valid only if the depths of the registers differ by one level at most; else the change
//! of a shallow register would be over before the examined pass. The block must also have one
//! clock, and no state other than registers and block RAM (writing a word of block RAM again
//! changes nothing). Other blocks are never idle. A block in reset is not idle either, because
//! block RAM is then cleared word by word without a visible change.

use rust_hdl::prelude::*;

use super::inputs::{ClockInput, Inputs};
use crate::reset::Domain;

/// Limit of passes, more than the blocks of the longest combinational path.
pub const SETTLE_PASSES: usize = 100;

/// State of a block from one evaluation to the next.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Passes from the rising edge until the deepest registers have changed.
    latch_passes: usize,
    can_idle: bool,
    idle: bool,
    /// The clock has risen in the block and not fallen yet.
    risen: bool,
    /// A signal changed in the last pass of the rising edge.
    busy: bool,
}

impl Activity {
    /// Returns the state of a block that may be idle.
    ///
    /// # Panics
    /// When [`Inputs::names`] does not name the block's inputs.
    pub fn of<B: Inputs>(block: &B) -> Self {
        let shape = Shape::of(block);
        let listed = block.names();
        let missing = shape.inputs.iter().find(|name| !listed.contains(name));
        assert_eq!(missing, None, "an input that the list of inputs does not name");
        let Depths { least, most } = shape.registers;
        let can_idle = most > 0 && most - least <= 1 && shape.clocks == 1;
        Activity { latch_passes: most + 1, can_idle, idle: false, risen: false, busy: false }
    }

    /// Returns the state of a block that is never idle.
    pub fn restless<B: Inputs>(block: &B) -> Self {
        Activity { can_idle: false, ..Self::of(block) }
    }

    /// Gives the block a rising edge while its inputs do not change, as in hardware.
    pub fn rise<B: Block, C: ClockInput>(&mut self, block: &mut B, clock: fn(&mut B) -> &mut C) {
        if self.idle {
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
            // Outputs must follow the registers before other blocks read them.
            block.update_all();
        } else {
            self.idle = self.can_idle && !clock(block).in_reset();
        }
    }

    /// Settles the block if its clock must fall or an input has changed. Returns whether its
    /// outputs may have changed since other blocks read them.
    pub fn settle<B: Inputs>(&mut self, block: &mut B) -> bool {
        let moved = block.moved();
        if !moved && !self.risen {
            return false;
        }
        assert!(simulate(block, SETTLE_PASSES), "a block settles");
        let changed = moved || self.busy;
        self.idle &= !moved;
        self.risen = false;
        self.busy = false;
        changed
    }
}

/// Levels of clock inputs down to the registers of a block; 0 without registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Depths {
    least: usize,
    most: usize,
}

/// Inputs, clocks and registers of a block.
#[derive(Debug, Default)]
struct Shape {
    /// Inputs, without clocks.
    inputs: Vec<String>,
    /// Number of clocks.
    clocks: usize,
    registers: Depths,
    /// Clocks and registers found so far, of each block that the probe is inside of.
    open: Vec<(usize, Depths)>,
    /// Names of the bundles of ports that the probe is inside of.
    bundles: Vec<String>,
}

impl Shape {
    fn of<B: Block>(block: &B) -> Self {
        let mut shape = Shape::default();
        block.accept("block", &mut shape);
        shape
    }
}

impl Depths {
    /// Returns the depths of both sets of registers.
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
            let bundles = self.bundles.iter().map(String::as_str);
            self.inputs.push(bundles.chain([name]).collect::<Vec<_>>().join("$"));
        }
    }

    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.bundles.push(name.to_owned());
    }

    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.bundles.pop();
    }

    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        let Some((clocks, within)) = self.open.pop() else { return };
        // A block with a clock and without registers is a register itself.
        let depths = match clocks {
            0 => within,
            _ => Depths { least: within.least + 1, most: within.most + 1 },
        };
        match self.open.last_mut() {
            Some((_, registers)) => *registers = registers.with(depths),
            None => (self.clocks, self.registers) = (clocks, depths),
        }
    }
}
