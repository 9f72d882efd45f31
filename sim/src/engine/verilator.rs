//! Runs the emitted Verilog as a compiled program, and exchanges data with it through pipes: the
//! `verilator` engine.
//!
//! A second thread writes, so that neither side waits for the other to empty a pipe. During the
//! recording the writer runs ahead. In the quiet clocks after it, the writer waits after each
//! [`Drive`] for the program's report, so that the simulation always ends at the same clock.
//! `main.cpp` describes the protocol of the pipes.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use hmtt_format::command::ALL_RANKS;

use super::{Engine, EngineError, Phy};
use crate::gmii::Gmii;
use crate::schedule::ClockStop;
use crate::stimulus::{Drive, Stimulus};

/// Clocks of recording between two reports.
const REPORT_CLOCKS: u64 = 1 << 16;
const PIPE_BYTES: usize = 1 << 16;

/// A compiled card and its arguments. [`super::cache::model`] compiles it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The compiled program.
    pub program: PathBuf,
    /// Period of the DDR clock in picoseconds.
    pub tck_ps: u32,
    /// Period of the TX clock in picoseconds.
    pub tx_period_ps: u32,
    /// Levels of the strap pins.
    pub straps: u16,
    /// When the DDR clock stops, if it does.
    pub stop: Option<ClockStop>,
    /// File for waveforms; the program must have been compiled for them.
    pub vcd: Option<PathBuf>,
}

impl Engine for Model {
    fn run(&mut self, stimulus: &mut Stimulus, phy: &mut dyn Phy) -> Result<(), EngineError> {
        let mut child = Command::new(&self.program)
            .args([self.tck_ps, self.tx_period_ps, self.straps.into()].map(|n| n.to_string()))
            .args(
                self.stop
                    .map_or([u64::MAX, 0], |stop| [stop.at, stop.nanos])
                    .map(|n| n.to_string()),
            )
            .args(&self.vcd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(EngineError::io("run", &self.program))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(EngineError::Died { reason: "it has no pipes".into() });
        };
        let enough = AtomicBool::new(false);
        let recorded = AtomicU64::new(u64::MAX);
        let (reported, reports) = channel();
        let (read, written) = thread::scope(|scope| {
            let writer =
                scope.spawn(|| Writer::new(stdin, &enough, &recorded, reports).write(stimulus));
            let read = read(stdout, &enough, &recorded, reported, phy);
            (read, writer.join())
        });
        let status = child.wait().map_err(EngineError::io("wait for", &self.program))?;
        let written = written.map_err(|_| EngineError::Died { reason: "writer lost".into() })?;
        // An error of the recording is returned first. A broken pipe only shows that the program
        // ended, and the program's status explains that better.
        let died = |reason: String| EngineError::Died { reason };
        match (written, read) {
            (Err(WriteError::Engine(error)), _) => Err(error),
            _ if !status.success() => Err(died(status.to_string())),
            (Err(WriteError::Pipe(error)), _) | (_, Err(error)) => Err(died(error.to_string())),
            (Ok(()), Ok(())) => Ok(()),
        }
    }

    fn tx_period_ps(&self) -> u32 {
        self.tx_period_ps
    }
}

enum WriteError {
    Engine(EngineError),
    Pipe(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Pipe(error)
    }
}

/// The writer of the stimulus.
struct Writer<'a> {
    pipe: BufWriter<ChildStdin>,
    enough: &'a AtomicBool,
    /// Number of clocks of the recording, set when all clocks are written.
    recorded: &'a AtomicU64,
    reports: Receiver<()>,
    /// Reports that were requested and not yet received.
    outstanding: u64,
}

impl<'a> Writer<'a> {
    fn new(
        pipe: ChildStdin,
        enough: &'a AtomicBool,
        recorded: &'a AtomicU64,
        reports: Receiver<()>,
    ) -> Self {
        let pipe = BufWriter::with_capacity(PIPE_BYTES, pipe);
        Writer { pipe, enough, recorded, reports, outstanding: 0 }
    }

