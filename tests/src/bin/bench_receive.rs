//! Compares the receiver with tcpdump and dumpcap on the same traffic, measures the reading of
//! captures, and prints Markdown tables: `bench_receive [FOLDER]`. The program starts itself again
//! in a network namespace and creates a veth pair there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hmtt_tests::load::{Pace, Sent, send};
use hmtt_tests::measure::{Measured, Taken, measure};
use hmtt_tests::program;
use serde_json::Value;

/// Full frames per second on a gigabit link (IEEE 802.3: 1538 bytes each).
const LINE_RATE: u64 = 81_274;
/// Number of frames in 10 GB.
const LINE_FRAMES: u64 = 6_450_000;
const FLAT_OUT_FRAMES: u64 = 1_500_000;
const FLAT_OUT_RUNS: usize = 3;
const SUMMARY_RUNS: usize = 5;
const RING_MIB: &str = "64";
/// Environment variable with the folder, set inside the namespace.
const INSIDE: &str = "HMTT_BENCH_FOLDER";

fn main() -> Result<()> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return inside(Path::new(&folder));
    }
    let folder = std::env::args().nth(1).map_or_else(|| "target/bench".into(), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    // The receiver is built here, because cargo has no network inside the namespace.
    program("hmtt-recv");
    // tcpdump changes its groups, which only root outside of a user namespace may do.
    // SAFETY: the call accesses no memory.
    let is_root = unsafe { libc::geteuid() } == 0;
    let status = Command::new("unshare")
        .arg(if is_root { "-n" } else { "-Urn" })
        .arg(std::env::current_exe()?)
        .env(INSIDE, folder.canonicalize()?)
        .status()
        .context("unshare")?;
    ensure!(status.success(), "the benchmark failed: {status}");
    Ok(())
}

fn inside(folder: &Path) -> Result<()> {
    make_wire()?;
    flat_out(folder)?;
    let big = folder.join("line.pcapng");
    at_line_rate(&big)?;
    summarised(&big)?;
    Ok(std::fs::remove_file(&big)?)
}

fn make_wire() -> Result<()> {
    let wire = "PATH=$PATH:/usr/sbin; ip link add veth0 type veth peer name veth1
        for end in veth0 veth1; do
            echo 1 >/proc/sys/net/ipv6/conf/$end/disable_ipv6 2>/dev/null; ip link set $end up
        done";
    ensure!(Command::new("sh").args(["-c", wire]).status()?.success(), "cannot make a wire");
    Ok(())
}

/// Runs a capturing tool while frames are sent.
fn capture(command: &mut Command, pace: Pace) -> Result<(Taken, Sent)> {
    let tool = Measured::start(command)?;
    // The tools do not report uniformly when they are ready, so the start is delayed.
    std::thread::sleep(Duration::from_millis(1500));
    let sent = send("veth0", pace)?;
    std::thread::sleep(Duration::from_millis(1500));
    tool.interrupt();
    Ok((tool.finish()?, sent))
}

fn hmtt_recv(file: &Path) -> Command {
    let mut command = Command::new(program("hmtt-recv"));
    command.args(["veth1", "--json", "-q", "-f", "-B", RING_MIB, "-w"]).arg(file);
    command.stderr(std::process::Stdio::null());
    command
}

fn summary(measurement: &Taken) -> Result<Value> {
    let line = measurement.output.lines().last().context("no summary")?;
    Ok(serde_json::from_str(line)?)
}

fn count(summary: &Value, name: &str) -> Result<u64> {
    summary[name].as_u64().with_context(|| format!("no {name} in {summary}"))
}

