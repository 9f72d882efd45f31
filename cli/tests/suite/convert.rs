//! Tests conversions between the formats of traces, and what they reject.

mod cards;
mod damage;
mod database;
mod readers;
mod records;
pub mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::card::Card;
use crate::{capture_file, hmtt, scratch, skipped};
use samples::everything;

/// Returns a new path whose name ends with an extension.
fn output(name: &str, extension: &str) -> PathBuf {
    scratch(&format!("convert-{name}.{extension}"))
}

/// Returns the name of what could be read, if an input is damaged.
fn partial(output: &Path) -> PathBuf {
    PathBuf::from(format!("{}.partial", output.display()))
}

fn convert(from: &Path, to: &Path) -> Output {
    hmtt(&["convert", text(from), text(to)])
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the standard error of a command.
fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns standard error and exit code of a conversion that must succeed.
fn converted(from: &Path, to: &Path) -> (String, i32) {
    let output = convert(from, to);
    let code = output.status.code().unwrap();
    assert!(code == 0 || code == 3, "{}", complaint(&output));
    (complaint(&output), code)
}

/// Returns the output of `hmtt decode`.
fn decoded(capture: &Path, format: &str) -> Vec<u8> {
    hmtt(&["decode", text(capture), "--format", format]).stdout
}

fn lines(bytes: &[u8]) -> Vec<&str> {
    std::str::from_utf8(bytes).unwrap().lines().collect()
}

/// The kinds of rows that every format has.
const KINDS: [&str; 13] = [
    "access",
    "tag",
    "mark",
    "fault",
    "page",
    "slice",
    "interval",
    "count",
    "hot_page",
    "gap",
    "restart",
    "ddr_clock",
    "no_end",
];

#[test]
fn the_sample_has_every_kind_of_row_and_gap() {
    let capture = capture_file("convert-kinds.pcapng", &everything());
    let csv = decoded(&capture, "csv");
    for kind in KINDS {
        let starts = |line: &&str| line.starts_with(&format!("{kind},"));
        assert!(lines(&csv).iter().any(starts), "no {kind}");
    }
    let csv = String::from_utf8(csv).unwrap();
    for sort in
        ["frames missing", "on the card", "malformed frames", "at start", "an unknown number"]
    {
        assert!(csv.contains(sort), "no gap {sort}");
    }
    for slice in ["slice,7,,,1,2,,\n", "slice,500,,,3,4,100,\n", ",30,partial\n"] {
        assert!(csv.contains(slice), "no {slice}");
    }
}

#[test]
fn every_kind_is_read_back_from_parquet() {
    let capture = capture_file("convert-all.pcapng", &everything());
    let parquet = output("all", "parquet");
    assert_eq!(converted(&capture, &parquet).1, 3, "a trace with gaps");
    for (format, extension) in [("csv", "csv"), ("jsonl", "jsonl"), ("text", "txt")] {
        let expected = decoded(&capture, format);
        for (from, name) in [(&capture, "direct"), (&parquet, "from-parquet")] {
            let written = output(name, extension);
            assert_eq!(converted(from, &written).1, 3, "{format}");
            assert_eq!(lines(&fs::read(written).unwrap()), lines(&expected), "{format}, {name}");
        }
    }
}

#[test]
fn what_decode_prints_is_read_back() {
    let capture = capture_file("convert-back.pcapng", &everything());
    for format in ["csv", "jsonl"] {
        let printed = output(&format!("printed-{format}"), format);
        fs::write(&printed, decoded(&capture, format)).unwrap();
        let (copy, parquet) = (output("copy", format), output(format, "parquet"));
        let back = output("back", format);
        converted(&printed, &copy);
        converted(&printed, &parquet);
        converted(&parquet, &back);
        assert!(fs::read(&copy).unwrap() == fs::read(&printed).unwrap(), "{format}");
        assert!(fs::read(&back).unwrap() == fs::read(&printed).unwrap(), "{format}");
    }
}

#[test]
fn a_parquet_file_is_the_same_from_every_source() {
    let capture = capture_file("convert-same.pcapng", &everything());
    let (csv, jsonl) = (output("same", "csv"), output("same", "jsonl"));
    converted(&capture, &csv);
    converted(&capture, &jsonl);
    let first = output("same-1", "parquet");
    converted(&jsonl, &first);
    let second = output("same-2", "parquet");
    converted(&first, &second);
    assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap());
    // A tag and its access are one row, even if they are two lines.
    let from_csv = output("same-csv", "parquet");
    converted(&csv, &from_csv);
    let back = output("same-back", "csv");
    converted(&from_csv, &back);
    assert_eq!(lines(&fs::read(back).unwrap()), lines(&fs::read(csv).unwrap()));
}

