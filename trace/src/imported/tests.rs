use proptest::prelude::*;

use super::*;

fn read(format: ImportedFormat, text: &[u8]) -> (Vec<ImportedAccess>, Vec<String>, Option<String>) {
    let mut reader = ImportedReader::new(format, text);
    let (mut accesses, mut error) = (Vec::new(), None);
    loop {
        match reader.next_access() {
            Ok(Some(access)) => accesses.push(access),
            Ok(None) => break,
            Err(problem) => {
                error = Some(problem.to_string());
                break;
            }
        }
    }
    (accesses, reader.notes(), error)
}

/// Clock, thread, instruction, direction, address and bytes of an access.
type Fields = (u64, u32, u64, char, u64, u32);

/// A short file of each format of text, and its accesses.
fn samples() -> Vec<(ImportedFormat, &'static str, Vec<Fields>)> {
    vec![
        (
            ImportedFormat::Lackey,
            "==12== Lackey\nI  04016b80,3\n S 1ffefffe50,8\nI  04016b83,5\n M 0421c7cc,4\n",
            vec![
                (0, 0, 0x401_6b80, 'W', 0x1f_feff_fe50, 8),
                (0, 0, 0x401_6b83, 'R', 0x421_c7cc, 4),
                (0, 0, 0x401_6b83, 'W', 0x421_c7cc, 4),
            ],
        ),
        (
            ImportedFormat::Drmemtrace,
            "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n------\n           1           0:     \
             2765542 <marker: version 5>\n        2           1:     2765542 ifetch       6 byte(s) @ 0x0000000000404a78 \
             0f 84 jz\n  3  1:  2765542 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e\n  \
             4  1: W0.T7 write  4 byte(s) @ 0x10 by PC 0x20\nView tool results:\n   1 : total instructions\n",
            vec![(0, 2_765_542, 0x40_4a7e, 'R', 0x7fdf_64e2_adc8, 8), (0, 7, 0x20, 'W', 0x10, 4)],
        ),
        (
            ImportedFormat::Dramsim3,
            "0x1000 READ 5\n2000 P_MEM_WR 9\n",
            vec![(5, 0, 0, 'R', 0x1000, 0), (9, 0, 0, 'W', 0x2000, 0)],
        ),
        (
            ImportedFormat::Dramsys,
            "# a comment\n31:\tread\t0x400140\n33: (32) write 0x40 0xabcd\n",
            vec![(31, 0, 0, 'R', 0x40_0140, 0), (33, 0, 0, 'W', 0x40, 32)],
        ),
        (
            ImportedFormat::Ramulator,
            "LD 0x1000\nST 64\n0x80 W\n",
            vec![(0, 0, 0, 'R', 0x1000, 0), (0, 0, 0, 'W', 64, 0), (0, 0, 0, 'W', 0x80, 0)],
        ),
        (
            ImportedFormat::RamulatorInstructions,
            "3 20734016\n1 0x40 128\n",
            vec![(0, 0, 0, 'R', 20_734_016, 0), (0, 0, 0, 'R', 0x40, 0), (0, 0, 0, 'W', 128, 0)],
        ),
        (
            ImportedFormat::LibCacheSim,
            "# time, obj_id, obj_size, op\n5, 3, 4096, write\n6.25,288230376151711745,1,other\n",
            vec![(5, 0, 0, 'W', 192, 0), (6, 0, 0, 'R', 64, 0)],
        ),
        (
            ImportedFormat::Perf,
            "  my prog 46572/46573 [002] 54.966882384:      10000 cpu/mem-loads,ldlat=30/P: 7ffdf1391b0c     10268100142 \
             |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK    N/A    5   7    0   7fad7c47425d add (/usr/l.so)\n\
             \t 7fad7c47425d add (/usr/l.so)\n  ls 12 3678.072400: cpu/mem-stores/P: 7ffe0 |OP STORE|LVL L1 hit 9 401136 main\n\
             mm 7/8 0.5: cpu/mem-loads/P: 7ffe8 5868100142 |OP LOAD|LVL L1 hit|BLK N/A 7 \n\t    55d0c0de1139 add+0x9 (/mm)\n\
             \t    55d0c0de1234 main+0x84 (/mm)\n\nmm 7/8 0.6: cpu/mem-stores/P: 7fff0 |OP STORE|LVL L1 hit\n",
            vec![
                (54_966_882_384, 46573, 0x7fad_7c47_425d, 'R', 0x7ffd_f139_1b0c, 0),
                (3_678_072_400_000, 12, 0x40_1136, 'W', 0x7_ffe0, 0),
                (500_000_000, 8, 0x55d0_c0de_1139, 'R', 0x7_ffe8, 0),
                (600_000_000, 8, 0, 'W', 0x7_fff0, 0),
            ],
        ),
    ]
}

