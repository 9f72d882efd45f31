//! Connects the signals of a VCD to the pins of a pin map, and holds their levels.

use std::collections::HashMap;
use std::io::Read;

use hmtt_format::command::MAX_RANKS;
use hmtt_format::{Pins, escape};
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

/// Longest part of a signal's path in a message, in characters. A longer path is cut at its start.
const SHOWN: usize = 200;

/// A signal that the file declares.
#[derive(Clone)]
struct Variable {
    bits: u32,
    code: IdCode,
}

/// The declarations that match one name of the pin map.
#[derive(Default)]
struct Wanted {
    /// The signal whose full path equals the name.
    exact: Option<Variable>,
    /// The first signal whose path ends in the name, with its path for messages.
    fitting: Option<(Variable, String)>,
    /// The path of a second signal that ends in the name.
    other: Option<String>,
}

/// The declarations read so far. Only signals that the pin map names are kept, so memory does not grow with the number
/// of signals times the depth of their scopes.
struct Found<'a> {
    wanted: HashMap<&'a str, Wanted>,
    /// The open scopes, each followed by a dot.
    scopes: String,
    /// Start of each open scope in `scopes`.
    begins: Vec<usize>,
}

impl<'a> Found<'a> {
    fn new(names: impl Iterator<Item = &'a str>) -> Self {
        let wanted = names.map(|name| (name, Wanted::default())).collect();
        Found { wanted, scopes: String::new(), begins: Vec::new() }
    }

    fn open_scope(&mut self, name: &str) {
        self.begins.push(self.scopes.len());
        self.scopes.extend([name, "."]);
    }

    fn close_scope(&mut self) {
        self.scopes.truncate(self.begins.pop().unwrap_or(0));
    }

    fn declare(&mut self, name: &str, variable: &Variable) {
        for (wanted, found) in &mut self.wanted {
            let Some(before) = without_end(&self.scopes, name, wanted) else { continue };
            if before == 0 {
                found.exact.get_or_insert_with(|| variable.clone());
            }
            match (&found.fitting, &found.other) {
                (None, _) => found.fitting = Some((variable.clone(), shown(&self.scopes, name))),
                (Some(_), None) => found.other = Some(shown(&self.scopes, name)),
                _ => {}
            }
        }
    }

    /// Returns the signal with this name. A name that is not a full path must match only one signal.
    fn find(&self, pin: &str, name: &str) -> Result<&Variable, String> {
        match self.wanted.get(name) {
            Some(Wanted { exact: Some(variable), .. }) => Ok(variable),
            Some(Wanted { fitting: Some((_, first)), other: Some(second), .. }) => {
                Err(format!("{pin}: `{name}` may be `{first}` or `{second}`"))
            }
            Some(Wanted { fitting: Some((variable, _)), .. }) => Ok(variable),
            _ => Err(format!("{pin}: there is no signal `{name}`")),
        }
    }

    fn scalar(&self, pin: &str, name: &str) -> Result<&Variable, String> {
        let variable = self.find(pin, name)?;
        if variable.bits == 1 {
            Ok(variable)
        } else {
            Err(format!("{pin}: signal `{name}` has {} bits, 1 expected", variable.bits))
        }
    }
}

/// If the path of scopes and name ends in `wanted` at a separator, returns the length of the part before it.
fn without_end(scopes: &str, name: &str, wanted: &str) -> Option<usize> {
    let Some(left) = wanted.len().checked_sub(name.len()) else {
        // A name may itself contain dots.
        let before = name.strip_suffix(wanted)?;
        return before.ends_with('.').then_some(scopes.len() + before.len());
    };
    let left = wanted.strip_suffix(name).map(|rest| &rest[..left])?;
    let before = scopes.strip_suffix(left)?;
    (before.is_empty() || before.ends_with('.')).then_some(before.len())
}

/// Formats a path for a message. Of a long path only the end is shown.
fn shown(scopes: &str, name: &str) -> String {
    let path = scopes.chars().rev().take(SHOWN).collect::<Vec<_>>();
    let left_out = path.len() == SHOWN && scopes.chars().nth(SHOWN).is_some();
    let path: String = path.into_iter().rev().collect();
    let start = if left_out { "..." } else { "" };
    let path: String = path.chars().chain(name.chars().take(SHOWN)).collect();
    format!("{start}{}", escape::name(&path))
}

