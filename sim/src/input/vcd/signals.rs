//! The signals of a VCD to the pins a pin map names, and their levels.

use std::collections::HashMap;
use std::io::Read;

use hmtt_format::Pins;
use hmtt_format::command::MAX_RANKS;
use vcd::{Command, IdCode, Parser, ReferenceIndex, Value};

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

/// A signal of the file.
struct Variable {
    /// Name with its scopes, and without.
    path: String,
    name: String,
    bits: u32,
    code: IdCode,
}

/// Which change of which signal sets which pin.
#[derive(Default)]
pub struct Signals {
    /// Signal to pairs of (its bit, pin).
    wires: HashMap<IdCode, Vec<(usize, usize)>>,
    wired: Vec<usize>,
}

impl Signals {
    /// Takes a change. `values`: high bit first, as in the file; left out high bits repeat the
    /// highest given, or are 0 where that is 1 (IEEE 1364, 18.2.1).
    pub fn change(&self, levels: &mut Levels, code: IdCode, values: &[Value]) {
        for (bit, slot) in self.wires.get(&code).into_iter().flatten() {
            let given = values.len().checked_sub(bit + 1).and_then(|at| values.get(at));
            let extended = match values.first() {
                Some(Value::V0 | Value::V1) => Value::V0,
                Some(unknown) => *unknown,
                None => Value::X,
            };
            levels.slots[*slot] = given.copied().unwrap_or(extended);
        }
    }

    fn wire(&mut self, variable: &Variable, bit: usize, slot: usize) {
        self.wires.entry(variable.code).or_default().push((bit, slot));
        self.wired.push(slot);
    }

    fn connect(&mut self, found: &[Variable], pins: &PinMap) -> Result<(), String> {
        let single = [
            ("clock", CLOCK, Some(&pins.clock)),
            ("act_n", ACT_N, pins.act_n.as_ref()),
            ("ras_n", RAS_N, Some(&pins.ras_n)),
            ("cas_n", CAS_N, Some(&pins.cas_n)),
            ("we_n", WE_N, Some(&pins.we_n)),
        ];
        for (pin, slot, name) in single {
            if let Some(name) = name {
                self.wire(scalar(found, pin, name)?, 0, slot);
            }
        }
        self.connect_bus(found, "cke", CKE..CKE + RANKS, &pins.cke)?;
        self.connect_bus(found, "cs_n", CS_N..CS_N + RANKS, &pins.cs_n)?;
        self.connect_bus(found, "ba", BA..BA + BA_PINS, &pins.ba)?;
        self.connect_bus(found, "a", A..A + A_PINS, &pins.a)
    }

    fn connect_bus(
        &mut self,
        found: &[Variable],
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
                    self.wire(scalar(found, pin, name)?, 0, slot);
                }
            }
            Bus::Vector(name) => {
                let variable = find(found, pin, name)?;
                for bit in 0..variable.bits as usize {
                    self.wire(variable, bit, slots.next().ok_or_else(too_wide)?);
                }
            }
        }
        Ok(())
    }
}

/// Levels of all pins.
#[derive(Clone)]
pub struct Levels {
    slots: [Value; SLOTS],
}

impl Default for Levels {
    /// Nothing known yet; [`Signals`] that wire fewer pins leave the others so.
    fn default() -> Self {
        Levels { slots: [Value::X; SLOTS] }
    }
}

impl Levels {
    /// The clock's level.
    pub fn clock(&self) -> Value {
        self.slots[CLOCK]
    }

    /// Whether every pin that is wired is 0 or 1.
    pub fn all_known(&self, signals: &Signals) -> bool {
        signals.wired.iter().all(|slot| level(self.slots[*slot]).is_some())
    }

