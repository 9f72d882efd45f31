//! Executes each form of an instruction next to pages that must not be accessed or written.

use std::collections::BTreeMap;
use std::io::Write;

use hmtt_format::Direction;
use hmtt_translator::memory_accesses::{Condition, Lanes, MemoryAccess, Order, memory_accesses};
use iced_x86::{Code, Mnemonic, Register};

use super::forms::{self, Form, INDEX};
use super::model::{Registers, Touched};
use super::process::{Ending, PAGE, PAGES, Process, SAFE, is_allowed};

/// Executions of each form for each register with an address.
const TRIALS: u64 = 16;

/// Numbers that look random.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Values of registers, with all addresses where everything is allowed.
fn values(random: &mut Random) -> Registers {
    let mut general = [0; 16];
    for number in [3, 4, 5, 6, 7] {
        general[number] = SAFE;
    }
    (general[0], general[1]) = (1, 1);
    let kind = random.below(4);
    let mut vectors = [[0; 64]; 32];
    for byte in vectors.as_flattened_mut() {
        *byte = match kind {
            0 => 0,
            1 => 0xff,
            _ => random.next() as u8,
        };
    }
    let mask = match random.below(5) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << random.below(64),
        3 => 1 << random.below(8),
        _ => random.next(),
    };
    Registers { general, vectors, masks: [mask; 8] }
}

/// Sets the indexes of a gather or scatter, to both sides of its base.
fn set_indexes(random: &mut Random, registers: &mut Registers, bytes: u8) {
    let vector = &mut registers.vectors[INDEX as usize];
    for lane in vector.chunks_mut(bytes.into()) {
        let index = random.below(PAGE) as i64 - PAGE as i64 / 2;
        lane.copy_from_slice(&index.to_le_bytes()[..usize::from(bytes)]);
    }
}

/// An address near a border between pages.
fn near_border(random: &mut Random, bytes: u64) -> u64 {
    let border = PAGES + PAGE * [1, 3, 3, 6, 8, 8][random.below(6) as usize];
    let before = match random.below(8) {
        0 => 0,
        1 => 1,
        2 => bytes,
        3 => bytes.saturating_sub(1),
        4 => 64 * random.below(bytes / 64 + 2),
        5 => 16 * random.below(bytes / 16 + 2),
        _ => random.below(bytes + 1),
    };
    match random.below(10) {
        // All of it may be read only.
        0 => PAGES + 5 * PAGE,
        _ => border - before,
    }
}

/// The registers that hold addresses, and how many bytes from there on may be accessed.
fn bases(accesses: &[MemoryAccess]) -> BTreeMap<usize, u64> {
    let mut bases = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.operand.base != Register::None) {
        let lanes = match access.condition {
            Condition::Lanes(lanes) => u64::from(lanes.elements),
            _ => 1,
        };
        let bytes = bases.entry(access.operand.base.full_register().number()).or_insert(0);
        let end = access.operand.displacement.max(0) as u64 + lanes * u64::from(access.size);
        *bytes = end.max(*bytes);
    }
    bases
}

/// Why a form is not compared, if it is not.
fn exception(form: &Form, accesses: &[MemoryAccess]) -> Option<&'static str> {
    use Mnemonic::{Iret, Iretd, Iretq, Retf, Sgdt, Sidt, Sldt, Smsw, Str};
    match form.instruction.code() {
        Code::Movsxd_r16_rm16 => return Some("processors read 2 or 4 bytes"),
        Code::Lfs_r64_m1664 | Code::Lgs_r64_m1664 => return Some("processors read 6 or 10 bytes"),
        _ => {}
    }
    match form.instruction.mnemonic() {
        Sgdt | Sidt | Sldt | Smsw | Str => Some("the kernel may execute it"),
        Retf | Iret | Iretd | Iretq => Some("it leads to a code segment"),
        _ if accesses.iter().any(|access| access.size == 0) => Some("its size is not known"),
        _ if accesses.iter().any(|access| access.is_elsewhere && access.size > 64) => {
            Some("its addresses are not known")
        }
        _ if accesses.iter().all(|access| access.operand.base == Register::None) => {
            Some("its address is a constant")
        }
        _ => None,
    }
}

/// Whether the processor checks an operand as a whole before it writes the elements that a mask
/// chooses.
fn is_checked_as_whole(form: &Form) -> bool {
    use Mnemonic::{
        Maskmovdqu, Maskmovq, Vextractf32x4, Vextractf32x8, Vextractf64x2, Vextractf64x4,
        Vextracti32x4, Vextracti32x8, Vextracti64x2, Vextracti64x4, Vmaskmovdqu,
    };
    matches!(
        form.instruction.mnemonic(),
        Maskmovdqu
            | Maskmovq
            | Vextractf32x4
            | Vextractf32x8
            | Vextractf64x2
            | Vextractf64x4
            | Vextracti32x4
            | Vextracti32x8
            | Vextracti64x2
            | Vextracti64x4
            | Vmaskmovdqu
    )
}

/// Bytes that must not be accessed so, and whether they may not be.
fn forbidden(touched: &[Touched]) -> Vec<(u64, bool)> {
    let forbidden_bytes = |touch: &Touched| {
        let (is_write, is_uncertain) = (touch.direction == Direction::Write, touch.is_uncertain);
        let bytes = touch.from..touch.from + touch.bytes;
        bytes.filter(move |at| !is_allowed(*at, is_write)).map(move |at| (at, is_uncertain))
    };
    touched.iter().flat_map(forbidden_bytes).collect()
}

