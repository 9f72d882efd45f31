//! Encodes and decodes the functions of a program.
//!
//! All numbers are little-endian, and all text is UTF-8.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | original address of the first instruction; 0 if it is not known |
//! | 8 | 8 | size of the function in bytes; 0 if it is not known |
//! | 16 | 2 | bytes of the name; 0 for code of a file outside of all known functions |
//! | 18 | 2 | bytes of the path of the file; 0 if the function is in no file |
//! | 20 | 2 | bytes of the build identifier of the file; 0 if there is none |
//! | 22 | | the name, the path and the build identifier |

use std::string::String;
use std::vec::Vec;

use super::take;

/// A function of the program, or code of a file that belongs to no known function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Original address of the first instruction in the process; 0 if it is not known.
    pub start: u64,
    /// Size of the function in bytes; 0 if it is not known.
    pub bytes: u64,
    /// Name of the function; empty for code of a file outside of all known functions.
    pub name: String,
    /// Path of the file when it was mapped; empty if the function is in no file.
    pub path: String,
    /// Build identifier of the file; empty if there is none.
    pub build_id: Vec<u8>,
}

/// The first bytes of a text, at most 65535. A character is not split.
fn shortened(text: &str) -> &[u8] {
    let mut end = text.len().min(u16::MAX.into());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

impl Function {
    /// Appends the description to `bytes`. Names, paths and build identifiers are cut after 65535
    /// bytes.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.start.to_le_bytes());
        bytes.extend(self.bytes.to_le_bytes());
        let build_id = &self.build_id[..self.build_id.len().min(u16::MAX.into())];
        let texts = [shortened(&self.name), shortened(&self.path), build_id];
        texts.iter().for_each(|text| bytes.extend((text.len() as u16).to_le_bytes()));
        texts.iter().for_each(|text| bytes.extend(*text));
    }

    /// Parses the function at the start of `bytes`. Returns the function and the bytes after it, or
    /// `None` if the bytes are invalid.
    pub fn parse(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let rest = &mut bytes;
        let start = u64::from_le_bytes(*take(rest)?);
        let size = u64::from_le_bytes(*take(rest)?);
        let mut length = || Some(usize::from(u16::from_le_bytes(*take(rest)?)));
        let (name, path, build_id) = (length()?, length()?, length()?);
        let (name, bytes) = bytes.split_at_checked(name)?;
        let (path, bytes) = bytes.split_at_checked(path)?;
        let (build_id, bytes) = bytes.split_at_checked(build_id)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (name, path) = (text(name)?, text(path)?);
        let build_id = build_id.to_vec();
        Some((Function { start, bytes: size, name, path, build_id }, bytes))
    }

    /// Name of the file without its folders; empty if the function is in no file.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn functions_are_read_as_they_were_written(
            (start, bytes) in any::<(u64, u64)>(),
            (name, path) in any::<(String, String)>(),
            build_id in prop::collection::vec(any::<u8>(), 0..40),
            rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let function = Function { start, bytes, name, path, build_id };
            let mut written = Vec::new();
            function.write(&mut written);
            for length in 0..written.len() {
                prop_assert_eq!(Function::parse(&written[..length]), None);
            }
            written.extend(&rest);
            prop_assert_eq!(Function::parse(&written), Some((function, &rest[..])));
        }

        #[test]
        fn any_bytes_are_a_function_or_refused(
            numbers in any::<[u8; 16]>(),
            lengths in any::<[u8; 3]>(),
            rest in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let lengths = lengths.map(|length| [length, 0]).concat();
            let bytes = [&numbers[..], &lengths, &rest].concat();
            if let Some((function, rest)) = Function::parse(&bytes) {
                let mut written = Vec::new();
                function.write(&mut written);
                prop_assert_eq!([&written, rest].concat(), bytes);
            }
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let name = format!("n{}", "\u{e4}".repeat(40_000));
        let mut written = Vec::new();
        Function { name, path: "/bin/p".into(), ..Function::default() }.write(&mut written);
        let (function, rest) = Function::parse(&written).unwrap();
        assert!(rest.is_empty() && function.name.ends_with('\u{e4}'));
        assert_eq!((function.name.len(), function.file_name()), (65535, "p"));
    }
}