/// An instruction for ChampSim: its address, whether it is a branch and whether the branch is
/// taken, and the addresses that it writes and reads.
fn instruction(pc: u64, flags: [u8; 2], writes: [u64; 2], reads: [u64; 4]) -> Vec<u8> {
    let numbers =
        |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let (writes, reads): (Vec<u8>, Vec<u8>) = (numbers(&writes), numbers(&reads));
    [&pc.to_le_bytes()[..], &flags, &[0; 6], &writes, &reads].concat()
}

/// A request for an object, in the format `oracleGeneral`.
fn request(time: u32, object: u64, next: i64) -> Vec<u8> {
    let size = 4096u32.to_le_bytes();
    [&time.to_le_bytes()[..], &object.to_le_bytes(), &size, &next.to_le_bytes()].concat()
}

/// A varint, as Protocol Buffers encode it.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A message behind its length.
fn message(fields: &[Vec<u8>]) -> Vec<u8> {
    let message = fields.concat();
    [varint(message.len() as u64), message].concat()
}

/// A field that is a number.
fn field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// A packet trace of gem5 with ticks of a picosecond. A packet has a tick, a command, an address
/// and bytes.
fn packets(packets: &[[u64; 4]]) -> Vec<u8> {
    let name = [&[0x0a, 6][..], b"mon\n\\!"].concat();
    let identifier = vec![0x22, 4, 0x08, 1, 0x12, 0];
    let header = message(&[name, field(2, 0), field(3, 1_000_000_000_000), identifier]);
    let packets = packets.iter().flat_map(|packet| {
        let fields = (1..).zip(packet).map(|(number, value)| field(number, *value));
        message(&fields.chain([field(5, 0x100), field(6, 7), field(7, 0x1000)]).collect::<Vec<_>>())
    });
    b"gem5".iter().copied().chain(header).chain(packets).collect()
}

/// Bytes of numbers, little-endian.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A record of `perf.data`.
fn record(kind: u64, words: &[u64]) -> Vec<u8> {
    self::words(&[&[kind | (8 + 8 * words.len() as u64) << 48], words].concat())
}

/// A recording of one event. A sample is given by its process and thread, time, address,
/// instruction, source of data and weight; in the file it also has a call chain.
fn recording(samples: &[[u64; 6]]) -> Vec<u8> {
    const ATTRIBUTE_BYTES: u64 = 128;
    // IP, TID, TIME, ADDR, CALLCHAIN, PERIOD, WEIGHT, DATA_SRC
    let fields = 0b1111 | 1 << 5 | 1 << 8 | 1 << 14 | 1 << 15;
    let other = record(3, &[1, 2]);
    let samples = samples.iter().flat_map(|[tid, time, address, pc, source, weight]| {
        record(9, &[*pc, *tid, *time, *address, 1, 2, 0x10, 0x20, *weight, *source])
    });
    let data: Vec<u8> = other.into_iter().chain(samples).collect();
    let attribute = [&[4, ATTRIBUTE_BYTES << 32, 1, fields][..], &[0; 12], &[104, 8]].concat();
    let attributes = [112, 8 * attribute.len() as u64];
    let header = [
        &[u64::from_le_bytes(*b"PERFILE2"), 104, 8 * attribute.len() as u64][..],
        &attributes,
        &[attributes[0] + attributes[1], data.len() as u64],
        &[0; 6],
        &[77],
    ];
    [words(&[&header.concat()[..], &attribute].concat()), data].concat()
}

