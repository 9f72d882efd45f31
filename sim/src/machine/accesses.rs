//! Reads the accesses of a program as text, plain or gzip.
//!
//! ```text
//! R|W,ADDRESS,SIZE       address hexadecimal, size in bytes decimal
//! I  ADDRESS,SIZE        valgrind --tool=lackey --trace-mem=yes: instruction fetch,
//!  L ADDRESS,SIZE        load,
//!  S ADDRESS,SIZE        store,
//!  M ADDRESS,SIZE        load and then store of one address
//! ```
//!
//! Both notations may be mixed. Blank lines, comments (`#`) and messages of valgrind (`==`, `--`)
//! are skipped. Everything else is an error with its line.

use crate::input::InputError;
use crate::input::lines::Lines;

use super::cache::AccessKind;
use super::pages::VirtAddr;

/// Largest access in bytes: the size of a page. The time for an access grows with its size.
pub const MOST_BYTES: u32 = 4096;

/// An access of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramAccess {
    /// Whether the access is a load, a store or an instruction fetch.
    pub kind: AccessKind,
    /// Address of the first byte.
    pub address: VirtAddr,
    /// Size in bytes, 1 to [`MOST_BYTES`].
    pub size: u32,
}

/// An iterator over the accesses of a text.
pub struct AccessReader {
    lines: Lines,
    /// The store of a line of kind M, whose load was already returned.
    store: Option<ProgramAccess>,
    ended: bool,
}

impl AccessReader {
    /// Creates a reader.
    pub const fn new(lines: Lines) -> Self {
        AccessReader { lines, store: None, ended: false }
    }

    /// Number, from 1, of the line that was read last.
    pub const fn line(&self) -> u64 {
        self.lines.number()
    }

    fn advance(&mut self) -> Result<Option<ProgramAccess>, InputError> {
        if let Some(store) = self.store.take() {
            return Ok(Some(store));
        }
        while let Some(line) = self.lines.next_line()? {
            match parse(line) {
                Ok(Line::Skipped) => {}
                Ok(Line::Access(access)) => return Ok(Some(access)),
                Ok(Line::Modify(load)) => {
                    self.store = Some(ProgramAccess { kind: AccessKind::Write, ..load });
                    return Ok(Some(load));
                }
                Err(expected) => {
                    let line = line.to_owned();
                    return Err(self.lines.malformed(expected, &line));
                }
            }
        }
        Ok(None)
    }
}

impl Iterator for AccessReader {
    type Item = Result<ProgramAccess, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.advance().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

enum Line {
    Skipped,
    Access(ProgramAccess),
    /// A load, then a store of the same bytes.
    Modify(ProgramAccess),
}

/// Parses a line, or returns what was expected.
fn parse(line: &str) -> Result<Line, &'static str> {
    let trimmed = line.trim();
    if trimmed.is_empty() || ["#", "==", "--"].iter().any(|mark| trimmed.starts_with(mark)) {
        return Ok(Line::Skipped);
    }
    const FORM: &str = "R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE";
    let (letter, rest) = trimmed.split_at_checked(1).ok_or(FORM)?;
    let kind = match (letter, rest.as_bytes().first()) {
        ("R", Some(b',')) | ("L" | "M", Some(b' ')) => AccessKind::Read,
        ("W", Some(b',')) | ("S", Some(b' ')) => AccessKind::Write,
        ("I", Some(b' ')) => AccessKind::Fetch,
        _ => return Err(FORM),
    };
    let (address, size) = rest[1..].trim_start().split_once(',').ok_or(FORM)?;
    let digits = address.bytes().all(|digit| digit.is_ascii_hexdigit());
    let address = u64::from_str_radix(address, 16).ok().filter(|_| digits);
    let address = VirtAddr(address.ok_or("an address of 64 bits in hexadecimal")?);
    let digits = size.bytes().all(|digit| digit.is_ascii_digit());
    let size = size.parse().ok().filter(|size| digits && (1..=MOST_BYTES).contains(size));
    let size: u32 = size.ok_or("a size of 1 to 4096 bytes")?;
    if address.0.checked_add(u64::from(size - 1)).is_none() {
        return Err("an access that ends within the address space");
    }
    let access = ProgramAccess { kind, address, size };
    Ok(if letter == "M" { Line::Modify(access) } else { Line::Access(access) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::lines::decompress;
    use proptest::prelude::*;
    use std::io::Cursor;
    use std::path::Path;

    fn read(text: &str) -> Result<Vec<ProgramAccess>, InputError> {
        let reader = decompress(Cursor::new(text.as_bytes().to_vec())).unwrap();
        AccessReader::new(Lines::new(Path::new("x"), reader)).collect()
    }

    #[test]
    fn both_notations_are_read() {
        let text =
            "==7== Lackey\nI  04001000,3\n L 1ffefffe58,8\n\n S 10,4\nR,ff,1\n# x\nW,0,4096\n";
        let access = |kind, address, size| ProgramAccess { kind, address: VirtAddr(address), size };
        let expected = [
            access(AccessKind::Fetch, 0x400_1000, 3),
            access(AccessKind::Read, 0x1f_feff_fe58, 8),
            access(AccessKind::Write, 0x10, 4),
            access(AccessKind::Read, 0xff, 1),
            access(AccessKind::Write, 0, 4096),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn a_modification_is_a_load_and_a_store() {
        let both = read(" M 1000,8\n").unwrap();
        assert_eq!(
            both.iter().map(|access| access.kind).collect::<Vec<_>>(),
            [AccessKind::Read, AccessKind::Write]
        );
        assert_eq!((both[0].address, both[0].size), (both[1].address, both[1].size));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([RWILSM =,0-9a-fx+]{0,12}\n){0,6}", bytes: Vec<u8>) {
            for access in read(&text).into_iter().flatten() {
                prop_assert!((1..=MOST_BYTES).contains(&access.size));
            }
            let reader = decompress(Cursor::new(bytes));
            if let Ok(reader) = reader {
                let _ = AccessReader::new(Lines::new(Path::new("x"), reader)).count();
            }
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let lines = [
            "X,0,1",
            "R 0,1",
            "L,0,1",
            "R,0",
            "R,+1,1",
            "R,g,1",
            "R,0x1,1",
            "R,0,0",
            "R,0,4097",
            "W,ffffffffffffffff,2",
            "R,10000000000000000,1",
            "é,0,1",
            "I",
            "R",
        ];
        let errors: Vec<_> = lines
            .iter()
            .map(|line| read(&format!("R,0,1\n{line}\n")).unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `X,0,1`
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `R 0,1`
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `L,0,1`
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `R,0`
        x:2: expected an address of 64 bits in hexadecimal, got `R,+1,1`
        x:2: expected an address of 64 bits in hexadecimal, got `R,g,1`
        x:2: expected an address of 64 bits in hexadecimal, got `R,0x1,1`
        x:2: expected a size of 1 to 4096 bytes, got `R,0,0`
        x:2: expected a size of 1 to 4096 bytes, got `R,0,4097`
        x:2: expected an access that ends within the address space, got `W,ffffffffffffffff,2`
        x:2: expected an address of 64 bits in hexadecimal, got `R,10000000000000000,1`
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `é,0,1`
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `I`
        x:2: expected R|W,ADDRESS,SIZE or lackey's I|L|S|M ADDRESS,SIZE, got `R`
        ");
    }
}
