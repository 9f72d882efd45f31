//! Frames with their arrival times to the blocks of a pcapng file.
//!
//! One section, one interface description a link, timestamps in nanoseconds; the statistics come
//! last. Every block is handed to the output whole and in order.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
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

/// `if_tsresol`: timestamps count 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Longest value of an option; its length has 16 bits.
const MAX_OPTION_BYTES: usize = u16::MAX as usize;

/// What a file says of an interface before its frames.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Comments, for people and for readers that know them.
    pub comments: Vec<String>,
}

impl Description {
    /// An interface with nothing to say but its name.
    pub fn new(name: &str) -> Self {
        Description { name: name.into(), comments: Vec::new() }
    }
}

/// Writes one capture.
pub struct PcapngWriter<W: Write> {
    blocks: PcapNgWriter<W>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture of these interfaces.
    pub fn new(output: W, interfaces: &[Description]) -> io::Result<Self> {
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
        let mut blocks = PcapNgWriter::with_section_header(output, section).map_err(io_error)?;
        for interface in interfaces {
            blocks.write_pcapng_block(description(interface)).map_err(io_error)?;
        }
        Ok(PcapngWriter { blocks })
    }

    /// Appends a frame of the interface with this number that arrived at `time` since the epoch.
    /// `original_len`: its bytes on the wire.
    #[inline]
    pub fn write_frame(
        &mut self,
        interface: u32,
        time: Duration,
        original_len: u32,
        frame: &[u8],
    ) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: time,
            original_len,
            data: Cow::Borrowed(frame),
            options: Vec::new(),
        };
        self.blocks.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// Appends what was counted at an interface from the start of the capture until now, both since
    /// the epoch. By its start a reader knows which blocks are of the same capture.
    pub fn write_statistics(
        &mut self,
        interface: u32,
        times: Range<Duration>,
        statistics: &InterfaceStatistics,
        comment: Option<&str>,
    ) -> io::Result<()> {
        let [start, end] =
            [times.start, times.end].map(|time| high_word_first(time.as_nanos() as u64));
        let options = [
            comment.map(|text| InterfaceStatisticsOption::Comment(Cow::Borrowed(cut(text)))),
            Some(InterfaceStatisticsOption::IsbStartTime(start)),
            Some(InterfaceStatisticsOption::IsbEndTime(end)),
            statistics.received.map(InterfaceStatisticsOption::IsbIfRecv),
            statistics.interface_drops.map(InterfaceStatisticsOption::IsbIfDrop),
            statistics.kernel_drops.map(InterfaceStatisticsOption::IsbOsDrop),
        ];
        let block = InterfaceStatisticsBlock {
            interface_id: interface,
            timestamp: end,
            options: options.into_iter().flatten().collect(),
        };
        self.blocks.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// The output, between two blocks.
    pub fn output(&mut self) -> &mut W {
        self.blocks.get_mut()
    }

    /// Gives the output back.
    pub fn into_output(self) -> W {
        self.blocks.into_inner()
    }
}

fn description(interface: &Description) -> InterfaceDescriptionBlock<'_> {
    let comment =
        |text: &'_ String| InterfaceDescriptionOption::Comment(Cow::Owned(cut(text).into()));
    let own = [
        InterfaceDescriptionOption::IfName(Cow::Borrowed(interface.name.as_str())),
        InterfaceDescriptionOption::IfHardware(Cow::Borrowed("HMTT card")),
        InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
    ];
    InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: interface.comments.iter().map(comment).chain(own).collect(),
    }
}

/// As much of a text as an option holds.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_OPTION_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// Timestamps are two 32-bit words, high one first, in either byte order; the block library writes
/// those of statistics as one 64-bit integer.
fn high_word_first(time: u64) -> u64 {
    if cfg!(target_endian = "little") { time.rotate_left(32) } else { time }
}