    /// Writes the stimulus until its end or until the reader stops. Dropping the pipe ends the
    /// program.
    fn write(mut self, stimulus: &mut Stimulus) -> Result<(), WriteError> {
        let (mut clocks, mut quiet, mut recorded) = (0, 0, 0);
        for drive in stimulus.by_ref() {
            let drive = drive.map_err(|error| WriteError::Engine(error.into()))?;
            let [levels, count] = record(drive);
            self.record(levels, count)?;
            clocks += drive.clocks;
            if !drive.recorded {
                self.recorded.store(recorded, Ordering::Release);
                quiet += drive.clocks;
                self.report()?;
                self.await_reports()?;
            } else {
                recorded += drive.clocks;
            }
            if drive.recorded && clocks >= REPORT_CLOCKS {
                clocks = 0;
                self.report()?;
            }
            if self.enough.load(Ordering::Acquire) {
                return Ok(self.pipe.flush()?);
            }
        }
        self.pipe.flush()?;
        Err(WriteError::Engine(EngineError::NotFinished { clocks: quiet }))
    }

    fn record(&mut self, levels: u32, clocks: u32) -> io::Result<()> {
        self.pipe.write_all(&levels.to_ne_bytes())?;
        self.pipe.write_all(&clocks.to_ne_bytes())
    }

    fn report(&mut self) -> io::Result<()> {
        self.outstanding += 1;
        self.record(0, 0)
    }

    fn await_reports(&mut self) -> io::Result<()> {
        self.pipe.flush()?;
        while self.outstanding > 0 {
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.reports.recv().map_err(gone)?;
            self.outstanding -= 1;
        }
        Ok(())
    }
}

/// Encodes a drive as the two words of a record, as `main.cpp` decodes them.
fn record(drive: Drive) -> [u32; 2] {
    let pins = drive.pins;
    let strobes = [pins.act_n, pins.ras_n, pins.cas_n, pins.we_n];
    let levels = strobes
        .into_iter()
        .enumerate()
        .fold(0, |levels, (at, level)| levels | u32::from(level) << (8 + at))
        | u32::from(pins.cke & ALL_RANKS)
        | u32::from(pins.cs_n & ALL_RANKS) << 4
        | u32::from(pins.ba & 0xf) << 12
        | pins.a << 16;
    let clocks = drive.clocks as u32 | (pins.a >> 16 & 3) << 16 | u32::from(drive.run) << 18;
    [levels, clocks]
}

/// Reads until the program ends. Output after `phy` returned `Break` is dropped.
fn read(
    stdout: ChildStdout,
    enough: &AtomicBool,
    recorded: &AtomicU64,
    reported: Sender<()>,
    phy: &mut dyn Phy,
) -> io::Result<()> {
    let mut pipe = BufReader::with_capacity(PIPE_BYTES, stdout);
    let mut stopped = false;
    while let Some(word) = next_word(&mut pipe)? {
        let count = u64::from(word >> 10);
        if count == 0 {
            let mut half = || next_word(&mut pipe).map(|word| word.map_or(0, u64::from));
            let clocks = half()? | half()? << 32;
            let peak = half()?;
            let quiet = clocks > recorded.load(Ordering::Acquire);
            if !stopped {
                phy.fifo_peak(peak);
            }
            if !stopped && phy.progress(clocks, quiet).is_break() {
                stopped = true;
                enough.store(true, Ordering::Release);
            }
            // The writer no longer receives once everything is written.
            let _ = reported.send(());
            continue;
        }
        let gmii = Gmii { txd: word as u8, tx_en: word >> 8 & 1 != 0, tx_er: word >> 9 & 1 != 0 };
        if !stopped && phy.take(gmii, count) == ControlFlow::Break(()) {
            stopped = true;
            enough.store(true, Ordering::Release);
        }
    }
    Ok(())
}

/// Reads the next word, or `None` at the end. An incomplete word is an error.
fn next_word(pipe: &mut impl Read) -> io::Result<Option<u32>> {
    let mut bytes = [0; 4];
    if pipe.read(&mut bytes[..1])? == 0 {
        return Ok(None);
    }
    pipe.read_exact(&mut bytes[1..])?;
    Ok(Some(u32::from_ne_bytes(bytes)))
}