fn at_line_rate(file: &Path) -> Result<()> {
    println!(
        "| line rate, {LINE_RATE} full frames/s | frames | lost | skipped by statistics | CPU, s | of one core |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    let pace = Pace { frames_per_second: Some(LINE_RATE), frames: LINE_FRAMES };
    let (measurement, sent) = capture(&mut hmtt_recv(file), pace)?;
    let summary = summary(&measurement)?;
    let (frames, skipped) = (count(&summary, "frames")?, count(&summary, "skipped_frames")?);
    let share = 100.0 * measurement.cpu / sent.time.as_secs_f64();
    println!(
        "| hmtt-recv, writing, statistics on | {} | {} | {skipped} | {:.2} | {share:.1} % |\n",
        sent.frames,
        sent.frames - frames,
        measurement.cpu
    );
    Ok(())
}

/// Reads the capture past the page cache and summarises it, in turn, since the disk's speed varies.
fn summarised(file: &Path) -> Result<()> {
    let bytes = file.metadata()?.len();
    let mut disk = Command::new("dd");
    disk.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=4M", "iflag=direct"]);
    disk.stderr(std::process::Stdio::null());
    let mut info = Command::new(program("hmtt"));
    info.arg("info").arg(file);
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..SUMMARY_RUNS {
        for (command, runs) in [&mut disk, &mut info].into_iter().zip(&mut runs) {
            let measurement = measure(command)?;
            ensure!(measurement.code == Some(0), "{measurement:?}");
            runs.push(measurement);
        }
    }
    println!(
        "| {:.1} GB capture, median of {SUMMARY_RUNS} | wall, s | from .. to | GB/s | CPU, s | memory, MB |",
        bytes as f64 / 1e9
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, mut runs) in ["the disk alone (dd, direct)", "hmtt info"].into_iter().zip(runs) {
        runs.sort_by(|one, other| one.wall.total_cmp(&other.wall));
        let Taken { wall, cpu, memory, .. } = &runs[runs.len() / 2];
        let (speed, memory) = (bytes as f64 / 1e9 / wall, *memory as f64 / 1e6);
        let (least, most) = (runs[0].wall, runs[runs.len() - 1].wall);
        println!(
            "| {name} | {wall:.1} | {least:.1} .. {most:.1} | {speed:.2} | {cpu:.1} | {memory:.0} |"
        );
    }
    println!();
    Ok(())
}

/// The name of a tool, and the command that runs it.
type Tool = (&'static str, fn(&Path) -> Command);

fn flat_out(folder: &Path) -> Result<()> {
    let tools: [Tool; 3] = [
        ("hmtt-recv", hmtt_recv),
        ("tcpdump", |file| {
            let mut command = Command::new("tcpdump");
            let kib = (RING_MIB.parse::<u64>().unwrap_or(64) << 10).to_string();
            command.args(["-i", "veth1", "-Z", "root", "-s", "0", "-B", &kib, "-w"]).arg(file);
            command
        }),
        ("dumpcap", |file| {
            let mut command = Command::new("dumpcap");
            command.args(["-q", "-i", "veth1", "-B", RING_MIB, "-w"]).arg(file);
            command
        }),
    ];
    let mut results = [const { Vec::new() }; 3];
    for _ in 0..FLAT_OUT_RUNS {
        for ((name, tool), results) in tools.iter().zip(&mut results) {
            let file = folder.join(format!("flat-{name}.pcapng"));
            let mut command = tool(&file);
            command.stderr(std::process::Stdio::null());
            let pace = Pace { frames_per_second: None, frames: FLAT_OUT_FRAMES };
            let Ok((measurement, sent)) = capture(&mut command, pace) else {
                println!("{name} is not installed");
                continue;
            };
            let kept = packets(&file)?;
            std::fs::remove_file(&file)?;
            if kept == 0 {
                println!("{name} captured nothing: {measurement:?}");
                continue;
            }
            results.push((measurement.cpu, sent, kept));
        }
    }
    println!(
        "| flat out, {FLAT_OUT_FRAMES} frames, median of {FLAT_OUT_RUNS} | offered, frames/s | lost | CPU, us/frame | ratio |"
    );
    println!("|---|---:|---:|---:|---:|");
    let mut ours = None;
    for ((name, _), mut results) in tools.iter().zip(results) {
        if results.is_empty() {
            continue;
        }
        let per_frame = |(cpu, _, kept): &(f64, Sent, u64)| cpu * 1e6 / *kept as f64;
        results.sort_by(|one, other| per_frame(one).total_cmp(&per_frame(other)));
        let middle = results[results.len() / 2];
        let (_, sent, kept) = middle;
        let offered = sent.frames as f64 / sent.time.as_secs_f64();
        let cost = per_frame(&middle);
        let ratio = cost / *ours.get_or_insert(cost);
        let lost = 100.0 * (sent.frames - kept) as f64 / sent.frames as f64;
        println!("| {name} | {offered:.0} | {lost:.2} % | {cost:.2} | {ratio:.2} |");
    }
    Ok(())
}

/// Counts the packets in a capture with Wireshark's own tool.
fn packets(file: &Path) -> Result<u64> {
    let output = Command::new("capinfos").args(["-c", "-M", "-T", "-r"]).arg(file).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_whitespace().last().and_then(|count| count.parse().ok()) {
        Some(count) => Ok(count),
        None => bail!("capinfos: {text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
