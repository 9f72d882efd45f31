//! Tests that an invalid recording is an error or is read completely, and never causes a panic or a
//! shorter recording.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hmtt_format::{Generation, MemoryDescription, Pins, toml_memory};
use hmtt_sim::input::pin_map::PinMap;
use hmtt_sim::input::{self, InputError, Recording, Span};
use hmtt_sim::truth;
use proptest::prelude::*;

use crate::support;

fn vector(name: &str) -> PathBuf {
    support::vectors().join(name)
}

fn plain(name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(fs::File::open(vector(name)).unwrap()).read_to_end(&mut text).unwrap();
    text
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Reads a recording to its end and returns the sum of its clocks.
fn clocks(bytes: &[u8]) -> Result<u64, InputError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recording");
    fs::write(&path, bytes).unwrap();
    let recording = input::open(&path, None, None)?;
    let stated = recording.clocks;
    let clocks =
        recording.spans.map(|span| span.map(|span| span.clocks)).sum::<Result<u64, _>>()?;
    assert_eq!(stated, Some(clocks), "a recording is as long as it says");
    Ok(clocks)
}

/// The start of v16 with a matching header, short enough for many mutations.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let text = String::from_utf8(plain("v16_ddr1_faults.cmd.gz")).unwrap();
    let text = text.replace("last_clock=28272", "last_clock=400");
    let (header, body) = text.split_once("---\n").unwrap();
    let early = |line: &&str| line.split(' ').next().unwrap().parse::<u64>().unwrap() <= 400;
    let body: Vec<_> = body.lines().take_while(early).collect();
    format!("{header}---\n{}\n", body.join("\n")).into_bytes()
});

fn message(bytes: &[u8]) -> String {
    let text = clocks(bytes).unwrap_err().to_string();
    text.rsplit_once('/').unwrap().1.to_owned()
}

fn replaced(from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(&SMALL).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn vectors_are_as_long_as_their_header_says() {
    for entry in fs::read_dir(support::vectors()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".cmd.gz") {
            clocks(&fs::read(&path).unwrap()).unwrap();
        } else if name.ends_with(".truth.gz") {
            truth::read(&path).unwrap();
        } else if name.ends_with(".flags.txt") {
            truth::read_flags(&path).unwrap();
        }
    }
}

#[test]
fn plain_and_compressed_vectors_are_equal() {
    assert_eq!(clocks(&SMALL).unwrap(), 401);
    assert_eq!(clocks(&gzip(&SMALL)).unwrap(), 401);
}

#[test]
fn errors_name_file_and_line() {
    let messages = [
        message(b""),
        message(b"hello\n"),
        message(&replaced("generation=DDR1", "generation=DDR9")),
        message(&replaced("map row[0]=p16", "map row[0]=p17")),
        message(&replaced("last_clock=400", "last_clock=x")),
        message(&replaced("last_clock=400", "last_clock=999999999999999")),
        message(&replaced("columns=clock cke", "columns=clock cka")),
        message(&replaced("20 1 1 1 1 1 0 0", "20 1 1 1 1 1 0")),
        message(&replaced("20 1 1 1 1 1 0 0", "20 1 1 1 1 1 0 0 0")),
        message(&replaced("20 1 1 1 1 1 0 0", "20 1 2 1 1 1 0 0")),
        message(&replaced("20 1 1 1 1 1 0 0", "20 1 1 1 1 1 7 0")),
        message(&replaced("20 1 1 1 1 1 0 0", "20 1 1 1 1 1 0 fffff")),
        message(&replaced("20 1 1 1 1 1 0 0", "45 1 1 1 1 1 0 0")),
        message(&replaced("20 1 1 1 1 1 0 0", "401 1 1 1 1 1 0 0")),
        message(&replaced("unlisted_clocks=deselect", "unlisted_clocks=none")),
        message(&replaced("20 1 1 1 1 1 0 0", "20 \u{fffd} 1 1 1 1 0 0")),
        message(b"$date today $end $enddefinitions $end\n"),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn an_error_names_the_missing_file() {
    let error = input::open("no/such.cmd.gz".as_ref(), None, None).err().unwrap();
    assert_eq!(error.to_string(), "no/such.cmd.gz: cannot open");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "No such file or directory (os error 2)");
}

#[test]
fn a_description_from_another_file_gives_the_same_recording() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recording");
    let spans =
        |text: &[u8], memory: Option<MemoryDescription>| -> (MemoryDescription, Vec<Span>) {
            fs::write(&path, text).unwrap();
            let recording = input::open(&path, memory, None).unwrap();
            (recording.memory, recording.spans.map(Result::unwrap).collect())
        };
    let own = spans(&SMALL, None);
    let text = std::str::from_utf8(&SMALL).unwrap();
    let described = ["map ", "rows=", "generation=", "speed=", "bus_bytes=", "burst_"];
    let bare: String = text
        .split_inclusive('\n')
        .filter(|line| !described.iter().any(|key| line.starts_with(key)))
        .collect();
    assert!(bare.contains("chip_selects=1\n") && bare.len() < text.len());
    assert!(spans(bare.as_bytes(), Some(own.0.clone())) == own);
    let other = toml_memory::parse(OTHER_MEMORY).unwrap();
    assert!(spans(&SMALL, Some(other.clone())) == (other, own.1), "the header's map is not used");
}