#[test]
fn a_table_needs_only_three_columns_in_any_order() {
    let csv = output("by-hand", "csv");
    fs::write(&csv, "Address,note,direction,CLOCK\n0x40,a,R,3\n\"80\",\"b, \"\"c\"\"\",w,5\r\n\n")
        .unwrap();
    let written = output("by-hand", "txt");
    assert_eq!(converted(&csv, &written), (String::new(), 0));
    let expected = "# clock R|W physical_byte_address_hex\n3 R 40\n5 W 80\n";
    assert_eq!(fs::read_to_string(written).unwrap(), expected);
}

#[test]
fn invalid_tables_are_errors_with_position_and_advice() {
    let heading = "kind,clock,direction,address,reads,writes,duration,detail\n";
    for (extension, content, expected) in [
        ("csv", "", "empty: a CSV file starts with a heading"),
        ("csv", "clock,address\n1,2\n", "line 1: the heading has no column direction; it must"),
        ("csv", "clock,direction,address\n1,R\n", "line 2: 2 fields, the heading has 3"),
        (
            "csv",
            "clock,address,direction,Address\n1,40,R,80\n",
            "line 1: the heading has the column address twice",
        ),
        ("csv", "clock,direction,address\n1,X,40\n", "line 2: direction \"X\" is neither R nor W"),
        (
            "csv",
            "clock,direction,address\n+1,R,4\n",
            "line 2: clock \"+1\" is not a decimal number",
        ),
        ("csv", "clock,direction,address\n1,R,4g\n", "line 2: address \"4g\" is not hexadecimal"),
        ("csv", "clock,direction,address\n1,\"R,4\n", "line 2: a quoted field does not end"),
        ("csv", &format!("{heading}gap,4,,,,,,gap\n"), "line 2: detail \"gap\" of a gap: expected"),
        ("csv", &format!("{heading}card,,,,,,,0\n"), "line 2: no card has number 0"),
        ("csv", &format!("{heading}card,,,,,,,x\n"), "line 2: detail \"x\" of a card: expected"),
        ("jsonl", "{\"kind\":\"card\",\"card\":0}\n", "line 1: no card has number 0"),
        ("csv", &format!("{heading}peak,4,,,,,,\n"), "line 2: no row is of kind \"peak\""),
        ("jsonl", "{\"kind\":\"access\"}\n", "line 1: missing field `clock`"),
        (
            "jsonl",
            "{\"kind\":\"tag\",\"clock\":7,\"direction\":\"W\",\"offset\":77,\"address\":\"1240\"}\n",
            "line 1: the address 1240 of a tag is not at its offset 77",
        ),
        ("jsonl", "\n{\"kind\":\"peak\"}\n", "line 2: unknown variant `peak`"),
        ("trace", "1234567", "offset 6: 1 bytes, a record has 6: the file was cut off"),
        ("parquet", "PAR1PAR1PAR1", "Parquet file too small"),
        ("parquet", "clock,direction,address\n1,R,40\n", "Invalid Parquet file"),
    ] {
        let input = output("senseless", extension);
        fs::write(&input, content).unwrap();
        let refused = output("refused", "txt");
        let _ = fs::remove_file(partial(&refused));
        let result = convert(&input, &refused);
        let complaint = complaint(&result);
        // What precedes an invalid record is written, under another name.
        assert!(!refused.exists(), "{content}");
        assert_eq!(partial(&refused).exists(), extension == "trace", "{content}");
        assert_eq!(result.status.code(), Some(1), "{content}");
        assert!(complaint.contains(expected), "{content}: {complaint}");
        assert!(complaint.contains(&format!("hmtt: {}", input.display())), "{complaint}");
    }
}

#[test]
fn rows_before_an_invalid_one_are_written_under_another_name() {
    let input = output("half", "csv");
    fs::write(&input, "clock,direction,address\n1,R,40\n2,R\n").unwrap();
    let written = output("half", "parquet");
    let failed = convert(&input, &written);
    assert_eq!(failed.status.code(), Some(1));
    assert!(complaint(&failed).contains("half.parquet.partial has what could be read"));
    assert!(!written.exists());
    fs::rename(partial(&written), &written).unwrap();
    let back = output("half-back", "txt");
    converted(&written, &back);
    assert!(fs::read_to_string(back).unwrap().ends_with("\n1 R 40\n"));
}

