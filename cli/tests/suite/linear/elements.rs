//! Tests that time and memory do not depend on how many elements of string instructions an input
//! states.

use hmtt::access_trace::Writer;
use hmtt_files::access_trace::{Access, BlockAccesses, Place, Repeated};
use hmtt_format::Direction;
use parquet::data_type::{BoolType, ByteArrayType, Int32Type, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use super::{Input, Shape, is_linear, repeated};

/// Commands that look at each access. Those of captures alone are not among them.
const EACH_ACCESS: [&str; 7] = [
    "hot IN",
    "reuse IN",
    "mrc IN",
    "streams IN",
    "phases --slice-accesses 1000 IN",
    "check IN",
    "stats --slice-accesses 1000 --by function IN",
];
/// A few of them, for the other formats.
const SOME: [&str; 2] = ["stats IN", "reuse IN"];
/// Size of the smaller inputs in bytes.
const SIZE: usize = 1 << 15;

fn object(count: u64, elements: u64, size: u32, stride: u64) -> String {
    let address = (count + 1).wrapping_mul(stride);
    let direction = if count.is_multiple_of(3) { "R" } else { "W" };
    format!(
        "{{\"thread\":1,\"pc\":\"{:x}\",\"direction\":\"{direction}\",\"address\":\"{address:x}\",\"size_bytes\":{size},\
         \"elements\":{elements},\"downwards\":{},\"conditional\":false,\"represents\":1,\"function\":\"f\",\"object\":\"o\"}}\n",
        0x1000 + count % 7,
        count % 2 == 1,
    )
}

/// Builds rows of as many elements as a string instruction can have.
fn most_elements(size: usize) -> Vec<u8> {
    repeated(size, |count, bytes| {
        bytes.extend(object(count, u64::from(u32::MAX), 4, 1 << 36).bytes())
    })
}

/// Builds rows of more elements than fit.
fn impossible_elements(size: usize) -> Vec<u8> {
    repeated(size, |count, bytes| {
        bytes.extend(object(count, u64::MAX - count, 4096, 1 << 36).bytes())
    })
}

/// Builds rows whose elements are all looked at.
fn allowed_elements(size: usize) -> Vec<u8> {
    repeated(size, |count, bytes| bytes.extend(object(count, 1000, 4, 1 << 20).bytes()))
}

fn csv(size: usize) -> Vec<u8> {
    let heading = "thread,pc,direction,address,size_bytes,elements,downwards,conditional,represents,function,object\n";
    let rows = repeated(size, |count, bytes| {
        bytes.extend(format!("1,1000,W,{:x},8,4294967296,false,false,1,,\n", count << 40).bytes());
    });
    [heading.as_bytes(), &rows].concat()
}

fn parquet(size: usize) -> Vec<u8> {
    let schema = "message t { required int32 thread; required int64 pc; required boolean is_write; \
                  optional int64 address; required int32 size_bytes; required int64 elements; \
                  required boolean downwards; required boolean conditional; required int32 represents; \
                  optional binary function (utf8); optional binary object (utf8); }";
    let mut writer = SerializedFileWriter::new(
        Vec::new(),
        parse_message_type(schema).unwrap().into(),
        Default::default(),
    )
    .unwrap();
    let rows = size / 16;
    let mut group = writer.next_row_group().unwrap();
    let present = vec![1; rows];
    let addresses: Vec<i64> = (0..rows as i64).map(|row| row << 36).collect();
    macro_rules! column {
        ($type:ty, $values:expr, $levels:expr) => {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$type>().write_batch($values, $levels, None).unwrap();
            column.close().unwrap();
        };
    }
    column!(Int32Type, &vec![1; rows], None);
    column!(Int64Type, &vec![0x1000; rows], None);
    column!(BoolType, &vec![true; rows], None);
    column!(Int64Type, &addresses, Some(&present));
    column!(Int32Type, &vec![4; rows], None);
    column!(Int64Type, &vec![i64::from(u32::MAX); rows], None);
    column!(BoolType, &vec![false; rows], None);
    column!(BoolType, &vec![false; rows], None);
    column!(Int32Type, &vec![1; rows], None);
    column!(ByteArrayType, &[], Some(&vec![0; rows]));
    column!(ByteArrayType, &[], Some(&vec![0; rows]));
    group.close().unwrap();
    writer.into_inner().unwrap()
}

/// Builds a trace of a block that is one string instruction.
fn trace(size: usize) -> Vec<u8> {
    let place = Place::Elements { left: [0, 1], first: 2, pointer: [2, 3] };
    let (pc, operation, direction, represents) = (0x1000, 0, Direction::Write, 1);
    let (conditional, adds_fs) = (false, false);
    let access =
        Access { pc, operation, direction, represents, size: 8, conditional, adds_fs, place };
    let block = BlockAccesses {
        start: 0x1000,
        function: 0,
        instructions: 1,
        slots: 4,
        // rep stosq
        code: vec![0xf3, 0x48, 0xab],
        repeated: Repeated::default(),
        derived: Vec::new(),
        kept: Vec::new(),
        accesses: vec![access],
        others: Vec::new(),
        parts: Vec::new(),
    };
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.blocks(&[block]).unwrap();
    let executed = repeated(size, |count, bytes| {
        let address = count << 36;
        let values = [1, u64::from(u32::MAX), 0, address, address + 8 * u64::from(u32::MAX)];
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    });
    writer.units(1, executed).unwrap();
    writer.finish(0, 0).unwrap()
}

fn are_linear(
    name: &'static str,
    extension: &'static str,
    input: Input,
    commands: &[&'static str],
) {
    for command in commands {
        // What one access may have of elements, 4 KiB, is 64 lines: a reuse distance has up to 74
        // bytes for each.
        let memory = 32;
        is_linear(&Shape { name, command, extension, input, size: SIZE, memory, beside: None });
    }
}

#[test]
fn elements_of_tables_are_counted_and_not_walked() {
    are_linear("elements-most", "jsonl", most_elements, &EACH_ACCESS);
    are_linear("elements-most", "jsonl", most_elements, &["stats IN", "report --json IN"]);
    are_linear("elements-impossible", "jsonl", impossible_elements, &SOME);
    are_linear("elements-allowed", "jsonl", allowed_elements, &SOME);
    are_linear("elements-csv", "csv", csv, &SOME);
    are_linear("elements-parquet", "parquet", parquet, &SOME);
}

#[test]
fn elements_of_traces_are_counted_and_not_walked() {
    are_linear("elements-trace", "acc", trace, &SOME);
    are_linear("elements-trace", "acc", trace, &["info IN", "trace evaluate IN --cache=desktop"]);
}

fn json(command: &[&str], path: &str) -> (Option<i32>, Value) {
    let output = crate::hmtt(&[command, &["--json", path]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn sums_have_all_elements_and_other_analyses_state_what_they_lack() {
    let path = crate::scratch("linear-elements-sums.jsonl");
    let few = object(0, 3, 8, 1 << 30);
    std::fs::write(&path, few + &object(2, u64::from(u32::MAX), 4, 1 << 36)).unwrap();
    let path = path.to_str().unwrap();
    let (status, stats) = json(&["stats"], path);
    assert_eq!((status, &stats["complete"]), (Some(0), &Value::Bool(true)));
    let sums = &stats["stats"];
    let elements = u64::from(u32::MAX);
    assert_eq!(sums["accesses"], elements + 3);
    assert_eq!(sums["access_bytes"], 4 * elements + 24);
    assert_eq!(
        (&sums["pages"], &sums["lines"]),
        (&((1 << 22) + 1).into(), &((1u64 << 28) + 1).into())
    );
    let (status, split) = json(&["stats", "--by", "function"], path);
    assert_eq!(status, Some(0));
    assert_eq!(split["split"]["groups"][0]["stats"]["accesses"], elements + 3, "{split}");
    let (status, hot) = json(&["hot"], path);
    assert_eq!((status, &hot["complete"]), (Some(3), &Value::Bool(false)));
    let missing = hot["missing"][0].as_str().unwrap();
    let expected = "known in sums only: 4294967295 elements of string instructions, the first ones in access 2 of the file: at most 16777216";
    assert!(missing.starts_with(expected), "{missing}");
}
