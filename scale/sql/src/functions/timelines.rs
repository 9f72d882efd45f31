//! Finds the innermost open function of a program at each clock of a session.
//!
//! Calls are found by the tags on the bus and the map of their numbers, or by a log of tags that
//! shares marks with the trace, as `hmtt tag report` does. Invariant: the changes of a timeline are
//! in the order of clocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use hmtt::CardId;
use hmtt::decode::{Gap, Item};
use hmtt::merge::CardSession;
use hmtt::tags::accesses::bus::Bus;
use hmtt::tags::accesses::current_owners::CurrentOwners;
use hmtt::tags::accesses::log_calls::{CallEventKind, LogCalls, LogIndex};
use hmtt::tags::accesses::owners::{Owner, Owners};
use hmtt::tags::accesses::regions::Regions;
use hmtt::tags::accesses::sync::LogSync;
use hmtt::tags::call_counts::CallCounts;
use hmtt::tags::log_reader::LogReader;
use hmtt::tags::names::Names;
use hmtt::tags::threads::Threads;
use hmtt_files::tag_map::TagMap;
use hmtt_format::{Cycles, Direction, Event};

/// Source of the functions that tags stand for.
#[derive(Clone, Debug)]
pub enum TagSource {
    /// The map of tag numbers to functions, for tags on the bus.
    Map(PathBuf),
    /// A log that shares marks with the trace. Its map is beside it.
    Log(PathBuf),
}

/// A session of a card: the hash of its capture, as text, and its number.
pub type SessionKey = (String, i64);

/// A row of the table of tags, or a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A write to the window: its offset, and its address if it is known.
    Window(u32, Option<u64>),
    /// A mark, with its register.
    Mark(u32),
    /// Records or accesses are missing after this clock.
    Gap,
}

/// The tags of a session, with their clocks, and the period of its clock.
#[derive(Clone, Debug, Default)]
pub struct SessionTags {
    /// Tags with their clocks, in any order.
    pub tags: Vec<(u64, Tag)>,
    /// Clock period in picoseconds.
    pub tck_ps: Option<u32>,
}

/// The innermost function at each clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// First clock of each function and number of its name, in ascending order of the clocks.
    pub changes: Vec<(i64, u32)>,
}

/// Timelines of all sessions, which are loaded when a query needs them.
#[derive(Debug, Default)]
pub struct Timelines(OnceLock<Known>);

/// The loaded timelines.
#[derive(Debug, Default)]
pub struct Known {
    /// Names of functions.
    pub names: Vec<Arc<str>>,
    /// Timelines by capture and session.
    pub sessions: BTreeMap<SessionKey, Timeline>,
}

impl From<Known> for Timelines {
    fn from(known: Known) -> Self {
        Timelines(OnceLock::from(known))
    }
}

impl Timelines {
    /// The loaded timelines; `None` if nothing is loaded.
    pub fn get(&self) -> Option<&Known> {
        self.0.get()
    }

    /// Finds the calls of all sessions.
    ///
    /// # Errors
    /// The map or the log cannot be read; or no session has the marks of the log.
    pub fn load(
        &self,
        source: &TagSource,
        sessions: BTreeMap<SessionKey, SessionTags>,
    ) -> Result<()> {
        let known = match source {
            TagSource::Map(path) => of_bus(TagMap::load(path)?, sessions),
            TagSource::Log(path) => {
                of_log(path, &sessions).with_context(|| path.display().to_string())?
            }
        };
        let _ = self.0.set(known);
        Ok(())
    }
}

/// Numbers of names.
#[derive(Default)]
struct Numbers {
    names: Vec<Arc<str>>,
    owners: BTreeMap<Owner, u32>,
}

impl Numbers {
    fn of(&mut self, owner: Owner, names: &Names) -> u32 {
        *self.owners.entry(owner).or_insert_with(|| {
            self.names.push(match owner {
                Owner::Function(number) => names.shared(number),
                Owner::SeveralThreads => "(several threads)".into(),
                _ => "(no function)".into(),
            });
            (self.names.len() - 1) as u32
        })
    }
}

impl Timeline {
    /// Sets the innermost function from a clock on. Later changes at the same clock replace earlier
    /// ones.
    fn change(&mut self, clock: u64, name: u32) {
        let clock = i64::try_from(clock).unwrap_or(i64::MAX);
        let clock = self.changes.last().map_or(clock, |(last, _)| clock.max(*last));
        if self.changes.last().is_some_and(|(last, _)| *last == clock) {
            self.changes.pop();
        }
        if self.changes.last().is_none_or(|(_, before)| *before != name) {
            self.changes.push((clock, name));
        }
    }
}

