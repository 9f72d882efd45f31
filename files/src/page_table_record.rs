//! Encodes and decodes the 13-byte records of changes of page tables in HMTT's published traces.
//!
//! The `README.md` of the published traces says that a record has a magic number, a process, a
//! virtual and a physical page number, with 1, 4, 4 and 4 bytes. The program `trace.cpp` beside it
//! reads the last 8 bytes as one little-endian number, with 24 bits of the physical page and 40
//! bits of the virtual page (`docs/pagemap.md` names the sources). [`Layout`] has both variants.
//!
//! Marks of 16 equal bytes divide the records: [`START`], [`DUMP`], the records of all pages at the
//! begin, [`DUMPED`], the records of changes, [`END`].

/// Size of a record in bytes.
pub const RECORD_BYTES: usize = 13;
/// Size of a mark in bytes.
pub const MARK_BYTES: usize = 16;
/// Byte of the mark at the begin.
pub const START: u8 = b'@';
/// Byte of the mark before all pages.
pub const DUMP: u8 = b'#';
/// Byte of the mark after all pages.
pub const DUMPED: u8 = b'&';
/// Byte of the mark at the end.
pub const END: u8 = b'$';
/// Magic number: a page gets a frame.
const SET: u8 = 0xec;
/// Magic number: a page loses its frame. [`OTHER_FREES`] have the same meaning.
const FREE: u8 = 0xfc;
const OTHER_FREES: [u8; 2] = [0x22, 0x33];

/// Where the numbers of pages are in the last 8 bytes of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The layout that the published program reads: 3 bytes of the frame, 5 of the virtual page.
    #[default]
    Program,
    /// The layout that the published text describes: 4 bytes of the virtual page, 4 of the frame.
    Text,
}

/// A change of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTableRecord {
    /// Whether the page gets the frame; otherwise it loses the frame.
    pub is_set: bool,
    /// Number of the process.
    pub pid: u32,
    /// Number of the virtual page.
    pub page: u64,
    /// Number of the frame.
    pub frame: u64,
}

impl Layout {
    /// Number of bits of a virtual page's number, and of a frame's number.
    const fn bits(self) -> (u32, u32) {
        match self {
            Layout::Program => (40, 24),
            Layout::Text => (32, 32),
        }
    }
}

impl PageTableRecord {
    /// Encodes the record; `None` if a number has too many bits.
    pub fn encode(&self, layout: Layout) -> Option<[u8; RECORD_BYTES]> {
        let (page_bits, frame_bits) = layout.bits();
        if self.page >> page_bits != 0 || self.frame >> frame_bits != 0 {
            return None;
        }
        let numbers = match layout {
            Layout::Program => self.page << frame_bits | self.frame,
            Layout::Text => self.frame << page_bits | self.page,
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = if self.is_set { SET } else { FREE };
        bytes[1..5].copy_from_slice(&self.pid.to_le_bytes());
        bytes[5..].copy_from_slice(&numbers.to_le_bytes());
        Some(bytes)
    }

    /// Decodes a record; `None` if its magic number states no change of a page with a frame.
    pub fn decode(bytes: &[u8; RECORD_BYTES], layout: Layout) -> Option<Self> {
        let [magic, p0, p1, p2, p3, numbers @ ..] = *bytes;
        let is_set = match magic {
            SET => true,
            FREE => false,
            other if OTHER_FREES.contains(&other) => false,
            _ => return None,
        };
        let numbers = u64::from_le_bytes(numbers);
        let (page_bits, frame_bits) = layout.bits();
        let (page, frame) = match layout {
            Layout::Program => (numbers >> frame_bits, numbers & (1 << frame_bits) - 1),
            Layout::Text => (numbers & (1 << page_bits) - 1, numbers >> page_bits),
        };
        Some(PageTableRecord { is_set, pid: u32::from_le_bytes([p0, p1, p2, p3]), page, frame })
    }
}

/// The byte of a mark, if these bytes are the start of a mark.
pub fn mark(bytes: &[u8; RECORD_BYTES]) -> Option<u8> {
    let first = bytes[0];
    let is_mark =
        [START, DUMP, DUMPED, END].contains(&first) && bytes.iter().all(|byte| *byte == first);
    is_mark.then_some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            is_set: bool, pid: u32, page in 0..1u64 << 32, frame in 0..1u64 << 24, is_text: bool,
        ) {
            let layout = if is_text { Layout::Text } else { Layout::Program };
            let record = PageTableRecord { is_set, pid, page, frame };
            let bytes = record.encode(layout).unwrap();
            prop_assert_eq!(PageTableRecord::decode(&bytes, layout), Some(record));
            prop_assert_eq!(mark(&bytes), None);
        }

        #[test]
        fn any_bytes_are_a_record_or_not(bytes: [u8; RECORD_BYTES]) {
            for layout in [Layout::Program, Layout::Text] {
                if let Some(record) = PageTableRecord::decode(&bytes, layout) {
                    prop_assert_eq!(&record.encode(layout).unwrap()[1..], &bytes[1..]);
                }
            }
        }
    }

    #[test]
    fn fields_are_where_the_sources_have_them() {
        let record = PageTableRecord {
            is_set: true,
            pid: 0x0403_0201,
            page: 0x0c_0b0a_0908,
            frame: 0x07_0605,
        };
        let bytes = record.encode(Layout::Program).unwrap();
        assert_eq!(bytes, [0xec, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let read = PageTableRecord::decode(&bytes, Layout::Text).unwrap();
        assert_eq!((read.page, read.frame), (0x0807_0605, 0x0c0b_0a09));
        assert_eq!(PageTableRecord { frame: 1 << 24, ..record }.encode(Layout::Program), None);
        assert_eq!(PageTableRecord::decode(&[0xed; RECORD_BYTES], Layout::Text), None);
        assert_eq!(mark(&[b'#'; RECORD_BYTES]), Some(DUMP));
    }
}
