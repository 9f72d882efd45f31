//! Frames with their arrival times to the blocks of a pcapng file.
//!
//! One section, one interface, timestamps in nanoseconds; the statistics come last. Blocks are
//! buffered until [`PcapngWriter::flush`], and always written whole and in order.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use super::InterfaceStatistics;

const BUFFER_BYTES: usize = 1 << 20;
/// `if_tsresol`: timestamps count 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file is there already.
    #[error("{0} exists; give -f to overwrite it")]
    Exists(PathBuf),
    /// It cannot be created.
    #[error("cannot create {0}")]
    Create(PathBuf, #[source] io::Error),
    /// A block cannot be written.
    #[error("cannot write the capture")]
    Write(#[source] io::Error),
}

impl From<PcapError> for WriteError {
    fn from(error: PcapError) -> Self {
        WriteError::Write(match error {
            PcapError::IoError(error) => error,
            other => io::Error::other(other),
        })
    }
}

/// Writes one capture.
pub struct PcapngWriter<W: Write> {
    blocks: PcapNgWriter<BufWriter<W>>,
}

impl PcapngWriter<File> {
    /// Creates `path` for frames of `interface`; an existing file is refused unless `overwrite`.
    pub fn create(path: &Path, interface: &str, overwrite: bool) -> Result<Self, WriteError> {
        let mut options = OpenOptions::new();
        options.write(true);
        if overwrite {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists(path.into()),
            _ => WriteError::Create(path.into(), error),
        })?;
        PcapngWriter::new(file, interface)
    }
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture of `interface`.
    pub fn new(output: W, interface: &str) -> Result<Self, WriteError> {
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![
                SectionHeaderOption::Hardware(Cow::Borrowed(std::env::consts::ARCH)),
                SectionHeaderOption::OS(Cow::Borrowed(std::env::consts::OS)),
                SectionHeaderOption::UserApplication(Cow::Borrowed(concat!(
                    "hmtt-recv ",
                    env!("CARGO_PKG_VERSION")
                ))),
            ],
            ..Default::default()
        };
        let output = BufWriter::with_capacity(BUFFER_BYTES, output);
        let mut blocks = PcapNgWriter::with_section_header(output, section)?;
        blocks.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(interface)),
                InterfaceDescriptionOption::IfHardware(Cow::Borrowed("HMTT card")),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
        Ok(PcapngWriter { blocks })
    }

    /// Appends a frame that arrived at `time` since the epoch. `original_len`: its bytes on the wire.
    pub fn write_frame(
        &mut self,
        time: Duration,
        original_len: u32,
        frame: &[u8],
    ) -> Result<(), WriteError> {
        self.blocks.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time,
            original_len,
            data: Cow::Borrowed(frame),
            options: Vec::new(),
        })?;
        Ok(())
    }

    /// Makes everything so far readable by others.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.blocks.get_mut().flush().map_err(WriteError::Write)
    }

    /// Appends the statistics, as of `time` since the epoch, and gives the output back.
    pub fn finish(
        mut self,
        time: Duration,
        statistics: &InterfaceStatistics,
    ) -> Result<W, WriteError> {
        let end = high_word_first(time.as_nanos() as u64);
        let counts = [
            statistics.received.map(InterfaceStatisticsOption::IsbIfRecv),
            statistics.interface_drops.map(InterfaceStatisticsOption::IsbIfDrop),
            statistics.kernel_drops.map(InterfaceStatisticsOption::IsbOsDrop),
        ];
        let options = [InterfaceStatisticsOption::IsbEndTime(end)]
            .into_iter()
            .chain(counts.into_iter().flatten());
        self.blocks.write_pcapng_block(InterfaceStatisticsBlock {
            interface_id: 0,
            timestamp: end,
            options: options.collect(),
        })?;
        let output = self.blocks.into_inner();
        output.into_inner().map_err(|error| WriteError::Write(error.into_error()))
    }
}

/// Timestamps are two 32-bit words, high one first, in either byte order; the block library writes
/// those of statistics as one 64-bit integer.
fn high_word_first(time: u64) -> u64 {
    if cfg!(target_endian = "little") { time.rotate_left(32) } else { time }
}
