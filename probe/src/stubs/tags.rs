//! Places in a program to the code that says they were reached.
//!
//! | sink | a tag | what it needs |
//! |---|---|---|
//! | count | `inc qword gs:[8 * function]` | flags |
//! | log | reserves a place in the thread's chunk, writes a record there | flags, 24 bytes below `rsp`, given back |
//! | card | `mov dword gs:[64 * event], word` | nothing |
//!
//! A record's place is read, and then reserved by an addition: `xadd` does both, and takes more than twice as long
//! from one to the next. No other thread uses the slot. A signal handler that is tagged too comes before that or after
//! the record is written: who traces the thread sees to it ([`super::unfinished`]). If nobody does any more, nobody
//! reads records, and a place that is taken twice is a place still. The word, written last, says that the record is
//! there. Registers are saved below `rsp` without moving it: the kernel leaves 128 bytes there to the function it
//! interrupts (psABI, 3.2.2).
//!
//! Where the place is none, because the chunk is full, the tag jumps to [`super::switch`] through a few
//! instructions of its own, the cold ones, which tell it where to go on. They are all at the start of the
//! stubs, behind what they share, so that what runs often lies together. Nothing here is called.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::layout::{LogShape, slot};
use super::{StubError, gate, rows, switch};

/// Most bytes of a tag's code together with its cold instructions: of a log, and of other sinks.
pub(super) const LOG_BYTES: usize = 128;
const SMALL_BYTES: usize = 48;
const COLD_BYTES: usize = 12;
/// Bytes below `rsp` that a function may use without moving it.
const RED_ZONE_BYTES: i32 = 128;
/// How far ahead of a record memory is asked for that another processor has emptied, in bytes.
const AHEAD: i32 = 512;
/// Bytes between the events of a card's window: it sees whole cache lines.
pub const CARD_STRIDE: u64 = 64;

/// What a tag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Counts entries, for each thread by itself.
    Count,
    /// Nothing: the cost of the jumps.
    None,
    /// Writes a record to memory of the thread.
    Log(LogShape),
    /// Writes to an address of its own, which the card sees.
    Card,
    /// Waits until the controller has seen it ([`super::gate`]).
    Gate {
        /// Where the process has the shared memory.
        shared: u64,
    },
    /// Nothing: the function is changed for what it looks up ([`super::lookup`]).
    Lookup,
}

impl Sink {
    /// Most bytes of a tag's code.
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Sink::None | Sink::Lookup => 0,
            Sink::Count | Sink::Card => SMALL_BYTES,
            Sink::Gate { .. } => gate::BYTES,
            Sink::Log(_) => LOG_BYTES,
        }
    }

    /// Whether exits matter.
    pub fn exits(self) -> bool {
        !matches!(self, Sink::Count | Sink::Gate { .. } | Sink::Lookup)
    }
}

/// Where a tag is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagPlace {
    /// Which: twice the number of the function or block, 1 more for an exit.
    pub event: u32,
    /// The function may have something below its stack pointer.
    pub red_zone: bool,
    /// It may have something in its flags.
    pub flags: bool,
}

impl TagPlace {
    /// A function's first instruction: neither flags nor what is below the stack pointer mean anything.
    pub fn entry(number: u32) -> Self {
        TagPlace { event: 2 * number, red_zone: false, flags: false }
    }

    /// Just before a function returns, or jumps to another or to itself.
    pub fn exit(number: u32) -> Self {
        TagPlace { event: 2 * number + 1, red_zone: false, flags: false }
    }

    /// The same where the function's first instruction is the head of a loop too, whose turns may keep something
    /// below the stack pointer, and in flags if it is said so.
    pub fn in_loop(self, flags: bool) -> Self {
        TagPlace { red_zone: true, flags, ..self }
    }

    /// A head of a block, within a function. `flags`: whether they may mean something there.
    pub fn block(number: u32, flags: bool) -> Self {
        TagPlace { event: 2 * number, red_zone: true, flags }
    }

    /// Whether something is left there, not entered.
    fn is_exit(&self) -> bool {
        self.event & 1 != 0
    }

    /// One of each form.
    fn all() -> [TagPlace; 4] {
        let kinds = [(false, false), (true, false), (false, true), (true, true)];
        kinds.map(|(red_zone, flags)| TagPlace { event: 0, red_zone, flags })
    }

    /// Bytes by which a tag has lowered the stack pointer where it goes to its cold instructions.
    pub(super) fn below(&self) -> u32 {
        u32::from(self.flags) * 8 + u32::from(self.red_zone) * RED_ZONE_BYTES as u32
    }

    /// Which of [`TagPlace::all`].
    fn form(&self) -> usize {
        usize::from(self.red_zone) + 2 * usize::from(self.flags)
    }

    /// What is written for it: never 0.
    pub fn word(&self) -> u32 {
        1 + self.event
    }
}

