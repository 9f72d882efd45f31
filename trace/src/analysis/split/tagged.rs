//! Decides to which functions the accesses of a capture belong, by the tags in it, as `hmtt tag
//! report` does.
//!
//! The bus shows no threads: all calls are on one stack, and at a gap all calls end.

use std::collections::HashMap;

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{TagMap, Window};

use super::labels::{Label, Labels};
use crate::decode::Item;
use crate::tags::accesses::bus::Bus;
use crate::tags::accesses::owners::Owner;
use crate::tags::accesses::regions::Regions;
use crate::tags::accesses::unseen::{UnseenFunctions, numbers};
use crate::tags::call_counts::CallCounts;

use crate::tags::names::Names;

/// The calls of a trace, and the groups of their functions.
pub struct Tagged {
    bus: Bus<CallCounts>,
    names: Names,
    window: Option<Window>,
    numbers: Vec<FunctionId>,
    inclusive: bool,
    /// Groups by owner.
    groups: HashMap<Owner, usize>,
    /// Groups of the next access. Computed again after each record or report, because a call may
    /// have changed.
    current: Option<Vec<usize>>,
    tags: u64,
}

impl Tagged {
    /// Begins without calls.
    pub fn new(map: TagMap, inclusive: bool) -> Tagged {
        let window = map.window.clone();
        let numbers = numbers(&map);
        let names = Names::new(map);
        // Blocks are parts of functions, and need not be distinguished.
        let bus = Bus::new(window.clone(), Regions::new(&names), CallCounts::default());
        let (groups, current) = (HashMap::new(), None);
        Tagged { bus, names, window, numbers, inclusive, groups, current, tags: 0 }
    }

    /// Takes a record or report.
    pub fn item(&mut self, item: &Item) {
        self.tags += u64::from(matches!(item, Item::Event(hmtt_format::Event::Tag { .. })));
        self.bus.item(item);
        self.current = None;
    }

    /// Forgets all calls, because records are missing here.
    pub fn lose(&mut self) {
        self.bus.item(&Item::Restart);
        self.current = None;
    }

    /// The groups of the next access, each listed once.
    pub fn groups(&mut self, labels: &mut Labels) -> &[usize] {
        let Tagged { bus, names, inclusive, groups, current, .. } = self;
        current.get_or_insert_with(|| {
            let now = &bus.threads.listener.1.now;
            let mut number = |owner: Owner| {
                *groups.entry(owner).or_insert_with(|| labels.number(label(owner, names)))
            };
            if !*inclusive {
                return vec![number(now.own())];
            }
            let mut numbers: Vec<usize> = now.inclusive().map(number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        })
    }

    /// Functions whose calls cannot be in the trace.
    pub fn unseen(&self) -> Option<UnseenFunctions> {
        UnseenFunctions::find(&self.numbers, self.window.as_ref(), &self.bus.steps)
    }

    /// Notes for people on the limits of the groups.
    pub fn notes(&self) -> Vec<String> {
        let none = "no tag is in it: which function made the accesses is not known".to_owned();
        if self.tags == 0 { vec![none] } else { Vec::new() }
    }
}

/// The label of the group of an owner.
fn label(owner: Owner, names: &Names) -> Label {
    match owner {
        Owner::Function(number) => {
            let object = names.function(number).map(|function| function.object.clone());
            let object = object.map(|path| path.display().to_string()).unwrap_or_default();
            Label { name: names.get(number).into_owned(), object }
        }
        Owner::SeveralThreads => Label::new("(several threads)"),
        _ => Label::new("(no function)"),
    }
}
