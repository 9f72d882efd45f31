//! Builds captures of several boards, and data sets of them. Tests of the cluster use them, too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_dataset::{AddOptions, Added, Dataset, default_run};
use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{Exits, TagMap, TaggedFunction, VERSION};
use hmtt_format::frame::{FrameKind, Heartbeat};
use hmtt_format::record::{Half, PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};
use hmtt_test_support::call_log;
use hmtt_test_support::card::Card;

/// 2023-11-14 22:59:58 UTC.
pub const BEGIN: Duration = Duration::new(1_700_002_798, 0);
/// The marks of the kernel.
const KERNEL: [u32; 2] = [0x60, 0x61];
/// Accesses of a frame.
const ACCESSES: u64 = 200;

/// A board that is simulated.
struct Board {
    card: Card,
    state: u64,
    frames: u64,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Board {
    fn new(seed: u64) -> Self {
        let card = Card { tag_window: Some(0x1000_0000), ..Card::new() };
        Board { card, state: seed, frames: 0 }
    }

    /// Accesses of which most are in a few pages.
    fn accesses(&mut self) -> Vec<u8> {
        let mut clocks = 0;
        let mut half = || {
            let random = random(&mut self.state);
            let number = match random & 3 {
                0 => random >> 20 & 0xff_ffff,
                1 => random >> 20 & 0xfff,
                _ => 0x4_0000 + (random >> 20 & 0x7f),
            };
            let delta = (random >> 50) as u32 % 7 + 1;
            clocks += u64::from(delta);
            let direction = Direction::from_bit((random >> 4).is_multiple_of(3));
            Half::Access { direction, delta, number: number as u32 }.encode()
        };
        let mut word = |_| u64::from(half()) << 32 | u64::from(half());
        let words: Vec<u64> = (0..ACCESSES / 2).map(&mut word).collect();
        let frame = self.card.frame(FrameKind::Data, &words);
        self.card.advance(clocks, ACCESSES);
        frame
    }

    /// The next frame: mostly accesses, now and then tags, marks and other records.
    fn next(&mut self) -> Option<Vec<u8>> {
        self.frames += 1;
        let write = TagSource::Window(Direction::Write);
        Some(match self.frames {
            // Entry and exit of the functions 0 and 1, the second one within the first one.
            at if at % 20 == 3 => self.tag(write, 0),
            at if at % 20 == 6 => self.tag(write, 2 * 64),
            at if at % 20 == 9 => self.tag(write, 3 * 64),
            at if at % 20 == 15 => self.tag(write, 64),
            at if at % 8 == 5 => self.tag(TagSource::Mark, KERNEL[at as usize / 8 % 2]),
            50 => {
                let fault = WordRecord::Fault { delta: 3, kind: FaultKind::RefreshOpen, bank: 1 };
                self.card.records(&[fault], 0, 3)
            }
            60 => {
                let slice =
                    WordRecord::Slice { code: 0, partial: None, start: 500, reads: 3, writes: 4 };
                self.card.records(&[slice], 0, 0)
            }
            70 => {
                self.card.unit_log2 = 12;
                let run = PageRun { number: 0x1f, reads: 2, writes: 1, duration: 20 };
                let frame = self.card.records(&[WordRecord::Page { delta: 4, run }], 3, 4);
                self.card.unit_log2 = 6;
                frame
            }
            // A frame that does not arrive, and records that the card has lost.
            80 => {
                self.accesses();
                return None;
            }
            90 => {
                (self.card.lost, self.card.accesses) = (self.card.lost + 5, self.card.accesses + 2);
                self.accesses()
            }
            100 => {
                let transmit_clocks = 1001;
                self.card.heartbeat(Heartbeat { running: false, losses: 1, transmit_clocks })
            }
            _ => self.accesses(),
        })
    }

    fn tag(&mut self, source: TagSource, value: u32) -> Vec<u8> {
        self.card.records(&[WordRecord::Tag { delta: 3, source, value }], 0, 3)
    }
}

/// Writes a capture of boards on `eth1`, `eth2` and so on. `frames`: of each board, which arrive
/// `step` apart.
pub fn capture(path: &Path, boards: u32, frames: u64, step: Duration, seed: u64) {
    let names: Vec<String> = (1..=boards).map(|number| format!("eth{number}")).collect();
    let interfaces: Vec<Description> = names.iter().map(|name| Description::new(name)).collect();
    let mut writer = PcapngWriter::new(Vec::new(), &interfaces).unwrap();
    let mut simulated: Vec<Board> =
        (0..boards).map(|number| Board::new(seed + 7 * u64::from(number) + 1)).collect();
    let mut time = BEGIN;
    let mut write = |interface: u32, frame: &[u8]| {
        writer.write_frame(interface, time, frame.len() as u32, frame).unwrap();
        time += step / boards;
    };
    for (interface, board) in (0..).zip(&mut simulated) {
        write(interface, &board.card.info());
    }
    for at in 0..frames as u32 {
        for (interface, board) in (0..).zip(&mut simulated) {
            // The clock, of 10 ns, goes on while there are no accesses.
            let clock = (step * at).as_nanos() as u64 / 10;
            board.card.clock = board.card.clock.max(clock);
            if let Some(frame) = board.next() {
                write(interface, &frame);
            }
        }
    }
    for (interface, board) in (0..).zip(&mut simulated) {
        write(interface, &board.card.end());
    }
    std::fs::write(path, writer.into_output()).unwrap();
}

/// Adds a capture to a data set.
pub fn add(data: &Path, capture: &Path) {
    let run = default_run(capture);
    let options = AddOptions { run: &run, receiver: None };
    let added = Dataset::new(data).add(capture, &options).unwrap();
    assert!(matches!(added, Added::New(_)), "{added:?}");
}

/// Captures of three boards in two runs, over the end of an hour.
pub fn captures(folder: &Path) -> [PathBuf; 2] {
    let paths = ["night.pcapng", "day.pcapng"].map(|name| folder.join(name));
    capture(&paths[0], 2, 200, Duration::from_millis(23), 0x9e37_79b9_7f4a_7c15);
    capture(&paths[1], 3, 120, Duration::from_millis(31), 0x1234_5678_9abc_def1);
    paths
}

/// A data set of [`captures`] and of a log of tags.
pub fn dataset(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    captures(folder).iter().for_each(|capture| add(&data, capture));
    let log = folder.join("prog.tags");
    call_log::write(&log, 3, 40, BEGIN.as_nanos() as u64, 11);
    add(&data, &log);
    data
}

/// The map of the tags of the samples: `outer` is number 0, `inner` number 1.
pub fn map() -> TagMap {
    let function = |(number, name): (u32, &str)| TaggedFunction {
        number: FunctionId(number),
        name: name.to_owned(),
        symbols: vec![name.to_owned()],
        object: "/bin/program".into(),
        code_address: 0x1000 + u64::from(number),
        file_address: None,
        size_bytes: 1,
        tagged_exits: Exits::All,
        removed: None,
    };
    TagMap {
        version: VERSION,
        id: [0; 8],
        program: "/bin/program".into(),
        pid: 1,
        sink: "card".into(),
        timed: false,
        tsc_hz: 0,
        window: None,
        functions: [(0, "outer"), (1, "inner")].map(function).to_vec(),
        blocks: Vec::new(),
        loops: Vec::new(),
        refused: Vec::new(),
    }
}

/// Writes the map.
pub fn tag_map(folder: &Path) -> PathBuf {
    let path = folder.join("map.json");
    std::fs::write(&path, serde_json::to_string(&map()).unwrap()).unwrap();
    path
}
