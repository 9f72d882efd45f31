//! Builds the inputs from which a fuzzer starts: frames of a simulated card, the first lines of
//! vectors, and small texts.

mod access_trace;
mod elf;
mod page_map;
mod profile;
mod shared;
mod stubs;
mod tables;
mod tag_log;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use hmtt::pcapng::{Description, InterfaceStatistics, PcapngWriter};
use hmtt_files::block_list::header;
use hmtt_format::frame::WORDS_AT;
use hmtt_format::record::WordRecord;
use hmtt_sim::fuzz::memories;
use hmtt_test_support::card::Card;

use crate::targets::vector::{PIN_MAP, PINS, VCD, VECTOR};
use crate::targets::{part, state};

/// Environment variable that names the directory for the seeds.
pub const FOLDER: &str = "HMTT_FUZZ_SEEDS";
const WAVES: &str = "$date \u{e9} $end $timescale 1ps $end $attrbegin misc 02 $end $scope module p $end\n\
    $var real 64 * r $end $scope old $end $unscope $end $comment x $end\n\
    $var wire 1 ! ck $end $var wire 1 \" cke $end $var wire 1 # cs $end\n\
    $var wire 1 $ ras $end $var wire 1 % cas $end $var wire 1 & we $end\n\
    $var wire 1 ' ba0 $end $var wire 1 ( ba1 $end $var wire 13 ) a [12:0] $end\n\
    $upscope $end $enddefinitions $end\n#0 0! 1\" 1# 1$ 1% 1& 0' 0( b0 )\n\
    #5 1!\n#7 0# 0$ b101 ) 1(\n#10 0! r1.5 * sx + pD 6 0 <0\n#15 1! 1#\n#20 0! x$\n#25 1!\n";
/// Number of lines of a vector after its header.
const LINES: usize = 20;

/// Writes the seeds of a target to the directory that the environment variable names, if it is set.
///
/// # Panics
/// If the directory cannot be written to.
pub fn write(target: &str) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    for (index, seed) in of(target).iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{index}"));
        std::fs::write(path, seed).expect("the folder of seeds can be written to");
    }
}

/// Returns the seeds of a target.
#[must_use]
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "frame" => session(),
        "record" => session().iter().map(|frame| frame[WORDS_AT..].to_vec()).collect(),
        "trace" => scripts(),
        "pcapng" => captures(),
        "access_trace" => access_trace::scripts(),
        "block_list" => vec![[&header(2)[..], &[1; 8], &[0xff; 8]].concat()],
        "elf" => elf::programs(),
        "tag_log" | "tag_report" => tag_log::scripts(),
        "profile" => profile::files(),
        "imported" => crate::targets::imported::seeds(),
        "page_map" => page_map::scripts(),
        "tag_map" => vec![tag_log::map()],
        "table" => tables::texts(),
        "parquet" => tables::parquets(),
        "part" => part::parts(&captures()),
        "shared" => shared::scripts(),
        "state" => state::states(&captures()),
        "stubs" => stubs::scripts(),
        "unfinished" => vec![vec![0; 40], vec![7; 40]],
        _ => texts(),
    }
}

/// Returns a frame of every kind, with records of every kind.
fn session() -> Vec<Vec<u8>> {
    let mut card = Card::new();
    let (mut frames, _) = card.session(2, 31);
    frames.push(card.heartbeat(hmtt_format::frame::Heartbeat::default()));
    frames.push(card.records(&records(), 0, 0));
    card.unit_log2 = 0;
    frames.push(card.records(&records(), 0, 0));
    frames
}

fn records() -> Vec<WordRecord> {
    use hmtt_format::record::{CountGroup, PageRun, TagSource};
    let run = |reads| PageRun { number: 7, reads, writes: 9, duration: 100 };
    vec![
        WordRecord::Tag { delta: 5, source: TagSource::Mark, value: 0x60 },
        WordRecord::Fault { delta: 5, kind: hmtt_format::FaultKind::ReadIdle, bank: 3 },
        WordRecord::Page { delta: 1, run: run(3) },
        WordRecord::Page { delta: 1, run: run(3000) },
        WordRecord::Slice { code: 9, partial: None, start: 7, reads: 1, writes: 2 },
        WordRecord::Slice { code: 9, partial: Some(40), start: 7, reads: 1, writes: 2 },
        WordRecord::Interval { part: 3, clock: 1 << 40 },
        WordRecord::Count { dump: 2, group: CountGroup::Reuse, index: 4, value: 99 },
        WordRecord::HotPage { dump: 2, page: 77, count: 12, votes: 15 },
    ]
}

