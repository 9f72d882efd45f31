//! Writes frames with their arrival times as the blocks of a pcapng file.
//!
//! A file has one section, one interface description for each link, timestamps in nanoseconds, and
//! statistics at its end. Each block is written to the output as a whole, one after another.

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
/// Longest value of an option in bytes, because its length has 16 bits.
const MAX_OPTION_BYTES: usize = u16::MAX as usize;

/// The description of an interface, which precedes its frames in the file.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Name of the interface.
    pub name: String,
    /// Comments on the interface, for people or for programs that know their format. At most 65,535
    /// bytes of each are written.
    pub comments: Vec<String>,
}

impl Description {
    /// Creates a description without comments.
    pub fn new(name: &str) -> Self {
        Description { name: name.into(), comments: Vec::new() }
    }
}

/// Writes one capture.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hmtt::pcapng::{Description, PcapngReader, PcapngWriter};
/// use std::time::Duration;
///
/// let mut writer = PcapngWriter::new(Vec::new(), &[Description::new("eth1")])?;
/// writer.write_frame(0, Duration::from_nanos(1_700_000_000_000_000_042), 60, &[0; 60])?;
/// let capture = std::io::Cursor::new(writer.into_output());
/// let mut reader = PcapngReader::from_reader(capture)?;
/// let packet = reader.next_packet()?.expect("one frame was written");
/// assert_eq!(packet.time, Some(Duration::from_nanos(1_700_000_000_000_000_042)));
/// # Ok(())
/// # }
/// ```
pub struct PcapngWriter<W: Write> {
    blocks: PcapNgWriter<W>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture: writes the section header and the descriptions of the interfaces, which
    /// are numbered from 0.
    ///
    /// # Errors
    /// The output cannot be written.
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

    /// Appends a frame. `interface`: number of the interface. `time`: arrival time since the Unix
    /// epoch. `original_len`: bytes of the frame on the wire. `frame`: the captured bytes.
    ///
    /// # Errors
    /// The output cannot be written.
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

    /// Appends the counts of an interface. `times`: start of the capture and current time, since
    /// the Unix epoch. Readers assume that blocks with the same start belong to the same capture.
    ///
    /// # Errors
    /// The output cannot be written.
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
            statistics.received_frames.map(InterfaceStatisticsOption::IsbIfRecv),
            statistics.interface_dropped_frames.map(InterfaceStatisticsOption::IsbIfDrop),
            statistics.kernel_dropped_frames.map(InterfaceStatisticsOption::IsbOsDrop),
        ];
        let block = InterfaceStatisticsBlock {
            interface_id: interface,
            timestamp: end,
            options: options.into_iter().flatten().collect(),
        };
        self.blocks.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// The output. Between two calls it ends with a whole block.
    pub fn output(&mut self) -> &mut W {
        self.blocks.get_mut()
    }

    /// Ends writing, and returns the output.
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

/// The longest prefix of a text that fits into an option, without cutting a character.
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

/// Swaps the words of a time on little-endian machines. A timestamp is two 32-bit words, the high
/// one first in either byte order. The block library writes the timestamps of statistics as one
/// 64-bit integer.
fn high_word_first(time: u64) -> u64 {
    if cfg!(target_endian = "little") { time.rotate_left(32) } else { time }
}
