//! Decides to which groups the accesses of one memory belong.

#[cfg(feature = "access-traces")]
use hmtt_files::access_trace::Function;

use super::super::{AddressSpace, Batch, Known};
use super::instructions::Instructions;
use super::labels::{Label, Labels};
use super::pair::{PairState, Side};
use super::rows::Rows;
#[cfg(feature = "tags")]
use super::tagged::Tagged;
use super::{By, Functions, NOT_KNOWN, Pair};
use crate::decode::Item;

/// The state that decides the group of a memory's accesses.
pub enum Chooser {
    /// All accesses are in one group. `note`: the fact that is not known, or another note.
    One { name: &'static str, note: Option<&'static str> },
    /// The group of an access depends on a pair of marks or tags. `names`: the groups inside and
    /// outside of its stretches.
    Pair { state: PairState, names: [&'static str; 2] },
    /// The group of an access is the thread of its batch.
    Thread,
    /// The group of an access is the function of its instruction.
    Instructions(Instructions),
    /// The groups of an access are the functions that tags in the trace show.
    #[cfg(feature = "tags")]
    Tagged(Box<Tagged>),
}

const NO_KERNEL: &str = "traces of programs have no accesses of the kernel: all are the user's";
const NO_MARKS: &str =
    "traces of programs have no marks: which accesses are between them is not known";
const NO_THREADS: &str = "which thread made the accesses is not known";
const NO_MAP: &str = "which function made the accesses is not known: a map of tags would state it";
const SELF_ONLY: &str =
    "callers of functions are not known: accesses are those of the functions themselves";

impl Chooser {
    /// The chooser for a memory. `known`: the facts that the source knows of the memory.
    pub fn new(by: &By, known: &Known) -> Chooser {
        let is_program = known.address_space == AddressSpace::Virtual;
        match by {
            By::Kernel(_) if is_program => Chooser::One { name: "user", note: Some(NO_KERNEL) },
            By::Kernel(pair) => Chooser::pair(*pair, Side::NotKnown, ["kernel", "user"]),
            By::Mark(_) if is_program => Chooser::One { name: NOT_KNOWN, note: Some(NO_MARKS) },
            By::Mark(pair) => Chooser::pair(*pair, Side::Outside, ["inside", "outside"]),
            By::Thread if known.threads => Chooser::Thread,
            By::Thread => Chooser::One { name: NOT_KNOWN, note: Some(NO_THREADS) },
            By::Function(_) if is_program => Chooser::Instructions(Instructions::default()),
            By::Function(functions) => Chooser::tagged(functions),
        }
    }

    fn pair(pair: Pair, side: Side, names: [&'static str; 2]) -> Chooser {
        Chooser::Pair { state: PairState::new(pair, side), names }
    }

    #[cfg(feature = "tags")]
    fn tagged(functions: &Functions) -> Chooser {
        let none = Chooser::One { name: NOT_KNOWN, note: Some(NO_MAP) };
        let tagged = |map| Chooser::Tagged(Box::new(Tagged::new(map, functions.inclusive)));
        functions.map.clone().map_or(none, tagged)
    }

    #[cfg(not(feature = "tags"))]
    fn tagged(_: &Functions) -> Chooser {
        Chooser::One { name: NOT_KNOWN, note: Some(NO_MAP) }
    }

    /// Takes a record or report between accesses.
    pub fn item(&mut self, item: &Item) {
        match (self, item) {
            (Chooser::Pair { state, .. }, Item::Event(event)) => state.event(event),
            #[cfg(feature = "tags")]
            (Chooser::Tagged(tagged), item) => tagged.item(item),
            _ => {}
        }
    }

    /// Notes that accesses are missing here, or that the card has restarted.
    pub fn lose(&mut self) {
        match self {
            Chooser::Pair { state, .. } => state.lose(),
            #[cfg(feature = "tags")]
            Chooser::Tagged(tagged) => tagged.lose(),
            _ => {}
        }
    }

    /// Takes the next functions of a program.
    #[cfg(feature = "access-traces")]
    pub fn functions(&mut self, functions: &[Function]) {
        if let Chooser::Instructions(instructions) = self {
            instructions.add(functions);
        }
    }

    /// Calls `to` with each group that has accesses in a batch, and with the group's accesses.
    pub fn batch(
        &mut self,
        memory: usize,
        batch: &Batch<'_>,
        labels: &mut Labels,
        rows: &mut Rows,
        mut to: impl FnMut(usize, &Batch<'_>),
    ) {
        let mut named = |name: String| to(labels.number(Label::new(name)), batch);
        match self {
            Chooser::One { name, .. } => named((*name).to_owned()),
            Chooser::Pair { state, names } => named(match state.side {
                Side::Inside => names[0].to_owned(),
                Side::Outside => names[1].to_owned(),
                Side::NotKnown => NOT_KNOWN.to_owned(),
            }),
            Chooser::Thread => named(match (batch.thread(), memory) {
                (None, _) => NOT_KNOWN.to_owned(),
                (Some(thread), 0) => thread.to_string(),
                // Threads of different programs may have the same number.
                (Some(thread), _) => format!("{thread} (source {})", memory + 1),
            }),
            Chooser::Instructions(instructions) => {
                let numbers = batch.functions().unwrap_or_default();
                let number = |row: usize| numbers.get(row).copied().unwrap_or(0);
                rows.each_group(batch, |row| instructions.group(number(row), labels), to);
            }
            #[cfg(feature = "tags")]
            Chooser::Tagged(tagged) => {
                tagged.groups(labels).iter().for_each(|group| to(*group, batch))
            }
        }
    }

    /// A text for people on functions whose tags the card cannot see, so that no group has their
    /// accesses; `None` if there are no such functions.
    pub fn missing(&self) -> Option<String> {
        match self {
            #[cfg(feature = "tags")]
            Chooser::Tagged(tagged) => tagged.unseen().map(|unseen| unseen.to_string()),
            _ => None,
        }
    }

    /// Notes for people on the limits of the groups. `inclusive`: whether all open functions were
    /// asked for.
    pub fn notes(&self, inclusive: bool) -> Vec<String> {
        match self {
            Chooser::One { note, .. } => note.iter().map(|note| (*note).to_owned()).collect(),
            Chooser::Pair { state, names } => pair_notes(state, names),
            Chooser::Instructions(_) if inclusive => vec![SELF_ONLY.to_owned()],
            Chooser::Instructions(_) | Chooser::Thread => Vec::new(),
            #[cfg(feature = "tags")]
            Chooser::Tagged(tagged) => tagged.notes(),
        }
    }
}

/// Notes on unexpected begins and ends of a pair.
fn pair_notes(state: &PairState, names: &[&str; 2]) -> Vec<String> {
    let [begins, ends] = state.found;
    if begins == 0 && ends == 0 {
        let [inside, outside] = names;
        return vec![format!(
            "none of the marks or tags that divide {inside} from {outside} is in it"
        )];
    }
    let mut notes = Vec::new();
    if state.side == Side::Inside {
        notes.push(format!("the last stretch has no end: what follows its begin is {}", names[0]));
    }
    let [again, unbegun] = state.unpaired;
    if again > 0 {
        notes.push(format!("begins within a stretch, which have no effect: {again}"));
    }
    if unbegun > 0 {
        notes.push(format!("ends outside of a stretch, which have no effect: {unbegun}"));
    }
    notes
}
