//! Bytes to the frames of cards on a wire: what they send, what the wire does to it, and, where one
//! card met nothing but loss, copies and a changed order, what must come out.

mod expected;
mod take;

pub use expected::Expected;
use expected::Sent;
use hmtt_format::frame::{COUNTER_MASK, FrameKind, Heartbeat};
use hmtt_format::record::WordRecord;
use hmtt_test_support::card::{Card, MAX_ACCESSES};
pub(crate) use take::Bytes;

/// Most frames of a script: more take longer and meet nothing new.
const MAX_FRAMES: usize = 400;
/// Frames that a copy may be late; fewer than a receiver remembers.
const RECENT: usize = 8;
/// How far apart the counters of frames that change places may be: what a receiver waits for.
const NEAR: usize = 48;

/// Frames as they arrive.
pub struct Script<'a> {
    bytes: Bytes<'a>,
    card: Card,
    /// A second one on the wire.
    other: Card,
    sent: Vec<Sent>,
    /// What arrives.
    pub frames: Vec<Vec<u8>>,
    /// Of each arrival, the frame it is.
    arrived: Vec<usize>,
    copies: u64,
    /// Nothing happened but what a receiver must see through.
    tame: bool,
}

impl<'a> Script<'a> {
    /// Plays the script that the bytes are.
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

    /// What one card's frames must come to; none if more happened than loss, copies and order.
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
                self.card.clock += self.bytes.number(4)?;
                return Some(());
            }
            20 => {
                let was_fine = is_fine(&self.card);
                self.card.unit_log2 = [0, 6, 12, 3][usize::from(self.bytes.byte()? & 3)];
                // How much a lost frame can have held is told by the one after it.
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

    /// What makes a receiver guess.
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

    /// The card counts from anywhere.
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
        self.sent.push(Sent { frame, told: None });
        Some(())
    }

    fn records(&mut self) -> Option<()> {
        let count = self.bytes.byte()? & 15;
        let has_no_numbers = self.card.unit_log2 == 0;
        // Where lines are recorded there are no page runs.
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
            // A clock that the card has not had yet is one of another card, if it is a card's.
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

    /// Frames that do not arrive.
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
        // More than one each would be another card, unless they were pages.
        self.card.accesses += records;
        Some(())
    }

    /// One of the last frames once more. Of one card alone only one that is near: a far one, or the
    /// first, would be a restart.
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

    /// The last two in the other order, if the receiver still waits for the earlier one.
    fn swap(&mut self) -> Option<()> {
        let [passed @ .., before, last] = &mut self.arrived[..] else { return Some(()) };
        let newest = *passed.iter().max()?;
        let (older, newer) = (*before.min(last), *before.max(last));
        // It may have been put behind others before.
        if newer < newest + NEAR && newest.max(newer) < older + NEAR {
            std::mem::swap(before, last);
            let end = self.frames.len();
            self.frames.swap(end - 2, end - 1);
        }
        Some(())
    }

    fn send(&mut self, frame: Vec<u8>, accesses: u64) {
        let Card { accesses: after, lost, .. } = self.card;
        self.sent.push(Sent { frame, told: Some((accesses, after, lost)) });
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