/// A short file of each format, and its accesses.
fn all_samples() -> Vec<(ImportedFormat, Vec<u8>, Vec<Fields>)> {
    let text = samples();
    let text = text.into_iter().map(|(format, text, accesses)| (format, text.into(), accesses));
    let champsim = [
        instruction(0x1000, [0, 0], [0x80, 0], [0, 0x7fff_0040, 0, 0x48]),
        instruction(0x1004, [1, 1], [0, 0], [0; 4]),
        instruction(0x1000, [0, 0], [1, 2], [0; 4]),
    ];
    let oracle = [request(5, 3, 3), request(5, 1 << 40, -1), request(6, 3, i64::MAX)];
    let binary = [
        (
            ImportedFormat::ChampSim,
            champsim.concat(),
            vec![
                (0, 0, 0x1000, 'R', 0x7fff_0040, 0),
                (0, 0, 0x1000, 'R', 0x48, 0),
                (0, 0, 0x1000, 'W', 0x80, 0),
                (0, 0, 0x1000, 'W', 1, 0),
                (0, 0, 0x1000, 'W', 2, 0),
            ],
        ),
        (
            ImportedFormat::OracleGeneral,
            oracle.concat(),
            vec![(5, 0, 0, 'R', 192, 0), (5, 0, 0, 'R', 1 << 46, 0), (6, 0, 0, 'R', 192, 0)],
        ),
    ];
    let gem5 = (
        ImportedFormat::Gem5,
        packets(&[[1500, 1, 0x8000_0040, 64], [2000, 10, 0x40, 64], [2500, 7, 0x8000_0080, 64]]),
        vec![(1500, 0, 0, 'R', 0x8000_0040, 64), (2500, 0, 0, 'W', 0x8000_0080, 64)],
    );
    let load = [2 << 32 | 1, 7, 0x7ffe0, 0x40_1136, 0x22, 9];
    let store = [2 << 32 | 1, 5, 0x7fff0, 0x40_1140, 0x24, 3];
    let perf_data = (
        ImportedFormat::PerfData,
        recording(&[load, store]),
        vec![(5, 2, 0x40_1140, 'W', 0x7fff0, 0), (7, 2, 0x40_1136, 'R', 0x7ffe0, 0)],
    );
    text.chain(binary).chain([gem5, perf_data]).collect()
}

#[test]
fn each_format_is_recognised_and_read() {
    for (format, bytes, expected) in all_samples() {
        assert_eq!(ImportedFormat::of(&bytes), Some(format));
        let (accesses, _, error) = read(format, &bytes);
        assert_eq!(error, None, "{format:?}");
        let rows: Vec<_> = accesses
            .iter()
            .map(|access| {
                (
                    access.clock,
                    access.thread,
                    access.pc,
                    access.direction.letter(),
                    access.address,
                    access.size,
                )
            })
            .collect();
        assert_eq!(rows, expected, "{format:?}");
    }
}

#[test]
fn what_is_not_understood_is_an_error_with_its_line() {
    for (format, text, expected) in samples() {
        let wrong = format!("{text}what is this\u{202e}\n");
        let (accesses, _, error) = read(format, wrong.as_bytes());
        // Lines after the results of drmemtrace are not read.
        if format == ImportedFormat::Drmemtrace {
            continue;
        }
        assert_eq!(accesses.len(), expected.len(), "{format:?}");
        let error = error.unwrap();
        let line = text.lines().count() + 1;
        assert!(error.starts_with(&format!("line {line}: expected ")), "{error}");
        assert!(
            error.ends_with("got `what is this\\u{202E}`")
                || error.ends_with("got `what is this\\u{202e}`"),
            "{error}"
        );
    }
}

