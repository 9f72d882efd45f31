//! Connects the signals of a VCD to the pins of a pin map, and holds their levels.

use std::collections::HashMap;

use hmtt_format::Pins;
use hmtt_format::command::MAX_RANKS;

use super::declarations::{DeclaredSignals, Variable};
use crate::input::pin_map::{Bus, PinMap};

const CLOCK: usize = 0;
const ACT_N: usize = 1;
const RAS_N: usize = 2;
const CAS_N: usize = 3;
const WE_N: usize = 4;
const CKE: usize = 5;
const RANKS: usize = MAX_RANKS as usize;
const CS_N: usize = CKE + RANKS;
const BA: usize = CS_N + RANKS;
const BA_PINS: usize = 4;
const A: usize = BA + BA_PINS;
const A_PINS: usize = 18;
const SLOTS: usize = A + A_PINS;

/// The level of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// 0, or a weak 0.
    Low,
    /// 1, or a weak 1.
    High,
    /// Unknown, not driven, or without a meaning.
    Unknown,
}

impl Level {
    /// The level that a character of a value states. The characters are those of IEEE 1364 and the
    /// nine values of IEEE 1164, which writers for VHDL use. `None` for other characters.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'0' | b'l' | b'L' => Some(Level::Low),
            b'1' | b'h' | b'H' => Some(Level::High),
            b'x' | b'X' | b'z' | b'Z' | b'u' | b'U' | b'w' | b'W' | b'-' => Some(Level::Unknown),
            _ => None,
        }
    }

    const fn known(self) -> Option<bool> {
        match self {
            Level::Low => Some(false),
            Level::High => Some(true),
            Level::Unknown => None,
        }
    }
}

/// Maps changes of signals to pins.
#[derive(Default)]
pub struct Signals {
    /// For each signal, pairs of its bit and the pin.
    wires: HashMap<Vec<u8>, Vec<(usize, usize)>>,
    wired: Vec<usize>,
}

impl Signals {
    /// Applies a change. `code`: the signal's identifier code; `digits`: high bit first, as in the
    /// file. If high bits are left out, they repeat the highest given bit if that is unknown, and
    /// otherwise are 0 (IEEE 1364, 18.2.1). Returns whether all digits state levels. The digits of
    /// a signal that is no pin are not checked.
    pub fn change(&self, levels: &mut Levels, code: &[u8], digits: &[u8]) -> bool {
        let Some(wires) = self.wires.get(code) else { return true };
        let unknown = |byte: &u8| Level::from_byte(*byte).is_none();
        if digits.iter().any(unknown) {
            return false;
        }
        let extended = match digits.first().copied().and_then(Level::from_byte) {
            Some(Level::Low | Level::High) => Level::Low,
            Some(Level::Unknown) | None => Level::Unknown,
        };
        for (bit, slot) in wires {
            let digit = digits.len().checked_sub(bit + 1).map(|at| digits[at]);
            levels.slots[*slot] = digit.and_then(Level::from_byte).unwrap_or(extended);
        }
        true
    }

    fn wire(&mut self, variable: &Variable, bit: usize, slot: usize) {
        self.wires.entry(variable.code.clone()).or_default().push((bit, slot));
        self.wired.push(slot);
    }

    /// Connects the signals that the pin map names.
    ///
    /// # Errors
    /// The reason, which names the pin.
    pub fn connect(declared: &DeclaredSignals<'_>, pins: &PinMap) -> Result<Self, String> {
        let mut signals = Signals::default();
        signals.connect_pins(declared, pins)?;
        Ok(signals)
    }

