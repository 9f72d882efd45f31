//! Defines the content of the chunks of a map.

use core::ops::Range;

use super::MOST_PAGES;
use super::fields::{Fields, push, push_text};

/// Maximum number of bytes of a text. Linux limits paths to 4096 bytes.
const MOST_TEXT: usize = 1 << 14;
/// Maximum number of ranges of memory in a description of a machine.
const MOST_RANGES: usize = 1 << 12;

/// Meaning of the times in a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Times only state an order: a later event has a larger time.
    #[default]
    Order,
    /// `CLOCK_MONOTONIC` of the machine, in nanoseconds.
    Monotonic,
}

/// The machine whose pages are in a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Meaning of the times in the map.
    pub clock: Clock,
    /// Identifies the time between two starts of the machine; 0 if it is not known.
    pub boot_id: [u8; 16],
    /// log2 of the bytes of a page.
    pub page_log2: u8,
    /// Time at which the map was begun.
    pub start_ns: u64,
    /// Time at which the map was begun, in nanoseconds since 1970; 0 if it is not known.
    pub start_realtime_ns: u64,
    /// Release of the kernel; empty if it is not known.
    pub kernel: String,
    /// Physical addresses of memory; empty if they are not known.
    pub memory: Vec<Range<u64>>,
}

/// A process, from its start on, or from the execution of a program on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Number of the process in the kernel.
    pub pid: u32,
    /// Time at which the process was started, in the kernel's clock ticks since the start of the
    /// machine.
    pub start_ticks: u64,
    /// Name of the first thread of the process.
    pub comm: String,
    /// Path of the program; empty if it is not known.
    pub exe: String,
}

/// A part of the address space of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Permissions: bit 0 read, bit 1 write, bit 2 execute; bit 3 is set if the mapping is shared.
    pub permissions: u8,
    /// Offset in the file at which the mapping begins, in bytes.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// Inode of the file; 0 without a file.
    pub inode: u64,
    /// Path of the file, or the kernel's name of the memory, such as `[heap]`; empty if there is
    /// none.
    pub name: String,
}

/// The frame of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the frame.
    pub frame: u64,
    /// Number of the mapping in the map's file, from 1 on.
    pub mapping: u32,
    /// Whether the frame belongs to a file or to shared memory, and not only to the process.
    pub is_file: bool,
}

/// Consecutive pages, which have consecutive frames, or no frames, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the first virtual page.
    pub page: u64,
    /// Number of pages.
    pub count: u64,
    /// The frame of the first page; `None` if the pages have no frames.
    pub place: Option<Place>,
}

/// A reading of the pages of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Number of the process in the map's file, from 1 on.
    pub process: u32,
    /// Time at which the mappings of the process were read.
    pub begin_ns: u64,
    /// Time at which the last page was read.
    pub end_ns: u64,
    /// Number of pages with a frame.
    pub present_pages: u64,
    /// Number of pages that were swapped out.
    pub swapped_pages: u64,
    /// Number of pages that are present, but whose frame the kernel did not show.
    pub hidden_pages: u64,
}

/// The end of a snapshot: all processes were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Time at which the first process was read.
    pub begin_ns: u64,
    /// Time at which the last process was read.
    pub end_ns: u64,
    /// Number of processes that were read.
    pub processes: u64,
    /// Number of processes that could not be read.
    pub unread_processes: u64,
    /// Number that the marks to the card state at the begin and at the end of the snapshot; `None`
    /// if no marks were made.
    pub mark: Option<u32>,
}

/// The reason why a map ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The end was requested.
    Requested,
    /// The requested time was over.
    Time,
    /// All processes have ended.
    Processes,
    /// A reason that a later version defines.
    Unknown(u32),
}

impl Ending {
    pub(super) const fn code(self) -> u32 {
        match self {
            Ending::Requested => 0,
            Ending::Time => 1,
            Ending::Processes => 2,
            Ending::Unknown(code) => code,
        }
    }

    pub(super) const fn from_code(code: u32) -> Self {
        match code {
            0 => Ending::Requested,
            1 => Ending::Time,
            2 => Ending::Processes,
            code => Ending::Unknown(code),
        }
    }
}

impl Machine {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.boot_id);
        let memory = &self.memory[..self.memory.len().min(MOST_RANGES)];
        let numbers =
            [u64::from(self.clock == Clock::Monotonic), self.page_log2.into(), self.start_ns];
        numbers.into_iter().for_each(|number| push(number, to));
        push(self.start_realtime_ns, to);
        push_text(&self.kernel, MOST_TEXT, to);
        push(memory.len() as u64, to);
        memory
            .iter()
            .flat_map(|range| [range.start, range.end])
            .for_each(|number| push(number, to));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let boot_id = fields.bytes()?;
        let clock = match fields.number()? {
            0 => Clock::Order,
            1 => Clock::Monotonic,
            _ => return None,
        };
        let page_log2 =
            u8::try_from(fields.number()?).ok().filter(|log2| (10..=30).contains(log2))?;
        let (start_ns, start_realtime_ns) = (fields.number()?, fields.number()?);
        let kernel = fields.text()?;
        let count = usize::try_from(fields.number()?).ok().filter(|count| *count <= MOST_RANGES)?;
        let mut range = || {
            let range = fields.number()?..fields.number()?;
            (range.start < range.end).then_some(range)
        };
        let memory = (0..count).map(|_| range()).collect::<Option<Vec<_>>>()?;
        Some(Machine { clock, boot_id, page_log2, start_ns, start_realtime_ns, kernel, memory })
    }
}

