//! Lists the calls and tail calls of a file, by kind.

use std::fmt;

use iced_x86::{Code, FlowControl, Instruction};

use super::body::Body;
use super::code_index::fragment_at;
use super::exit_site::{self, ExitKind};
use super::{in_parallel, is_call};
use crate::elf::{Function, Image};

/// Way in which an instruction transfers control to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteKind {
    /// `call rel32` of a function of the file.
    Call,
    /// `call rel32` of an address that is no function of the file: an entry of the procedure
    /// linkage table.
    CallLinkage,
    /// `call [rip+disp32]`: through the global offset table, or a pointer at a fixed address.
    CallPointer,
    /// `call` through a register or computed memory.
    CallComputed,
    /// `jmp` to the first instruction of another function.
    Jump,
    /// Conditional jump to the first instruction of another function.
    JumpConditional,
    /// Jump out of the function to an address that is no function of the file.
    JumpLinkage,
    /// A jump out of the function through a register or memory.
    JumpComputed,
}

impl SiteKind {
    /// All kinds, in the order of lists.
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

    /// Identifier in machine-readable output.
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

    /// Whether control returns to the next instruction.
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

/// An instruction that transfers control to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Address of the instruction.
    pub address: u64,
    /// Way in which the instruction transfers control.
    pub kind: SiteKind,
    /// Start of the function that the instruction leads to; `None` if it is unknown or in another
    /// file.
    pub target: Option<u64>,
}

/// Finds the sites in all functions that can be decoded, and in their separate parts.
pub(super) fn find(image: &Image) -> Vec<Site> {
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
            let position =
                image.functions.binary_search_by_key(&address, |function| function.start);
            position.is_ok().then_some(address)
        };
        let (kind, target) = if is_call(instruction) {
            let target = function(instruction.near_branch_target());
            (call(instruction, target), target)
        } else {
            match exit_site::find(image, body, index)? {
                ExitKind::Return => return None,
                ExitKind::Computed => (SiteKind::JumpComputed, None),
                ExitKind::Jump(address) => {
                    let target = function(address);
                    // A separate part is no function. The jump to it comes from its own function.
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
