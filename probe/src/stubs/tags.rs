//! Generates the code of tags.
//!
//! | sink | a tag | what it needs |
//! |---|---|---|
//! | count | `inc qword gs:[8 * function]` | flags |
//! | log | reserves a place in the thread's chunk, writes a record there | flags; 24 bytes below `rsp`; registers, which it restores |
//! | card | `mov dword gs:[64 * event], word` | nothing |
//!
//! A tag reads the place of its record and then reserves it by an addition. `xadd` would do both,
//! but takes more than twice as long from one tag to the next. No other thread uses the slot. The
//! tags of a signal handler must run before the read or after the record is written; the tracer of
//! the thread ensures this ([`super::unfinished_tag`]). Without a tracer nobody reads the records,
//! and a place that is used twice does no harm. The event word is written last and marks the record
//! as complete. Registers are saved below `rsp` without moving it: the kernel leaves the 128 bytes
//! of the red zone to an interrupted function (psABI, 3.2.2).
//!
//! If the chunk is full, the tag jumps to its cold instructions, which pass the tag's address to
//! `chunk_switch`. The cold instructions of all tags are at the start of the stubs, behind the
//! shared code, so that frequently executed code is contiguous. Tags contain no calls.

use hmtt_files::tag_log::FunctionId;
use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::layout::{LogShape, slot};
use super::{StubError, breakpoint, chunk_switch, rows};
use crate::address::RunAddr;

/// Maximum size of a tag's code together with its cold instructions, in bytes: for a log, and for
/// other sinks.
pub(super) const LOG_BYTES: usize = 128;
const SMALL_BYTES: usize = 48;
const COLD_BYTES: usize = 12;
/// Bytes below `rsp` that a function may use without moving `rsp`.
const RED_ZONE_BYTES: i32 = 128;
/// Distance in bytes ahead of a record at which memory is prefetched, because another processor has
/// emptied it.
const AHEAD: i32 = 512;
/// Distance in bytes between the events of a card's window. The card sees whole cache lines only.
pub const CARD_STRIDE: u64 = 64;

/// Action of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Counts entries, separately for each thread.
    Count,
    /// Does nothing. This measures the cost of the jumps.
    None,
    /// Writes a record to the thread's memory.
    Log(LogShape),
    /// Writes to one address for each event. The card observes these writes.
    Card,
    /// Waits until the controller has handled the thread's arrival (module `breakpoint`).
    Breakpoint {
        /// Address of the shared memory in the process.
        shared: RunAddr,
    },
    /// Does nothing. The function is changed only to search unwind tables ([`super::lookup`]).
    Lookup,
}

impl Sink {
    /// Maximum size of a tag's code, in bytes.
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Sink::None | Sink::Lookup => 0,
            Sink::Count | Sink::Card => SMALL_BYTES,
            Sink::Breakpoint { .. } => breakpoint::BYTES,
            Sink::Log(_) => LOG_BYTES,
        }
    }

    /// Whether exit sites are tagged.
    pub fn exits(self) -> bool {
        !matches!(self, Sink::Count | Sink::Breakpoint { .. } | Sink::Lookup)
    }
}

/// A place where a tag is inserted, with the state that is live there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagPlace {
    /// Event number: twice the number of the function or block, plus 1 for an exit.
    pub event: u32,
    /// Whether the function may use its red zone there.
    pub red_zone: bool,
    /// Whether flags may be live there.
    pub flags: bool,
}

impl TagPlace {
    /// The place before a function's first instruction. Neither flags nor the red zone are live.
    pub fn entry(id: FunctionId) -> Self {
        TagPlace { event: 2 * id.0, red_zone: false, flags: false }
    }

    /// The place before a function returns, or jumps to another function or to its own start.
    pub fn exit(id: FunctionId) -> Self {
        TagPlace { event: 2 * id.0 + 1, red_zone: false, flags: false }
    }

    /// The same place if the function's first instruction is also the head of a loop. The red zone
    /// may then be live, and so may flags if `flags` is set.
    pub fn in_loop(self, flags: bool) -> Self {
        TagPlace { red_zone: true, flags, ..self }
    }

    /// The place before the head of a block. `flags`: whether flags may be live there.
    pub fn block(id: FunctionId, flags: bool) -> Self {
        TagPlace { event: 2 * id.0, red_zone: true, flags }
    }

