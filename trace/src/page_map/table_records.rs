//! Converts HMTT's 13-byte records of page-table changes to maps, and maps to such records.
//!
//! The records have no times, mappings and names. When records are read, each process gets one
//! mapping without a name. A snapshot ends before a record that changes a page or frame which the
//! snapshot has already changed. The initial dump is one snapshot, in which several pages may have
//! the same frame. When records are written, the first snapshot becomes the dump, and each later
//! snapshot becomes records of its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use hmtt_files::page_map::{
    Ending, Entry, MOST_PAGES, Machine, Mapping, Place, Process, Run, Scan, Snapshot, Writer,
};
use hmtt_files::page_table_record::{
    DUMP, DUMPED, END, Layout, MARK_BYTES, PageTableRecord, RECORD_BYTES, START, mark,
};

use super::reader::fill;
use super::{Held, PageMap};

/// Maximum number of records that are written: 3.25 GiB, or one record for each page of 1 TiB. A
/// map has runs of pages, so a short map could make more records than a disk holds.
pub const MOST_RECORDS: u64 = 1 << 28;
/// In a file of records without marks, at most about this number of records without a page is
/// plausible for each record with a page.
const PLAUSIBLE: u64 = 8;

/// The reason why a map cannot be written as records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The map would make too many records.
    #[error(
        "{records} records would be written, at most {MOST_RECORDS} are; a table (csv) has a row for each run of pages"
    )]
    TooMany {
        /// Number of records that would be written.
        records: u64,
    },
}

/// Counts of the records that were read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of records that state a page, or of records that were written.
    pub records: u64,
    /// When records are read: number of records that state no page. When records are written:
    /// number of pages whose numbers have too many bits for a record. Both are left out.
    pub left_out: u64,
    /// Number of marks between the records that were read. Not counted when records are written.
    pub marks: u64,
    /// Whether the file that was read ends within a record.
    pub is_cut: bool,
}

impl Counts {
    /// Whether the input can be a file of records. It must have records. If it has no marks, it
    /// must not have many more records that state no page. Of random bytes, 4 in 256 would begin a
    /// record.
    pub const fn is_plausible(&self) -> bool {
        self.records > 0 && (self.marks > 0 || self.left_out / PLAUSIBLE <= self.records)
    }
}

/// Changes since the last snapshot: the new frame of each page, by process and page, and the set of
/// changed frames.
#[derive(Default)]
struct Batch {
    changes: BTreeMap<(u32, u64), Option<u64>>,
    frames: BTreeSet<u64>,
}

/// The state of converting records to a map.
struct Conversion<W> {
    writer: Writer<W>,
    /// For each pid, the number of its process and of its mapping in the map.
    processes: BTreeMap<u32, (u32, u32)>,
    batch: Batch,
    /// Whether the current records belong to the dump.
    is_dump: bool,
    /// Number of the last snapshot, which is also its time.
    snapshot: u64,
}

/// Converts records to a map.
///
/// # Errors
/// The input cannot be read, or the output cannot be written.
pub fn to_map(mut input: impl Read, layout: Layout, output: impl Write) -> io::Result<Counts> {
    let machine = Machine { page_log2: 12, ..Machine::default() };
    let writer = Writer::new(output, &machine)?;
    let mut conversion = Conversion {
        writer,
        processes: BTreeMap::new(),
        batch: Batch::default(),
        is_dump: false,
        snapshot: 0,
    };
    let mut counts = Counts::default();
    let mut bytes = [0; RECORD_BYTES];
    loop {
        let filled = fill(&mut input, &mut bytes)?;
        if filled < RECORD_BYTES {
            counts.is_cut = filled > 0;
            break;
        }
        if let Some(kind) = mark(&bytes) {
            fill(&mut input, &mut [0; MARK_BYTES - RECORD_BYTES])?;
            counts.marks += 1;
            if matches!(kind, DUMP | DUMPED) {
                conversion.snapshot()?;
            }
            conversion.is_dump = kind == DUMP;
            continue;
        }
        match PageTableRecord::decode(&bytes, layout) {
            Some(record) => {
                counts.records += 1;
                conversion.record(&record)?;
            }
            None => counts.left_out += 1,
        }
    }
    conversion.snapshot()?;
    conversion.writer.finish(Ending::Requested)?;
    Ok(counts)
}

impl<W: Write> Conversion<W> {
    fn record(&mut self, record: &PageTableRecord) -> io::Result<()> {
        let PageTableRecord { is_set, pid, page, frame } = *record;
        let is_frame_again = !self.is_dump && self.batch.frames.contains(&frame);
        if self.batch.changes.contains_key(&(pid, page)) || is_frame_again {
            self.snapshot()?;
        }
        self.batch.changes.insert((pid, page), is_set.then_some(frame));
        self.batch.frames.insert(frame);
        Ok(())
    }

