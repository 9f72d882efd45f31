//! A second reading of a capture to the items of one of its cards, each when it is asked for.

use std::collections::VecDeque;
use std::path::PathBuf;

use hmtt_format::{Cycles, Event};

use super::survey::origin;
use super::{MergeError, Strand, TimeBase};
use crate::decode::{Item, Links};
use crate::pcapng::{PcapngReader, Source};

/// The items of one card, on the common time base.
pub(super) struct Feed<'a> {
    path: PathBuf,
    source: usize,
    card: usize,
    reader: PcapngReader<Source>,
    /// Gone when the capture has been read to its end.
    links: Option<Links>,
    /// The strands of the card.
    strands: Vec<(usize, &'a TimeBase)>,
    session: usize,
    sessions: Vec<usize>,
    waiting: VecDeque<Item>,
    /// Time of the last item with one.
    time: f64,
}

impl<'a> Feed<'a> {
    /// Opens the capture of a strand with this number.
    pub fn open(strand: &Strand, number: usize, base: &'a TimeBase) -> Result<Self, MergeError> {
        let failed = |source| MergeError::Read { path: strand.file.clone(), source };
        Ok(Feed {
            path: strand.file.clone(),
            source: strand.source,
            card: strand.card,
            reader: PcapngReader::open(&strand.file).map_err(failed)?,
            links: Some(Links::default()),
            strands: vec![(number, base)],
            session: 0,
            sessions: vec![strand.session],
            waiting: VecDeque::new(),
            time: f64::MIN,
        })
    }

    /// Whether the strand is of this card.
    pub fn is_of(&self, strand: &Strand) -> bool {
        self.source == strand.source
    }

    /// Adds a later strand of the card.
    pub fn add(&mut self, number: usize, base: &'a TimeBase, session: usize) {
        self.strands.push((number, base));
        self.sessions.push(session);
    }

    /// Reads until there is an item, or nothing follows.
    pub fn fill(&mut self) -> Result<(), MergeError> {
        let Feed { links, reader, waiting, path, card, .. } = self;
        while waiting.is_empty() {
            let Some(mut open) = links.take() else { return Ok(()) };
            let mut take = |of: usize, item| {
                if of == *card {
                    waiting.push_back(item);
                }
            };
            let packet = reader
                .next_packet()
                .map_err(|source| MergeError::Read { path: path.clone(), source })?;
            match packet {
                Some(packet) => {
                    open.push(origin(&packet), packet.bytes, &mut take);
                    *links = Some(open);
                }
                None => drop(open.finish(&mut take)),
            }
        }
        Ok(())
    }

    /// When the next item happened, in clocks of the reference; an item without a time is of the time
    /// of the one before, and none goes back. `None` when there is none.
    pub fn time(&self) -> Option<f64> {
        let clock = time_of(self.waiting.front()?);
        let time = clock.zip(self.base()).map(|(clock, (_, base))| base.map(clock.0));
        Some(time.map_or(self.time, |time| time.max(self.time)))
    }

    fn base(&self) -> Option<(usize, &'a TimeBase)> {
        let at = self.sessions.iter().position(|session| *session == self.session)?;
        Some(self.strands[at])
    }

    /// The next item, with the number of its strand.
    pub fn next(&mut self) -> Option<(usize, Item)> {
        self.time = self.time()?;
        let item = self.waiting.pop_front()?;
        if item == Item::Restart {
            self.session += 1;
        }
        // A session in which nothing has a time is no strand: what little it says is of the one before.
        let (strand, base) = self.base().or_else(|| self.strands.first().copied())?;
        Some((strand, on_base(item, base)))
    }
}

/// When an item happened.
fn time_of(item: &Item) -> Option<Cycles> {
    match item {
        Item::Gap(gap) => gap.after.or(gap.before),
        other => other.clock(),
    }
}

/// An item with its clocks and lengths on the common time base.
fn on_base(item: Item, base: &TimeBase) -> Item {
    let map = |clock: Cycles| Cycles(base.map(clock.0).round().max(0.0) as u64);
    match item {
        Item::Event(event) => Item::Event(event_on_base(event, base)),
        Item::Gap(mut gap) => {
            (gap.after, gap.before) = (gap.after.map(map), gap.before.map(map));
            Item::Gap(gap)
        }
        Item::Report { clock, end, report } => Item::Report { clock: map(clock), end, report },
        other => other,
    }
}

fn event_on_base(mut event: Event, base: &TimeBase) -> Event {
    let scaled = |clocks: f64| (clocks * base.rate()).round();
    match &mut event {
        Event::Page { duration, .. } => *duration = scaled(f64::from(*duration)) as u32,
        Event::Slice { partial: Some(length), .. } => {
            *length = Cycles(scaled(length.0 as f64) as u64);
        }
        _ => {}
    }
    let clock = match &mut event {
        Event::Access(access) => &mut access.clock,
        Event::Tag { clock, .. }
        | Event::Fault { clock, .. }
        | Event::Page { clock, .. }
        | Event::Slice { clock, .. }
        | Event::Interval { clock, .. } => clock,
        Event::Count { .. } | Event::HotPage { .. } => return event,
    };
    *clock = Cycles(base.map(clock.0).round().max(0.0) as u64);
    event
}
