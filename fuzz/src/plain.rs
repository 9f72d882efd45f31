//! Decodes the words of a data frame bit by bit, as `docs/format.md` describes them. Serves as the
//! model of the decoder.

use hmtt_format::event::{MarkRegister, SliceLength};
use hmtt_format::record::CountGroup;
use hmtt_format::{Access, Cycles, Direction, Event, FaultKind, PhysAddr};

/// The decoded content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The events up to the first error.
    pub events: Vec<Event>,
    /// The event clock after the last event.
    pub clock: u64,
    /// The address segment after the last event.
    pub segment: u32,
    /// Number of accesses that the events stand for.
    pub counted: u64,
    /// Index of the first invalid word.
    pub error: Option<usize>,
}

/// Returns bits `high` to `low` of a word, both included.
const fn bits(word: u64, high: u32, low: u32) -> u64 {
    word << (63 - high) >> (63 - high + low)
}

/// Decodes words, of which the first are a sync.
///
/// # Panics
/// If there is no sync.
pub fn read(words: &[u64]) -> Reading {
    let mut reading = Reading {
        events: Vec::new(),
        clock: bits(words[0], 47, 0),
        segment: bits(words[0], 59, 48) as u32,
        counted: 0,
        error: None,
    };
    let unit = bits(words[0], 63, 60) as u32;
    let mut at = 2;
    while at < words.len() {
        match reading.word(unit, &words[at..]) {
            Some(word_count) => at += word_count,
            None => {
                reading.error = Some(at);
                break;
            }
        }
    }
    reading
}

impl Reading {
    /// Decodes the record at the start of `words`. Returns its number of words, or `None` if it is
    /// invalid.
    fn word(&mut self, unit: u32, words: &[u64]) -> Option<usize> {
        let word = words[0];
        if bits(word, 63, 58) == 0x3f {
            return self.record(unit, bits(word, 57, 54), word, words);
        }
        if bits(word, 31, 26) == 0x3f {
            return None;
        }
        self.half(unit, bits(word, 63, 32));
        self.half(unit, bits(word, 31, 0));
        Some(1)
    }

    fn half(&mut self, unit: u32, half: u64) {
        if bits(half, 30, 26) != 31 {
            let clock = self.after(bits(half, 30, 26));
            let direction = Direction::from_bit(bits(half, 31, 31) == 1);
            let address = self.address(unit, bits(half, 25, 0));
            self.counted += 1;
            self.events.push(Event::Access(Access { clock, direction, address }));
        } else if bits(half, 25, 25) == 0 {
            self.clock += bits(half, 24, 0);
        } else {
            self.segment = bits(half, 24, 13) as u32;
            self.clock += bits(half, 12, 0);
        }
    }

    fn after(&mut self, clocks: u64) -> Cycles {
        self.clock += clocks;
        Cycles(self.clock)
    }

    fn address(&self, unit: u32, number: u64) -> PhysAddr {
        PhysAddr((u64::from(self.segment) << 26 | number) << unit)
    }

    fn record(&mut self, unit: u32, kind: u64, word: u64, words: &[u64]) -> Option<usize> {
        let word_count = match kind {
            4 | 8 => 2,
            5 => 2 + bits(word, 48, 48) as usize,
            _ => 1,
        };
        let second = words.get(..word_count)?.get(1).copied().unwrap_or_default();
        let event = match kind {
            1 => self.tag(word),
            2 => {
                let code = bits(word, 37, 32);
                let kind = FaultKind::ALL.into_iter().find(|kind| *kind as u64 == code)?;
                Event::Fault {
                    clock: self.after(bits(word, 53, 38)),
                    kind,
                    bank: (word >> 26) as u8 & 63,
                }
            }
            3 => {
                let counts = [bits(word, 19, 15), bits(word, 14, 10), bits(word, 9, 0)];
                self.page(unit, bits(word, 53, 46), bits(word, 45, 20), counts)
            }
            4 => {
                let counts = [bits(second, 63, 44), bits(second, 43, 24), bits(second, 23, 0)];
                self.page(unit, bits(word, 53, 38), bits(word, 37, 12), counts)
            }
            5 => {
                let (reads, writes) = (bits(second, 63, 32), bits(second, 31, 0));
                self.counted += if unit == 0 { reads + writes } else { 0 };
                let partial = words[..word_count].get(2).map(|word| Cycles(bits(*word, 31, 0)));
                Event::Slice {
                    clock: Cycles(bits(word, 47, 0)),
                    code: Some(bits(word, 53, 49) as u8),
                    length: SliceLength::of_record(partial),
                    reads: reads as u32,
                    writes: writes as u32,
                }
            }
            6 => {
                Event::Interval { clock: Cycles(bits(word, 47, 0)), part: bits(word, 53, 48) as u8 }
            }
            7 => Event::Count {
                dump: bits(word, 53, 46) as u8,
                group: CountGroup::from_code(bits(word, 45, 42) as u32)?,
                index: bits(word, 41, 32) as u16,
                value: word as u32,
            },
            8 => Event::HotPage {
                dump: bits(word, 53, 46) as u8,
                address: PhysAddr(bits(word, 27, 0) << 12),
                count: bits(second, 63, 32) as u32,
                votes: second as u32,
            },
            _ => return None,
        };
        self.events.push(event);
        Some(word_count)
    }

    fn tag(&mut self, word: u64) -> Event {
        let (clock, value) = (self.after(bits(word, 53, 38)), word as u32);
        if bits(word, 36, 36) == 1 {
            return Event::Mark { clock, register: MarkRegister(value) };
        }
        self.counted += 1;
        let direction = Direction::from_bit(bits(word, 35, 35) == 1);
        Event::Tag { clock, direction, offset: value, address: None }
    }

    fn page(&mut self, unit: u32, delta: u64, number: u64, counts: [u64; 3]) -> Event {
        let [reads, writes, duration] = counts;
        self.counted += reads + writes;
        Event::Page {
            clock: self.after(delta),
            address: self.address(unit, number),
            reads: reads as u32,
            writes: writes as u32,
            duration: duration as u32,
        }
    }
}