    /// Whether the event is an exit.
    fn is_exit(&self) -> bool {
        self.event & 1 != 0
    }

    /// One place of each form. A form is a combination of red zone and flags, live or not.
    fn all() -> [TagPlace; 4] {
        let kinds = [(false, false), (true, false), (false, true), (true, true)];
        kinds.map(|(red_zone, flags)| TagPlace { event: 0, red_zone, flags })
    }

    /// Bytes by which a tag lowers the stack pointer before it jumps to its cold instructions.
    pub(super) fn below(&self) -> u32 {
        u32::from(self.flags) * 8 + u32::from(self.red_zone) * RED_ZONE_BYTES as u32
    }

    /// Number of the place's form, an index into [`TagPlace::all`].
    fn form(&self) -> usize {
        usize::from(self.red_zone) + 2 * usize::from(self.flags)
    }

    /// Event word that the tag writes. It is never 0.
    pub fn word(&self) -> u32 {
        1 + self.event
    }
}

/// Generator of tags. The tags of a log share code.
#[derive(Clone, Debug)]
pub struct Tags {
    sink: Sink,
    start: u64,
    shared: Vec<u8>,
    cold: Vec<u8>,
    at_most: usize,
    /// Code of a log's tags, for each form.
    forms: Vec<Form>,
    /// Changes of the stack pointer in tags of each form ([`rows::lowered`]).
    lowered: Vec<Vec<(u32, u32, u8)>>,
}

impl Tags {
    /// Makes a generator for at most `at_most` tags. `start`: address of the shared code.
    ///
    /// # Errors
    /// [`StubError`] if the code cannot be encoded.
    pub fn new(sink: Sink, start: u64, at_most: usize) -> Result<Self, StubError> {
        let shared = match sink {
            Sink::Log(shape) => {
                chunk_switch::code(&shape, start).map_err(StubError::encoding(start))?
            }
            _ => Vec::new(),
        };
        let at_most = if matches!(sink, Sink::Log(_)) { at_most } else { 0 };
        let forms = match sink {
            Sink::Log(shape) => Form::all(&shape).map_err(StubError::encoding(start))?,
            _ => Vec::new(),
        };
        let lowered = Vec::new();
        let mut tags = Tags { sink, start, shared, cold: Vec::new(), at_most, forms, lowered };
        for place in TagPlace::all() {
            let lowered = match tags.forms.get(place.form()) {
                Some(form) => rows::lowered(&form.bytes),
                None => rows::lowered(&tags.small(&place, 0).map_err(StubError::encoding(0))?),
            };
            tags.lowered.push(lowered);
        }
        Ok(tags)
    }

    /// The code that tags share.
    pub(super) fn shared(&self) -> &[u8] {
        &self.shared
    }

    /// Address of the next tag's cold instructions; `None` if tags have none.
    pub(super) fn next_cold(&self) -> Option<u64> {
        let at = (self.shared.len() + self.cold.len()) as u64;
        (!self.forms.is_empty()).then(|| self.start.wrapping_add(at))
    }

    /// Changes of the stack pointer in the tag of a place.
    pub(super) fn lowered(&self, place: &TagPlace) -> &[(u32, u32, u8)] {
        &self.lowered[place.form()]
    }

    /// Number of bytes of the shared code and all cold instructions.
    pub fn prelude_bytes(&self) -> usize {
        self.shared.len() + COLD_BYTES * self.at_most
    }

    /// The shared code and all cold instructions. They are placed at the start of the stubs after
    /// all tags were generated.
    pub fn prelude(&self) -> Vec<u8> {
        let mut code = [&self.shared[..], &self.cold].concat();
        code.resize(self.prelude_bytes(), 0xcc);
        code
    }

    /// Number of bytes of a tag's code.
    ///
    /// # Errors
    /// [`StubError`] if the code cannot be encoded.
    pub fn bytes(&self, place: &TagPlace) -> Result<usize, StubError> {
        match self.forms.get(place.form()) {
            Some(form) => Ok(form.bytes.len()),
            None => self.small(place, 0).map(|code| code.len()).map_err(StubError::encoding(0)),
        }
    }

