//! Writes frames to a pcapng file: one section, one Ethernet interface, nanoseconds since clock 0.
//!
//! The file is written under a temporary name and renamed when it is complete. Its content does not
//! differ between two runs of one recording.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use super::partial::Partial;
use super::{OutputError, Sink};
use crate::gmii::{FCS_BYTES, Frame};

const APPLICATION: &str = "hmtt-sim";
/// if_tsresol: 10^-9 seconds, which is also what the writer assumes.
const NANOSECONDS: u8 = 9;
/// Speed of the interface: one gigabit per second.
const BITS_PER_SECOND: u64 = 1_000_000_000;
/// The section extends to the end of the file. Its length is never filled in.
const UNKNOWN_LENGTH: i64 = -1;

/// A pcapng file that is being written.
pub struct PcapngFile {
    writer: PcapNgWriter<BufWriter<File>>,
    file: Partial,
    keep_fcs: bool,
}

impl PcapngFile {
    /// Creates a file. An existing one is replaced by `finish`, and only with `overwrite`. With
    /// `keep_fcs` every packet ends with its FCS, and the interface block states that.
    pub fn create(path: &Path, overwrite: bool, keep_fcs: bool) -> Result<Self, OutputError> {
        let (file, output) = Partial::create(path, overwrite)?;
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            major_version: 1,
            minor_version: 0,
            section_length: UNKNOWN_LENGTH,
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed(APPLICATION))],
        };
        let writer = PcapNgWriter::with_section_header(BufWriter::new(output), section)
            .map_err(|error| refused(&file, error))?;
        let mut file = PcapngFile { writer, file, keep_fcs };
        file.write_interface()?;
        Ok(file)
    }

    fn write_interface(&mut self) -> Result<(), OutputError> {
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(APPLICATION)),
            InterfaceDescriptionOption::IfSpeed(BITS_PER_SECOND),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        if self.keep_fcs {
            options.push(InterfaceDescriptionOption::IfFcsLen(FCS_BYTES as u8));
        }
        self.write(InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options })
    }

    fn write<'a>(
        &mut self,
        block: impl pcap_file::pcapng::PcapNgBlock<'a>,
    ) -> Result<(), OutputError> {
        let written = self.writer.write_pcapng_block(block);
        written.map(|_| ()).map_err(|error| refused(&self.file, error))
    }
}

fn refused(file: &Partial, error: PcapError) -> OutputError {
    OutputError::Block { path: file.path().into(), reason: error.to_string() }
}

impl Sink for PcapngFile {
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError> {
        let mut data = Cow::Borrowed(&frame.bytes[..]);
        if self.keep_fcs {
            data.to_mut().extend(frame.fcs);
        }
        self.write(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: frame.time,
            original_len: data.len() as u32,
            data,
            options: Vec::new(),
        })
    }

    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        let PcapngFile { writer, file, .. } = *self;
        writer.into_inner().flush().map_err(file.failed("write"))?;
        file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::fs;
    use std::time::Duration;

    fn frame() -> Frame {
        Frame {
            time: Duration::from_nanos(5_000_000_001),
            bytes: (0..61).collect(),
            fcs: [1, 2, 3, 4],
        }
    }

    #[test]
    fn frames_are_read_back_with_their_nanosecond() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng");
        let mut file = Box::new(PcapngFile::create(&path, false, false).unwrap());
        file.frame(&frame()).unwrap();
        file.finish().unwrap();
        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                packets.push((packet.timestamp, packet.data.to_vec()));
            }
        }
        assert_eq!(packets, [(frame().time, frame().bytes)]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unfinished_file_is_removed_and_an_old_one_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng");
        drop(PcapngFile::create(&path, false, false).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        fs::write(&path, "old").unwrap();
        assert!(matches!(PcapngFile::create(&path, false, false), Err(OutputError::Exists { .. })));
        drop(PcapngFile::create(&path, true, false).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }
    #[test]
    fn links_under_temporary_names_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        fs::write(&kept, "kept").unwrap();
        let id = std::process::id();
        for name in [format!("a.pcapng.{id}.part"), format!(".hmtt-{id}-0.part")] {
            std::os::unix::fs::symlink(&kept, directory.path().join(name)).unwrap();
        }
        let path = directory.path().join("a.pcapng");
        let mut file = Box::new(PcapngFile::create(&path, false, false).unwrap());
        file.frame(&frame()).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
