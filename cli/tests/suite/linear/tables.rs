//! Builds the most expensive tables.

use super::{Input, Shape, is_linear, repeated};
use hmtt::CardId;
use hmtt::table::parquet::ParquetWriter;
use hmtt::table::{Entry, Row, Writer};
use hmtt_format::event::MarkRegister;
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr};

const HEADING: &[u8] = b"kind,clock,direction,address,reads,writes,duration,detail\n";

fn csv(size: usize, line: impl Fn(u64) -> String) -> Vec<u8> {
    let lines = repeated(size, |count, bytes| bytes.extend(line(count).into_bytes()));
    [HEADING, &lines].concat()
}

fn csv_cards(size: usize) -> Vec<u8> {
    csv(size, |count| {
        format!("card,,,,,,,\"{} on eth{count}\"\naccess,{count},R,40,,,,\n", count + 1)
    })
}

fn csv_quotes(size: usize) -> Vec<u8> {
    let name = "\"\"".repeat(16 << 10);
    csv(size, |count| format!("card,,,,,,,\"1 on {name}{count}\"\nno_end,,,,,,,\n"))
}

/// Builds blank lines, then one quoted field that does not end.
fn csv_open_quote(size: usize) -> Vec<u8> {
    let half = csv(size / 2, |_| "\n".into());
    [half, b"card,,,,,,,\"".to_vec(), vec![b'\n'; size / 2]].concat()
}

fn csv_one_line(size: usize) -> Vec<u8> {
    [HEADING, &vec![b','; size]].concat()
}

fn jsonl_cards(size: usize) -> Vec<u8> {
    repeated(size, |count, bytes| {
        let card = count + 1;
        let lines = format!(
            "{{\"kind\":\"card\",\"card\":{card},\"interface\":\"eth{count}\"}}\n\
             {{\"kind\":\"access\",\"clock\":{count},\"direction\":\"R\",\"address\":\"40\"}}\n"
        );
        bytes.extend(lines.into_bytes());
    })
}

fn jsonl_deep(size: usize) -> Vec<u8> {
    vec![b'['; size]
}

fn records(size: usize) -> Vec<u8> {
    repeated(size, |count, bytes| {
        bytes.extend(&count.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[..6])
    })
}

fn parquet(size: usize, cards: u64) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Box::new(ParquetWriter::new(file.reopen().unwrap()).unwrap());
    for count in 0..size as u64 / 16 {
        let card = CardId((count % cards) as usize);
        let clock = Cycles(count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2);
        let address = PhysAddr(count.wrapping_mul(0xd134_2543_de82_ef95) >> 24);
        let entry = match count % 7 {
            0 => Entry::Event(Event::Mark { clock, register: MarkRegister(count as u32) }),
            _ => Access { clock, direction: Direction::Read, address }.into(),
        };
        writer.row(&Row { card, entry }).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(file.path()).unwrap()
}

fn parquet_rows(size: usize) -> Vec<u8> {
    parquet(size, 1)
}

/// Builds a row group for each card.
fn parquet_groups(size: usize) -> Vec<u8> {
    parquet(size / 16, (size / 16 / 64) as u64)
}

/// Requests for a simulator.
fn requests(size: usize) -> Vec<u8> {
    let line = |number: usize| format!("{number}: read {number:#x}\n");
    (0..size / 16).map(line).collect::<String>().into_bytes()
}

/// Samples of perf with a long name of the program, and as many words.
fn samples(size: usize) -> Vec<u8> {
    let sample = format!("{} 7 1.5: mem-loads: 40 |OP LOAD|A 9 401000\n", "a ".repeat(1000));
    sample.repeat(size / sample.len() + 1).into_bytes()
}

#[test]
fn tables_are_read_in_linear_time() {
    let inputs: [(&'static str, &'static str, Input, usize); 11] = [
        ("csv-cards", "csv", csv_cards, 32),
        ("csv-quotes", "csv", csv_quotes, 8),
        ("csv-open-quote", "csv", csv_open_quote, 8),
        ("csv-one-line", "csv", csv_one_line, 8),
        ("jsonl-cards", "jsonl", jsonl_cards, 32),
        ("jsonl-deep", "jsonl", jsonl_deep, 8),
        ("records", "trace", records, 8),
        ("requests", "requests", requests, 8),
        ("samples", "samples", samples, 8),
        ("parquet-rows", "parquet", parquet_rows, 32),
        ("parquet-groups", "parquet", parquet_groups, 256),
    ];
    for (name, extension, input, memory) in inputs {
        let command = "convert --to csv IN OUT";
        is_linear(&Shape { name, command, extension, input, size: 1 << 19, memory, beside: None });
    }
}

/// Builds a table whose only detail is a string of `bytes` equal bytes.
fn parquet_string(bytes: usize) -> Vec<u8> {
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{BoolType, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let schema = "message t { required int64 clock; optional boolean is_write; \
                  optional int64 address; optional binary detail; }";
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None);
    let mut writer = SerializedFileWriter::new(
        Vec::new(),
        parse_message_type(schema).unwrap().into(),
        properties.build().into(),
    )
    .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let present = Some(&[1][..]);
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[7], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<BoolType>().write_batch(&[], Some(&[0]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[], Some(&[0]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let text = [vec![b' '; bytes].into()];
    column.typed::<ByteArrayType>().write_batch(&text, present, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_parquet_page_that_decompresses_to_a_huge_size_is_rejected() {
    for (bytes, expected) in [
        (300 << 20, "becomes longer than 64 MiB"),
        (1 << 20, "row 0: a detail of more than 4096 bytes"),
    ] {
        let path = crate::scratch(&format!("linear-bomb-{bytes}.parquet"));
        let table = parquet_string(bytes);
        assert!(table.len() < 1 << 20);
        std::fs::write(&path, table).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(["convert", path.to_str().unwrap(), "-", "--to", "csv"]);
        let errors = tempfile::NamedTempFile::new().unwrap();
        command.stdout(std::process::Stdio::null()).stderr(errors.reopen().unwrap());
        let (status, _) = super::measured(command, super::BASE_BYTES as u64);
        let text = std::fs::read_to_string(errors.path()).unwrap();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_panic_of_the_parquet_library_is_an_error_without_a_message_of_the_panic() {
    // A page whose values refer to a dictionary that the file lacks.
    let damaged = include_bytes!("../../../../fuzz/found/parquet/dictionary_page_missing");
    let path = crate::scratch("linear-dictionary.parquet");
    std::fs::write(&path, damaged).unwrap();
    let output = crate::hmtt(&["convert", path.to_str().unwrap(), "-", "--to", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let wanted = format!("hmtt: {}: the file is damaged: it cannot be decoded\n", path.display());
    assert_eq!(text, wanted);
}
