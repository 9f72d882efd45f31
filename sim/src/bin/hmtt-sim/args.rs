//! Defines the command line of `hmtt-sim`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gateware::FifoSize;
use hmtt_format::config::{self, SLICE_CODES, slice_micros};
use hmtt_sim::engine::{Kind, Settings};
use hmtt_sim::saturation::pattern::Pattern;
use hmtt_sim::schedule::ClockStop;

use crate::record::RecordArguments;

/// Runs recorded DDR commands through the simulated card.
#[derive(Parser)]
#[command(version, about)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Replay a recording and capture the frames that the card sends
    #[command(after_help = EXIT_STATUS)]
    Replay(Box<ReplayArguments>),
    /// Run the densest legal DDR-200 traffic through the card and count the losses
    #[command(after_help = EXIT_STATUS)]
    Saturate(SaturateArguments),
    /// Record the DDR commands that a simulated machine issues for the accesses of a program
    ///
    /// The program is run, and behaves as without being recorded; or its accesses are in a file.
    #[command(after_help = RECORD_EXIT_STATUS)]
    Record(Box<RecordArguments>),
}

const EXIT_STATUS: &str = "Exit status: 0 all is well; 1 the card differs from the truth, violates \
    IEEE 802.3 or does not finish; 2 the command line or a file is wrong, or an output failed.";

const RECORD_EXIT_STATUS: &str = "Exit status: that of the program, if it is not 0; 0 the recording is complete; \
    2 the command line or a file is wrong, or an output failed; 3 accesses are missing in the recording.";

#[derive(Args)]
pub struct ReplayArguments {
    /// Recording: a vector (plain or gzip) or, with --pins and --memory, a VCD
    pub input: PathBuf,
    /// What is recorded: lines, pages, frequency slices or the analysis alone
    #[arg(long, value_enum, default_value_t = ModeArgument::Line)]
    pub mode: ModeArgument,
    /// Unit of line records
    #[arg(long, value_enum, default_value_t = GranularityArgument::Line)]
    pub granularity: GranularityArgument,
    /// Record frequency slices in addition to line or page records
    #[arg(long)]
    pub frequency: bool,
    /// Record hot pages, reuse distances and bank use in addition
    #[arg(long)]
    pub analysis: bool,
    /// Length of a frequency slice: 1, 2, 5, 10 ... us, ms, up to 1s
    #[arg(long, value_parser = parse_slice, default_value = "1ms", value_name = "TIME")]
    pub slice: u8,
    /// Size of the card's FIFO in KB: 128 as published, 8 as on the smallest board
    #[arg(long, value_parser = parse_fifo, default_value = "128", value_name = "KB")]
    pub fifo: FifoSize,
    /// Engine that simulates the card
    #[arg(long, value_enum, default_value_t = EngineArgument::Rust)]
    pub engine: EngineArgument,
    /// Compare every record with this list of accesses
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Compare the protocol faults with this list
    #[arg(long, value_name = "FILE")]
    pub flags: Option<PathBuf>,
    /// Write the frames to a pcapng file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Include each frame's FCS in the pcapng file
    #[arg(long, requires = "output")]
    pub fcs: bool,
    /// Send the frames on a network interface
    #[arg(short, long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Send at this many simulated seconds per second [default: as fast as frames are simulated]
    #[arg(long, value_parser = parse_speed, requires = "interface", value_name = "FACTOR")]
    pub speed: Option<f64>,
    /// Write the card's waveforms to a VCD file
    #[arg(long, value_name = "FILE")]
    pub vcd: Option<PathBuf>,
    /// Stop the DDR clock before this clock, for this long
    ///
    /// A stop of more than 1024 transmit clocks (8.2 us at 1000 Mbit/s) restarts the card, as on a
    /// board. What was not in its FIFO by then is lost: --truth and --oracle report it as missing.
    #[arg(long, value_parser = parse_stop, value_name = "CLOCK:NANOSECONDS", conflicts_with = "vcd")]
    pub stop_clock: Option<ClockStop>,
    /// Speed of the link in Mbit/s; less than 1000 slows it deliberately
    ///
    /// The card watches the DDR clock with the transmit clock, which slows with the link. Speeds at
    /// which the period of the transmit clock, 8000 ns divided by the speed, is close to a multiple
    /// of 32 DDR clocks hide the DDR clock and are refused: 25 (320 ns) at DDR-200.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 1000)]
    pub link_mbps: u32,
    /// Turn the run switch off from the first of these clocks until the second; may be repeated for
    /// later clocks
    #[arg(long, value_parser = parse_range, value_name = "CLOCK:CLOCK")]
    pub switch_off: Vec<std::ops::Range<u64>>,
    /// Compare everything that the card sends, including settings, losses and its analysis, with a
    /// model of the card
    #[arg(long)]
    pub oracle: bool,
    /// Memory description that replaces the vector's own
    #[arg(long, value_name = "FILE")]
    pub memory: Option<PathBuf>,
    /// Pin map of a VCD recording, in TOML: the signal of each pin (docs/vcd.md)
    #[arg(long, value_name = "FILE")]
    pub pins: Option<PathBuf>,
    /// Directory for compiled cards
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Overwrite output files
    #[arg(short, long)]
    pub force: bool,
    /// Print only differences and errors
    #[arg(short, long)]
    pub quiet: bool,
}