#[test]
fn what_no_record_can_be_is_an_error_with_its_offset() {
    let binary = all_samples().into_iter().filter(|(format, ..)| Parser::new(*format).is_none());
    for (format, bytes, expected) in binary {
        // Bytes after the samples of perf are not read.
        if format != ImportedFormat::PerfData {
            let (accesses, _, error) = read(format, &[&bytes[..], &[0xfe; 64]].concat());
            assert_eq!(accesses.len(), expected.len());
            let error = error.unwrap();
            assert!(error.starts_with(&format!("offset {}: expected ", bytes.len())), "{error}");
        }
        let (_, _, error) = read(format, &bytes[..bytes.len() - 1]);
        assert!(error.unwrap().contains("the file ends within a "), "{format:?}");
    }
}

#[test]
fn formats_with_a_name_in_common_are_told_apart() {
    for (format, bytes, _) in all_samples() {
        let named = match format {
            ImportedFormat::OracleGeneral => ImportedFormat::LibCacheSim,
            ImportedFormat::RamulatorInstructions => ImportedFormat::Ramulator,
            ImportedFormat::PerfData => ImportedFormat::Perf,
            other => other,
        };
        assert_eq!(named.resolve(&bytes), format);
    }
    // A file without a line that has a write has no certain format.
    let numbers = b"3 20734016\n1 64\n";
    assert_eq!(ImportedFormat::of(numbers), None);
    let resolved = ImportedFormat::Ramulator.resolve(numbers);
    assert_eq!(resolved, ImportedFormat::RamulatorInstructions);
    assert_eq!(ImportedFormat::Ramulator.resolve(b"0x40 R\n"), ImportedFormat::Ramulator);
}

#[test]
fn other_records_are_not_taken_for_instructions_or_requests() {
    let far = |pc: u64| instruction(pc, [0, 0], [0; 2], [0; 4]);
    let cases = [
        ("zeros", vec![0; 384]),
        ("one instruction", far(0x1000)),
        ("instructions that do not follow each other", [far(0x1000), far(0x2000)].concat()),
        ("a branch that is taken and none", instruction(8, [0, 1], [0; 2], [0; 4]).repeat(2)),
        ("a cut record", all_samples().swap_remove(8).1[..100].to_vec()),
        (
            "a next request for another object",
            [request(1, 1, 2), request(1, 2, -1), request(1, 3, -1)].concat(),
        ),
        ("a next request before this one", [request(1, 1, 0), request(1, 1, -1)].concat()),
        ("times that descend", [request(2, 1, -1), request(1, 2, -1)].concat()),
    ];
    for (name, bytes) in cases {
        assert_eq!(ImportedFormat::of(&bytes), None, "{name}");
    }
}