/// Builds the timelines from the tags on the bus.
fn of_bus(map: TagMap, sessions: BTreeMap<SessionKey, SessionTags>) -> Known {
    let window = map.window.clone();
    let names = Names::new(map);
    let (mut numbers, mut known) = (Numbers::default(), Known::default());
    let loss = Gap { frames: 1, ..Gap::default() };
    for (key, mut session) in sessions {
        session.tags.sort_by_key(|(clock, _)| *clock);
        let mut bus = Bus::new(window.clone(), Regions::new(&names), CallCounts::default());
        let mut timeline = Timeline::default();
        for (clock, tag) in session.tags {
            let from = match tag {
                Tag::Window(offset, address) => {
                    let base = address.and_then(|address| address.checked_sub(offset.into()));
                    bus.steps.window = base.or(bus.steps.window);
                    let (clock, address) = (Cycles(clock), None);
                    let direction = Direction::Write;
                    bus.item(&Item::Event(Event::Tag { clock, direction, offset, address }));
                    clock.0
                }
                Tag::Gap => {
                    bus.item(&Item::Gap(Box::new(loss)));
                    clock.saturating_add(1)
                }
                Tag::Mark(_) => continue,
            };
            let owner = bus.threads.listener.1.now.own();
            timeline.change(from, numbers.of(owner, &names));
        }
        if !timeline.changes.is_empty() {
            known.sessions.insert(key, timeline);
        }
    }
    known.names = numbers.names;
    known
}

/// Builds the timelines from a log of tags.
fn of_log(path: &std::path::Path, sessions: &BTreeMap<SessionKey, SessionTags>) -> Result<Known> {
    let file = File::open(path).context("cannot open")?;
    let mut reader = LogReader::new(file)?;
    let header = *reader.header();
    if !header.is_timed || header.tsc_hz == 0 {
        bail!(
            "has no times, or the length of its ticks is unknown, so it cannot be combined with a trace"
        );
    }
    let map = TagMap::load(&TagMap::path_beside(path))?;
    if map.id != header.map_id {
        bail!("{} is the map of another log", TagMap::path_beside(path).display());
    }
    let names = Names::new(map);
    let mut threads = Threads::new(true, names.functions_of_blocks(), CallCounts::default());
    let mut index = LogIndex::default();
    let mut offset = reader.offset();
    while let Some(chunk) = reader.next_chunk()? {
        index.note(&chunk, offset);
        threads.chunk(&chunk).with_context(|| format!("offset {offset}"))?;
        offset = reader.offset();
    }
    threads.finish();
    let card_sessions: Vec<CardSession> = (0..)
        .zip(sessions.values())
        .map(|(number, session)| {
            let mark = |(clock, tag): &(u64, Tag)| match tag {
                Tag::Mark(register) => Some((*register, *clock)),
                _ => None,
            };
            let marks = session.tags.iter().filter_map(mark);
            CardSession::of_marks(CardId(number), session.tck_ps, marks)
        })
        .collect();
    let span = threads.span.unwrap_or_default();
    let sync = LogSync::find(&card_sessions, &index.marks, header.tsc_hz, span).context(
        "has no marks in common with a session that fit one place only; see `hmtt tag --marks`",
    )?;
    let key = sessions.keys().nth(sync.card.0).context("no session")?;
    let regions = Regions::new(&names);
    let mut calls = LogCalls::new(File::open(path)?, index, regions.blocks());
    let (mut owners, mut now) = (Owners::new(regions), CurrentOwners::default());
    owners.begin(&mut |change| now.change(change));
    let (mut numbers, mut timeline) = (Numbers::default(), Timeline::default());
    while let Some(call) = calls.next_call()? {
        match call.kind {
            CallEventKind::Block => continue,
            kind => {
                let is_entry = kind == CallEventKind::Entry;
                owners.call(call.thread, call.number, is_entry, &mut |change| now.change(change));
            }
        }
        let clock = sync.clock(call.tsc).max(0.0) as u64;
        timeline.change(clock, numbers.of(now.own(), &names));
    }
    let sessions = BTreeMap::from([(key.clone(), timeline)]);
    Ok(Known { names: numbers.names, sessions })
}