impl Process {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        push(self.pid.into(), to);
        push(self.start_ticks, to);
        push_text(&self.comm, MOST_TEXT, to);
        push_text(&self.exe, MOST_TEXT, to);
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (pid, start_ticks) = (fields.short()?, fields.number()?);
        Some(Process { pid, start_ticks, comm: fields.text()?, exe: fields.text()? })
    }
}

impl Mapping {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let Mapping { start, end, permissions, offset, device, inode, .. } = *self;
        for number in [start, end, permissions.into(), offset, device.0.into(), device.1.into()] {
            push(number, to);
        }
        push(inode, to);
        push_text(&self.name, MOST_TEXT, to);
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (start, end) = (fields.number()?, fields.number()?);
        let permissions = u8::try_from(fields.number()?).ok().filter(|_| start <= end)?;
        let offset = fields.number()?;
        let device = (fields.short()?, fields.short()?);
        let inode = fields.number()?;
        Some(Mapping { start, end, permissions, offset, device, inode, name: fields.text()? })
    }
}

impl Scan {
    const fn numbers(self) -> [u64; 5] {
        [self.begin_ns, self.end_ns, self.present_pages, self.swapped_pages, self.hidden_pages]
    }

    pub(super) fn encode(self, to: &mut Vec<u8>) {
        push(self.process.into(), to);
        self.numbers().into_iter().for_each(|number| push(number, to));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let process = fields.short()?;
        let (begin_ns, end_ns) = (fields.number()?, fields.number()?);
        let [present_pages, swapped_pages, hidden_pages] =
            [fields.number()?, fields.number()?, fields.number()?];
        let scan = Scan { process, begin_ns, end_ns, present_pages, swapped_pages, hidden_pages };
        (begin_ns <= end_ns).then_some(scan)
    }
}

impl Snapshot {
    pub(super) fn encode(self, to: &mut Vec<u8>) {
        let Snapshot { begin_ns, end_ns, processes, unread_processes, mark } = self;
        let mark = mark.map_or(0, |number| u64::from(number) + 1);
        let numbers = [begin_ns, end_ns, processes, unread_processes, mark];
        numbers.into_iter().for_each(|number| push(number, to));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (begin_ns, end_ns) = (fields.number()?, fields.number()?);
        let (processes, unread_processes) = (fields.number()?, fields.number()?);
        // Version 1 ends here.
        let mark = if fields.0.is_empty() { 0 } else { fields.number()? };
        let mark = mark.checked_sub(1).map(u32::try_from).transpose().ok()?;
        let snapshot = Snapshot { begin_ns, end_ns, processes, unread_processes, mark };
        (begin_ns <= end_ns).then_some(snapshot)
    }
}

/// Encodes and decodes the entries of a chunk one after the other. Each entry is stored relative to
/// the entry before. Example: if the pages 10 to 12 with the frames 50 to 52 are followed by page
/// 20 with frame 53, the second entry stores the page distance 7 and the frame distance 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entries {
    /// Number of the page after the previous entry.
    page: u64,
    /// Number of the frame after the previous entry with frames.
    frame: u64,
}

impl Entries {
    /// Appends an entry. Its first page must not be before the end of the previous entry.
    pub(super) fn encode(&mut self, entry: &Entry, to: &mut Vec<u8>) {
        push(entry.page.wrapping_sub(self.page), to);
        push(entry.count, to);
        push(entry.place.map_or(0, |place| place.mapping.into()), to);
        self.page = entry.page.wrapping_add(entry.count);
        let Some(Place { frame, is_file, .. }) = entry.place else { return };
        let distance = frame.wrapping_sub(self.frame) as i64;
        push((distance << 1 ^ distance >> 63) as u64 * 2 | u64::from(is_file), to);
        self.frame = frame.wrapping_add(entry.count);
    }

    /// Decodes the next entry; `None` if it is truncated or impossible.
    pub(super) fn decode(&mut self, fields: &mut Fields<'_>) -> Option<Entry> {
        let page = self.page.checked_add(fields.number()?)?;
        let count = fields.number()?;
        let end = page.checked_add(count).filter(|end| count > 0 && *end <= MOST_PAGES)?;
        let mapping = fields.short()?;
        self.page = end;
        if mapping == 0 {
            return Some(Entry { page, count, place: None });
        }
        let number = fields.number()?;
        let (is_file, folded) = (number & 1 != 0, number >> 1);
        let distance = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        let frame = self.frame.wrapping_add(distance as u64);
        self.frame = frame.checked_add(count).filter(|end| *end <= MOST_PAGES)?;
        Some(Entry { page, count, place: Some(Place { frame, mapping, is_file }) })
    }
}