#[test]
fn packets_of_gem5_are_those_of_its_commands() {
    let read_all = |commands: std::ops::Range<u64>| {
        let entries: Vec<_> = commands.map(|command| [5, command, 0x40 * command, 64]).collect();
        read(ImportedFormat::Gem5, &packets(&entries))
    };
    let directions = [(1, 'R'), (4, 'W'), (7, 'W'), (8, 'W'), (9, 'W'), (11, 'R'), (12, 'R')];
    let more = [(13, 'R'), (16, 'W'), (22, 'R'), (24, 'R'), (25, 'R'), (26, 'R'), (27, 'W')];
    for (command, direction) in directions.into_iter().chain(more) {
        let (accesses, _, error) = read_all(command..command + 1);
        assert_eq!((accesses.len(), error), (1, None), "{command}");
        assert_eq!(accesses[0].direction.letter(), direction, "{command}");
    }
    for response in [0, 2, 3, 5, 6, 14, 15, 19, 21, 23, 29] {
        let error = read_all(response..response + 1).2.unwrap();
        assert!(error.contains(&format!("command {response} is no request of gem5 20")), "{error}");
    }
    let bytes = packets(&[[1, 17, 0, 64], [1, 30, 0, 64], [1, 34, 0, 64]]);
    let mut reader = ImportedReader::new(ImportedFormat::Gem5, &bytes[..]);
    assert_eq!(reader.contents().tck_ps, None);
    assert!(reader.next_access().unwrap().is_none());
    assert_eq!(reader.contents().tck_ps, Some(1));
    insta::assert_snapshot!(reader.notes().join("; "), @r"accesses are the packets that gem5 has recorded at mon\n\\!; 1 packets transfer no data (upgrades and clean evictions), and are left out; 3 packets have an address of an instruction, which is not used");
    insta::assert_snapshot!(reader.missing().join("; "), @"2 packets have commands from number 30 on, which versions of gem5 number differently (swaps, locked accesses, operations on caches): they were left out");
}

#[test]
fn messages_of_gem5_that_are_no_packets_are_errors() {
    let magic = |messages: &[Vec<u8>]| [b"gem5".to_vec(), messages.concat()].concat();
    let header = message(&[field(3, 1_000_000_000_000)]);
    let cases = [
        (magic(&[]), "offset 0: the file ends before the header"),
        (magic(&[message(&[])]), "offset 0: expected a header that states the ticks in a second"),
        (magic(&[message(&[field(3, 1), field(4, 1)])]), "offset 0: is a trace of instructions"),
        (
            magic(&[header.clone(), message(&[field(1, 5), field(2, 1)])]),
            "expected a packet with a tick, a command and an address",
        ),
        (magic(&[header.clone(), vec![3, 0x08, 0x80, 0x80]]), "the message is damaged"),
        (magic(&[header.clone(), varint(1 << 40)]), "expected a message of at most 1048576 bytes"),
        (magic(&[header, vec![0x80]]), "the file ends within the length of a message"),
    ];
    for (bytes, expected) in cases {
        let (accesses, _, error) = read(ImportedFormat::Gem5, &bytes);
        let error = error.unwrap();
        assert!(accesses.is_empty() && error.contains(expected), "{error}");
    }
}

