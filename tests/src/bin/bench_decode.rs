//! Measures decoding: frames in memory to columns, and a capture to Parquet. Prints a Markdown
//! table: `bench_decode [FOLDER]`.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hmtt::CardId;
use hmtt::decode::{Columns, Item, Origin, Sink, Wire};
use hmtt_format::frame::MAX_FRAME_BYTES;
use hmtt_tests::load::{FRAME_ACCESSES, Load, POOL_FRAMES};
use hmtt_tests::measure::measure;
use hmtt_tests::{program, vector};

const FRAMES: usize = 100_000;
const RUNS: usize = 5;
/// With fewer records the start of the process would dominate the time.
const MIN_TIMED_RECORDS: f64 = 1e6;

/// Receives columns and clears them regularly, as a user of the library would.
#[derive(Default)]
struct Sum {
    columns: Columns,
    accesses: u64,
}

impl Sum {
    fn take(&mut self) {
        self.accesses += self.columns.len() as u64;
        self.columns.clear();
    }
}

impl Sink for Sum {
    fn item(&mut self, _card: CardId, _item: Item) {}

    fn columns(&mut self, _card: CardId) -> Option<&mut Columns> {
        if self.columns.len() > 1 << 14 {
            self.take();
        }
        Some(&mut self.columns)
    }
}

/// Returns millions of accesses per second.
fn decode(frames: &[Vec<u8>]) -> f64 {
    let (mut wire, mut sum) = (Wire::default(), Sum::default());
    let begin = Instant::now();
    for (index, frame) in frames.iter().enumerate() {
        let origin =
            Origin { packet: index as u64 + 1, time: Some(Duration::ZERO), ..Origin::default() };
        wire.push(origin, frame, &mut sum);
    }
    wire.finish(&mut sum);
    sum.take();
    assert_eq!(sum.accesses, frames.len() as u64 * FRAME_ACCESSES);
    sum.accesses as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn in_memory() {
    let mut load = Load::default();
    let mut buffer = [0; MAX_FRAME_BYTES];
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|_| {
            let length = load.next(&mut buffer);
            buffer[..length].to_vec()
        })
        .collect();
    let mut speeds: Vec<f64> = (0..RUNS).map(|_| decode(&frames)).collect();
    speeds.sort_by(f64::total_cmp);
    println!(
        "| frames in memory -> columns, order and losses checked | {:.0} | |",
        speeds[RUNS / 2]
    );
}

fn to_parquet(name: &str, capture: &std::path::Path, table: &std::path::Path) -> Result<()> {
    let mut info = Command::new(program("hmtt"));
    let info = measure(info.arg("info").arg("--json").arg(capture))?;
    let info: serde_json::Value = serde_json::from_str(&info.output)?;
    let records = info["counts"]["records"].as_f64().unwrap_or_default();
    for encoding in ["compatible", "small"] {
        let mut decode = Command::new(program("hmtt"));
        let decode = decode.arg("decode").arg(capture).args(["--encoding", encoding]);
        let measurement = measure(decode.arg("-fo").arg(table))?;
        ensure!(measurement.code == Some(0), "hmtt decode: {measurement:?}");
        let bytes = table.metadata()?.len() as f64 / records;
        let speed = if records >= MIN_TIMED_RECORDS {
            format!("{:.0}", records / measurement.cpu / 1e6)
        } else {
            "too short to time".into()
        };
        println!("| {name} -> Parquet, `{encoding}`, all threads | {speed} | {bytes:.2} |");
    }
    Ok(())
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(|| "target/bench".into(), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let (capture, table) = (folder.join("decode.pcapng"), folder.join("decode.parquet"));
    println!("| decode | M records/s of one core | bytes a record |");
    println!("|---|---:|---:|");
    in_memory();
    hmtt_tests::load::write(&capture, FRAMES as u64, POOL_FRAMES)?;
    to_parquet("made-up capture, half random over 1 GiB", &capture, &table)?;
    for name in ["v03_ddr1_medium_open", "v05_ddr1_medium_rtl"] {
        let input = vector(name, "cmd.gz");
        let mut replay = Command::new(program("hmtt-sim"));
        replay
            .arg("replay")
            .arg(input)
            .args(["--engine", "verilator", "--quiet", "-f", "-o"])
            .arg(&capture);
        ensure!(measure(&mut replay)?.code == Some(0), "hmtt-sim failed");
        to_parquet(name, &capture, &table)?;
    }
    Ok(())
}
