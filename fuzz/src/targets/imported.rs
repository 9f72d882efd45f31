//! Checks that files of other programs are read up to the first error, in any of their formats.

use hmtt::imported::{ImportedFormat, ImportedReader};

/// Reads an input in the format that the first byte selects.
pub fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let _ = ImportedFormat::of(rest);
    let formats = ImportedFormat::ALL;
    let format = formats[usize::from(*kind) % formats.len()];
    let mut reader = ImportedReader::new(format, rest);
    let mut accesses = 0;
    while let Ok(Some(_)) = reader.next_access() {
        accesses += 1;
        assert!(accesses <= rest.len(), "an access takes a byte at least");
    }
    let _ = reader.contents();
    assert!(
        reader.notes().iter().chain(&reader.missing()).all(|note| !note.contains(char::is_control))
    );
}

/// Returns a short file of each format, in the order of [`ImportedFormat::ALL`].
pub fn seeds() -> Vec<Vec<u8>> {
    let record =
        |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|it| it.to_le_bytes()).collect() };
    let champsim = record(&[0x1000, 0x0101, 0x80, 0, 0x40, 0, 0, 0x48]).repeat(2);
    let oracle = record(&[3 << 32 | 5, 64 << 32, 2, 3 << 32 | 6, 64 << 32, u64::MAX]);
    // Perf's header, an event with instructions, threads, times, addresses and sources of data, and
    // a sample.
    let perf_data = record(
        &[
            &[u64::from_le_bytes(*b"PERFILE2"), 104, 80, 104, 80, 184, 48, 0, 0, 0, 0, 0, 0][..],
            &[4, 64 << 32, 1, 0x800f, 0, 0, 0, 0, 0, 0],
            &[48 << 48 | 9, 0x401136, 2 << 32 | 1, 7, 0x7ffe0, 0x22],
        ]
        .concat(),
    );
    let files: [&[u8]; ImportedFormat::ALL.len()] = [
        b"I  04016b80,3\n S 1ffefffe50,8\n M 0421c7cc,4\n",
        b"0x1000 READ 5\n0x2000 WRITE 9\n",
        b"# comment\n31: read 0x400140\n33: (32) write 0x40 0xabcd\n",
        b"LD 0x1000\nST 64\n0x80 W\n",
        b"  1  1:  7 ifetch 6 byte(s) @ 0x4a78 0f\n  2  1: W0.T7 read 8 byte(s) @ 0xadc8 by PC 0x4a78\n",
        b"time,obj_id,obj_size,op\n5,3,4096,write\n6.25,7,1,get\n",
        b" ls 12/13 [002] 54.96: 1 mem-loads: 7ffdf |OP LOAD|LVL L1 hit|BLK N/A 5 7 0 7fad7c47425d f\n",
        b"3 20734016\n1 0x40 128\n",
        &champsim,
        &oracle,
        b"gem5\x0a\x0a\x01m\x18\x80\xa0\x94\xa5\x8d\x1d\x08\x08\x05\x10\x01\x18@ @",
        &perf_data,
    ];
    (0..).zip(files).map(|(kind, file)| [&[kind][..], file].concat()).collect()
}