/// The code of tags, which share some.
#[derive(Clone, Debug)]
pub struct Tags {
    sink: Sink,
    start: u64,
    shared: Vec<u8>,
    cold: Vec<u8>,
    at_most: usize,
    /// Of a log's tags: at places with and without a red zone, with and without flags.
    forms: Vec<Form>,
    /// Where tags of each form lower the stack pointer ([`rows::lowered`]).
    lowered: Vec<Vec<(u32, u32, u8)>>,
}

impl Tags {
    /// None yet, and at most so many. `start`: where the code they share will be.
    ///
    /// # Errors
    /// [`StubError`] if it cannot be encoded.
    pub fn new(sink: Sink, start: u64, at_most: usize) -> Result<Self, StubError> {
        let shared = match sink {
            Sink::Log(shape) => switch::code(&shape, start).map_err(failed(start))?,
            _ => Vec::new(),
        };
        let at_most = if matches!(sink, Sink::Log(_)) { at_most } else { 0 };
        let forms = match sink {
            Sink::Log(shape) => Form::all(&shape).map_err(failed(start))?,
            _ => Vec::new(),
        };
        let lowered = Vec::new();
        let mut tags = Tags { sink, start, shared, cold: Vec::new(), at_most, forms, lowered };
        for place in TagPlace::all() {
            let lowered = match tags.forms.get(place.form()) {
                Some(form) => rows::lowered(&form.bytes),
                None => rows::lowered(&tags.small(&place, 0).map_err(failed(0))?),
            };
            tags.lowered.push(lowered);
        }
        Ok(tags)
    }

    /// The code that they share.
    pub(super) fn shared(&self) -> &[u8] {
        &self.shared
    }

    /// Where the cold instructions of the next tag will be, if tags have such.
    pub(super) fn next_cold(&self) -> Option<u64> {
        let at = (self.shared.len() + self.cold.len()) as u64;
        (!self.forms.is_empty()).then(|| self.start.wrapping_add(at))
    }

    /// Where a tag's code lowers the stack pointer.
    pub(super) fn lowered(&self, place: &TagPlace) -> &[(u32, u32, u8)] {
        &self.lowered[place.form()]
    }

    /// Bytes of what they share, with room for all.
    pub fn prelude_bytes(&self) -> usize {
        self.shared.len() + COLD_BYTES * self.at_most
    }

    /// What they share: to be at the start when all tags are made.
    pub fn prelude(&self) -> Vec<u8> {
        let mut code = [&self.shared[..], &self.cold].concat();
        code.resize(self.prelude_bytes(), 0xcc);
        code
    }

    /// Bytes of a tag's code.
    ///
    /// # Errors
    /// [`StubError`] if it cannot be encoded.
    pub fn bytes(&self, place: &TagPlace) -> Result<usize, StubError> {
        match self.forms.get(place.form()) {
            Some(form) => Ok(form.bytes.len()),
            None => self.small(place, 0).map(|code| code.len()).map_err(failed(0)),
        }
    }

    /// The code of one more, to be at this address. What follows it runs next.
    ///
    /// # Errors
    /// [`StubError`] if it cannot be encoded; nothing was added.
    pub fn code(&mut self, place: &TagPlace, at: u64) -> Result<Vec<u8>, StubError> {
        match self.forms.get(place.form()).cloned() {
            Some(form) => Ok(self.log(form, place, at)),
            None => self.small(place, at).map_err(failed(at)),
        }
    }

    /// The code of a tag that shares nothing with others: of any sink but a log.
    fn small(&self, place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
        match self.sink {
            Sink::Count | Sink::Gate { .. } if place.is_exit() => Ok(Vec::new()),
            Sink::Count => count(place, at),
            Sink::Gate { shared } => gate::code(shared, at),
            Sink::Card => card(place, at),
            Sink::None | Sink::Lookup | Sink::Log(_) => Ok(Vec::new()),
        }
    }

    fn log(&mut self, form: Form, place: &TagPlace, at: u64) -> Vec<u8> {
        let mut code = form.bytes;
        let cold = self.start.wrapping_add((self.shared.len() + self.cold.len()) as u64);
        let behind = at.wrapping_add(form.branch as u64 + 4);
        let to_cold = cold.wrapping_sub(behind) as u32;
        code[form.branch..form.branch + 4].copy_from_slice(&to_cold.to_le_bytes());
        code[form.word..form.word + 4].copy_from_slice(&place.word().to_le_bytes());
        let again = at.wrapping_add(form.again as u64);
        let to_again = again.wrapping_sub(cold.wrapping_add(LOAD.len() as u64 + 4)) as u32;
        let to_shared = self.start.wrapping_sub(cold.wrapping_add(COLD_BYTES as u64)) as u32;
        self.cold.extend(LOAD);
        self.cold.extend(to_again.to_le_bytes());
        self.cold.push(JUMP);
        self.cold.extend(to_shared.to_le_bytes());
        code
    }
}

