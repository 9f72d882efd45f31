//! Two cards whose clocks differ, on one time base: nothing lost, in order, within the stated error.

use std::path::PathBuf;
use std::time::Duration;

use hmtt_format::record::{TagSource, WordRecord};
use hmtt_format::{Access, Event};
use hmtt_host::decode::{Item, decode_frames};
use hmtt_host::merge::{How, Merge, Options};
use hmtt_host::pcapng::{Description, PcapngWriter};

use crate::card::Card;
use crate::scratch;

/// How a card's clock runs: clocks of its own in one of the true time, and its clock at time 0.
#[derive(Clone, Copy)]
struct Running {
    rate: f64,
    begin: f64,
    /// What its frames need to arrive, at least, in nanoseconds.
    latency: u64,
}

impl Running {
    fn clock(&self, time: f64) -> u64 {
        (self.begin + time * self.rate).round() as u64
    }

    fn time(&self, clock: u64) -> f64 {
        (clock as f64 - self.begin) / self.rate
    }
}

const STEADY: Running = Running { rate: 1.0, begin: 1000.0, latency: 5_000 };
const FAST: Running = Running { rate: 1.000_08, begin: 3_000_000.0, latency: 90_000 };
/// Clocks of 10 ns from one frame to the next.
const STEP: f64 = 40_000.0;
const STEPS: u32 = 600;

/// A capture of a card that runs so: accesses all the time, a mark every 20 frames if `marked`.
fn capture(name: &str, running: Running, marked: bool) -> PathBuf {
    let mut card = Card::new();
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::of("eth1")]).unwrap();
    let mut write = |frame: Vec<u8>, time: f64, late: u64| {
        let nanos = (time * 10.0) as u64 + running.latency + late;
        let arrival = Duration::from_secs(1_700_000_000) + Duration::from_nanos(nanos);
        writer.write_frame(0, arrival, frame.len() as u32, &frame).unwrap();
    };
    card.clock = running.clock(0.0);
    write(card.info(), 0.0, 0);
    for step in 0..STEPS {
        let time = f64::from(step) * STEP + f64::from(step * step % 997);
        card.clock = running.clock(time);
        let late = u64::from(step * 7919 % 13) * 10_000;
        let end = running.time(card.clock + 60);
        write(card.data(20).0, end, late);
        if marked && step % 20 == 7 {
            card.clock = running.clock(time + 500.0);
            let value = 0x100 + step / 20 % 3;
            let mark = WordRecord::Tag { delta: 0, source: TagSource::Mark, value };
            write(card.records(&[mark], 0, 0), time + 500.0, late);
        }
    }
    let end = f64::from(STEPS) * STEP;
    card.clock = running.clock(end);
    write(card.end(), end, 0);
    let path = scratch(&format!("{name}.pcapng"));
    std::fs::write(&path, writer.into_output()).unwrap();
    path
}

fn accesses(path: &std::path::Path) -> Vec<Access> {
    let mut reader = hmtt_host::pcapng::PcapngReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        frames.push(packet.bytes.to_vec());
    }
    let access =
        |item| if let Item::Event(Event::Access(access)) = item { Some(access) } else { None };
    decode_frames(frames).0.into_iter().filter_map(access).collect()
}

/// Merges, and checks what must hold whatever relates the clocks: nothing is lost, times ascend, and
/// none is further from the true one than stated. The error that was stated comes back.
fn check(paths: &[PathBuf], running: &[Running], expected: How) -> f64 {
    let merge = Merge::survey(paths, &Options::default()).unwrap();
    let strands: Vec<_> = merge.strands().collect();
    assert_eq!(strands.len(), paths.len());
    assert_eq!(strands[1].1.how, expected);
    let error = strands[1].1.error.unwrap();
    let mut merged = vec![Vec::new(); paths.len()];
    let mut last = 0;
    merge
        .run(|strand, item| {
            if let Item::Event(Event::Access(access)) = item {
                assert!(access.clock.0 >= last, "{} after {last}", access.clock);
                last = access.clock.0;
                merged[strand].push(access);
            }
            true
        })
        .unwrap();
    let begin = strands[0].1.offset() + running[0].begin;
    for (strand, path) in paths.iter().enumerate() {
        let own = accesses(path);
        assert_eq!(own.len(), 20 * STEPS as usize);
        assert_eq!(merged[strand].len(), own.len());
        for (own, merged) in own.iter().zip(&merged[strand]) {
            assert_eq!((own.address, own.direction), (merged.address, merged.direction));
            let truth = begin + running[strand].time(own.clock.0) * running[0].rate;
            let off = (merged.clock.0 as f64 - truth).abs();
            // Clocks are whole numbers.
            assert!(off <= error + 1.0, "off by {off}, {error} stated");
        }
    }
    error
}

