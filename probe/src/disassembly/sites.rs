//! All instructions of a file to the places that call functions or go on as others, by kind.

use std::fmt;

use iced_x86::{Code, FlowControl, Instruction};

use super::body::Body;
use super::flow::fragment_at;
use super::leaving::{self, Leaving};
use super::{in_parallel, is_call};
use crate::elf::{Function, Image};

/// A way to get to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteKind {
    /// `call rel32` of a function of the file.
    Call,
    /// `call rel32` of something that is no function of the file: an entry of the procedure linkage table.
    CallLinkage,
    /// `call [rip+disp32]`: through the global offset table, or a pointer at a fixed place.
    CallPointer,
    /// `call` of what a register or other memory holds.
    CallComputed,
    /// `jmp` to another function's first instruction.
    Jump,
    /// A conditional jump there.
    JumpConditional,
    /// A jump out of the function, to what is no function of the file.
    JumpLinkage,
    /// A jump out of the function through a register or memory.
    JumpComputed,
}

impl SiteKind {
    /// All, in the order of lists.
    pub const ALL: [SiteKind; 8] = [
        SiteKind::Call,
        SiteKind::CallLinkage,
        SiteKind::CallPointer,
        SiteKind::CallComputed,
        SiteKind::Jump,
        SiteKind::JumpConditional,
        SiteKind::JumpLinkage,
        SiteKind::JumpComputed,
    ];

    /// For programs that read lists.
    pub fn name(self) -> &'static str {
        match self {
            SiteKind::Call => "call",
            SiteKind::CallLinkage => "call_plt",
            SiteKind::CallPointer => "call_pointer",
            SiteKind::CallComputed => "call_computed",
            SiteKind::Jump => "jump",
            SiteKind::JumpConditional => "jump_conditional",
            SiteKind::JumpLinkage => "jump_plt",
            SiteKind::JumpComputed => "jump_computed",
        }
    }

    /// Whether it comes back to what is behind it.
    pub fn is_call(self) -> bool {
        matches!(
            self,
            SiteKind::Call | SiteKind::CallLinkage | SiteKind::CallPointer | SiteKind::CallComputed
        )
    }
}

impl fmt::Display for SiteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SiteKind::Call => "calls",
            SiteKind::CallLinkage => "calls through the PLT",
            SiteKind::CallPointer => "calls through a pointer at a fixed place (GOT)",
            SiteKind::CallComputed => "calls through a register or computed memory",
            SiteKind::Jump => "tail jumps",
            SiteKind::JumpConditional => "conditional tail jumps",
            SiteKind::JumpLinkage => "tail jumps through the PLT",
            SiteKind::JumpComputed => "tail jumps through a register or memory",
        })
    }
}

/// A place that leads to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address.
    pub address: u64,
    /// How it leads there.
    pub kind: SiteKind,
    /// The function of the file that it names.
    pub target: Option<u64>,
}

/// The sites in all functions that can be read, and in their parts that lie apart.
pub(super) fn of(image: &Image) -> Vec<Site> {
    let some = |functions: &[Function]| {
        functions.iter().flat_map(|function| in_function(image, function)).collect::<Vec<_>>()
    };
    let mut sites: Vec<Site> = in_parallel(&image.functions, some).into_iter().flatten().collect();
    let apart = image.fragments.iter().filter_map(|range| {
        let owner = range.clone();
        Body::read(image, range.clone(), owner).ok()
    });
    sites.extend(apart.flat_map(|body| in_body(image, &body)));
    sites.sort_unstable_by_key(|site| site.address);
    sites.dedup_by_key(|site| site.address);
    sites
}

fn in_function(image: &Image, function: &Function) -> Vec<Site> {
    let range = function.start..function.start + function.size;
    let body = Body::read(image, range.clone(), range);
    body.map_or_else(|_| Vec::new(), |body| in_body(image, &body))
}

fn in_body(image: &Image, body: &Body) -> Vec<Site> {
    let site = |(index, instruction): (usize, &Instruction)| {
        let function = |address| {
            let found = image.functions.binary_search_by_key(&address, |one| one.start);
            found.is_ok().then_some(address)
        };
        let (kind, target) = if is_call(instruction) {
            let target = function(instruction.near_branch_target());
            (call(instruction, target), target)
        } else {
            match leaving::of(image, body, index)? {
                Leaving::Return => return None,
                Leaving::Computed => (SiteKind::JumpComputed, None),
                Leaving::Jump(address) => {
                    let target = function(address);
                    // A part that lies apart is no function, and comes from one.
                    if target.is_none() && fragment_at(image, address).is_some() {
                        return None;
                    }
                    (jump(instruction, target), target)
                }
            }
        };
        Some(Site { address: instruction.ip(), kind, target })
    };
    body.instructions.iter().enumerate().filter_map(site).collect()
}

fn call(instruction: &Instruction, target: Option<u64>) -> SiteKind {
    match (instruction.code(), target) {
        (Code::Call_rel32_64, Some(_)) => SiteKind::Call,
        (Code::Call_rel32_64, None) => SiteKind::CallLinkage,
        _ if instruction.is_ip_rel_memory_operand() => SiteKind::CallPointer,
        _ => SiteKind::CallComputed,
    }
}

fn jump(instruction: &Instruction, target: Option<u64>) -> SiteKind {
    match (instruction.flow_control(), target) {
        (_, None) => SiteKind::JumpLinkage,
        (FlowControl::ConditionalBranch, _) => SiteKind::JumpConditional,
        _ => SiteKind::Jump,
    }
}
