//! Writes requests in the format of a simulator, and counts them.

use std::io::{self, Write};

use hmtt_format::Direction;

use super::oracle::{OracleFile, OracleRecord};
use super::{LINE_BYTES, Request, RequestSums, Simulator};

/// A writer of requests in the format of one simulator.
pub struct RequestOutput<W: Write> {
    output: W,
    simulator: Simulator,
    /// The requests for libCacheSim, which are written when all of them are known.
    oracle: Option<OracleFile>,
    sums: RequestSums,
    /// Number of requests that were left out, because the simulator cannot read their addresses.
    out_of_range: u64,
    /// Number of requests whose times do not fit into the format.
    late: u64,
}

impl<W: Write> RequestOutput<W> {
    /// Starts a file.
    pub fn new(output: W, simulator: Simulator) -> Self {
        let sums = RequestSums::default();
        RequestOutput { output, simulator, oracle: None, sums, out_of_range: 0, late: 0 }
    }

    /// Writes a request. If the simulator cannot read its address, the request is only counted.
    ///
    /// # Errors
    /// The output, or the temporary file for libCacheSim, returns an error.
    pub fn write(&mut self, request: Request) -> io::Result<()> {
        let Request { clock, direction, address } = request;
        let is_write = direction == Direction::Write;
        let output = &mut self.output;
        match self.simulator {
            Simulator::Ramulator if address > i64::MAX as u64 => {
                self.out_of_range += 1;
                return Ok(());
            }
            Simulator::Ramulator => {
                writeln!(output, "{} {address:#x}", if is_write { "ST" } else { "LD" })?;
            }
            Simulator::Dramsim3 => {
                let direction = if is_write { "WRITE" } else { "READ" };
                writeln!(output, "{address:#x} {direction} {clock}")?;
            }
            Simulator::Dramsys => {
                let direction = if is_write { "write" } else { "read" };
                writeln!(output, "{clock}: {direction} {address:#x}")?;
            }
            Simulator::LibCacheSim => self.write_object(clock, address)?,
        }
        self.sums.add(&request);
        Ok(())
    }

    /// Adds a request to the file for libCacheSim. A time beyond 2^32 - 1 is counted, and becomes
    /// 2^32 - 1.
    fn write_object(&mut self, clock: u64, address: u64) -> io::Result<()> {
        self.late += u64::from(clock > u64::from(u32::MAX));
        let time = u32::try_from(clock).unwrap_or(u32::MAX);
        let oracle = match &mut self.oracle {
            Some(oracle) => oracle,
            none => none.insert(OracleFile::new()?),
        };
        oracle.push(OracleRecord { time, object: address / LINE_BYTES, bytes: LINE_BYTES as u32 })
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The output, or the temporary file for libCacheSim, returns an error.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(oracle) = self.oracle.take() {
            oracle.finish(&mut self.output)?;
        }
        self.output.flush()
    }

    /// Sums of the requests that were written so far.
    pub fn sums(&self) -> RequestSums {
        self.sums
    }

    /// Counts of the requests and times that the format cannot represent.
    pub fn left_out(&self) -> [(&'static str, u64); 2] {
        [
            ("accesses beyond 2^63", self.out_of_range),
            ("times from 2^32 on, which are 2^32 - 1 instead", self.late),
        ]
    }
}