#[test]
fn marks_relate_clocks_that_drift() {
    let paths = [capture("merge-a", STEADY, true), capture("merge-b", FAST, true)];
    let error = check(&paths, &[STEADY, FAST], How::Marks { shared: 30 });
    // A microsecond between the cards is assumed: 100 clocks.
    assert!(error < 110.0, "{error}");
    check(&[paths[1].clone(), paths[0].clone()], &[FAST, STEADY], How::Marks { shared: 30 });
}

#[test]
fn arrival_times_relate_cards_without_marks() {
    let paths = [capture("merge-c", STEADY, false), capture("merge-d", FAST, false)];
    let error = check(&paths, &[STEADY, FAST], How::Arrivals);
    // A millisecond is assumed, and a little for where no frame was as quick as any.
    assert!((100_000.0..110_000.0).contains(&error), "{error}");
}

/// A session that ends with the capture is too short for its frames to be passed on before.
#[test]
fn a_card_that_restarts_shortly_before_the_end_is_related_by_arrival_times() {
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::of("eth1")]).unwrap();
    let begin = Duration::from_secs(1_700_000_000);
    let mut write = |frame: Vec<u8>, nanos: u64| {
        let arrival = begin + Duration::from_nanos(nanos);
        writer.write_frame(0, arrival, frame.len() as u32, &frame).unwrap();
    };
    // The clocks of 10 ns after which a session begins, by the wall's clock.
    let sessions = [(0, 200), (100_000_000, 20)];
    for (since, frames) in sessions {
        let mut card = Card::new();
        write(card.info(), since * 10);
        for frame in 1..=frames {
            card.clock = frame * (40_000 + frames);
            write(card.data(frames % 7).0, (since + card.clock) * 10 + 5_000);
        }
    }
    let path = scratch("merge-power.pcapng");
    std::fs::write(&path, writer.into_output()).unwrap();
    let merge = Merge::survey(&[path], &Options::default()).unwrap();
    let bases: Vec<_> = merge.strands().map(|(_, base)| base).collect();
    assert_eq!(bases.len(), sessions.len());
    for (base, (since, _)) in bases.iter().zip(sessions).skip(1) {
        assert_eq!(base.how, How::Arrivals);
        let off = (base.map(0) - bases[0].map(0) - since as f64).abs();
        assert!(off <= base.error.unwrap(), "off by {off}, {:?} stated", base.error);
    }
}

#[test]
fn an_offset_that_was_told_is_taken_as_it_is() {
    let paths = [capture("merge-e", STEADY, true), capture("merge-f", FAST, true)];
    let options = Options { offsets: vec![(1, -2_999_000)], ..Options::default() };
    let merge = Merge::survey(&paths, &options).unwrap();
    let (_, base) = merge.strands().nth(1).unwrap();
    assert_eq!((base.how, base.error), (How::Offset { clocks: -2_999_000 }, None));
    assert_eq!(base.map(3_000_000), 1000.0);
    let wrong = Options { offsets: vec![(2, 0)], ..Options::default() };
    let error = Merge::survey(&paths, &wrong).unwrap_err().to_string();
    assert_eq!(error, "there is no source 3; there are 2, numbered from 1");
}

#[test]
fn a_capture_without_a_card_cannot_be_merged() {
    let path = crate::capture_file("merge-none.pcapng", &[vec![0xff; 60]]);
    let error = Merge::survey(&[path], &Options::default()).unwrap_err().to_string();
    assert_eq!(error, "no frame of a card in any capture");
}