#[test]
fn an_output_that_cannot_be_written_leaves_no_file_and_what_was_there() {
    let capture = capture_file("convert-limit.pcapng", &Card::new().session(60, 200).0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    // The limit of the size of files is reached in the middle; without its signal that is an error.
    let limited = |options: &str| {
        let script =
            format!("trap '' XFSZ; ulimit -f 16; exec \"$0\" convert {options} \"$1\" \"$2\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_hmtt")]).args([&capture, &path]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
        assert!(complaint(&output).contains("cannot write to"), "{}", complaint(&output));
    };
    limited("");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(&path, "earlier").unwrap();
    limited("-f");
    assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // Of a card that is not there nothing is kept.
    let other = folder.path().join("other.csv");
    let absent = hmtt(&["decode", "--card", "9", text(&capture), "-o", text(&other)]);
    assert_eq!(absent.status.code(), Some(1), "{}", complaint(&absent));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // Without the limit it is written, whole.
    assert_eq!(hmtt(&["convert", "-f", text(&capture), text(&path)]).status.code(), Some(0));
    assert!(fs::metadata(&path).unwrap().len() > 16 << 10);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn pipes_and_open_files_are_written_as_rows_come() {
    let capture = capture_file("convert-pipe.pcapng", &Card::new().session(3, 5).0);
    let expected = decoded(&capture, "csv");
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read(pipe).unwrap())
    };
    assert_eq!(
        hmtt(&["convert", "-f", "--to", "csv", text(&capture), text(&pipe)]).status.code(),
        Some(0)
    );
    assert!(reader.join().unwrap() == expected);
    let standard = hmtt(&["convert", "-f", "--to", "csv", text(&capture), "/dev/stdout"]);
    assert!(standard.stdout == expected, "{}", complaint(&standard));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn files_are_overwritten_only_with_force_and_the_input_never() {
    let input = output("precious", "csv");
    fs::write(&input, "clock,direction,address\n1,R,40\n").unwrap();
    let existing = output("existing", "csv");
    fs::write(&existing, "precious").unwrap();
    let refused = convert(&input, &existing);
    assert_eq!(refused.status.code(), Some(1));
    let expected = format!("hmtt: {} exists; give -f to overwrite it\n", existing.display());
    assert_eq!(complaint(&refused), expected);
    assert_eq!(fs::read_to_string(&existing).unwrap(), "precious");
    assert!(hmtt(&["convert", "-f", text(&input), text(&existing)]).status.success());
    assert_ne!(fs::read_to_string(&existing).unwrap(), "precious");

    let link = output("link", "csv");
    fs::hard_link(&input, &link).unwrap();
    for itself in [&input, &link] {
        let refused = hmtt(&["convert", "-f", text(&input), text(itself)]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(complaint(&refused).contains("is the trace itself"));
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), "clock,direction,address\n1,R,40\n");
}

#[test]
fn unknown_formats_are_errors() {
    let input = output("plain", "csv");
    fs::write(&input, "clock,direction,address\n1,R,40\n").unwrap();
    let to = |name: &str| output("nowhere", name);
    let complaint_of = |from: &Path, to: &Path| complaint(&convert(from, to));
    assert!(complaint_of(&input, &to("pcapng")).contains("cannot write pcapng"));
    assert!(
        complaint_of(&input, &to("data")).contains("the extension selects no format; give --to")
    );
    let as_text = output("plain", "txt");
    fs::copy(&input, &as_text).unwrap();
    assert!(complaint_of(&as_text, &to("csv")).contains("cannot be read back; use csv or jsonl"));
    assert!(!to("csv").exists());
    let forced = hmtt(&["convert", "--from", "csv", text(&as_text), text(&to("csv"))]);
    assert!(forced.status.success(), "{}", complaint(&forced));
}

#[test]
fn a_full_disk_is_an_error_in_every_format() {
    if !Path::new("/dev/full").exists() {
        return skipped("no /dev/full");
    }
    let (frames, _) = Card::new().session(10_000, 370);
    let capture = capture_file("full-disk.pcapng", &frames);
    for format in ["parquet", "csv", "jsonl", "text", "hmtt6"] {
        let full = hmtt(&["convert", "-f", "--to", format, text(&capture), "/dev/full"]);
        assert_eq!(full.status.code(), Some(1), "{format}");
        let complaint = complaint(&full);
        assert!(complaint.starts_with("hmtt: cannot write to /dev/full: "), "{complaint}");
        assert!(complaint.contains("No space left"), "{complaint}");
    }
}
