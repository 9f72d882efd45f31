//! Checks that text of other programs is read up to its first error, in any of their formats.

use hmtt::imported::{ImportedFormat, ImportedReader};

/// The formats, which the first byte of an input selects.
const FORMATS: [ImportedFormat; 7] = [
    ImportedFormat::Lackey,
    ImportedFormat::Drmemtrace,
    ImportedFormat::Dramsim3,
    ImportedFormat::Dramsys,
    ImportedFormat::Ramulator,
    ImportedFormat::LibCacheSim,
    ImportedFormat::Perf,
];

/// Reads an input in the format that the first byte selects.
pub fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let _ = ImportedFormat::of(rest);
    let format = FORMATS[usize::from(*kind) % FORMATS.len()];
    let mut reader = ImportedReader::new(format, rest);
    let mut accesses = 0;
    while let Ok(Some(_)) = reader.next_access() {
        accesses += 1;
        assert!(accesses <= rest.len(), "an access takes a byte at least");
    }
    assert!(reader.notes().iter().all(|note| !note.contains(char::is_control)));
}

/// A short file of each format.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "I  04016b80,3\n S 1ffefffe50,8\n M 0421c7cc,4\n",
        "  1  1:  7 ifetch 6 byte(s) @ 0x4a78 0f\n  2  1: W0.T7 read 8 byte(s) @ 0xadc8 by PC 0x4a78\n",
        "0x1000 READ 5\n0x2000 WRITE 9\n",
        "# comment\n31: read 0x400140\n33: (32) write 0x40 0xabcd\n",
        "LD 0x1000\nST 64\n0x80 W\n",
        "time,obj_id,obj_size,op\n5,3,4096,write\n6.25,7,1,get\n",
        " ls 12/13 [002] 54.96: 1 mem-loads: 7ffdf |OP LOAD|LVL L1 hit|BLK N/A 5 7 0 7fad7c47425d f\n",
    ];
    (0..).zip(texts).map(|(kind, text)| [&[kind][..], text.as_bytes()].concat()).collect()
}