/// `lea r11, [rip+disp32]` and `jmp rel32`: the cold instructions.
const LOAD: [u8; 3] = [0x4c, 0x8d, 0x1d];
const JUMP: u8 = 0xe9;
/// `je rel32`.
const BRANCH: [u8; 2] = [0x0f, 0x84];
/// An address that no short branch reaches.
const FAR: u64 = 1 << 30;
/// Stands for any word while the place of it is looked for.
const WORD: u32 = 0x5a3c_96e7;

/// The code of a tag of a log, and where in it what depends on the place is.
#[derive(Clone, Debug)]
struct Form {
    bytes: Vec<u8>,
    /// The distance to the cold instructions.
    branch: usize,
    word: usize,
    /// Where it begins once more.
    again: usize,
}

impl Form {
    /// Of all kinds of places.
    fn all(shape: &LogShape) -> Result<Vec<Form>, IcedError> {
        TagPlace::all().iter().map(|place| Form::of(shape, place)).collect()
    }

    fn of(shape: &LogShape, place: &TagPlace) -> Result<Form, IcedError> {
        let saved = save(place, 0)?;
        let again = saved.len();
        let bytes = [saved, record(shape, place, WORD)?].concat();
        let find = |wanted: &[u8]| bytes.windows(wanted.len()).position(|found| found == wanted);
        let branch = find(&BRANCH).map_or(0, |at| at + BRANCH.len());
        let word = find(&WORD.to_le_bytes()).unwrap_or(0);
        Ok(Form { bytes, branch, word, again })
    }
}

fn failed(at: u64) -> impl Fn(IcedError) -> StubError {
    move |error| StubError { at, reason: error.to_string() }
}

/// Makes room on the stack and for flags where something may be.
fn enter(asm: &mut CodeAssembler, place: &TagPlace) -> Result<(), IcedError> {
    if place.red_zone {
        asm.lea(rsp, ptr(rsp - RED_ZONE_BYTES))?;
    }
    if place.flags {
        asm.pushfq()?;
    }
    Ok(())
}

fn leave(asm: &mut CodeAssembler, place: &TagPlace) -> Result<(), IcedError> {
    if place.flags {
        asm.popfq()?;
    }
    if place.red_zone {
        asm.lea(rsp, ptr(rsp + RED_ZONE_BYTES))?;
    }
    Ok(())
}

/// `inc qword gs:[disp32]`: made by hand, since there are many.
const COUNT: [u8; 5] = [0x65, 0x48, 0xff, 0x04, 0x25];

fn count(place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
    // Nothing is written below the stack pointer.
    if !place.flags {
        let counter = 8 * (place.event / 2);
        return Ok([&COUNT[..], &counter.to_le_bytes()].concat());
    }
    let mut asm = CodeAssembler::new(64)?;
    enter(&mut asm, place)?;
    asm.inc(qword_ptr(8 * u64::from(place.event / 2)).gs())?;
    leave(&mut asm, place)?;
    asm.assemble(at)
}

fn card(place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    asm.mov(dword_ptr(CARD_STRIDE * u64::from(place.event)).gs(), place.word())?;
    asm.assemble(at)
}

/// What is done once, whether or not a place is found at once.
fn save(place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    enter(&mut asm, place)?;
    asm.mov(qword_ptr(rsp - 8), r11)?;
    asm.assemble(at)
}

/// Reserves a place, or goes to the cold instructions, which are far; writes the record.
fn record(shape: &LogShape, place: &TagPlace, word: u32) -> Result<Vec<u8>, IcedError> {
    let below = place.below() as i32;
    let mut asm = CodeAssembler::new(64)?;
    asm.mov(r11, qword_ptr(slot::POINTER).gs())?;
    asm.test(r11d, shape.place_mask())?;
    asm.je(FAR)?;
    asm.add(qword_ptr(slot::POINTER).gs(), shape.record_bytes() as i32)?;
    asm.prefetchw(ptr(r11 + AHEAD))?;
    if shape.is_timed || below != 0 {
        asm.mov(qword_ptr(rsp - 16), rax)?;
    }
    if shape.is_timed {
        asm.mov(qword_ptr(rsp - 24), rdx)?;
        asm.rdtsc()?;
        asm.mov(dword_ptr(r11), eax)?;
        asm.mov(dword_ptr(r11 + 4), edx)?;
        asm.mov(rdx, qword_ptr(rsp - 24))?;
    }
    let stack = dword_ptr(r11 + shape.sp_at() as i32);
    if below == 0 {
        asm.mov(stack, esp)?;
    } else {
        asm.lea(eax, ptr(rsp + below))?;
        asm.mov(stack, eax)?;
    }
    asm.mov(dword_ptr(r11 + shape.word_at() as i32), word)?;
    if shape.is_timed || below != 0 {
        asm.mov(rax, qword_ptr(rsp - 16))?;
    }
    asm.mov(r11, qword_ptr(rsp - 8))?;
    leave(&mut asm, place)?;
    asm.assemble(0)
}
