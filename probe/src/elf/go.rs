//! Reads the function table of a Go program (`pclntab`).
//!
//! The runtime needs this table to unwind and copy the stacks of goroutines, so stripped programs
//! have it too. It contains, for each function, its start, its name, a mark if the runtime treats
//! it specially (`funcID`), and the address where the function continues after a recovered panic
//! (`deferreturn`). The formats of Go 1.18 and later are supported. A table of another version only
//! shows that the file is a Go program. The table is not trusted: entries must ascend and lie in
//! instructions, and the total size of names is limited to a multiple of the file's size.
//!
//! Layout: `pcHeader` and `_func` of Go's `runtime/symtab.go` and `runtime/runtime2.go`.

use super::Text;
use super::indirect_targets;
use super::layout::{ENDIAN, File, Layout};
use super::symbols::{Kind, Symbol};

/// First bytes of the table (Go 1.18, Go 1.20): a number, two zeros, the instruction unit, and the
/// size of a pointer in bytes.
const MAGICS: [[u8; 8]; 2] =
    [[0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8], [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]];
/// Alignment of the table.
const ALIGNMENT: usize = 8;
/// Offsets in the header.
const COUNT: usize = 8;
const TEXT_START: usize = 24;
const NAMES: usize = 32;
const FUNCTIONS: usize = 64;
/// Bytes of an entry: distance of the function from the start of the text, and distance of its
/// description from the first entry.
const ENTRY_BYTES: usize = 8;
/// Offsets in a description. Since Go 1.20 the last one is greater by [`START_LINE_BYTES`].
const NAME: usize = 4;
const RESUMED: usize = 12;
const ID: usize = 36;
const START_LINE_BYTES: usize = 4;
/// Maximum total size of all names, as a multiple of the file's size. In a hostile file names may
/// share bytes.
const LONGEST_NAMES: usize = 8;
/// Maximum number of candidate tables that are tried. Other data may look like the start of a
/// table.
const TABLES: usize = 16;
/// `nop`, the only instruction of one byte, with which [`GOEXIT`] begins in every version.
const NOP: u8 = 0x90;
/// The function that goroutines return to. The return address is its second byte.
const GOEXIT: &str = "runtime.goexit";
/// Padding after Go functions.
const PADDING: u8 = 0xcc;

/// Functions whose addresses the runtime compares, that the runtime enters in their middle, that
/// switch stacks, or that are called with live flags. The runtime's own mark is missing for some of
/// them; which ones depends on the version.
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
/// Prefixes of packages whose functions without a stack check may run at the very end of the stack.
const RUNTIME: [&str; 5] = ["runtime.", "runtime/", "internal/", "syscall.", "reflect."];

/// A function in the Go runtime's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFunction {
    /// Address of the function's first instruction.
    pub start: u64,
    /// Start of the next function.
    pub end: u64,
    /// Name in the table.
    pub name: String,
    /// Whether the runtime depends on the function's unchanged instructions.
    pub is_special: bool,
}

impl GoFunction {
    /// Whether the function grows the stack.
    pub fn grows_stack(&self) -> bool {
        self.name.starts_with("runtime.morestack")
    }

    /// Whether the function belongs to the packages that all Go programs contain, or is assembly
    /// without a package.
    pub fn is_runtime(&self) -> bool {
        let is_assembly = !self.name.contains('.');
        is_assembly || RUNTIME.iter().any(|package| self.name.starts_with(package))
    }
}

/// The function table of a Go program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    /// Functions by address, without functions of other languages. Empty if the version of the
    /// table is unknown.
    pub(crate) functions: Vec<GoFunction>,
    /// Addresses where functions continue after a recovered panic, ascending.
    pub(crate) recovery_points: Vec<u64>,
}

impl Go {
    /// The function that contains an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<&GoFunction> {
        let after = self.functions.partition_point(|function| function.start <= address);
        self.functions.get(after.checked_sub(1)?).filter(|function| address < function.end)
    }

    /// Start of the function with this name.
    pub(crate) fn start_of(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|function| function.name == name).map(|function| function.start)
    }

    /// Whether the table could be read.
    pub(crate) fn is_known(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Symbols for the functions in the table that none of the `known` symbols names.
    pub(super) fn symbols(&self, layout: &Layout, known: &[Symbol]) -> Vec<Symbol> {
        let is_function = |symbol: &&Symbol| symbol.kind == Kind::Function;
        let mut named: Vec<u64> =
            known.iter().filter(is_function).map(|symbol| symbol.address).collect();
        named.sort_unstable();
        let missing = |function: &&GoFunction| named.binary_search(&function.start).is_err();
        let symbol = |function: &GoFunction| Symbol {
            name: function.name.clone(),
            address: function.start,
            size: without_padding(&layout.text, function),
            kind: Kind::Function,
            global: false,
        };
        self.functions.iter().filter(missing).map(symbol).collect()
    }
}

/// Size of a function in bytes, without the padding behind it.
fn without_padding(text: &[Text], function: &GoFunction) -> u64 {
    let bytes = bytes_at(text, function.start).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min((function.end - function.start) as usize)];
    let last = bytes.iter().rposition(|byte| *byte != PADDING);
    last.map_or(0, |last| last as u64 + 1)
}

