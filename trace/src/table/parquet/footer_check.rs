//! Rejects a Parquet file whose footer would take more time than its length justifies.
//!
//! Source: the Parquet format, "File Format": `<footer> <4-byte little-endian length of the footer> PAR1`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::compact::Compact;
use crate::table::TableError;

const MAGIC: [u8; 4] = *b"PAR1";
/// Bytes after the footer: its length and the magic number.
const END_BYTES: u64 = 8;

/// Checks the footer. A file that has none passes: the library reports what is wrong with it.
///
/// # Errors
/// If the file cannot be read, or if the footer is not a structure of Thrift's compact protocol.
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
    Compact(&footer)
        .skip_struct()
        .map_err(|flaw| TableError::Schema(format!("the footer at offset {start} {flaw}")))
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
        // Field 15: a list of 2^31 - 1 booleans, which the library would count one by one.
        let many = [0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0];
        let error = checked(&many).unwrap_err();
        let wanted = "the footer at offset 4 has a value of the type 1: the file is damaged";
        assert_eq!(error, wanted);
        assert!(checked(&[0x15]).unwrap_err().contains("is longer than its place"));
        assert!(checked(&[]).unwrap_err().contains("is longer than its place"));
    }

    #[test]
    fn a_file_without_a_footer_is_left_to_the_library() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"PAR1\xff\xff\xff\x7fPAR1").unwrap();
        assert!(check_footer(&file, 12).is_ok());
        assert!(check_footer(&file, 3).is_ok());
    }
}
