//! Builds the file of a program with two functions: with symbols, stripped, and without section
//! headers.

/// Address at which the file is loaded.
const BASE: u64 = 0x40_0000;
/// Sizes of headers and of a symbol.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
/// `_start`: xor ebp, ebp; lea rdi, [rip+6]; call +1; hlt. `main`: ret.
const TEXT: [u8; 16] = [0x31, 0xed, 0x48, 0x8d, 0x3d, 6, 0, 0, 0, 0xe8, 1, 0, 0, 0, 0xf4, 0xc3];
const MAIN: u64 = 15;
const SYMBOLS: &[u8] = b"\0_start\0main\0_Z4maini\0f.cold\0";
const SECTIONS: &[u8] = b"\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab\0";

/// Encodes 32-bit words.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Encodes 64-bit words.
fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

/// Builds a CIE, and one FDE for each function. `at`: their offset in the file.
fn frames(text: usize, at: usize) -> Vec<u8> {
    // Version 1, "zR", factors 1 and -8, return address 16, relative addresses; CFA is rsp+8.
    let kind = [1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
    let mut table = [&words(&[20, 0])[..], &kind].concat();
    for (start, size) in [(0, MAIN), (MAIN, 1)] {
        let from = at + table.len();
        let address = (text + start as usize) as i64 - (from + 8) as i64;
        table.extend(words(&[20, from as u32 + 4 - at as u32, address as u32, size as u32]));
        table.extend([0; 8]);
    }
    table.extend(words(&[0]));
    table
}

fn symbols(text: u64) -> Vec<u8> {
    let symbol = |name: u32, info: u32, address: u64, size: u64| {
        [words(&[name, info | 1 << 16]), longs(&[address, size])].concat()
    };
    let entries = [
        vec![0; 24],
        symbol(1, 0x12, text, 0),
        symbol(8, 0x12, text + MAIN, 1),
        symbol(13, 0x22, text + MAIN, 1),
        symbol(22, 0x02, text + 8, 2),
    ];
    entries.concat()
}

/// Builds a section header from name, type, flags, offset and size in the file, link, and size of
/// an entry. A section with flags has the address at which its offset is loaded.
fn section(
    name: u32,
    kind: u32,
    flags: u64,
    range: (usize, usize),
    link: u32,
    entry: u64,
) -> Vec<u8> {
    let (offset, size) = (range.0 as u64, range.1 as u64);
    let address = if flags == 0 { 0 } else { BASE + offset };
    let places = longs(&[flags, address, offset, size]);
    [words(&[name, kind]), places, words(&[link, 0]), longs(&[1, entry])].concat()
}

/// Returns the three files.
pub(super) fn programs() -> Vec<Vec<u8>> {
    let text = HEADER + 2 * SEGMENT;
    let frames_at = text + TEXT.len();
    let frames = frames(text, frames_at);
    let hint_at = frames_at + frames.len();
    // The .eh_frame_hdr, which locates the frames without section headers: version 1, relative
    // address, no table.
    let hint =
        [words(&[0xffff_1b01]), words(&[(frames_at as u32).wrapping_sub(hint_at as u32 + 4)])];
    let symbols_at = hint_at + 8;
    let symbols = symbols(BASE + text as u64);
    let names_at = symbols_at + symbols.len();
    let sections_at = names_at + SYMBOLS.len();
    let table_at = sections_at + SECTIONS.len();
    let table = [
        vec![0; SECTION],
        section(1, 1, 6, (text, TEXT.len()), 0, 0),
        section(7, 1, 2, (frames_at, frames.len()), 0, 0),
        section(17, 2, 0, (symbols_at, symbols.len()), 4, 24),
        section(25, 3, 0, (names_at, SYMBOLS.len()), 0, 0),
        section(33, 3, 0, (sections_at, SECTIONS.len()), 0, 0),
    ];
    let size = (table_at + table.len() * SECTION) as u64;
    let segment = |kind: u32, flags: u32, offset: usize, size: u64| {
        let (offset, address) = (offset as u64, BASE + offset as u64);
        [words(&[kind, flags]), longs(&[offset, address, address, size, size, 1])].concat()
    };
    let segments = [segment(1, 5, 0, size), segment(0x6474_e550, 4, hint_at, 8)].concat();
    let file = |sections: u32| {
        let table_at = if sections == 0 { 0 } else { table_at as u64 };
        let start = [&b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"[..], &words(&[62 << 16 | 2, 1])];
        let places = longs(&[BASE + text as u64, HEADER as u64, table_at]);
        let sizes =
            words(&[0, 56 << 16 | 64, 64 << 16 | 2, sections.saturating_sub(1) << 16 | sections]);
        let header = [&start.concat()[..], &places, &sizes].concat();
        let body = [&segments[..], &TEXT, &frames, &hint.concat(), &symbols, SYMBOLS, SECTIONS];
        [&header[..], &body.concat(), &table.concat()].concat()
    };
    let whole = file(6);
    let mut stripped = whole.clone();
    // Sets the type of the symbol section to one without a meaning.
    let kind = table_at + 3 * SECTION + 4;
    stripped[kind..kind + 4].fill(0);
    vec![whole, stripped, file(0)]
}
