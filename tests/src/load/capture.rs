//! Writes generated frames to a capture, with the arrival times of a link at full speed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_format::frame::MAX_FRAME_BYTES;

use super::Load;

/// Arrival time of the first frame.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);
/// Time between frames on a link of 1 Gbit/s.
const FRAME: Duration = Duration::from_micros(12);

/// Writes a report, data frames, and an end frame. `pool`: number of distinct data frames.
pub fn write(path: &Path, frames: u64, pool: usize) -> io::Result<()> {
    let mut load = Load::new(pool);
    let mut buffer = [0; MAX_FRAME_BYTES];
    let output = BufWriter::new(File::create(path)?);
    let mut writer = PcapngWriter::new(output, &[Description::new("load")])?;
    let mut time = BEGIN;
    let mut write = |buffer: &[u8]| {
        time += FRAME;
        writer.write_frame(0, time, buffer.len() as u32, buffer)
    };
    let length = load.report(false, &mut buffer);
    write(&buffer[..length])?;
    for _ in 0..frames {
        let length = load.next(&mut buffer);
        write(&buffer[..length])?;
    }
    let length = load.report(true, &mut buffer);
    write(&buffer[..length])?;
    writer.into_output().flush()
}
