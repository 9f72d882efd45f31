//! A Go program's own table of functions (`pclntab`) to what its runtime knows of them.
//!
//! The runtime unwinds and copies the stacks of goroutines by this table, so it is in stripped programs too. It says
//! where each function begins, what it is called, whether the runtime treats it specially (`funcID`), and where a
//! recovered panic goes on in it (`deferreturn`). Read are the versions of Go 1.18 and later; of any other version
//! it is only known that the program is one of Go. Nothing in the table is trusted: entries must ascend and lie in
//! instructions, and names may not take more memory than the file has.
//!
//! Layout: `pcHeader` and `_func` of Go's `runtime/symtab.go` and `runtime/runtime2.go`.

use super::Text;
use super::layout::{ENDIAN, File, Layout};
use super::reached;
use super::symbols::{Kind, Symbol};

/// What the table begins with (Go 1.18, Go 1.20): then two zeros, the unit of instructions, bytes of a pointer.
const MAGICS: [[u8; 8]; 2] =
    [[0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8], [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]];
/// Alignment of the table.
const ALIGNMENT: usize = 8;
/// Places in the header.
const COUNT: usize = 8;
const TEXT_START: usize = 24;
const NAMES: usize = 32;
const FUNCTIONS: usize = 64;
/// Bytes of an entry: distances of the function from the start of the text, of its description from the entries.
const ENTRY_BYTES: usize = 8;
/// Places in a description; the last one is farther by [`START_LINE_BYTES`] since Go 1.20.
const NAME: usize = 4;
const RESUMED: usize = 12;
const ID: usize = 36;
const START_LINE_BYTES: usize = 4;
/// Longest all names may be together, as a multiple of the file: hostile ones share bytes.
const LONGEST_NAMES: usize = 8;
/// Most tables that are tried: other data may look like the beginning of one.
const TABLES: usize = 16;
/// `nop`, and the one instruction of one byte that [`GOEXIT`] begins with in every version.
const NOP: u8 = 0x90;
/// To which goroutines return, one byte behind its first.
const GOEXIT: &str = "runtime.goexit";
/// What Go fills space behind functions with.
const PADDING: u8 = 0xcc;

/// Functions whose addresses the runtime compares, that it enters in their middle, that switch stacks, or that are
/// called where flags mean something. The runtime's own mark is missing for some, in some versions for more.
const SPECIAL: [&str; 20] = [
    "goexit",
    "asyncPreempt",
    "morestack",
    "sigreturn",
    "sigtramp",
    "sigpanic",
    "sigfwd",
    "cgoSigtramp",
    "mcall",
    "mstart",
    "systemstack",
    "gosave",
    "gogo",
    "rt0_go",
    "asmcgocall",
    "cgocallback",
    "clone",
    "duffzero",
    "duffcopy",
    "debugCall",
];
/// Packages whose functions without a check of the stack may run at the very end of it.
const RUNTIME: [&str; 5] = ["runtime.", "runtime/", "internal/", "syscall.", "reflect."];

/// A function, as Go's runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFunction {
    /// Address of its first instruction.
    pub start: u64,
    /// Where the next one begins.
    pub end: u64,
    /// Its name.
    pub name: String,
    /// Whether the runtime must find it as it is.
    pub is_special: bool,
}

impl GoFunction {
    /// Whether it makes room on the stack when there is too little.
    pub fn grows_stack(&self) -> bool {
        self.name.starts_with("runtime.morestack")
    }

    /// Whether it is part of what all programs of Go have: of such a package, or assembly of none.
    pub fn is_runtime(&self) -> bool {
        let is_assembly = !self.name.contains('.');
        is_assembly || RUNTIME.iter().any(|package| self.name.starts_with(package))
    }
}

/// What a program of Go says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    /// Its functions by address, without those of other languages; none if the table is of an unknown version.
    pub(crate) functions: Vec<GoFunction>,
    /// Where recovered panics go on, ascending.
    pub(crate) resumed: Vec<u64>,
}