/// What differs between an execution and what is expected of it. `whole`: all that may be accessed.
fn difference(touched: &[Touched], whole: &[Touched], ending: Ending) -> Option<String> {
    match ending {
        Ending::Completed => {
            let certain = forbidden(touched).into_iter().find(|(_, is_uncertain)| !is_uncertain);
            certain.map(|(at, _)| format!("no fault at {:x}", at - PAGES))
        }
        Ending::Fault(at) => {
            let is_expected = forbidden(whole).iter().any(|(one, _)| one / PAGE == at / PAGE);
            (!is_expected).then(|| format!("fault at {:x}", at.wrapping_sub(PAGES)))
        }
        Ending::Missing | Ending::Refused => None,
    }
}

/// The first byte that was written although it should not be.
fn written_elsewhere(touched: &[Touched], changed: &[u64]) -> Option<String> {
    let is_written = |at: &u64| {
        let is_within = |touch: &Touched| (touch.from..touch.from + touch.bytes).contains(at);
        touched.iter().any(|touch| touch.direction == Direction::Write && is_within(touch))
    };
    let first = changed.iter().find(|at| !is_written(at))?;
    Some(format!("{:x} was written", first - PAGES))
}

/// What was found about a form.
#[derive(Default)]
struct Findings {
    completed: u64,
    faults: u64,
    is_missing: bool,
    difference: Option<String>,
}

/// Values of registers of a trial, with the address in a register near a border. The first ones are
/// at a border with all lanes active.
pub fn trial(
    number: u64,
    accesses: &[MemoryAccess],
    (base, bytes): (usize, u64),
    random: &mut Random,
) -> Registers {
    let mut registers = values(random);
    for access in accesses {
        if access.operand.base != Register::None {
            registers.general[access.operand.base.full_register().number()] = SAFE;
        }
        if let Condition::Lanes(Lanes { order: Order::Indexed { bytes }, .. }) = access.condition {
            set_indexes(random, &mut registers, bytes);
        }
    }
    if accesses.iter().any(|access| access.operand.displacement >= 512) {
        // The mask of a state.
        registers.general[0] = registers.masks[0] & 0xffff_ffff;
    }
    let borders = [3 * PAGE - bytes, 3 * PAGE, 5 * PAGE, 8 * PAGE, PAGE];
    registers.general[base] = match borders.get(number as usize) {
        Some(border) => {
            let index = registers.vectors[INDEX as usize];
            if registers.general[0] != 1 {
                registers.general[0] = 0xffff_ffff;
            }
            (registers.vectors, registers.masks) = ([[0xff; 64]; 32], [u64::MAX; 8]);
            registers.vectors[INDEX as usize] = index;
            PAGES + border
        }
        None => near_border(random, bytes),
    };
    registers
}

fn check(process: &Process, form: &Form, random: &mut Random) -> Findings {
    let accesses = memory_accesses(&form.instruction);
    let uses_mmx =
        (0..form.instruction.op_count()).any(|one| form.instruction.op_register(one).is_mm());
    let start = process.set_code(&form.bytes, uses_mmx);
    let is_checked_as_whole = is_checked_as_whole(form);
    let mut findings = Findings::default();
    for base in bases(&accesses) {
        for number in 0..TRIALS {
            let mut registers = trial(number, &accesses, base, random);
            let touched = |registers: &Registers| -> Vec<Touched> {
                accesses.iter().flat_map(|access| registers.touched(access)).collect()
            };
            let ending = process.run(start, form.bytes.len(), &registers);
            let some = touched(&registers);
            let whole = if is_checked_as_whole {
                (registers.masks, registers.vectors) = ([u64::MAX; 8], [[0xff; 64]; 32]);
                touched(&registers)
            } else {
                some.clone()
            };
            let is_possible = |touch: &Touched| is_checked_as_whole || !touch.is_uncertain;
            let certain: Vec<Touched> = whole.iter().copied().filter(is_possible).collect();
            let different = difference(&certain, &whole, ending);
            let elsewhere = || match ending {
                Ending::Completed => written_elsewhere(&some, &process.changed()),
                _ => None,
            };
            if let Some(text) = different.or_else(elsewhere) {
                let at = registers.general[base.0] - PAGES;
                let mask = registers.masks[1];
                findings.difference = Some(format!("{text}, from {at:x} on, mask {mask:x}"));
            }
            match ending {
                Ending::Missing => {
                    findings.is_missing = true;
                    return findings;
                }
                Ending::Completed => findings.completed += 1,
                Ending::Fault(_) => findings.faults += 1,
                Ending::Refused => {}
            }
        }
    }
    findings
}

#[test]
fn accesses_are_those_of_the_processor() {
    let process = Process::start();
    let mut random = Random(1);
    let (mut checked, mut missing) = (0, 0);
    let mut different = Vec::new();
    let mut error = std::io::stderr();
    for form in forms::all() {
        let name = form.name();
        if let Some(why) = exception(&form, &memory_accesses(&form.instruction)) {
            let _ = writeln!(error, "skipped: {name}: {why}");
            continue;
        }
        let findings = check(&process, &form, &mut random);
        if findings.is_missing {
            missing += 1;
        } else if findings.completed == 0 || findings.faults == 0 {
            let _ = writeln!(error, "skipped: {name} cannot be executed here");
        } else {
            checked += 1;
        }
        different.extend(findings.difference.map(|text| format!("{name}: {text}")));
    }
    let _ = writeln!(error, "skipped: {missing} forms that this processor does not have");
    assert!(different.is_empty(), "{}\n{} forms", different.join("\n"), different.len());
    assert!(checked > 1000, "only {checked} forms can be executed");
}