/// Maps changes of signals to pins.
#[derive(Default)]
pub struct Signals {
    /// For each signal, pairs of its bit and the pin.
    wires: HashMap<IdCode, Vec<(usize, usize)>>,
    wired: Vec<usize>,
}

impl Signals {
    /// Applies a change. `values`: high bit first, as in the file. High bits that are left out repeat the highest given
    /// bit, or are 0 if that is 1 (IEEE 1364, 18.2.1).
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

    fn connect(&mut self, found: &Found<'_>, pins: &PinMap) -> Result<(), String> {
        let single = [
            ("clock", CLOCK, Some(&pins.clock)),
            ("act_n", ACT_N, pins.act_n.as_ref()),
            ("ras_n", RAS_N, Some(&pins.ras_n)),
            ("cas_n", CAS_N, Some(&pins.cas_n)),
            ("we_n", WE_N, Some(&pins.we_n)),
        ];
        for (pin, slot, name) in single {
            if let Some(name) = name {
                self.wire(found.scalar(pin, name)?, 0, slot);
            }
        }
        self.connect_bus(found, "cke", CKE..CKE + RANKS, &pins.cke)?;
        self.connect_bus(found, "cs_n", CS_N..CS_N + RANKS, &pins.cs_n)?;
        self.connect_bus(found, "ba", BA..BA + BA_PINS, &pins.ba)?;
        self.connect_bus(found, "a", A..A + A_PINS, &pins.a)
    }

    fn connect_bus(
        &mut self,
        found: &Found<'_>,
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
                    self.wire(found.scalar(pin, name)?, 0, slot);
                }
            }
            Bus::Vector(name) => {
                let variable = found.find(pin, name)?;
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
    slots: [Value; SLOTS],
}

impl Default for Levels {
    /// All levels are unknown. Pins without a signal stay unknown.
    fn default() -> Self {
        Levels { slots: [Value::X; SLOTS] }
    }
}

impl Levels {
    /// The level of the clock.
    pub fn clock(&self) -> Value {
        self.slots[CLOCK]
    }

    /// Whether every pin with a signal is 0 or 1.
    pub fn all_known(&self, signals: &Signals) -> bool {
        signals.wired.iter().all(|slot| level(self.slots[*slot]).is_some())
    }

    /// Returns the pins, or the name of the first pin that is unknown although it has a meaning.
    pub fn pins(&self, signals: &Signals) -> Result<Pins, &'static str> {
        let wired = |slot: usize| signals.wired.contains(&slot);
        let (mut cke, mut cs_n, mut matters) = (0, 0, false);
        for rank in 0..RANKS {
            // Ranks without their own clock enable use that of rank 0.
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

/// Reads the declarations of a VCD and connects the signals that the pin map names. (The vcd crate's own header reader
/// recurses into scopes to any depth.) `before` is called before each command.
pub fn read_header(
    parser: &mut Parser<impl Read>,
    pins: &PinMap,
    before: impl Fn(),
) -> Result<Signals, String> {
    let mut found = Found::new(pins.names());
    loop {
        before();
        match parser.next() {
            None => return Err("end of file before $enddefinitions".into()),
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(Command::Enddefinitions)) => break,
            Some(Ok(Command::ScopeDef(_, name))) => found.open_scope(&name),
            Some(Ok(Command::Upscope)) => found.close_scope(),
            Some(Ok(Command::VarDef(_, bits, code, reference, index))) => {
                let name = match index {
                    Some(ReferenceIndex::BitSelect(bit)) => format!("{reference}[{bit}]"),
                    _ => reference,
                };
                found.declare(&name, &Variable { bits, code });
            }
            Some(Ok(_)) => {}
        }
    }
    let mut signals = Signals::default();
    signals.connect(&found, pins)?;
    Ok(signals)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the same by joining the whole path.
    fn by_joining(scopes: &[String], name: &str, wanted: &str) -> Option<usize> {
        let path = [scopes, &[name.to_owned()]].concat().join(".");
        let fits = path == wanted || path.ends_with(&format!(".{wanted}"));
        fits.then(|| path.len() - wanted.len())
    }

    proptest! {
        #[test]
        fn names_fit_the_ends_of_paths(
            scopes in prop::collection::vec("[ab.]{1,3}", 0..4),
            name in "[ab.]{1,4}",
            wanted in "[ab.]{1,6}",
        ) {
            let joined: String = scopes.iter().map(|scope| format!("{scope}.")).collect();
            prop_assert_eq!(without_end(&joined, &name, &wanted), by_joining(&scopes, &name, &wanted));
        }
    }
}