#[test]
fn the_command_states_the_bases_and_writes_one_trace() {
    let paths = [capture("merge-g", STEADY, true), capture("merge-h", FAST, true)];
    let names: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let output = crate::hmtt(&["merge", names[0], names[1], "--format", "csv"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let said: Vec<&str> = said.lines().collect();
    assert!(said[0].ends_with("merge-g.pcapng: eth1, card 1: the reference; clock 0 becomes 0"));
    assert!(said[1].contains("by 30 shared marks; clock 0 becomes -"), "{said:?}");
    assert!(said[1].contains("error at most 101 clocks (1011 ns)"), "{said:?}");
    let csv = String::from_utf8(output.stdout).unwrap();
    assert_eq!(csv.lines().filter(|line| line.starts_with("access,")).count(), 2 * 20 * 600);
    // What was merged can be read back, and no clock of an access goes back.
    let clocks: Vec<u64> = csv
        .lines()
        .filter(|line| line.starts_with("access,"))
        .map(|line| line.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(clocks.is_sorted());

    let table = scratch("merged.parquet");
    let output =
        crate::hmtt(&["merge", names[0], names[1], "--json", "-o", table.to_str().unwrap()]);
    let bases: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(bases["strands"][1]["how"], serde_json::json!({"by": "marks", "shared": 30}));
    let back = scratch("merged.csv");
    let output = crate::hmtt(&["convert", table.to_str().unwrap(), back.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    // A table keeps the rows of a card together.
    let sorted = |csv: &str| {
        let mut rows: Vec<String> =
            csv.lines().filter(|row| row.starts_with("access,")).map(str::to_owned).collect();
        rows.sort();
        rows
    };
    assert!(sorted(&std::fs::read_to_string(back).unwrap()) == sorted(&csv));

    let wrong = crate::hmtt(&["merge", names[0], "--offset", "0=5"]);
    assert_eq!(wrong.status.code(), Some(2));
    let own = crate::hmtt(&["merge", names[0], "-f", "-o", names[0]]);
    assert_eq!(own.status.code(), Some(1));
}

#[test]
fn lines_that_name_cards_become_a_column_as_documented() {
    let page = include_str!("../../../docs/merge.md");
    let (_, script) = page.split_once("\nawk '").expect("a script");
    let (script, _) = script.split_once("' card=1 merged.csv\n").expect("its end");
    let paths = [capture("merge-i", STEADY, true), capture("merge-j", FAST, true)];
    let merged = scratch("merged-turns.csv");
    let [one, other, output] = [&paths[0], &paths[1], &merged].map(|path| path.to_str().unwrap());
    assert_eq!(crate::hmtt(&["merge", one, other, "-o", output]).status.code(), Some(0));
    let awk = std::process::Command::new("awk").args([script, "card=1", output]).output();
    let awk = match awk {
        Ok(awk) => String::from_utf8(awk.stdout).unwrap(),
        Err(error) => return crate::skipped(format_args!("awk: {error}")),
    };
    assert!(awk.starts_with("card,kind,clock,"));
    let of =
        |card: &str| awk.lines().filter(|row| row.starts_with(&format!("{card},access,"))).count();
    assert_eq!((of("1"), of("2")), (20 * 600, 20 * 600));
    assert!(!awk.contains("\ncard,"));
}

#[test]
fn more_cards_than_can_be_read_at_once_are_refused() {
    let interfaces: Vec<Description> =
        (0..300).map(|number| Description::of(&format!("eth{number}"))).collect();
    let mut writer = PcapngWriter::new(Vec::new(), &interfaces).unwrap();
    for number in 0..300 {
        let frame = Card::new().data(2).0;
        writer.write_frame(number, Duration::ZERO, frame.len() as u32, &frame).unwrap();
    }
    let path = scratch("merge-many-cards.pcapng");
    std::fs::write(&path, writer.into_output()).unwrap();
    let error = Merge::survey(&[path], &Options::default()).unwrap_err().to_string();
    assert_eq!(error, "the captures have 300 cards; at most 256 can be merged");
}