/// A memory of two ranks; the recording has one.
const OTHER_MEMORY: &str = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 4\n\
    burst_length = 8\n[map]\ncolumn = ['p2-p11']\nbank = ['p12-p13']\nrow = ['p14-p26']\n\
    rank = ['p27']\n";

#[test]
fn more_ranks_than_the_memory_has_are_refused() {
    let mut memory = toml_memory::parse(OTHER_MEMORY).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recording");
    fs::write(&path, replaced("chip_selects=1", "map rank[0]=p29\nmap rank[1]=p30")).unwrap();
    let error = input::open(&path, Some(memory.clone()), None).err().unwrap().to_string();
    assert!(
        error.ends_with("recording:42: 4 chip selects stated, but the map has 2 ranks"),
        "{error}"
    );
    memory.generation = Generation::Ddr4;
    fs::write(&path, &*SMALL).unwrap();
    let error = input::open(&path, Some(memory), None).err().unwrap().to_string();
    assert!(error.contains("expected a column act_n for DDR4"), "{error}");
}

/// Writes the recording as a logic analyser would: pins change between clock edges.
fn as_vcd(pins: &[Pins]) -> String {
    let mut text = "$timescale 1 ps $end $scope module probe $end $var wire 1 ! ck $end \
        $var wire 1 \" cke $end $var wire 1 # cs_n $end $var wire 1 $ ras_n $end \
        $var wire 1 % cas_n $end $var wire 1 & we_n $end $var wire 1 ' ba0 $end \
        $var wire 1 ( ba1 $end $var wire 14 ) a $end $upscope $end $enddefinitions $end\n\
        #0 0!\n"
        .to_owned();
    for (clock, pins) in pins.iter().enumerate() {
        let time = clock * 10_000;
        let bit = |level| u8::from(level);
        text += &format!(
            "#{} 0! {}\" {}# {}$ {}% {}& {}' {}( b{:b} )\n#{} 1!\n",
            time + 2_000,
            bit(pins.cke & 1 != 0),
            bit(pins.cs_n & 1 != 0),
            bit(pins.ras_n),
            bit(pins.cas_n),
            bit(pins.we_n),
            pins.ba & 1,
            pins.ba >> 1,
            pins.a,
            time + 7_000,
        );
    }
    text
}

const PINS: &str = "clock = 'probe.ck'\ncke = 'cke'\ncs_n = 'cs_n'\nras_n = 'ras_n'\n\
    cas_n = 'cas_n'\nwe_n = 'we_n'\nba = ['ba0', 'ba1']\na = 'a'\n";

#[test]
fn a_vector_and_its_vcd_are_the_same_recording() {
    let levels = |recording: Recording| -> Vec<Pins> {
        let spans = recording.spans.map(Result::unwrap);
        spans.flat_map(|span| vec![span.pins; span.clocks as usize]).collect()
    };
    let recording = input::open(&vector("v12_ddr1_directed.cmd.gz"), None, None).unwrap();
    let memory = recording.memory.clone();
    let expected = levels(recording);
    let directory = tempfile::tempdir().unwrap();
    for compressed in [false, true] {
        let text = as_vcd(&expected).into_bytes();
        let path = directory.path().join("recording");
        fs::write(&path, if compressed { gzip(&text) } else { text }).unwrap();
        let pins = PinMap::parse(PINS).unwrap();
        let recording = input::open(&path, Some(memory.clone()), Some(pins)).unwrap();
        assert!(levels(recording) == expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_vectors_are_read_or_rejected(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        compressed: bool,
    ) {
        let mut bytes = if compressed { gzip(&SMALL) } else { SMALL.clone() };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // A mutation may state a last clock that is far away. Reading it takes very long but is no
        // error.
        let _ = clocks(&bytes);
    }

    #[test]
    fn shuffled_lines_are_read_or_rejected(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        drop: bool,
    ) {
        let mut lines: Vec<_> = SMALL.split_inclusive(|byte| *byte == b'\n').collect();
        let line = lines.remove(from.index(lines.len()));
        if !drop {
            lines.insert(to.index(lines.len()), line);
        }
        let _ = clocks(&lines.concat());
    }

    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = clocks(&bytes);
        let vcd = [b"$scope module x $end ", &bytes[..]].concat();
        let _ = clocks(&vcd);
    }
}