/// Returns scripts with data, losses, copies and changed order; then with damage, a second card and
/// a restart.
fn scripts() -> Vec<Vec<u8>> {
    let data = [0, 0, 100, 1, 1, 50];
    let tame = [&data[..], &[15, 3], &data, &[16, 1, 17, 18, 0, 9, 12, 1, 0, 0, 13, 2, 1, 5, 0, 7]]
        .concat();
    let end = [&data[..], &[11, 11, 11]].concat();
    let damage = [&data[..], &[21, 1, 7], &data, &[22, 0, 40], &end].concat();
    let two = [&data[..], &[24], &data, &[24], &data, &[24], &data, &end].concat();
    let restart = [&data[..], &[26, 10], &data, &end, &[29, 9, 1, 1], &data].concat();
    vec![[&tame[..], &tame, &end].concat(), damage, two, restart]
}

fn captures() -> Vec<Vec<u8>> {
    let interfaces = [Description { name: "veth1".into(), comments: vec!["about it".into()] }];
    let mut writer = PcapngWriter::new(Vec::new(), &interfaces).expect("memory takes all");
    for (index, frame) in session().iter().enumerate() {
        let time = Duration::new(1_700_000_000, index as u32);
        writer.write_frame(0, time, frame.len() as u32, frame).expect("memory takes all");
    }
    let statistics = InterfaceStatistics { received_frames: Some(6), ..Default::default() };
    let times = Duration::ZERO..Duration::from_secs(1);
    writer.write_statistics(0, times, &statistics, Some("hot")).expect("memory takes all");
    let little = writer.into_output();
    vec![[&little[..], &little].concat(), big_endian()]
}

/// Returns a section in the other byte order, with an enhanced and a simple packet. Its interface
/// has a time zone, a name that is not UTF-8, and an address of a wrong length.
fn big_endian() -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX, 28];
    let options = [10 << 16 | 4, 3600, 2 << 16 | 4, 0x6574_68e9, 6 << 16 | 4, 7];
    let interface = [&[1, 44, 1 << 16, 0][..], &options, &[44]].concat();
    let packet = [6, 40, 0, 1, 2, 8, 8, 0xabcd_ef01, 0x2345_6789, 40];
    let simple = [3, 20, 4, 0x0102_0304, 20];
    [words(&section), words(&interface), words(&packet), words(&simple)].concat()
}

fn texts() -> Vec<Vec<u8>> {
    let text = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let memories = memories::ALL.iter().map(|memory| text(b'm', memory));
    let own = [text(VCD, WAVES), text(PINS, PIN_MAP)];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors");
    let vectors = ["v02_ddr1_tiny_rtl_init", "v11_ddr3_xor_open", "v18_ddr4_open"];
    let vectors = vectors.iter().map(|name| {
        let file = std::fs::File::open(folder.join(format!("{name}.cmd.gz"))).expect("a vector");
        let lines = BufReader::new(GzDecoder::new(file)).lines();
        text(VECTOR, &shortened(lines.map(|line| line.expect("a vector is text"))))
    });
    own.into_iter().chain(memories).chain(vectors).collect()
}

/// Returns a vector's header and first clocks, with the last clock in the header adapted.
fn shortened(lines: impl Iterator<Item = String>) -> String {
    let (mut header, mut clocks) = (Vec::new(), Vec::new());
    let mut in_header = true;
    for line in lines {
        in_header &= line != "---";
        if in_header {
            header.push(line)
        } else if clocks.len() <= LINES {
            clocks.push(line)
        } else {
            break;
        }
    }
    let last = clocks.last().and_then(|line| line.split(' ').next()).unwrap_or("0").to_owned();
    let header = header.into_iter().map(|line| match line.split_once('=') {
        Some(("last_clock", _)) => format!("last_clock={last}"),
        _ => line,
    });
    header.chain(clocks).map(|line| line + "\n").collect()
}
