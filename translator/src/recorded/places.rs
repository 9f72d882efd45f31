//! Decides which registers are stored in slots, and how the addresses of accesses are derived from
//! the slots.
//!
//! The address of an access is a [node](super::registers) plus a constant. A node is *known* if its
//! value is in a slot or derived from slots. Otherwise it is made known before the access, in one
//! of three ways:
//!
//! - If it is computed from one value that a register holds, that register is stored. Where another
//!   register holds the node itself, this is done only if further addresses need the value.
//! - If it is computed from two such values, and other addresses of the path are computed from
//!   both, the two registers are stored.
//! - Otherwise the sum of the access's own registers is stored.
//!
//! ```text
//! instruction              slot    address
//! mov  rax, [rdi]          0: rdi  slot 0
//! mov  rdx, [rdi + 8*rcx]  1: rcx  slot 0 + 8 * slot 1, derived
//! mov  rsi, [rcx]                  slot 1
//! ```
//!
//! If the second instruction were alone, it would have one slot with the sum `rdi + 8*rcx`.
//!
//! If the path is repeated, the registers from which its addresses are computed are known from its
//! start on. They are in slots, or [taken](Source::Taken) from the execution before it.

use std::collections::{HashMap, HashSet};

use hmtt_files::access_trace::{Derived, Kept, Operation, SLOT_BYTES};
use iced_x86::Register;

use super::registers::{Kind, Node, Nodes, State, Value};
use super::{Content, Slot};
use crate::memory_accesses::{COMPACTED, Lanes, Mask, StateComponent, preceding};
use crate::selection::{Operand, general};

/// Maximum number of values that are derived for one access, which needs at most two slots besides.
const MOST_DERIVED: usize = 6;

/// The address of an access, and the values of registers before it.
#[derive(Clone, Debug)]
pub struct Addressed {
    /// Index of its instruction.
    pub operation: usize,
    /// The address.
    pub value: Value,
    /// The registers and the displacement that the instruction names.
    pub operand: Operand,
    registers: [Value; 16],
}

impl Addressed {
    /// Evaluates an operand with the values of registers before its instruction. A vector index is
    /// left out. `None`: a register of the operand is no general register.
    pub fn new(operation: usize, operand: Operand, state: &mut State) -> Option<Self> {
        let operand = if operand.index.is_vector_register() {
            Operand { index: Register::None, scale: 1, ..operand }
        } else {
            operand
        };
        let Operand { base, index, scale, displacement, is_narrow, alignment, .. } = operand;
        let value = state.address([base, index], scale.into(), displacement)?;
        let value = if is_narrow { state.nodes.low_half(value) } else { value };
        let value = if alignment > 0 { state.nodes.aligned(value, alignment) } else { value };
        Some(Addressed { operation, value, operand, registers: state.values })
    }

    /// Finds a register that holds a node plus a constant, and returns that constant, too.
    fn holder(&self, node: Node) -> Option<(Register, i64)> {
        let holds = |value: &Value| value.node == Some(node);
        let number = self.registers.iter().position(holds)?;
        Some((general(number), self.registers[number].plus))
    }
}

/// Where the value of a node is: in a slot or a derived value, plus a constant.
#[derive(Clone, Copy, Debug)]
struct Known {
    source: Source,
    plus: i64,
}

/// A slot, taken value or derived value, by its index among its kind.
#[derive(Clone, Copy, Debug)]
enum Source {
    Slot(u16),
    Taken(u16),
    Derived(u16),
}

/// A derived value, while slots are still added.
#[derive(Clone, Copy, Debug)]
struct Step {
    of: Source,
    plus: i64,
    operation: Operation,
    /// The other value of a sum.
    other: Option<Source>,
}

/// Where an address is, while slots are still added.
#[derive(Clone, Copy, Debug)]
pub struct Located(Known);

/// Where a kept value is, while slots are still added.
#[derive(Clone, Copy, Debug)]
pub struct Keeping(Known);

