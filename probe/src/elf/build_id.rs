//! Finds the build identifier of a file, which the linker computes from the file's contents. The
//! file is not read as a whole.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::elf::{ELF_NOTE_GNU, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};

use super::layout::{ENDIAN, Header};

/// Bytes at the beginning of a file that contain its headers.
const HEADERS: usize = 4096;
/// Maximum number of bytes of a segment of notes that are read.
const NOTES: u64 = 1 << 16;

/// Returns the build identifier of a file; `None` if the file has none or cannot be read.
pub fn build_id(file: &File) -> Option<Vec<u8>> {
    let mut headers = vec![0; HEADERS];
    let read = file.read_at(&mut headers, 0).ok()?;
    let headers = &headers[..read];
    let segments = Header::parse(headers).ok()?.program_headers(ENDIAN, headers).ok()?;
    let notes = segments.iter().filter(|segment| segment.p_type(ENDIAN) == PT_NOTE);
    notes.into_iter().find_map(|segment| {
        let (at, size) = (segment.p_offset(ENDIAN), segment.p_filesz(ENDIAN));
        let mut bytes = vec![0; size.min(NOTES) as usize];
        file.read_exact_at(&mut bytes, at).ok()?;
        id_in(&bytes, segment.p_align(ENDIAN))
    })
}

/// The build identifier in a segment of notes.
fn id_in(notes: &[u8], align: u64) -> Option<Vec<u8>> {
    let mut notes = NoteIterator::<Header>::new(ENDIAN, align, notes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == ELF_NOTE_GNU && note.n_type(ENDIAN) == NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec()).filter(|id| !id.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use object::Object;

    use super::*;
    use crate::elf::layout::File as Elf;

    #[test]
    fn the_identifier_is_found_as_by_a_whole_parse() {
        for path in ["/proc/self/exe", "/bin/sh", "/usr/bin/env"] {
            let bytes = std::fs::read(path).unwrap();
            let expected = Elf::parse(&*bytes).unwrap().build_id().unwrap().map(<[u8]>::to_vec);
            assert_eq!(build_id(&File::open(path).unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn damaged_files_have_none() {
        let bytes = std::fs::read("/bin/sh").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        for length in [0, 3, 63, 64, 200, 700] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(build_id(&File::open(&path).unwrap()), None, "{length}");
        }
        let mut all_ones = bytes[..64].to_vec();
        all_ones.resize(4096, 0xff);
        std::fs::write(&path, &all_ones).unwrap();
        assert_eq!(build_id(&File::open(&path).unwrap()), None);
    }
}
