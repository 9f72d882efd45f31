//! Forged traces: what cannot be understood is counted, and names print as one line.

use hmtt::access_trace::Writer;
use hmtt_files::access_trace::{Access, BlockAccesses, CUT, Function, Place, note};
use hmtt_format::Direction;

use super::*;

/// A trace of a block with bytes that are no instructions behind the first one, and of an empty
/// one, in a function whose name has a line end. More instructions than there are were executed.
fn forged() -> Vec<u8> {
    let start = u64::MAX - 1;
    let access = |operation: u16, offset| Access {
        pc: start.wrapping_add(offset),
        operation,
        direction: Direction::Read,
        represents: 1,
        size: 4,
        conditional: false,
        adds_fs: false,
        place: Place::Static(0x5000 + u64::from(operation)),
    };
    let (code, accesses) =
        (vec![0x90, 0x06, 0x06, 0x06], vec![access(0, 0), access(1, 3), access(3, 1)]);
    let (function, instructions) = (1, 4);
    let block =
        BlockAccesses { start, function, instructions, code, accesses, ..BlockAccesses::default() };
    let function =
        Function { name: "a\n1 1 R 1 1\"".into(), path: "/p\n".into(), ..Function::default() };
    let units = [1, u64::from(note(CUT, 1 << 20)), 2, 2, 1].map(u64::to_le_bytes).concat();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.functions(&[function]).unwrap();
    writer.blocks(&[block, BlockAccesses::default()]).unwrap();
    writer.units(7, units).unwrap();
    writer.finish(0, 0).unwrap()
}

#[test]
fn what_is_no_instruction_is_counted() {
    let file = scratch("trace-forged.acc");
    std::fs::write(&file, forged()).unwrap();
    let expected = "6 instructions that cannot be decoded, 4 accesses of such instructions\n";
    for (to, written) in [
        ("lackey", "I  fffffffffffffffe,1\n L 00005000,4\nI  fffffffffffffffe,1\n L 00005000,4\n"),
        ("dramsim3", "0x5000 READ 0\n0x5000 READ 1\n"),
    ] {
        let (output, warning) = converted(&file, to, &[]);
        assert!(warning.contains(expected), "{warning}");
        assert_eq!(output.text(), written);
    }
    assert_eq!(converted(&file, "champsim", &[]).0.bytes().len(), 2 * 64);
    assert!(!converted(&file, "drmemtrace", &[]).0.bytes().is_empty());
}

#[test]
fn names_of_forged_functions_forge_no_line() {
    let file = scratch("trace-forged-names.acc");
    std::fs::write(&file, forged()).unwrap();
    let text = decoded(&file);
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(text.starts_with("7 fffffffffffffffe R 5000 4 in a\\n1 1 R 1 1\"\n"), "{text}");
    let csv = converted(&file, "csv", &[]).0.text();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.contains(",\"a\\n1 1 R 1 1\"\"\",\"/p\\n\"\n"), "{csv}");
    let info = hmtt(&["info", file.to_str().unwrap()]);
    let info = String::from_utf8(info.stdout).unwrap();
    assert!(info.ends_with(" accesses  a\\n1 1 R 1 1\"\n"), "{info}");
}