    /// The pins, or the name of the first that is unknown where it means something.
    pub fn pins(&self, signals: &Signals) -> Result<Pins, &'static str> {
        let wired = |slot: usize| signals.wired.contains(&slot);
        let (mut cke, mut cs_n, mut matters) = (0, 0, false);
        for rank in 0..RANKS {
            // Ranks without a clock enable of their own follow rank 0.
            let enable = if wired(CKE + rank) { CKE + rank } else { CKE };
            let awake = level(self.slots[enable]).ok_or("cke")?;
            let deselected =
                if wired(CS_N + rank) { level(self.slots[CS_N + rank]) } else { Some(true) };
            if awake && deselected.is_none() {
                return Err("cs_n");
            }
            matters |= awake && deselected == Some(false);
            cke |= u8::from(awake) << rank;
            cs_n |= u8::from(deselected.unwrap_or(true)) << rank;
        }
        let pin = |slot: usize, name| match level(self.slots[slot]) {
            None if matters => Err(name),
            level => Ok(level.unwrap_or(true)),
        };
        let bus = |from: usize, pins: usize| {
            (0..pins).fold(0u32, |bus, pin| {
                bus | u32::from(level(self.slots[from + pin]).unwrap_or(false)) << pin
            })
        };
        Ok(Pins {
            cke,
            cs_n,
            act_n: level(self.slots[ACT_N]).unwrap_or(true),
            ras_n: pin(RAS_N, "ras_n")?,
            cas_n: pin(CAS_N, "cas_n")?,
            we_n: pin(WE_N, "we_n")?,
            ba: bus(BA, BA_PINS) as u8,
            a: bus(A, A_PINS),
        })
    }
}

fn level(value: Value) -> Option<bool> {
    match value {
        Value::V0 => Some(false),
        Value::V1 => Some(true),
        Value::X | Value::Z => None,
    }
}

/// Reads the declarations of a VCD and wires up what the pin map names. (The vcd crate's own header
/// reader recurses into scopes, as deep as a file likes.)
pub fn read_header(parser: &mut Parser<impl Read>, pins: &PinMap) -> Result<Signals, String> {
    let mut scopes: Vec<String> = Vec::new();
    let mut found = Vec::new();
    loop {
        match parser.next() {
            None => return Err("end of file before $enddefinitions".into()),
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(Command::Enddefinitions)) => break,
            Some(Ok(Command::ScopeDef(_, name))) => scopes.push(name),
            Some(Ok(Command::Upscope)) => {
                scopes.pop();
            }
            Some(Ok(Command::VarDef(_, bits, code, reference, index))) => {
                let name = match index {
                    Some(ReferenceIndex::BitSelect(bit)) => format!("{reference}[{bit}]"),
                    _ => reference,
                };
                let path = [&scopes[..], std::slice::from_ref(&name)].concat().join(".");
                found.push(Variable { path, name, bits, code });
            }
            Some(Ok(_)) => {}
        }
    }
    let mut signals = Signals::default();
    signals.connect(&found, pins)?;
    Ok(signals)
}

/// The signal with this name; the name alone must fit only one.
fn find<'a>(found: &'a [Variable], pin: &str, name: &str) -> Result<&'a Variable, String> {
    if let Some(variable) = found.iter().find(|variable| variable.path == name) {
        return Ok(variable);
    }
    let mut fitting = found
        .iter()
        .filter(|variable| variable.name == name || variable.path.ends_with(&format!(".{name}")));
    match (fitting.next(), fitting.find(|_| true)) {
        (None, _) => Err(format!("{pin}: there is no signal `{name}`")),
        (Some(variable), None) => Ok(variable),
        (Some(first), Some(second)) => {
            Err(format!("{pin}: `{name}` may be `{}` or `{}`", first.path, second.path))
        }
    }
}

fn scalar<'a>(found: &'a [Variable], pin: &str, name: &str) -> Result<&'a Variable, String> {
    let variable = find(found, pin, name)?;
    if variable.bits == 1 {
        Ok(variable)
    } else {
        Err(format!("{pin}: signal `{name}` has {} bits, 1 expected", variable.bits))
    }
}
