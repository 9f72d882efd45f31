//! A reader of ChampSim's records. It finds the kinds of branches by ChampSim's rules.

use std::collections::BTreeMap;

use super::*;

/// A record.
struct Record {
    ip: u64,
    is_branch: bool,
    branch_taken: bool,
    written: Vec<u8>,
    read: Vec<u8>,
    stores: Vec<u64>,
    loads: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Branch {
    DirectJump,
    Indirect,
    Conditional,
    DirectCall,
    IndirectCall,
    Return,
    Other,
}

impl Record {
    fn parse(bytes: &[u8; 64]) -> Record {
        let registers = |from: usize, to: usize| {
            bytes[from..to].iter().copied().filter(|register| *register != 0).collect()
        };
        let addresses = |from: usize, to: usize| {
            let addresses = bytes[from..to].as_chunks::<8>().0.iter();
            addresses
                .map(|address| u64::from_le_bytes(*address))
                .filter(|address| *address != 0)
                .collect()
        };
        assert!(bytes[8] < 2 && bytes[9] < 2);
        Record {
            ip: u64::from_le_bytes(*bytes.first_chunk().unwrap()),
            is_branch: bytes[8] == 1,
            branch_taken: bytes[9] == 1,
            written: registers(10, 12),
            read: registers(12, 16),
            stores: addresses(16, 32),
            loads: addresses(32, 64),
        }
    }

    /// What ChampSim infers from the stack pointer (6), the flags (25) and the instruction pointer
    /// (26).
    fn branch(&self) -> Option<Branch> {
        let [writes_sp, writes_ip] = [6, 26].map(|one| self.written.contains(&one));
        let [reads_sp, reads_flags, reads_ip] = [6, 25, 26].map(|one| self.read.contains(&one));
        let reads_other = self.read.iter().any(|one| ![6, 25, 26].contains(one));
        if !writes_ip {
            return None;
        }
        Some(match (reads_sp, writes_sp) {
            (false, _) if !reads_flags && !reads_other => Branch::DirectJump,
            (false, _) if !reads_ip && !reads_flags => Branch::Indirect,
            (false, false) if reads_ip => Branch::Conditional,
            (true, true) if reads_ip && !reads_flags && reads_other => Branch::IndirectCall,
            (true, true) if reads_ip && !reads_flags => Branch::DirectCall,
            (true, true) if !reads_ip => Branch::Return,
            _ => Branch::Other,
        })
    }
}

/// The kind of a branch by the bytes of the instruction.
fn by_bytes(image: &Image, pc: u64) -> Option<Branch> {
    let text = image.text.iter().find(|text| (text.start..).contains(&pc))?;
    let code = text.bytes.get((pc - text.start) as usize..)?;
    // Prefixes of branches: notrack, bnd.
    let code = match code {
        [0x3e | 0xf2, rest @ ..] if matches!(rest, [0xff | 0xc3 | 0xe8 | 0xe9, ..]) => rest,
        other => other,
    };
    match *code {
        [0xe9 | 0xeb, ..] => Some(Branch::DirectJump),
        [0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => Some(Branch::Conditional),
        [0xe8, ..] => Some(Branch::DirectCall),
        [0xc3, ..] => Some(Branch::Return),
        [0xff, operand, ..] if operand >> 3 & 7 == 2 => Some(Branch::IndirectCall),
        [0xff, operand, ..] if operand >> 3 & 7 == 4 => Some(Branch::Indirect),
        _ => None,
    }
}

#[test]
fn champsim_records_are_the_executed_instructions() {
    let Some(Sample { image, file, text, .. }) = &*SAMPLE else { return };
    let (output, warning) = converted(file, "champsim", &["--elements"]);
    let unknown = unknown(text);
    let Some((_, rest)) = warning.split_once(unknown.trim_end()) else { panic!("{warning}") };
    // `xsave` has more accesses than a record holds.
    let rest = rest.lines().next().unwrap_or_default();
    let left_out = rest.strip_suffix(" accesses that do not fit in records");
    let left_out = left_out.map_or(0, |count| count.trim_start_matches(", ").parse().unwrap());
    let written = output.bytes();
    let (records, []) = written.as_chunks::<64>() else { panic!("a record is cut") };
    let records: Vec<Record> = records.iter().map(Record::parse).collect();
    let (lackey_output, _) = converted(file, "lackey", &[]);
    let lackey = lackey_output.text();
    let (mut expected, mut accesses) = (Vec::new(), [0usize; 2]);
    for (kind, address, size) in lackey.lines().filter_map(lackey_line) {
        match kind {
            'I' => expected.push((address, size)),
            'L' => accesses[0] += 1,
            'S' => accesses[1] += 1,
            _ => accesses = accesses.map(|count| count + 1),
        }
    }
    assert!(records.iter().map(|record| record.ip).eq(expected.iter().map(|(ip, _)| *ip)));
    let sum =
        |count: fn(&Record) -> &Vec<u64>| records.iter().map(|it| count(it).len()).sum::<usize>();
    let sums = [sum(|one| &one.loads), sum(|one| &one.stores)];
    assert_eq!(sums[0] + sums[1] + left_out, accesses[0] + accesses[1]);
    assert!(sums[0] <= accesses[0] && sums[1] <= accesses[1], "{sums:?} {accesses:?}");
    let mut kinds: BTreeMap<_, u64> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        let (ip, size) = expected[index];
        let next = records.get(index + 1).map_or(ip + size, |next| next.ip);
        let kind = record.branch();
        assert_eq!(record.is_branch, kind.is_some(), "{ip:x}");
        if ip < FIXED {
            assert_eq!(kind, by_bytes(image, ip), "{ip:x}");
            *kinds.entry(kind).or_default() += 1;
        }
        match kind {
            // A string instruction follows itself.
            None => assert!(!record.branch_taken && (next == ip + size || next == ip), "{ip:x}"),
            Some(Branch::Conditional) => {
                assert_eq!(record.branch_taken, next != ip + size, "{ip:x}");
            }
            Some(_) => assert!(record.branch_taken, "{ip:x}"),
        }
    }
    for kind in [
        None,
        Some(Branch::DirectJump),
        Some(Branch::Indirect),
        Some(Branch::Conditional),
        Some(Branch::DirectCall),
        Some(Branch::IndirectCall),
        Some(Branch::Return),
    ] {
        assert!(kinds.contains_key(&kind), "{kind:?}: {kinds:?}");
    }
}