impl Go {
    /// The function that has an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<&GoFunction> {
        let after = self.functions.partition_point(|one| one.start <= address);
        self.functions.get(after.checked_sub(1)?).filter(|one| address < one.end)
    }

    /// Where a function begins.
    pub(crate) fn start_of(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|one| one.name == name).map(|one| one.start)
    }

    /// Whether the table could be read.
    pub(crate) fn is_known(&self) -> bool {
        !self.functions.is_empty()
    }

    /// The functions that no symbol names, as symbols.
    pub(super) fn symbols(&self, layout: &Layout, known: &[Symbol]) -> Vec<Symbol> {
        let is_function = |symbol: &&Symbol| symbol.kind == Kind::Function;
        let mut named: Vec<u64> =
            known.iter().filter(is_function).map(|symbol| symbol.address).collect();
        named.sort_unstable();
        let missing = |one: &&GoFunction| named.binary_search(&one.start).is_err();
        let symbol = |one: &GoFunction| Symbol {
            name: one.name.clone(),
            address: one.start,
            size: without_padding(&layout.text, one),
            kind: Kind::Function,
            global: false,
        };
        self.functions.iter().filter(missing).map(symbol).collect()
    }
}

/// Bytes of a function without what fills the space behind it.
fn without_padding(text: &[Text], function: &GoFunction) -> u64 {
    let bytes = bytes_at(text, function.start).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min((function.end - function.start) as usize)];
    let last = bytes.iter().rposition(|byte| *byte != PADDING);
    last.map_or(0, |last| last as u64 + 1)
}

/// What a file says, if it is a program of Go.
pub(super) fn of(file: &File, layout: &Layout) -> Option<Go> {
    let found = tables(layout).take(TABLES).find_map(|(address, bytes)| {
        let start = text_start(file, layout, address, bytes)?;
        read(layout, bytes, start, file.data().len())
    });
    found.or_else(|| is_named_so(file).then(Go::default))
}

/// Whether the file's sections are those of Go's linker.
fn is_named_so(file: &File) -> bool {
    let table = file.elf_section_table();
    let is_go = |name: &[u8]| {
        name.ends_with(b".gopclntab") || name == b".go.buildinfo" || name == b".note.go.buildid"
    };
    let mut names = table.iter().filter_map(|header| table.section_name(ENDIAN, header).ok());
    names.any(is_go)
}

/// Whatever may be a table: its address, and the bytes from there on.
fn tables(layout: &Layout) -> impl Iterator<Item = (u64, &[u8])> {
    layout.data.iter().chain(&layout.text).flat_map(|segment| {
        let skipped = segment.start.wrapping_neg() as usize % ALIGNMENT;
        let bytes = segment.bytes.get(skipped..).unwrap_or_default();
        let words = bytes.as_chunks::<ALIGNMENT>().0.iter().enumerate();
        words.filter(|(_, word)| MAGICS.contains(word)).map(move |(index, _)| {
            let at = index * ALIGNMENT;
            (segment.start + (skipped + at) as u64, &bytes[at..])
        })
    })
}

/// What the table's distances are from. A program that is loaded anywhere has it in a relocation.
fn text_start(file: &File, layout: &Layout, address: u64, bytes: &[u8]) -> Option<u64> {
    let said = word(bytes, TEXT_START)?;
    if said != 0 {
        return Some(said);
    }
    let place = address.wrapping_add(TEXT_START as u64);
    let section = || layout.sections.iter().find(|section| !section.stubs);
    reached::pointer_at(file, &layout.data, place)
        .or_else(|| section().map(|section| section.range.start))
}

/// Reads a table; `None` if it is none.
fn read(layout: &Layout, table: &[u8], text_start: u64, file_bytes: usize) -> Option<Go> {
    let place = |at| usize::try_from(word(table, at)?).ok();
    let names = table.get(place(NAMES)?..)?;
    let entries = table.get(place(FUNCTIONS)?..)?;
    let count = place(COUNT)?;
    let id = if table[0] == MAGICS[0][0] { ID } else { ID + START_LINE_BYTES };
    // The last entry has only the address where the last function ends.
    let bytes = count.checked_mul(ENTRY_BYTES)?.checked_add(ENTRY_BYTES / 2)?;
    let listed = entries.get(..bytes)?;
    let mut room = file_bytes.saturating_mul(LONGEST_NAMES);
    let mut go = Go { functions: Vec::with_capacity(count), resumed: Vec::new() };
    for index in 0..count {
        let at = index * ENTRY_BYTES;
        let start = text_start.checked_add(half(listed, at)?.into())?;
        let end = text_start.checked_add(half(listed, at + ENTRY_BYTES)?.into())?;
        if end <= start || layout.segment_at(start).is_none_or(|segment| segment.end < end) {
            return None;
        }
        let described = entries.get(half(listed, at + ENTRY_BYTES / 2)? as usize..)?;
        let name = names.get(half(described, NAME)? as usize..)?;
        let name = &name[..name.iter().take(room).position(|byte| *byte == 0)?];
        room -= name.len();
        let name = String::from_utf8_lossy(name).into_owned();
        let is_special = is_special(&name, *described.get(id)?);
        match half(described, RESUMED)? {
            0 => {}
            distance => go.resumed.push(start.checked_add(distance.into())?),
        }
        go.functions.push(GoFunction { start, end, name, is_special });
    }
    go.resumed.sort_unstable();
    let goexit = go.functions.iter().find(|one| one.name == GOEXIT)?;
    (bytes_at(&layout.text, goexit.start)?.first() == Some(&NOP)).then_some(go)
}

