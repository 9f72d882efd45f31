//! The plugin for Wireshark says of a capture what we say, points at what is wrong with it, and no
//! payload makes it fail. Skipped, visibly, where tshark is not installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_format::frame::{FrameKind, Heartbeat};
use hmtt_format::record::{CountGroup, Half, PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};

use crate::card::Card;
use crate::{capture_file, hmtt, scratch, skipped};

/// Bytes of a frame before its version and kind.
const MAC_BYTES: usize = 14;
const FUZZED_FRAMES: usize = 4000;

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("wireshark/hmtt.lua")
}

/// What tshark with a plugin prints of a file, on both channels; `None` when it is not there.
fn tshark_with(plugin: &Path, arguments: &[&str], file: &Path) -> Option<String> {
    let script = format!("lua_script:{}", plugin.display());
    let mut tshark = Command::new("tshark");
    match tshark.args(["-n", "-X", &script]).args(arguments).arg("-r").arg(file).output() {
        Err(error) => {
            skipped(format_args!("tshark: {error}"));
            None
        }
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !errors.contains("Lua"), "tshark: {errors}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }
}

fn tshark(arguments: &[&str], file: &Path) -> Option<String> {
    tshark_with(&plugin(), arguments, file)
}

/// The values of fields that stand side by side in each frame, one line for each.
fn columns(fields: &[&str], file: &Path) -> Option<Vec<Vec<u64>>> {
    let mut arguments = vec!["-T", "fields", "-E", "separator=;", "-E", "aggregator=,"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    let number = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => value.parse().unwrap(),
    };
    let mut rows = Vec::new();
    for line in tshark(&arguments, file)?.lines() {
        let columns: Vec<Vec<u64>> = line
            .split(';')
            .map(|values| values.split(',').filter(|v| !v.is_empty()).map(number).collect())
            .collect();
        for row in 0..columns[0].len() {
            rows.push(columns.iter().map(|column| column[row]).collect());
        }
    }
    Some(rows)
}

/// What `hmtt decode` prints.
fn decoded(file: &Path) -> Vec<String> {
    let output = hmtt(&["decode", file.to_str().unwrap(), "--format", "text"]);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The accesses the plugin shows, as lines of a decoded text.
fn accesses(file: &Path) -> Option<Vec<String>> {
    let fields = ["hmtt.access.clock", "hmtt.access.direction", "hmtt.access.address"];
    let line = |row: &Vec<u64>| format!("{} {} {:x}", row[0], ["R", "W"][row[1] as usize], row[2]);
    Some(columns(&fields, file)?.iter().map(line).collect())
}

fn is_access(line: &String) -> bool {
    !line.starts_with('#') && (line.contains(" R ") || line.contains(" W "))
}

fn access(write: bool, delta: u32, number: u32) -> Half {
    Half::Access { direction: Direction::from_bit(write), delta, number }
}

/// A frame with every kind of record, by a card with a tag window.
fn every_kind(card: &mut Card) -> Vec<u8> {
    let run = PageRun { number: 0x3ff_f123, reads: 3, writes: 2, duration: 700 };
    let records = [
        WordRecord::Tag { delta: 5, source: TagSource::Window(Direction::Write), value: 0x20 },
        WordRecord::Tag { delta: 60_000, source: TagSource::Mark, value: 0x107 },
        WordRecord::Fault { delta: 9, kind: FaultKind::MultiRank, bank: 17 },
        WordRecord::Page { delta: 255, run },
        WordRecord::Page { delta: 256, run: PageRun { reads: 9999, duration: 1 << 20, ..run } },
        WordRecord::Slice { code: 9, partial: None, start: 1 << 40, reads: 7, writes: 8 },
        WordRecord::Slice { code: 9, partial: Some(77), start: 3, reads: 1 << 31, writes: 0 },
        WordRecord::Interval { part: 63, clock: 0x8000_0000_0001 },
        WordRecord::Count { dump: 255, group: CountGroup::Reuse, index: 15, value: u32::MAX },
        WordRecord::HotPage { dump: 1, page: 0xfff_ffff, count: 10, votes: u32::MAX },
    ];
    let mut words: Vec<u64> = records
        .into_iter()
        .flat_map(|record| {
            let (first, rest) = record.encode();
            std::iter::once(first).chain(rest.into_iter().flatten())
        })
        .collect();
    for pair in [
        [Half::Segment { segment: 0xabc, skip: 8191 }, access(true, 30, 0x3ff_ffff)],
        [Half::Skip(0x1ff_ffff), access(false, 0, 1)],
        [access(false, 1, 2), Half::Skip(0)],
    ] {
        words.push(u64::from(pair[0].encode()) << 32 | u64::from(pair[1].encode()));
    }
    card.frame(FrameKind::Data, &words)
}

#[test]
fn the_plugin_shows_the_accesses_that_decode_prints() {
    let mut card = Card { tag_window: Some(0x1000_0000), clock: 1 << 47, ..Card::new() };
    let (mut frames, _) = card.session(4, 370);
    frames.push(every_kind(&mut card));
    let file = capture_file("dissected.pcapng", &frames);
    let Some(shown) = accesses(&file) else { return };
    let expected: Vec<String> = decoded(&file).into_iter().filter(is_access).collect();
    assert_eq!(expected.len(), 4 * 370 + 4);
    assert_eq!(shown, expected);
}

#[test]
fn every_kind_of_record_has_the_values_that_decode_prints() {
    let file = capture_file("dissected-kinds.pcapng", &[every_kind(&mut Card::new())]);
    let text = decoded(&file);
    let of = |wanted: &str| {
        text.iter().filter(|line| line.contains(wanted)).map(String::as_str).collect::<Vec<_>>()
    };
    let fields = |fields: &[&str]| columns(fields, &file);
    let Some(pages) = fields(&[
        "hmtt.page.clock",
        "hmtt.page.address",
        "hmtt.page.reads",
        "hmtt.page.writes",
        "hmtt.page.duration",
    ]) else {
        return;
    };
    let line = |p: &Vec<u64>| format!("{} P {:x} {} {} {}", p[0], p[1], p[2], p[3], p[4]);
    assert_eq!(pages.iter().map(line).collect::<Vec<_>>(), of(" P "));
    let tags = fields(&["hmtt.tag.clock", "hmtt.tag.mark", "hmtt.tag.value"]).unwrap();
    assert_eq!(format!("# tag {} W {:x}", tags[0][0], tags[0][2]), of("# tag")[0]);
    assert_eq!(format!("# mark {} {:x} free 7", tags[1][0], tags[1][2]), of("# mark")[0]);
    assert_eq!((tags[0][1], tags[1][1]), (0, 1));
    let faults = fields(&["hmtt.fault.clock", "hmtt.fault.bank"]).unwrap();
    let fault = format!("# fault {} multi_rank {}", faults[0][0], faults[0][1]);
    assert_eq!(fault, of("# fault")[0]);
    let slices = fields(&["hmtt.slice.clock", "hmtt.slice.reads", "hmtt.slice.writes"]).unwrap();
    assert_eq!(slices, [vec![1 << 40, 7, 8], vec![3, 1 << 31, 0]]);
    assert_eq!(fields(&["hmtt.slice.length"]).unwrap(), [[77]]);
    let intervals = fields(&["hmtt.interval.clock", "hmtt.interval.part"]).unwrap();
    assert_eq!(intervals, [[0x8000_0000_0001, 63]]);
    let counts = ["hmtt.count.dump", "hmtt.count.group", "hmtt.count.index", "hmtt.count.value"];
    assert_eq!(fields(&counts).unwrap(), [[255, 3, 15, u64::from(u32::MAX)]]);
    let hot = ["hmtt.hot_page.dump", "hmtt.hot_page.address", "hmtt.hot_page.count"];
    assert_eq!(fields(&hot).unwrap(), [[1, 0xff_ffff_f000, 10]]);
    let kinds: Vec<u64> = fields(&["hmtt.record.kind"]).unwrap().concat();
    assert_eq!(kinds, [1, 1, 2, 3, 4, 5, 5, 6, 7, 8, 17, 0, 16, 0, 0, 18]);
}

#[test]
fn the_columns_name_kind_records_and_clocks() {
    let mut card = Card::new();
    let (mut frames, _) = card.session(1, 370);
    frames.push(card.heartbeat(Heartbeat { running: true, losses: 0, transmit_clocks: 9 }));
    let file = capture_file("columns.pcapng", &frames);
    let columns = ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"];
    let Some(told) = tshark(&columns, &file) else { return };
    let expected = [
        "HMTT\tInfo, clock 0, mode line, reads 0, writes 0, faults 1, lost 0",
        "HMTT\tData 370 records, clock 0..1107, lost 0",
        "HMTT\tEnd, clock 1107, mode line, reads 185, writes 185, faults 1, lost 0",
        "HMTT\tHeartbeat, DDR clock runs, losses 0",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

/// Number and text of each expert info, once when read in one pass and once, after all frames are
/// known, dissected again.
fn experts(name: &str, frames: &[Vec<u8>]) -> Option<[Vec<String>; 2]> {
    let file = capture_file(&format!("expert-{name}.pcapng"), frames);
    let fields = ["-T", "fields", "-E", "separator=:", "-E", "aggregator=|"];
    let told = |passes: &[&str]| {
        let wanted = ["-Y", "_ws.expert", "-e", "frame.number", "-e", "_ws.expert.message"];
        let text = tshark(&[passes, &fields, &wanted].concat(), &file)?;
        Some(text.lines().map(str::to_owned).collect())
    };
    Some([told(&[])?, told(&["-2"])?])
}

/// Checks the expert infos of a capture but for those of its end frames.
fn assert_experts(name: &str, frames: &[Vec<u8>], expected: &[&str]) {
    let Some(passes) = experts(name, frames) else { return };
    for (told, pass) in passes.iter().zip(["one pass", "two passes"]) {
        let told: Vec<&str> = told
            .iter()
            .map(String::as_str)
            .filter(|line| !line.ends_with(":The capture was stopped"))
            .collect();
        assert_eq!(told, expected, "{name}, {pass}");
    }
}

#[test]
fn sound_captures_have_no_expert_info_but_their_end() {
    let (frames, _) = Card { counter: (1 << 40) - 3, ..Card::new() }.session(6, 370);
    let Some(passes) = experts("sound", &frames) else { return };
    assert_eq!(
        passes,
        [["8:The capture was stopped"]; 2].map(|lines| lines.map(str::to_owned).to_vec())
    );
}

#[test]
fn missing_copied_and_swapped_frames_are_pointed_out() {
    let (frames, _) = Card::new().session(6, 370);
    let mut removed = frames.clone();
    removed.drain(2..4);
    assert_experts("removed", &removed, &["3:2 frames missing before this one, 740 accesses"]);
    let mut copied = frames.clone();
    copied.insert(4, frames[2].clone());
    assert_experts("copied", &copied, &["5:Copy of an earlier frame"]);
    let mut swapped = frames.clone();
    swapped.swap(2, 3);
    let Some([first, again]) = experts("swapped", &swapped) else { return };
    let late = "4:Out of order, 1 behind the newest";
    assert_eq!(first[..2], ["3:1 frame missing before this one, 370 accesses", late]);
    assert_eq!(again[..2], ["3:1 frame missing before this one, 370 accesses; 1 came later", late]);
    let restarted = [&frames[..], &Card::new().session(1, 9).0].concat();
    assert_experts(
        "restarted",
        &restarted,
        &["9:The card counts anew: its frames are counted from 0"],
    );
}

#[test]
fn loss_on_the_card_is_pointed_out() {
    let mut card = Card::new();
    let (mut frames, _) = card.session(2, 370);
    card.lost += 5;
    card.accesses += 3;
    frames.extend(card.session(2, 370).0);
    assert_experts("lost", &frames, &["5:5 records lost on the card, 3 accesses"]);
    card.accesses += 1;
    frames.push(card.info());
    let twice =
        ["5:5 records lost on the card, 3 accesses", "9:Missing since the last sync, 1 access"];
    assert_experts("accesses", &frames, &twice);
    (card.accesses, card.lost) = (0, 0);
    frames.push(card.info());
    assert_experts(
        "reset",
        &frames,
        &[&twice[..], &["10:The card counts anew: its counts went back"]].concat(),
    );
}

#[test]
fn damaged_frames_say_what_is_wrong() {
    let (frames, _) = Card::new().session(3, 370);
    let altered = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frames = frames.clone();
        change(&mut frames[2]);
        frames
    };
    let missing = "4:Missing since the last sync, 370 accesses";
    let byte = |at: usize, value: u8| altered(&|frame| frame[MAC_BYTES + at] = value);
    for (name, frames, text) in [
        ("version", byte(0, 0x30), "format version 3 is not known"),
        ("kind", byte(0, 0x24), "frame kind 4 is not known"),
        ("few", byte(1, 1), "1 words stated, a frame has 2 to 187"),
        ("many", byte(1, 188), "188 words stated, a frame has 2 to 187"),
        ("short", altered(&|frame| frame.truncate(100)), "187 words stated, only 10 present"),
        ("header", altered(&|frame| frame.truncate(17)), "frame ends within its header"),
    ] {
        assert_experts(name, &frames, &[&format!("3:{text}"), missing]);
    }
    let first = 4 + 16;
    for (name, high, low, text) in [
        ("record", 0xfc_00u64, 0u64, "unknown record kind 0: unreadable from word 2"),
        ("low", 0, 0xfc_40, "word record in a low half: unreadable from word 2"),
        ("fault", 0xfc_80, 0, "unknown fault kind: unreadable from word 2"),
        ("group", 0xfd_ff, 0, "unknown group of counts: unreadable from word 2"),
    ] {
        let frames = altered(&|frame| {
            let word = &mut frame[MAC_BYTES + first..][..8];
            word.copy_from_slice(&(high << 48 | low << 16).to_be_bytes());
            if name == "group" {
                word[2] = 0xff; // group 15
            }
        });
        assert_experts(name, &frames, &[&format!("3:{text}"), missing]);
    }
    let cut = altered(&|frame| {
        let last = frame.len() - 8;
        frame[last..].copy_from_slice(&0xfd40_0000_0000_0000u64.to_be_bytes());
    });
    let text = "3:the last word of a record is missing: unreadable from word 186";
    assert_experts("cut", &cut, &[text, "4:Missing since the last sync, 2 accesses"]);
    let lost = byte(3, 1);
    assert_experts("header-lost", &lost, &["3:the header's lost records are not the sync's"]);
    let mut report = frames.clone();
    report[0][MAC_BYTES + 4 + 8 * 12] ^= 1;
    let text = "1:the digest is not that of the memory description";
    assert_experts("digest", &report, &[text]);
    for (name, words, text) in [
        ("report-short", 11, "1:report of only 11 words"),
        ("report-map", 30, "1:the address map needs more words than the report has"),
    ] {
        let mut report = frames.clone();
        report[0].truncate(MAC_BYTES + 4 + 8 * words);
        report[0][MAC_BYTES + 1] = words as u8;
        assert_experts(name, &report, &[text]);
    }
    let mut report = frames.clone();
    report[0].truncate(MAC_BYTES + 4 + 8 * 12);
    report[0][MAC_BYTES + 1] = 12;
    report[0][MAC_BYTES + 4 + 8 * 8..][1..5].fill(0); // no coordinate has a bit
    assert_experts("report-no-map", &report, &[text]);
}

#[test]
fn loss_of_the_ddr_clock_is_pointed_out() {
    let mut card = Card::new();
    let mut frames = card.session(1, 10).0;
    for (running, losses) in [(true, 0), (false, 1), (false, 1), (true, 1), (true, 2), (true, 2)] {
        frames.push(card.heartbeat(Heartbeat { running, losses, transmit_clocks: 1 << 40 }));
    }
    let expected = [
        "5:The DDR clock stands still",
        "6:The DDR clock stands still",
        "7:DDR clock found again",
        "8:DDR clock lost and found again",
    ];
    assert_experts("clock", &frames, &expected);
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// A card's frame of any payload, likely enough to be taken for a sound one.
    fn frame(&mut self, card: &mut Card) -> Vec<u8> {
        let mut frame = match self.below(8) {
            0 => card.info(),
            1 => every_kind(card),
            2 => card.data(20).0,
            _ => {
                let kind = [FrameKind::Data, FrameKind::Info, FrameKind::End, FrameKind::Heartbeat]
                    [self.below(8).saturating_sub(4) as usize];
                let words: Vec<u64> = (0..self.below(30)).map(|_| self.word()).collect();
                card.frame(kind, &words)
            }
        };
        for _ in 0..self.below(4) {
            let at = MAC_BYTES + self.below((frame.len() - MAC_BYTES) as u64) as usize;
            frame[at] ^= 1 << self.below(8);
        }
        if self.below(3) == 0 {
            frame.truncate(MAC_BYTES + self.below((frame.len() - MAC_BYTES) as u64 + 1) as usize);
        }
        if self.below(4) == 0 {
            frame[7 + self.below(5) as usize] = self.below(256) as u8; // its counter
        }
        frame
    }

    /// A word, half of them word records.
    fn word(&mut self) -> u64 {
        let word = self.below(1 << 32) << 32 | self.below(1 << 32);
        if self.below(2) == 0 { word | 0xfc << 56 } else { word }
    }
}

#[test]
fn no_payload_raises_a_lua_error() {
    let (mut numbers, mut card) = (Numbers(0x9e37_79b9_7f4a_7c15), Card::new());
    let frames: Vec<_> = (0..FUZZED_FRAMES).map(|_| numbers.frame(&mut card)).collect();
    let file = capture_file("fuzzed.pcapng", &frames);
    for passes in [&["-V"][..], &["-2", "-V"], &[]] {
        let Some(told) = tshark(passes, &file) else { return };
        let wrong = told.lines().find(|line| line.contains("Lua Error"));
        assert_eq!(wrong, None, "{passes:?}");
        assert!(!told.contains("Dissector bug"));
    }
    // A filter that names a field of records has their tree built; what is told does not depend on it.
    let info = ["-T", "fields", "-e", "_ws.col.Info"];
    let without = tshark(&info, &file);
    let with = tshark(&[&["-Y", "frame || hmtt.record.kind"], &info[..]].concat(), &file);
    assert_eq!(with, without);
}

#[test]
fn frames_of_others_are_left_alone() {
    let info = Card::new().info();
    let others: Vec<_> = [0, 6]
        .into_iter()
        .map(|at| {
            let mut frame = info.clone();
            frame[at] ^= 4;
            frame
        })
        .collect();
    let file = capture_file("others.pcapng", &others);
    let Some(told) = tshark(&["-Y", "!hmtt", "-T", "fields", "-e", "eth.type"], &file) else {
        return;
    };
    assert_eq!(told.lines().collect::<Vec<_>>(), ["0x88b5"; 2]);
}

#[test]
fn a_lua_error_would_be_noticed() {
    let script = std::fs::read_to_string(plugin()).unwrap();
    let wrong = script.replace("tvb:len() < HEADER_BYTES", "tvb(0, HEADER_BYTES):len() < 4");
    assert_ne!(script, wrong);
    let plugin = scratch("wrong.lua");
    std::fs::write(&plugin, wrong).unwrap();
    let mut frame = Card::new().info();
    frame.truncate(MAC_BYTES + 2);
    let file = capture_file("noticed.pcapng", &[frame]);
    let Some(told) = tshark_with(&plugin, &["-V"], &file) else { return };
    assert!(told.contains("Lua Error"), "{told}");
}