impl ReplayArguments {
    /// Returns the settings that the card's straps select.
    pub fn settings(&self) -> Settings {
        Settings {
            mode: match self.mode {
                ModeArgument::Line => config::Mode::Line,
                ModeArgument::Page => config::Mode::Page,
                ModeArgument::Frequency => config::Mode::Frequency,
                ModeArgument::Analysis => config::Mode::Analysis,
            },
            granularity: match self.granularity {
                GranularityArgument::Line => config::Granularity::Line,
                GranularityArgument::Burst => config::Granularity::Burst,
            },
            frequency: self.frequency,
            slice_code: self.slice,
            analysis: self.analysis,
        }
    }
}

#[derive(Args)]
pub struct SaturateArguments {
    /// Kind of traffic
    #[arg(long, value_enum, default_value_t = PatternArgument::RowHits)]
    pub pattern: PatternArgument,
    /// Length of a burst in bus words
    #[arg(long, value_parser = parse_burst, default_value = "4", value_name = "4|8")]
    pub burst: u8,
    /// Length of the traffic in DDR clocks
    #[arg(long, default_value_t = 1_000_000)]
    pub clocks: u64,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Size of the card's FIFO in KB: 128 as published, 8 as on the smallest board
    #[arg(long, value_parser = parse_fifo, default_value = "128", value_name = "KB")]
    pub fifo: FifoSize,
    /// Speed of the link in Mbit/s; less than 1000 slows it deliberately
    ///
    /// The card watches the DDR clock with the transmit clock, which slows with the link. Speeds at
    /// which the period of the transmit clock, 8000 ns divided by the speed, is close to a multiple
    /// of 32 DDR clocks hide the DDR clock and are refused: 25 (320 ns) at DDR-200.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 1000)]
    pub link_mbps: u32,
    /// Engine that simulates the card
    #[arg(long, value_enum, default_value_t = EngineArgument::Verilator)]
    pub engine: EngineArgument,
    /// Directory for compiled cards
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PatternArgument {
    /// The lines of one row in order
    RowHits,
    /// Each line in another row, over four banks
    RowMisses,
    /// Random lines; some runs of them are writes
    Random,
    /// Alternating reads and writes
    Alternating,
    /// Lines just too far apart for their delta to fit in a record
    Gaps,
    /// Every sixteenth access in the tag window, with marks
    Tags,
    /// Bursts of two lines in turn, so that none merge: more than the link carries
    Interleaved,
}

impl From<PatternArgument> for Pattern {
    fn from(pattern: PatternArgument) -> Self {
        match pattern {
            PatternArgument::RowHits => Pattern::RowHits,
            PatternArgument::RowMisses => Pattern::RowMisses,
            PatternArgument::Random => Pattern::Random,
            PatternArgument::Alternating => Pattern::Alternating,
            PatternArgument::Gaps => Pattern::Gaps,
            PatternArgument::Tags => Pattern::Tags,
            PatternArgument::Interleaved => Pattern::Interleaved,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ModeArgument {
    /// Lines (or bursts), one by one
    Line,
    /// Runs of accesses to a page
    Page,
    /// Only counts per time slice
    Frequency,
    /// Only hot pages, reuse distances and bank use
    Analysis,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum GranularityArgument {
    /// Cache lines; bursts of one line are one record
    Line,
    /// Bursts
    Burst,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum EngineArgument {
    /// The rust-hdl model, the reference
    Rust,
    /// The emitted Verilog, compiled: about thirty times faster
    Verilator,
}

impl From<EngineArgument> for Kind {
    fn from(engine: EngineArgument) -> Self {
        match engine {
            EngineArgument::Rust => Kind::Rust,
            EngineArgument::Verilator => Kind::Verilator,
        }
    }
}

/// Parses the size of a FIFO in KB.
fn parse_fifo(text: &str) -> Result<FifoSize, String> {
    text.parse().ok().and_then(FifoSize::from_kb).ok_or_else(|| "8 or 128".into())
}

fn parse_burst(text: &str) -> Result<u8, String> {
    match text {
        "4" => Ok(4),
        "8" => Ok(8),
        _ => Err("4 or 8".into()),
    }
}

/// Parses `1us` to `1s` and returns the code of the slice.
fn parse_slice(text: &str) -> Result<u8, String> {
    let expected = || "expected 1, 2, 5, 10, 20, 50, 100, 200 or 500 us or ms, or 1s".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(expected()),
    };
    let number: u32 = number.parse().map_err(|_| expected())?;
    let micros = number.checked_mul(scale).ok_or_else(expected)?;
    (0..SLICE_CODES).find(|code| slice_micros(*code) == micros).ok_or_else(expected)
}

fn parse_range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let range = text.split_once(':').and_then(|(from, to)| {
        let range = from.parse().ok()?..to.parse().ok()?;
        (range.start < range.end).then_some(range)
    });
    range.ok_or_else(|| "expected a clock, a colon, and a later clock".into())
}

fn parse_stop(text: &str) -> Result<ClockStop, String> {
    let stop = text.split_once(':').and_then(|(at, nanos)| {
        let nanos = nanos.parse().ok().filter(|nanos| *nanos <= LONGEST_STOP_NS)?;
        Some(ClockStop { at: at.parse().ok()?, nanos })
    });
    stop.ok_or_else(|| "expected a clock, a colon, and up to 1000000000 nanoseconds".into())
}

/// One second, which is 125 million transmit clocks to simulate.
const LONGEST_STOP_NS: u64 = 1_000_000_000;

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("expected a number above 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_codes() {
        assert_eq!(parse_slice("1us"), Ok(0));
        assert_eq!(parse_slice("1ms"), Ok(9));
        assert_eq!(parse_slice("500ms"), Ok(17));
        assert_eq!(parse_slice("1s"), Ok(18));
        for wrong in ["", "3ms", "ms", "1", "2s", "99999999999us", "1 ms"] {
            assert!(parse_slice(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stops_have_a_clock_and_a_length() {
        assert_eq!(parse_stop("100:20000"), Ok(ClockStop { at: 100, nanos: 20_000 }));
        for wrong in ["", "5", "5:", ":5", "-1:5", "1:1000000001", "1:2:3"] {
            assert!(parse_stop(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_switch_is_off_from_a_clock_to_a_later_one() {
        assert_eq!(parse_range("0:7"), Ok(0..7));
        for wrong in ["", "7", "7:", "7:7", "8:7", "-1:3"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn speeds_are_above_zero() {
        assert_eq!(parse_speed("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "NaN", "x"] {
            assert!(parse_speed(wrong).is_err(), "{wrong}");
        }
    }
}