    fn connect_pins(
        &mut self,
        declared: &DeclaredSignals<'_>,
        pins: &PinMap,
    ) -> Result<(), String> {
        let single = [
            ("clock", CLOCK, Some(&pins.clock)),
            ("act_n", ACT_N, pins.act_n.as_ref()),
            ("ras_n", RAS_N, Some(&pins.ras_n)),
            ("cas_n", CAS_N, Some(&pins.cas_n)),
            ("we_n", WE_N, Some(&pins.we_n)),
        ];
        for (pin, slot, name) in single {
            if let Some(name) = name {
                self.wire(declared.scalar(pin, name)?, 0, slot);
            }
        }
        self.connect_bus(declared, "cke", CKE..CKE + RANKS, &pins.cke)?;
        self.connect_bus(declared, "cs_n", CS_N..CS_N + RANKS, &pins.cs_n)?;
        self.connect_bus(declared, "ba", BA..BA + BA_PINS, &pins.ba)?;
        self.connect_bus(declared, "a", A..A + A_PINS, &pins.a)
    }

    fn connect_bus(
        &mut self,
        declared: &DeclaredSignals<'_>,
        pin: &str,
        mut slots: std::ops::Range<usize>,
        bus: &Bus,
    ) -> Result<(), String> {
        let most = slots.len();
        let too_wide = || format!("{pin}: more than {most} bits");
        match bus {
            Bus::Signals(names) => {
                for name in names {
                    let slot = slots.next().ok_or_else(too_wide)?;
                    self.wire(declared.scalar(pin, name)?, 0, slot);
                }
            }
            Bus::Vector(name) => {
                let variable = declared.find(pin, name)?;
                for bit in 0..variable.bits as usize {
                    self.wire(variable, bit, slots.next().ok_or_else(too_wide)?);
                }
            }
        }
        Ok(())
    }
}

/// The levels of all pins.
#[derive(Clone)]
pub struct Levels {
    slots: [Level; SLOTS],
}

impl Default for Levels {
    /// All levels are unknown. Pins without a signal stay unknown.
    fn default() -> Self {
        Levels { slots: [Level::Unknown; SLOTS] }
    }
}

impl Levels {
    /// The level of the clock.
    pub fn clock(&self) -> Level {
        self.slots[CLOCK]
    }

    /// Whether every pin with a signal is 0 or 1.
    pub fn all_known(&self, signals: &Signals) -> bool {
        signals.wired.iter().all(|slot| self.slots[*slot].known().is_some())
    }

    /// Returns the pins, or the name of the first pin that is unknown although it has a meaning.
    pub fn pins(&self, signals: &Signals) -> Result<Pins, &'static str> {
        let wired = |slot: usize| signals.wired.contains(&slot);
        let (mut cke, mut cs_n, mut matters) = (0, 0, false);
        for rank in 0..RANKS {
            // Ranks without their own clock enable use the clock enable of rank 0.
            let enable = if wired(CKE + rank) { CKE + rank } else { CKE };
            let awake = self.slots[enable].known().ok_or("cke")?;
            let deselected =
                if wired(CS_N + rank) { self.slots[CS_N + rank].known() } else { Some(true) };
            if awake && deselected.is_none() {
                return Err("cs_n");
            }
            matters |= awake && deselected == Some(false);
            cke |= u8::from(awake) << rank;
            cs_n |= u8::from(deselected.unwrap_or(true)) << rank;
        }
        let pin = |slot: usize, name| match self.slots[slot].known() {
            None if matters => Err(name),
            level => Ok(level.unwrap_or(true)),
        };
        let bus = |from: usize, pins: usize| {
            (0..pins).fold(0u32, |bus, pin| {
                bus | u32::from(self.slots[from + pin].known().unwrap_or(false)) << pin
            })
        };
        Ok(Pins {
            cke,
            cs_n,
            act_n: self.slots[ACT_N].known().unwrap_or(true),
            ras_n: pin(RAS_N, "ras_n")?,
            cas_n: pin(CAS_N, "cas_n")?,
            we_n: pin(WE_N, "we_n")?,
            ba: bus(BA, BA_PINS) as u8,
            a: bus(A, A_PINS),
        })
    }
}
