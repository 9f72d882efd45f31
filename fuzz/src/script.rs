//! Interprets an input as a script: what cards send, and what the wire does to their frames.
//! Computes the expected counts for a single card, if only losses, copies and changes of order
//! occur.

mod expected;
mod take;

pub use expected::Expected;
use expected::Sent;
use hmtt_format::frame::{COUNTER_MASK, FrameKind, Heartbeat};
use hmtt_format::record::WordRecord;
use hmtt_test_support::card::{Card, MAX_ACCESSES};
pub(crate) use take::Bytes;

/// Maximum number of frames. Longer scripts take more time and cover nothing new.
const MAX_FRAMES: usize = 400;
/// Largest number of frames by which a copy is late. A receiver remembers more frames than that.
const RECENT: usize = 8;
/// Largest difference of the counters of frames that are swapped. A receiver waits for this number
/// of frames.
const NEAR: usize = 48;
/// Clocks of the shortest pause after which a card's clock can advance without a record.
const SILENT_CLOCKS: u64 = 1 << 24;
/// Clocks of the longest pause: a second at 100 MHz. After a second a card sends a heartbeat.
const SECOND_CLOCKS: u64 = 100_000_000;

/// The frames of a script.
pub struct Script<'a> {
    bytes: Bytes<'a>,
    card: Card,
    /// The second card on the same wire.
    other: Card,
    sent: Vec<Sent>,
    /// The frames in order of arrival.
    pub frames: Vec<Vec<u8>>,
    /// For each arrival, the index of the sent frame.
    arrived: Vec<usize>,
    copies: u64,
    /// Whether only losses, copies and changes of order occurred, which a receiver must resolve
    /// exactly.
    tame: bool,
}

