//! Decodes the records of one data frame into events, columns or counts, as the sink asks.

use hmtt_format::{Block, Cycles, Event, Tally};

use super::Decoder;
use crate::decode::frame::Body;
use crate::decode::item::{Item, Malformation};
use crate::decode::sink::{CardSink, Sink};

/// The tally of a frame's records, and the error at which reading them stopped.
pub(super) type Read = (Tally, Result<(), Malformation>);

impl Decoder {
    /// Reads the records of a data frame and passes them on in the form that the sink asks for.
    ///
    /// # Errors
    /// [`Malformation`]: the block has no valid sync. An error after the sync is part of the
    /// result.
    pub(super) fn records<S: Sink>(
        &mut self,
        body: &Body<'_>,
        sink: &mut CardSink<'_, S>,
    ) -> Result<Read, Malformation> {
        let fast = match sink.columns() {
            Some(columns) => {
                let clock = body.sync().map(|sync| self.clock.extend(Cycles(sync.clock)));
                clock.and_then(|clock| columns.append(body.bytes(), clock))
            }
            None if S::EVENTS => None,
            None => Tally::of_halves(body.bytes()),
        };
        let (tally, result) = match fast {
            Some(tally) => (tally, Ok(())),
            None => self.events(body, sink)?,
        };
        self.account.data(&tally);
        self.counts.records(&tally, self.burst_bytes);
        Ok((tally, result))
    }

    fn events<S: Sink>(
        &mut self,
        body: &Body<'_>,
        sink: &mut CardSink<'_, S>,
    ) -> Result<Read, Malformation> {
        let mut block = Block::new(body.words())?;
        let mut tally = Tally::new(block.sync());
        let mut result = Ok(());
        sink.frame_begins(&block.sync());
        for event in &mut block {
            let event = match event {
                Ok(event) => self.clock.extend_event(event),
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            };
            tally.note(&event);
            match (event, S::EVENTS) {
                (Event::Access(access), true) => match sink.columns() {
                    Some(columns) => columns.push(access),
                    None => sink.item(Item::Event(event)),
                },
                (_, true) => {
                    self.note(&event);
                    sink.item(Item::Event(event));
                }
                (_, false) => self.note(&event),
            }
        }
        tally.clock = block.clock();
        Ok((tally, result))
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Slice { clock, .. } => self.last_slice = *clock,
            Event::Fault { kind, .. } => *self.counts.faults.entry(kind.name()).or_default() += 1,
            _ => {}
        }
    }
}