/// Whether the runtime must find a function as it is. `id`: its mark; wrappers that the compiler makes have one too.
fn is_special(name: &str, id: u8) -> bool {
    let own = name.strip_prefix("runtime.");
    own.is_some_and(|own| id != 0 || SPECIAL.iter().any(|special| own.starts_with(special)))
}

/// The bytes of a segment from an address on.
fn bytes_at(segments: &[Text], address: u64) -> Option<&[u8]> {
    segments.iter().find_map(|segment| {
        let skipped = usize::try_from(address.checked_sub(segment.start)?).ok()?;
        segment.bytes.get(skipped..).filter(|bytes| !bytes.is_empty())
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x40_0000;

    fn layout() -> Layout {
        let text = vec![Text { start: START, offset: 0, bytes: vec![NOP; 0x100] }];
        let (data, sections) = (Vec::new(), Vec::new());
        Layout { text, data, sections, entry: START, relocatable: false, dynamic: false }
    }

    /// A table of functions of 16 bytes, each with its mark and where it goes on after a panic.
    fn table(functions: &[(&str, u8, u32)]) -> Vec<u8> {
        let names_at = 72;
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (name, ..) in functions {
            places.push(names.len() as u32);
            names.extend(name.bytes().chain([0]));
        }
        names.resize(names.len().next_multiple_of(8), 0);
        let longs = [functions.len() as u64, 0, START, names_at, 0, 0, 0];
        let entries_at = names_at + names.len() as u64;
        let longs = longs.into_iter().chain([entries_at]).flat_map(u64::to_le_bytes);
        let mut table: Vec<u8> = MAGICS[0].into_iter().chain(longs).chain(names).collect();
        let first = (functions.len() * ENTRY_BYTES + 4) as u32;
        let entry = |number: u32| [16 * number, first + 40 * number].map(u32::to_le_bytes);
        table.extend((0..functions.len() as u32).flat_map(|number| entry(number).concat()));
        table.extend((16 * functions.len() as u32).to_le_bytes());
        for (number, (place, (_, id, resumed))) in (0..).zip(places.iter().zip(functions)) {
            let words = [16 * number, *place, 0, *resumed, 0, 0, 0, 0, 0, u32::from(*id)];
            table.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        table
    }

    #[test]
    fn functions_are_named_and_those_that_the_runtime_marks_are_special() {
        let table = table(&[
            ("runtime.goexit", 0, 0),
            ("main.f", 0, 5),
            ("runtime.x", 3, 0),
            ("main.(*T).f", 9, 0),
        ]);
        let go = read(&layout(), &table, START, table.len()).unwrap();
        let found: Vec<_> = go.functions.iter().map(|one| (&*one.name, one.is_special)).collect();
        let named = [
            ("runtime.goexit", true),
            ("main.f", false),
            ("runtime.x", true),
            ("main.(*T).f", false),
        ];
        assert_eq!(found, named);
        assert_eq!(go.resumed, [START + 16 + 5]);
        assert_eq!(go.function_at(START + 31).map(|one| one.start), Some(START + 16));
    }

    #[test]
    fn a_table_that_is_cut_or_claims_more_than_there_is_is_none() {
        let whole = table(&[("runtime.goexit", 0, 0), ("main.f", 0, 5)]);
        assert!(read(&layout(), &whole, START, whole.len()).is_some());
        for end in 0..whole.len() {
            let _ = read(&layout(), &whole[..end], START, end);
        }
        for place in [COUNT, NAMES, FUNCTIONS] {
            let mut claims = whole.clone();
            claims[place..place + 8].fill(0xff);
            assert_eq!(read(&layout(), &claims, START, claims.len()), None);
        }
        // Elsewhere than in instructions.
        assert_eq!(read(&layout(), &whole, START + 0x1000, whole.len()), None);
    }
}