#[test]
fn samples_of_perf_before_damage_are_read_in_the_order_of_time() {
    let whole = all_samples().pop().unwrap().1;
    let (accesses, notes, error) = read(ImportedFormat::PerfData, &whole);
    assert_eq!((accesses.len(), error), (2, None));
    assert!(notes[1].contains("2 samples have one, 6.0 on average and 9 at most"), "{notes:?}");
    let data = whole.len() - 2 * 88 - 24;
    let changed = |offset: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[offset..][..bytes.len()].copy_from_slice(bytes);
        read(ImportedFormat::PerfData, &file)
    };
    // In the first three cases, the second sample has a call chain longer than the sample, is
    // shorter than the header of a record, or is a compressed record.
    let second = whole.len() - 88;
    let fails = [
        (second + 8 + 5 * 8, 0xff, 1, "expected a sample with an instruction"),
        (second + 6, 7, 1, "a record is shorter than its header"),
        (second, 81, 1, "the recording is compressed (perf record -z)"),
        (data + 6, 0, 0, "a record is shorter than its header"),
        (48, 0, 0, "perf has not completed the recording"),
        (8, 16, 0, "to a pipe"),
        (16, 0, 0, "the events are damaged"),
    ];
    for (offset, byte, count, expected) in fails {
        let (accesses, _, error) = changed(offset, &[byte, 0][..]);
        let error = error.unwrap();
        assert!(accesses.len() == count && error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn records_of_damon_are_recognised_and_no_format() {
    for text in [
        "[\n    {\n        \"kdamond_idx\": 0,\n        \"target_id\": 0,\n        \"snapshots\": [\n",
        "base_time_absolute: 8 m 59.809 s\n\nmonitoring_start:                0 ns\n",
        "kdamond.0  4452 [000] 82877.315633: damon:damon_aggregated: target_id=0 nr_regions=17 4096-8192: 0 3\n",
    ] {
        assert!(is_damon(text.as_bytes()), "{text}");
        assert_eq!(ImportedFormat::of(text.as_bytes()), None, "{text}");
    }
    for (format, bytes, _) in all_samples() {
        assert!(!is_damon(&bytes), "{format:?}");
    }
}

#[test]
fn limits_are_stated() {
    let notes = |format, text: &str| read(format, text.as_bytes()).1.join("; ");
    let perf = samples().pop().unwrap().1;
    let perf = format!("{perf} ls 12 1.5: page-faults: 1000\n ls 12 1.5: mem-loads: 0\n");
    insta::assert_snapshot!(notes(ImportedFormat::Perf, &perf), @"each sample counts once, whatever its period; weights, which are latencies in cycles, are not used: 3 samples have one, 7.0 on average and 9 at most; 1 samples have no address, and are left out; of 1 samples it is not known whether they read or write, and they are left out");
    let cache = "1,2,3\n4,288230376151711744,6\n";
    let champsim = all_samples().swap_remove(8).1;
    insta::assert_snapshot!(read(ImportedFormat::ChampSim, &champsim).1.join("; "), @"an instruction of ChampSim has at most 4 addresses that it reads and 2 that it writes; 1 instructions have as many: what else they access is not in the trace");
    insta::assert_snapshot!(notes(ImportedFormat::RamulatorInstructions, "3 20\n4 1 2\n"), @"7 instructions without an access, between those with accesses, are not used");
    insta::assert_snapshot!(notes(ImportedFormat::LibCacheSim, cache), @"an object is taken for a line of 64 bytes, whatever its size; of 2 requests it is not known whether they read or write: they count as reads; the numbers of 1 objects are taken modulo 2^58");
}

#[test]
fn own_tables_and_binary_files_are_not_taken_for_others() {
    for text in [
        "clock,direction,address\n347,R,0x150e7080\n",
        "kind,clock,direction,address,reads,writes,duration_clocks,detail\n",
        "thread,pc,direction,address,size_bytes\n1,0x2,R,0x3,4\n",
        "{\"kind\":\"access\",\"clock\":1}\n",
        "",
        "==1== only a message\n",
        "# only a comment\n",
        "1,2,3\n",
        "LD 0x10\nnothing else\n",
        "3 20734016\n",
    ] {
        assert_eq!(ImportedFormat::of(text.as_bytes()), None, "{text}");
    }
    assert_eq!(ImportedFormat::of(b"LD 0x10\n\xff\xff\xff\xff\xff\xff"), None);
    // The examined bytes may end within a line, but they must not begin within a line.
    let long = "LD 0x10\n".repeat(BEGIN_BYTES / 8 + 1);
    assert_eq!(ImportedFormat::of(&long.as_bytes()[2..BEGIN_BYTES]), None);
    let begin = format!("ST 8\n{long}");
    assert_eq!(
        ImportedFormat::of(&begin.as_bytes()[..BEGIN_BYTES]),
        Some(ImportedFormat::Ramulator)
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = ImportedFormat::of(&bytes);
        for format in ImportedFormat::ALL {
            prop_assert!(read(format, &bytes).0.len() <= bytes.len());
        }
    }

    #[test]
    fn no_changed_file_panics(sample in 0usize..12, place in 0usize..500, byte: u8, cut in 0usize..400) {
        let (format, mut bytes, _) = all_samples().swap_remove(sample);
        let place = place % bytes.len();
        bytes[place] = byte;
        bytes.truncate(bytes.len().saturating_sub(cut).max(1));
        let _ = ImportedFormat::of(&bytes);
        prop_assert!(read(format, &bytes).0.len() <= bytes.len());
    }
}