    /// Generates a tag at an address. The tag continues with the code that follows it.
    ///
    /// # Errors
    /// [`StubError`] if the code cannot be encoded; the generator is unchanged then.
    pub fn code(&mut self, place: &TagPlace, at: u64) -> Result<Vec<u8>, StubError> {
        match self.forms.get(place.form()).cloned() {
            Some(form) => Ok(self.log(form, place, at)),
            None => self.small(place, at).map_err(StubError::encoding(at)),
        }
    }

    /// Generates a tag of any sink but a log. Such tags share no code.
    fn small(&self, place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
        match self.sink {
            Sink::Count | Sink::Breakpoint { .. } if place.is_exit() => Ok(Vec::new()),
            Sink::Count => count(place, at),
            Sink::Breakpoint { shared } => breakpoint::code(shared, at),
            Sink::Card => card(place, at),
            Sink::None | Sink::Lookup | Sink::Log(_) => Ok(Vec::new()),
        }
    }

    /// Completes the code of a log's tag, and adds its cold instructions.
    fn log(&mut self, form: Form, place: &TagPlace, at: u64) -> Vec<u8> {
        let mut code = form.bytes;
        let cold = self.start.wrapping_add((self.shared.len() + self.cold.len()) as u64);
        let after = at.wrapping_add(form.branch as u64 + 4);
        let to_cold = cold.wrapping_sub(after) as u32;
        code[form.branch..form.branch + 4].copy_from_slice(&to_cold.to_le_bytes());
        code[form.word..form.word + 4].copy_from_slice(&place.word().to_le_bytes());
        let retry = at.wrapping_add(form.retry as u64);
        let to_retry = retry.wrapping_sub(cold.wrapping_add(LOAD.len() as u64 + 4)) as u32;
        let to_shared = self.start.wrapping_sub(cold.wrapping_add(COLD_BYTES as u64)) as u32;
        self.cold.extend(LOAD);
        self.cold.extend(to_retry.to_le_bytes());
        self.cold.push(JUMP);
        self.cold.extend(to_shared.to_le_bytes());
        code
    }
}

/// First bytes of the cold instructions: `lea r11, [rip+disp32]` and `jmp rel32`.
const LOAD: [u8; 3] = [0x4c, 0x8d, 0x1d];
const JUMP: u8 = 0xe9;
/// `je rel32`.
const BRANCH: [u8; 2] = [0x0f, 0x84];
/// Distance that no short branch reaches.
const FAR: u64 = 1 << 30;
/// Placeholder of the event word. Its position in the code is found by this value.
const WORD: u32 = 0x5a3c_96e7;

/// Code of a log's tag for one form, and the offsets of the parts that differ between tags.
#[derive(Clone, Debug)]
struct Form {
    /// All bytes of the code.
    bytes: Vec<u8>,
    /// Offset of the branch distance to the cold instructions.
    branch: usize,
    /// Offset of the event word.
    word: usize,
    /// Offset of the instruction at which the tag tries again after the switch of chunks.
    retry: usize,
}

impl Form {
    /// Generates the code for each form.
    fn all(shape: &LogShape) -> Result<Vec<Form>, IcedError> {
        TagPlace::all().iter().map(|place| Form::new(shape, place)).collect()
    }

    fn new(shape: &LogShape, place: &TagPlace) -> Result<Form, IcedError> {
        let saved = save(place, 0)?;
        let retry = saved.len();
        let bytes = [saved, record(shape, place, WORD)?].concat();
        let find = |wanted: &[u8]| bytes.windows(wanted.len()).position(|found| found == wanted);
        let branch = find(&BRANCH).map_or(0, |at| at + BRANCH.len());
        let word = find(&WORD.to_le_bytes()).unwrap_or(0);
        Ok(Form { bytes, branch, word, retry })
    }
}

/// Moves `rsp` below the red zone and saves flags, where each may be live.
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

/// `inc qword gs:[disp32]`, encoded by hand for speed, because there are many such tags.
const COUNT: [u8; 5] = [0x65, 0x48, 0xff, 0x04, 0x25];

fn count(place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
    // This tag writes nothing below the stack pointer.
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

/// Generates the first part of a tag, which runs once, however often the tag tries to reserve a
/// place.
fn save(place: &TagPlace, at: u64) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    enter(&mut asm, place)?;
    asm.mov(qword_ptr(rsp - 8), r11)?;
    asm.assemble(at)
}

/// Generates the second part of a tag, which reserves a place and writes the record. If the chunk
/// is full, it jumps to the cold instructions.
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