    /// Writes the changes as a snapshot, if there are any.
    fn snapshot(&mut self) -> io::Result<()> {
        let changes = std::mem::take(&mut self.batch).changes;
        if changes.is_empty() {
            return Ok(());
        }
        self.snapshot += 1;
        let (time, mut processes) = (self.snapshot, 0);
        let mut changes = changes.into_iter().peekable();
        while let Some(((pid, _), _)) = changes.peek() {
            let pid = *pid;
            let (process, mapping) = self.process(pid)?;
            let mut entries: Vec<Entry> = Vec::new();
            while let Some(((_, page), frame)) =
                changes.next_if(|((next_pid, _), _)| *next_pid == pid)
            {
                append(&mut entries, page, frame, mapping);
            }
            self.writer.pages(process, &entries)?;
            self.writer.scan(Scan { process, begin_ns: time, end_ns: time, ..Scan::default() })?;
            processes += 1;
        }
        self.writer.snapshot(Snapshot {
            begin_ns: time,
            end_ns: time,
            processes,
            ..Snapshot::default()
        })
    }

    fn process(&mut self, pid: u32) -> io::Result<(u32, u32)> {
        if let Some(known) = self.processes.get(&pid) {
            return Ok(*known);
        }
        let process = self.writer.process(&Process { pid, ..Process::default() })?;
        let whole =
            Mapping { end: MOST_PAGES << 12, name: "[unknown]".into(), ..Mapping::default() };
        let mapping = self.writer.mappings(process, &[whole])?;
        self.processes.insert(pid, (process, mapping));
        Ok((process, mapping))
    }
}

/// Appends a page to the entries. If its frame follows the frame of the previous page, the last
/// entry grows instead.
fn append(entries: &mut Vec<Entry>, page: u64, frame: Option<u64>, mapping: u32) {
    let place = frame.map(|frame| Place { frame, mapping, is_file: false });
    if let Some(last) = entries.last_mut()
        && last.page + last.count == page
    {
        let continues = match (last.place, place) {
            (Some(last_place), Some(place)) => last_place.frame + last.count == place.frame,
            (None, None) => true,
            _ => false,
        };
        if continues {
            last.count += 1;
            return;
        }
    }
    entries.push(Entry { page, count: 1, place });
}

/// Converts a map to records.
///
/// # Errors
/// [`RecordsError`]: there would be more than [`MOST_RECORDS`] records, and none was written; or
/// the output cannot be written.
pub fn from_map(
    map: &PageMap,
    layout: Layout,
    output: &mut impl Write,
) -> Result<Counts, RecordsError> {
    // Each event has its snapshot, whether the pages are set or freed, their process and page, and
    // the index in `held`. Sorting puts freed pages before set ones in each snapshot.
    let mut events: Vec<(u32, bool, (u32, u64), usize)> = Vec::new();
    let last = map.snapshots.len().saturating_sub(1) as u32;
    for (held, index) in map.held.iter().zip(0..) {
        let process_page = (held.process, held.run.page);
        events.push((held.first, true, process_page, index));
        if held.last < last {
            events.push((held.last + 1, false, process_page, index));
        }
    }
    events.sort_unstable();
    let pages = events.iter().map(|(.., index)| map.held[*index].run.count);
    let records = pages.fold(0, u64::saturating_add);
    if records > MOST_RECORDS {
        return Err(RecordsError::TooMany { records });
    }
    let mut counts = Counts::default();
    let mut is_dump = true;
    [START, DUMP].into_iter().try_for_each(|byte| output.write_all(&[byte; MARK_BYTES]))?;
    for (snapshot, is_set, _, index) in events {
        if is_dump && snapshot > 0 {
            output.write_all(&[DUMPED; MARK_BYTES])?;
            is_dump = false;
        }
        write_run(map, &map.held[index], is_set, layout, &mut counts, output)?;
    }
    if is_dump {
        output.write_all(&[DUMPED; MARK_BYTES])?;
    }
    output.write_all(&[END; MARK_BYTES])?;
    output.flush()?;
    Ok(counts)
}

