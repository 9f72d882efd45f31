//! Rejects a Parquet file whose footer would take more time or memory than its length justifies.
//!
//! Source: the Parquet format, "File Format": `<footer> <4-byte little-endian length of the footer>
//! PAR1`.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::compact::{Compact, SchemaSize};
use super::thrift_schema::FILE_METADATA;
use crate::table::TableError;

const MAGIC: [u8; 4] = *b"PAR1";
/// Bytes after the footer: its length and the magic number.
const END_BYTES: u64 = 8;
/// Maximum number of groups of a schema besides the root. The depth of a schema cannot be larger.
const MAX_GROUPS: u64 = 128;
/// Maximum size of the paths of all columns together, in bytes for each byte of the footer.
const PATHS_PER_BYTE: u64 = 64;

/// Checks the footer. A file without a footer passes, because the library reports this error
/// itself.
///
/// # Errors
/// The file cannot be read, the footer is no `FileMetaData` in Thrift's compact protocol, or its
/// schema is too large.
pub(super) fn check_footer(file: &File, file_length: u64) -> Result<(), TableError> {
    let Some(end) = file_length.checked_sub(END_BYTES) else { return Ok(()) };
    let mut trailer = [0; END_BYTES as usize];
    file.read_exact_at(&mut trailer, end)?;
    let (length, magic) = trailer.split_at(4);
    let length = length.try_into().map(u32::from_le_bytes).map_err(io::Error::other)?;
    let Some(start) = end.checked_sub(length.into()).filter(|_| magic == MAGIC) else {
        return Ok(());
    };
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, start)?;
    let flaw = |flaw: &dyn fmt::Display| {
        TableError::Schema(format!("the footer at offset {start} {flaw}"))
    };
    let mut compact = Compact::new(&footer);
    compact.skip_struct(FILE_METADATA).map_err(|error| flaw(&error))?;
    check_schema(compact.schema(), footer.len() as u64).map_err(|error| flaw(&error))
}

/// Checks that the memory for the paths of columns is linear in the size of the footer, and that
/// the schema is not deep, because the library reads schemas recursively.
fn check_schema(schema: SchemaSize, footer_bytes: u64) -> Result<(), &'static str> {
    // A flat table has one group, the root, whose name is in no path.
    let groups = schema.groups.saturating_sub(1);
    if groups > MAX_GROUPS {
        return Err("has too many nested columns; write the table without them");
    }
    let path_bytes = groups.saturating_mul(schema.longest_name);
    if path_bytes.saturating_mul(schema.names) > footer_bytes.saturating_mul(PATHS_PER_BYTE) {
        return Err(
            "has nested columns with names that are too long; write the table without them",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn checked(footer: &[u8]) -> Result<(), String> {
        let mut file = tempfile::tempfile().unwrap();
        let length = (footer.len() as u32).to_le_bytes();
        file.write_all(&[&MAGIC[..], footer, &length, &MAGIC].concat()).unwrap();
        let bytes = file.metadata().unwrap().len();
        check_footer(&file, bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_footer_that_states_more_elements_than_it_has_is_rejected() {
        assert_eq!(checked(&[0x15, 2, 0]), Ok(()));
        // Field 1 is a 32-bit number. The library reads one, whatever type the file states.
        let error = checked(&[0x1c, 0, 0]).unwrap_err();
        assert!(error.ends_with("has a field 1 of the type 12: the file is damaged"), "{error}");
        // Field 15: a list of 2^31 - 1 booleans, which the library would count one by one.
        let many = [0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0];
        let error = checked(&many).unwrap_err();
        let wanted = "the footer at offset 4 has a value of the type 1: the file is damaged";
        assert_eq!(error, wanted);
        assert!(checked(&[0x15]).unwrap_err().contains("is longer than its place"));
        assert!(checked(&[]).unwrap_err().contains("is longer than its place"));
    }

    /// A footer with a schema: elements with a name and a number of children.
    fn footer(elements: impl IntoIterator<Item = (String, u8)>) -> Vec<u8> {
        let elements: Vec<Vec<u8>> = elements
            .into_iter()
            .map(|(name, children)| {
                let length = [0x80 | name.len() as u8, (name.len() >> 7) as u8];
                [&[0x48], &length[..], name.as_bytes(), &[0x15, 2 * children, 0]].concat()
            })
            .collect();
        let count = [0x80 | elements.len() as u8, 0x80 | (elements.len() >> 7) as u8, 0];
        [&[0x29, 0xfc], &count[..], &elements.concat(), &[0]].concat()
    }

    #[test]
    fn schemas_are_neither_deep_nor_of_long_paths() {
        let nested = |depth| (0..=depth).map(|_| ("a".to_string(), 1));
        assert_eq!(checked(&footer(nested(128))), Ok(()));
        let error = checked(&footer(nested(129))).unwrap_err();
        assert!(error.ends_with("has too many nested columns; write the table without them"));
        // A group in the root, and its columns: each has the name of the group in its path.
        let group = |bytes: usize, columns| {
            let groups = [("root".to_string(), 1), ("g".repeat(bytes), 63)];
            groups.into_iter().chain((0..columns).map(|_| ("column".to_string(), 0)))
        };
        assert_eq!(checked(&footer(group(500, 100))), Ok(()));
        assert!(checked(&footer(group(5000, 1000))).unwrap_err().contains("too long"));
        let wide = (0..1000).map(|_| ("column".repeat(100), 0));
        assert_eq!(checked(&footer([("root".to_string(), 63)].into_iter().chain(wide))), Ok(()));
    }

    #[test]
    fn a_file_without_a_footer_is_left_to_the_library() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"PAR1\xff\xff\xff\x7fPAR1").unwrap();
        assert!(check_footer(&file, 12).is_ok());
        assert!(check_footer(&file, 3).is_ok());
    }
}