/// Reads the table of a file; `None` if the file is no Go program.
pub(super) fn read(file: &File, layout: &Layout) -> Option<Go> {
    let go = tables(layout).take(TABLES).find_map(|(address, bytes)| {
        let start = text_start(file, layout, address, bytes)?;
        read_table(layout, bytes, start, file.data().len())
    });
    go.or_else(|| has_go_sections(file).then(Go::default))
}

/// Whether the file has sections of Go's linker.
fn has_go_sections(file: &File) -> bool {
    let table = file.elf_section_table();
    let is_go = |name: &[u8]| {
        name.ends_with(b".gopclntab") || name == b".go.buildinfo" || name == b".note.go.buildid"
    };
    let mut names = table.iter().filter_map(|header| table.section_name(ENDIAN, header).ok());
    names.any(is_go)
}

/// Candidates for the table: the address of each, and the bytes from this address on.
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

/// The address from which the table's distances are counted. In a position-independent program a
/// relocation holds it.
fn text_start(file: &File, layout: &Layout, address: u64, bytes: &[u8]) -> Option<u64> {
    let stored = word(bytes, TEXT_START)?;
    if stored != 0 {
        return Some(stored);
    }
    let place = address.wrapping_add(TEXT_START as u64);
    let section = || layout.sections.iter().find(|section| !section.stubs);
    indirect_targets::pointer_at(file, &layout.data, place)
        .or_else(|| section().map(|section| section.range.start))
}

/// Reads a table; `None` if it is not valid.
fn read_table(layout: &Layout, table: &[u8], text_start: u64, file_bytes: usize) -> Option<Go> {
    let place = |at| usize::try_from(word(table, at)?).ok();
    let names = table.get(place(NAMES)?..)?;
    let entries = table.get(place(FUNCTIONS)?..)?;
    let count = place(COUNT)?;
    let id = if table[0] == MAGICS[0][0] { ID } else { ID + START_LINE_BYTES };
    // The last entry is only the end address of the last function.
    let bytes = count.checked_mul(ENTRY_BYTES)?.checked_add(ENTRY_BYTES / 2)?;
    let listed = entries.get(..bytes)?;
    let mut bytes_left = file_bytes.saturating_mul(LONGEST_NAMES);
    let mut go = Go { functions: Vec::with_capacity(count), recovery_points: Vec::new() };
    for index in 0..count {
        let at = index * ENTRY_BYTES;
        let start = text_start.checked_add(half(listed, at)?.into())?;
        let end = text_start.checked_add(half(listed, at + ENTRY_BYTES)?.into())?;
        if end <= start || layout.segment_at(start).is_none_or(|segment| segment.end < end) {
            return None;
        }
        let described = entries.get(half(listed, at + ENTRY_BYTES / 2)? as usize..)?;
        let name = names.get(half(described, NAME)? as usize..)?;
        let name = &name[..name.iter().take(bytes_left).position(|byte| *byte == 0)?];
        bytes_left -= name.len();
        let name = String::from_utf8_lossy(name).into_owned();
        let is_special = is_special(&name, *described.get(id)?);
        match half(described, RESUMED)? {
            0 => {}
            distance => go.recovery_points.push(start.checked_add(distance.into())?),
        }
        go.functions.push(GoFunction { start, end, name, is_special });
    }
    go.recovery_points.sort_unstable();
    let goexit = go.functions.iter().find(|function| function.name == GOEXIT)?;
    (bytes_at(&layout.text, goexit.start)?.first() == Some(&NOP)).then_some(go)
}

/// Whether the runtime depends on a function's unchanged instructions. `id`: the runtime's mark.
/// Wrappers that the compiler generates have a mark too, so it counts only in the package
/// `runtime`.
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

    /// Encodes a table of functions of 16 bytes, each with its mark and the offset where it
    /// continues after a panic.
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
    fn functions_are_named_and_those_with_a_mark_are_special() {
        let table = table(&[
            ("runtime.goexit", 0, 0),
            ("main.f", 0, 5),
            ("runtime.x", 3, 0),
            ("main.(*T).f", 9, 0),
        ]);
        let go = read_table(&layout(), &table, START, table.len()).unwrap();
        let functions: Vec<_> =
            go.functions.iter().map(|function| (&*function.name, function.is_special)).collect();
        let named = [
            ("runtime.goexit", true),
            ("main.f", false),
            ("runtime.x", true),
            ("main.(*T).f", false),
        ];
        assert_eq!(functions, named);
        assert_eq!(go.recovery_points, [START + 16 + 5]);
        assert_eq!(go.function_at(START + 31).map(|function| function.start), Some(START + 16));
    }

    #[test]
    fn a_cut_or_oversized_table_is_refused() {
        let whole = table(&[("runtime.goexit", 0, 0), ("main.f", 0, 5)]);
        assert!(read_table(&layout(), &whole, START, whole.len()).is_some());
        for end in 0..whole.len() {
            let _ = read_table(&layout(), &whole[..end], START, end);
        }
        for place in [COUNT, NAMES, FUNCTIONS] {
            let mut claims = whole.clone();
            claims[place..place + 8].fill(0xff);
            assert_eq!(read_table(&layout(), &claims, START, claims.len()), None);
        }
        // The functions would be outside the instructions.
        assert_eq!(read_table(&layout(), &whole, START + 0x1000, whole.len()), None);
    }
}