/// The slots and derived values of a path, and the nodes that are known by them. Readers number
/// slots first, then taken values, then derived ones. So the index of a derived value follows only
/// when all slots have been added.
#[derive(Debug)]
pub struct Places<'n> {
    nodes: &'n Nodes,
    /// For each node: number of the nodes of addresses that need it. Addresses that differ by a
    /// constant have one node.
    uses: Vec<u32>,
    known: HashMap<Node, Known>,
    /// The slots, in the order in which they are stored.
    pub slots: Vec<Slot>,
    /// Number of values that are taken from the execution before.
    pub taken: u16,
    steps: Vec<Step>,
    /// Where the next component of the processor's state begins, by instruction and by number of
    /// the component before it. Only with the compacted format of `xsavec`.
    compacted: HashMap<(usize, u8), Known>,
}

impl<'n> Places<'n> {
    /// Prepares for accesses with these addresses: counts how many of them need each node.
    pub fn new<'a>(nodes: &'n Nodes, addresses: impl Iterator<Item = &'a Value>) -> Self {
        let addresses: HashSet<Node> = addresses.filter_map(|value| value.node).collect();
        let mut uses = Vec::new();
        for address in addresses {
            let (mut seen, mut left) = (HashSet::new(), vec![address]);
            while let Some(node) = left.pop() {
                if seen.insert(node) {
                    uses.resize(uses.len().max(node as usize + 1), 0);
                    uses[node as usize] += 1;
                    left.extend(nodes.sources(node));
                }
            }
        }
        Places {
            nodes,
            uses,
            known: HashMap::new(),
            slots: Vec::new(),
            taken: 0,
            steps: Vec::new(),
            compacted: HashMap::new(),
        }
    }

    /// Numbers of the registers whose values at the start of the path are needed for addresses,
    /// ascending.
    pub fn needed_at_start(&self) -> Vec<usize> {
        let at_start = |register: &usize| self.nodes.at_start(*register);
        let is_used = |register: &usize| {
            self.uses.get(at_start(register) as usize).is_some_and(|uses| *uses > 0)
        };
        (0..16).filter(is_used).collect()
    }

    /// Makes a register at the start of the path known by taking it from the execution before.
    pub fn take(&mut self, register: usize) {
        let known = Known { source: Source::Taken(self.taken), plus: 0 };
        self.taken += 1;
        self.known.insert(self.nodes.at_start(register), known);
    }

    /// Makes a register at the start of the path known by a slot.
    pub fn store_at_start(&mut self, number: usize) {
        let slot = self.slot(0, false, register(general(number)));
        let known = Known { source: Source::Slot(slot), plus: 0 };
        self.known.insert(self.nodes.at_start(number), known);
    }

    /// Keeps a value that a register holds at the end of the path. `None`: it cannot be derived
    /// from what is known then.
    pub fn keep(&mut self, value: Value) -> Option<Keeping> {
        let node = value.node?;
        let mut derived = Vec::new();
        if !self.can_derive(node, &mut derived) || derived.len() > MOST_DERIVED {
            return None;
        }
        derived.into_iter().for_each(|node| self.derive(node));
        let known = *self.known.get(&node)?;
        Some(Keeping(Known { plus: known.plus.wrapping_add(value.plus), ..known }))
    }

    /// Finds the nodes that must be derived so that a node is known, each after its sources.
    /// Returns whether the node can be derived without another slot.
    fn can_derive(&self, node: Node, derived: &mut Vec<Node>) -> bool {
        if self.known.contains_key(&node) || derived.contains(&node) {
            return true;
        }
        let mut sources = self.nodes.sources(node).peekable();
        let is_computed = sources.peek().is_some();
        let is_known = is_computed && sources.all(|source| self.can_derive(source, derived));
        if is_known {
            derived.push(node);
        }
        is_known
    }

    /// Describes a kept value, once all slots have been added.
    pub fn kept(&self, Keeping(known): Keeping) -> Kept {
        Kept { value: self.index(known.source), plus: known.plus }
    }

    /// Returns where the address of an access is, and makes its node known if it is not. Must be
    /// called in program order. `node`: the node of the address.
    pub fn locate(&mut self, addressed: &Addressed, node: Node) -> Located {
        let Value { plus, .. } = addressed.value;
        let known = match self.known.get(&node) {
            Some(known) => *known,
            None => self.make_known(addressed, node),
        };
        Located(Known { plus: known.plus.wrapping_add(plus), ..known })
    }

    /// Adds a slot with a sum of registers, and returns its index. `is_after`: whether it is stored
    /// after the instruction.
    pub fn slot(&mut self, operation: usize, is_after: bool, sum: Operand) -> u16 {
        self.push(Slot { operation, is_after, content: Content::Sum(sum) })
    }

    /// Returns the slot with the mask of lanes, and the number of the first lane's bit in it. The
    /// slot is added unless the instruction has it already. The slot is `None` if all lanes are
    /// active.
    pub fn mask(&mut self, operation: usize, lanes: &Lanes) -> (Option<u16>, u8) {
        let (content, first_bit) = match lanes.mask {
            None => return (None, 0),
            Some(Mask::Bits(register)) => (Content::Bits { register, count: lanes.lanes }, 0),
            Some(Mask::Signs { register, bytes }) => (Content::Signs { register, bytes }, 0),
            Some(Mask::Flags { register: base, first_bit }) => {
                (Content::Sum(register(base)), first_bit)
            }
        };
        let slot = Slot { operation, is_after: false, content };
        let same = self.slots.iter().rposition(|one| *one == slot);
        let slot = same.map_or_else(|| self.push(slot), |same| same as u16);
        (Some(slot), first_bit)
    }

    /// Returns where a component of the processor's state is in the compacted format: after the
    /// earlier components that are in use. `flags`: slot with the flags of the components in use.
    /// `None`: the place depends on more than sizes.
    ///
    /// If only the components 2 and 5 precede it, with 256 and 64 bytes, component 9 is at `start +
    /// 576 + 256 * flag 2 + 64 * flag 5`. Each product is derived by a shift, a mask and a factor.
    pub fn compacted(
        &mut self,
        operation: usize,
        Located(start): Located,
        flags: u16,
        component: u8,
    ) -> Option<Located> {
        let mut place = Known { plus: start.plus.wrapping_add(COMPACTED.into()), ..start };
        for StateComponent { number, size, .. } in preceding(component)? {
            if let Some(known) = self.compacted.get(&(operation, *number)) {
                place = *known;
                continue;
            }
            let size = u64::from(*size);
            let mut source = Source::Slot(flags);
            for step in [
                Operation::ShiftedRight { by: *number },
                Operation::Masked { mask: 1 },
                Operation::Product { by: size },
            ] {
                source =
                    self.step(Step { of: source, plus: 0, operation: step, other: None }).source;
            }
            let (sum, plus) = (Operation::Sum { other: 0 }, place.plus);
            place = self.step(Step { of: place.source, plus, operation: sum, other: Some(source) });
            self.compacted.insert((operation, *number), place);
        }
        Some(Located(place))
    }

    /// Adds one slot for each 8 bytes of a vector. Returns the index of the first one.
    pub fn vector(&mut self, operation: usize, register: Register) -> u16 {
        let first = self.slots.len() as u16;
        for part in 0..(register.size() / SLOT_BYTES) as u8 {
            let content = Content::Vector { register, part };
            self.push(Slot { operation, is_after: false, content });
        }
        first
    }

    /// Adds a slot, and returns its index.
    fn push(&mut self, slot: Slot) -> u16 {
        self.slots.push(slot);
        (self.slots.len() - 1) as u16
    }

    /// Makes a node known that is not known yet, in one of the three ways that the module
    /// describes.
    fn make_known(&mut self, addressed: &Addressed, node: Node) -> Known {
        let (mut stored, mut derived) = (Vec::new(), Vec::new());
        let can_derive = self.needs(addressed, node, &mut stored, &mut derived);
        let is_shared = |node: &Node| self.uses.get(*node as usize).is_some_and(|uses| *uses > 1);
        let is_worth_it = match stored.len() {
            0 => true,
            1 => derived.is_empty() || is_shared(&stored[0]) || addressed.holder(node).is_none(),
            _ => stored.iter().all(is_shared),
        };
        if can_derive && is_worth_it && derived.len() <= MOST_DERIVED && stored.len() <= 2 {
            stored.into_iter().for_each(|node| self.store(addressed, node));
            derived.into_iter().for_each(|node| self.derive(node));
            return self.known[&node];
        }
        // Stores the sum of the access's own registers.
        let Operand { displacement, is_narrow, .. } = addressed.operand;
        let displacement = if is_narrow { displacement } else { 0 };
        let sum = Operand { displacement, ..addressed.operand };
        let slot = self.slot(addressed.operation, false, sum);
        let added = addressed.operand.displacement.wrapping_sub(displacement);
        let plus = if is_narrow { 0 } else { added.wrapping_sub(addressed.value.plus) };
        let mut known = Known { source: Source::Slot(slot), plus };
        if let Kind::Computed(.., operation) = self.nodes.kind(node)
            && addressed.operand.alignment > 0
        {
            known = self.step(Step { of: known.source, plus: 0, operation, other: None });
        }
        self.known.insert(node, known);
        known
    }

    /// Finds the nodes that must be stored and derived so that a node is known, each after its
    /// sources. Returns whether that is possible: each stored node must be held by a register
    /// before the access.
    fn needs(
        &self,
        addressed: &Addressed,
        node: Node,
        stored: &mut Vec<Node>,
        derived: &mut Vec<Node>,
    ) -> bool {
        if self.known.contains_key(&node) || stored.contains(&node) || derived.contains(&node) {
            return true;
        }
        let before = (stored.len(), derived.len());
        let mut sources = self.nodes.sources(node).peekable();
        let is_computed = sources.peek().is_some();
        if is_computed && sources.all(|source| self.needs(addressed, source, stored, derived)) {
            derived.push(node);
            return true;
        }
        stored.truncate(before.0);
        derived.truncate(before.1);
        let is_held = addressed.holder(node).is_some();
        if is_held {
            stored.push(node);
        }
        is_held
    }

    /// Makes a node known by a slot with the register that holds it.
    fn store(&mut self, addressed: &Addressed, node: Node) {
        let Some((base, plus)) = addressed.holder(node) else { return };
        let slot = self.slot(addressed.operation, false, register(base));
        let known = Known { source: Source::Slot(slot), plus: plus.wrapping_neg() };
        self.known.insert(node, known);
    }

    /// Makes a node known whose sources are known.
    fn derive(&mut self, node: Node) {
        let step = match self.nodes.kind(node) {
            Kind::Unknown(..) => return,
            Kind::Sum(left, right) => {
                let (left, right) = (self.known[&left], self.known[&right]);
                let plus = left.plus.wrapping_add(right.plus);
                let operation = Operation::Sum { other: 0 };
                Step { of: left.source, plus, operation, other: Some(right.source) }
            }
            Kind::Computed(operand, plus, operation) => {
                let operand = self.known[&operand];
                let plus = operand.plus.wrapping_add(plus);
                Step { of: operand.source, plus, operation, other: None }
            }
        };
        let known = self.step(step);
        self.known.insert(node, known);
    }

    /// Adds a derived value, and returns where it is.
    fn step(&mut self, step: Step) -> Known {
        let source = Source::Derived(self.steps.len() as u16);
        self.steps.push(step);
        Known { source, plus: 0 }
    }

    /// The index of a value for readers, once all slots have been added.
    fn index(&self, source: Source) -> u16 {
        match source {
            Source::Slot(slot) => slot,
            Source::Taken(index) => self.slots.len() as u16 + index,
            Source::Derived(step) => self.slots.len() as u16 + self.taken + step,
        }
    }

    /// The index of the value that an address follows from, and the constant that is added to it,
    /// once all slots have been added.
    pub fn place(&self, located: Located) -> (u16, i64) {
        (self.index(located.0.source), located.0.plus)
    }

    /// Describes the derived values, once all slots have been added.
    pub fn derived(&self) -> Vec<Derived> {
        let derived = |step: &Step| {
            let operation = match step.other {
                Some(other) => Operation::Sum { other: self.index(other) },
                None => step.operation,
            };
            Derived { of: self.index(step.of), plus: step.plus, operation }
        };
        self.steps.iter().map(derived).collect()
    }
}

/// An operand with a base register only.
pub const fn register(base: Register) -> Operand {
    let index = Register::None;
    let (is_narrow, is_fs) = (false, false);
    Operand { base, index, scale: 1, displacement: 0, is_narrow, is_fs, alignment: 0 }
}