impl<'a> Script<'a> {
    /// Runs the script in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut script = Script {
            bytes: Bytes::new(bytes),
            card: Card::new(),
            other: Card::new(),
            sent: Vec::new(),
            frames: Vec::new(),
            arrived: Vec::new(),
            copies: 0,
            tame: true,
        };
        let info = script.card.info();
        script.send(info, 0);
        script.deliver();
        while script.frames.len() < MAX_FRAMES && script.step().is_some() {}
        script
    }

    /// Returns the counts of a single card's frames; `None` if an action other than a loss, a copy
    /// or a change of order occurred.
    pub fn expected(&self) -> Option<Expected> {
        self.tame.then(|| Expected::new(&self.sent, &self.arrived, self.copies))
    }

    fn step(&mut self) -> Option<()> {
        match self.bytes.byte()? & 31 {
            0..10 => self.data()?,
            10 => {
                let frame = self.card.info();
                self.send(frame, 0);
            }
            11 => {
                let frame = self.card.end();
                self.send(frame, 0);
            }
            12 => self.heartbeat()?,
            13 | 14 => self.records()?,
            15 => return self.lose(),
            16 => return self.copy(RECENT),
            17 => return self.swap(),
            18 => return self.lose_on_card(),
            19 => {
                // After shorter pauses a card sends a record that skips the time.
                self.card.clock += self.bytes.number(4)?.clamp(SILENT_CLOCKS, SECOND_CLOCKS);
                return Some(());
            }
            20 => {
                let was_fine = is_fine(&self.card);
                self.card.unit_log2 = [0, 6, 12, 3][usize::from(self.bytes.byte()? & 3)];
                // The frame after a lost one shows how many accesses the lost frame can have
                // contained.
                self.tame &= is_fine(&self.card) == was_fine || self.sent.len() == 1;
                return Some(());
            }
            wild => {
                self.tame = false;
                return self.wild(wild);
            }
        }
        self.deliver();
        Some(())
    }

    /// Takes an action after which the receiver cannot know the exact counts.
    fn wild(&mut self, what: u8) -> Option<()> {
        match what {
            21 => {
                let at = self.bytes.number(2)? as usize;
                let frame = self.frames.last_mut()?;
                let bit = at % (frame.len() * 8).max(1);
                *frame.get_mut(bit / 8)? ^= 1 << (bit % 8);
            }
            22 => {
                let cut = self.bytes.number(2)? as usize;
                let frame = self.frames.last_mut()?;
                frame.truncate(cut % (frame.len() + 1));
            }
            23 => self.frames.push(self.bytes.some().to_vec()),
            24 | 25 => std::mem::swap(&mut self.card, &mut self.other),
            26 => self.card = Card::new(),
            27 => {
                let payload = self.bytes.some();
                let mut frame = self.card.info();
                frame.truncate(usize::from(payload.first().copied()?) % 32);
                frame.extend(payload);
                self.frames.push(frame);
            }
            28 => {
                let words: Vec<u64> =
                    std::iter::from_fn(|| self.bytes.number(8)).take(20).collect();
                let frame = self.card.frame(FrameKind::Data, &words);
                self.frames.push(frame);
            }
            29 => self.bend()?,
            _ => return self.copy(MAX_FRAMES),
        }
        Some(())
    }

    /// Sets the card's counters to arbitrary values.
    fn bend(&mut self) -> Option<()> {
        let bytes = usize::from(self.bytes.byte()?);
        let value = self.bytes.number(bytes >> 2 & 7)?;
        match bytes & 3 {
            0 => self.card.counter = self.card.counter.wrapping_add(value) & COUNTER_MASK,
            1 => self.card.accesses = value,
            2 => self.card.clock = value & (1 << 48) - 1,
            _ => self.card.lost = value as u32 & 0xff_ffff,
        }
        Some(())
    }

    fn data(&mut self) -> Option<()> {
        let count = self.bytes.number(2)? % (MAX_ACCESSES + 1);
        let (frame, _) = self.card.data(count);
        self.send(frame, count);
        Some(())
    }

    fn heartbeat(&mut self) -> Option<()> {
        let (running, losses) = (self.bytes.byte()? & 1 == 1, self.bytes.number(2)? as u16);
        let frame = self.card.heartbeat(Heartbeat { running, losses, transmit_clocks: 7 });
        self.sent.push(Sent { frame, stated: None });
        Some(())
    }

    fn records(&mut self) -> Option<()> {
        let count = self.bytes.byte()? & 15;
        let has_no_numbers = self.card.unit_log2 == 0;
        // A card that records lines sends no page runs.
        let fits = |record: &WordRecord| {
            !is_fine(&self.card) || !matches!(record, WordRecord::Page { .. })
        };
        let records = (0..count).map_while(|_| self.bytes.record());
        let mut records: Vec<WordRecord> = records.filter(fits).collect();
        for record in &mut records {
            let (WordRecord::Interval { clock, .. } | WordRecord::Slice { start: clock, .. }) =
                record
            else {
                continue;
            };
            // If a frame states a clock that the card has not reached, a receiver attributes the
            // frame to another card.
            match *clock >> 47 {
                0 => *clock = self.card.clock.saturating_sub(*clock & 0xffff),
                _ => self.tame = false,
            }
        }
        let (accesses, clocks) = records.iter().fold((0, 0), |(accesses, clocks), record| {
            let (more, later) = take::amount(record, has_no_numbers);
            (accesses + more, clocks + later)
        });
        let frame = self.card.records(&records, accesses, clocks);
        self.send(frame, accesses);
        Some(())
    }

    /// Sends frames that do not arrive.
    fn lose(&mut self) -> Option<()> {
        for _ in 0..self.bytes.byte()? % 100 {
            let (frame, _) = self.card.data(5);
            self.send(frame, 5);
        }
        Some(())
    }

    fn lose_on_card(&mut self) -> Option<()> {
        let records = self.bytes.number(2)?;
        self.card.lost = (self.card.lost + records as u32) & 0xff_ffff;
        // More than one access for each record would show another card, unless the records were
        // page runs.
        self.card.accesses += records;
        Some(())
    }

    /// Delivers one of the last frames again. For a single card it must be a near frame: a far
    /// frame, or the first one, would count as a restart.
    fn copy(&mut self, farthest: usize) -> Option<()> {
        let back = usize::from(self.bytes.byte()?) % farthest;
        if !self.tame {
            let at = self.frames.len().checked_sub(1 + back)?;
            self.frames.push(self.frames[at].clone());
            return Some(());
        }
        let newest = *self.arrived.iter().max()?;
        let sent = *self.arrived.iter().rev().nth(back).unwrap_or(&0);
        if sent != 0 && sent + NEAR > newest {
            self.copies += 1;
            self.frames.push(self.sent[sent].frame.clone());
            self.arrived.push(sent);
        }
        Some(())
    }

    /// Swaps the last two frames, if the receiver still waits for the earlier one.
    fn swap(&mut self) -> Option<()> {
        let [passed @ .., before, last] = &mut self.arrived[..] else { return Some(()) };
        let newest = *passed.iter().max()?;
        let (older, newer) = (*before.min(last), *before.max(last));
        // The frame may have been moved behind other frames before.
        if newer < newest + NEAR && newest.max(newer) < older + NEAR {
            std::mem::swap(before, last);
            let end = self.frames.len();
            self.frames.swap(end - 2, end - 1);
        }
        Some(())
    }

    fn send(&mut self, frame: Vec<u8>, accesses: u64) {
        let Card { accesses: after, lost, .. } = self.card;
        self.sent.push(Sent { frame, stated: Some((accesses, after, lost)) });
    }

    fn deliver(&mut self) {
        let Some(sent) = self.sent.last() else { return };
        self.frames.push(sent.frame.clone());
        self.arrived.push(self.sent.len() - 1);
    }
}

/// Whether the card records lines or bursts.
fn is_fine(card: &Card) -> bool {
    (1..12).contains(&card.unit_log2)
}