fn write_run(
    map: &PageMap,
    held: &Held,
    is_set: bool,
    layout: Layout,
    counts: &mut Counts,
    output: &mut impl Write,
) -> io::Result<()> {
    let Run { page, count, place } = held.run;
    let pid = map.process(held.process).map_or(0, |known| known.process.pid);
    // The later pages of a run may have numbers with too many bits. The first page with such a
    // number and all pages after it are left out.
    for at in 0..count {
        let record = PageTableRecord { is_set, pid, page: page + at, frame: place.frame + at };
        let Some(bytes) = record.encode(layout) else {
            counts.left_out = counts.left_out.saturating_add(count - at);
            break;
        };
        output.write_all(&bytes)?;
        counts.records += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Owner, Owners};
    use super::*;

    fn record(is_set: bool, pid: u32, page: u64, frame: u64) -> PageTableRecord {
        PageTableRecord { is_set, pid, page, frame }
    }

    #[test]
    fn records_survive_the_map() {
        for layout in [Layout::Program, Layout::Text] {
            let dump = [record(true, 7, 100, 5), record(true, 7, 101, 6), record(true, 8, 100, 9)];
            let rest = [record(false, 7, 101, 6), record(true, 8, 300, 6)];
            let encoded = |records: &[PageTableRecord]| {
                records
                    .iter()
                    .flat_map(|record| record.encode(layout).unwrap())
                    .collect::<Vec<u8>>()
            };
            let parts = [
                vec![START; MARK_BYTES],
                vec![DUMP; MARK_BYTES],
                encoded(&dump),
                vec![DUMPED; MARK_BYTES],
                encoded(&rest),
                vec![END; MARK_BYTES],
            ];
            let bytes = parts.concat();
            let mut file = Vec::new();
            let counts = to_map(&bytes[..], layout, &mut file).unwrap();
            assert_eq!(counts, Counts { records: 5, left_out: 0, marks: 4, is_cut: false });
            let map = PageMap::read(&file[..]).unwrap();
            let owners = Owners::new(&map);
            assert!(matches!(owners.find(&map, 5), Owner::Resolved { page: 100, .. }));
            assert_eq!(owners.find(&map, 6), Owner::Ambiguous);
            let mut again = Vec::new();
            from_map(&map, layout, &mut again).unwrap();
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn frames_of_several_pages_in_a_dump_are_shared() {
        // Process 7 has frame 5 as two pages, and process 8 has frame 5 as one page. Frame 9 is one
        // page.
        let dump = [
            record(true, 7, 100, 5),
            record(true, 7, 200, 5),
            record(true, 7, 201, 9),
            record(true, 8, 100, 5),
        ];
        let layout = Layout::Program;
        let parts = [
            vec![START; MARK_BYTES],
            vec![DUMP; MARK_BYTES],
            dump.iter().flat_map(|record| record.encode(layout).unwrap()).collect(),
            vec![DUMPED; MARK_BYTES],
            record(true, 8, 300, 6).encode(layout).unwrap().to_vec(),
            vec![END; MARK_BYTES],
        ];
        let mut bytes = parts.concat();
        // First the records above, and then the records that are written from their map.
        for _ in 0..2 {
            let mut file = Vec::new();
            to_map(&bytes[..], layout, &mut file).unwrap();
            let map = PageMap::read(&file[..]).unwrap();
            assert_eq!(map.snapshots.len(), 2);
            let owners = Owners::new(&map);
            assert!(matches!(owners.find(&map, 5), Owner::Shared { count: 3, .. }));
            assert!(matches!(owners.find(&map, 9), Owner::Resolved { page: 201, .. }));
            assert_eq!(owners.find(&map, 6), Owner::Ambiguous);
            bytes.clear();
            from_map(&map, layout, &mut bytes).unwrap();
        }
    }

    #[test]
    fn cut_and_other_records_are_counted() {
        let mut bytes = record(true, 1, 2, 3).encode(Layout::Text).unwrap().to_vec();
        bytes.extend([0xed; RECORD_BYTES]);
        bytes.extend([1, 2]);
        let counts = to_map(&bytes[..], Layout::Text, Vec::new()).unwrap();
        assert_eq!(counts, Counts { records: 1, left_out: 1, marks: 0, is_cut: true });
    }
    #[test]
    fn random_bytes_are_not_plausible_and_records_are() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let bytes: Vec<u8> = (0..RECORD_BYTES * 4096).map(|_| random()).collect();
        let counts = to_map(&bytes[..], Layout::Program, Vec::new()).unwrap();
        assert!(counts.records > 0 && !counts.is_plausible(), "{counts:?}");
        let counts = Counts { records: 1, left_out: 2 * PLAUSIBLE, marks: 0, is_cut: false };
        assert!(!counts.is_plausible() && Counts { marks: 1, ..counts }.is_plausible());
        assert!(Counts { left_out: PLAUSIBLE, ..counts }.is_plausible());
        assert!(!Counts { records: 0, marks: 1, ..counts }.is_plausible());
    }

    #[test]
    fn a_short_map_of_very_many_pages_is_refused() {
        let machine = Machine { page_log2: 12, ..Machine::default() };
        let map = |count| {
            let mut writer = Writer::new(Vec::new(), &machine).unwrap();
            let process = writer.process(&Process::default()).unwrap();
            let whole = Mapping { end: MOST_PAGES << 12, ..Mapping::default() };
            let mapping = writer.mappings(process, &[whole]).unwrap();
            let place = Some(Place { frame: 0, mapping, is_file: false });
            writer.pages(process, &[Entry { page: 0, count, place }]).unwrap();
            writer.scan(Scan { process, ..Scan::default() }).unwrap();
            writer.snapshot(Snapshot { processes: 1, ..Snapshot::default() }).unwrap();
            PageMap::read(&writer.finish(Ending::Requested).unwrap()[..]).unwrap()
        };
        let mut output = Vec::new();
        let refused = from_map(&map(MOST_RECORDS + 1), Layout::Program, &mut output);
        assert!(
            matches!(refused, Err(RecordsError::TooMany { records }) if records == MOST_RECORDS + 1)
        );
        assert!(output.is_empty());
        assert_eq!(from_map(&map(1000), Layout::Program, &mut output).unwrap().records, 1000);
    }
}
