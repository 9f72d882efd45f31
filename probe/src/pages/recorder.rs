//! Writes snapshots of processes into a map. The first snapshot is written as a whole; of each
//! further snapshot, the changes are written.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};

use hmtt_files::page_map::{
    Ending, Mapping, Process, Run, Scan, Snapshot, SnapshotMark, Writer, changes,
};
use nix::unistd::Pid;

use super::process::{described, identity};
use super::scan::{Found, Pages};
use super::{PagesError, machine, now_ns, shows_frames};
use crate::ptrace::{self, PtraceError, mappings};

/// Mappings from this address on belong to the kernel (`[vsyscall]`), and have no entries.
const KERNEL: u64 = 1 << 63;

/// A process that is in the map.
#[derive(Debug)]
struct Known {
    number: u32,
    identity: Process,
    runs: Vec<Run>,
    mappings: BTreeMap<Mapping, u32>,
    /// Time at which the last reading of the process began.
    begin_ns: u64,
    /// Number of the snapshot in which the process was last read.
    snapshot: u64,
}

/// Sums over a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of processes in the last snapshot.
    pub processes: u64,
    /// Largest number of processes of a snapshot that could not be read.
    pub most_unread_processes: u64,
    /// Number of pages with frames in the last snapshot.
    pub present_pages: u64,
    /// Longest time for reading one process, in nanoseconds.
    pub longest_scan_ns: u64,
    /// Longest time for one snapshot, in nanoseconds.
    pub longest_snapshot_ns: u64,
    /// Longest time in which a page may have moved unnoticed, in nanoseconds: from the begin of a
    /// reading of its process to the end of the next reading. 0 if no process was read twice.
    pub longest_stale_ns: u64,
}

impl Figures {
    /// Adds a snapshot in which `present_pages` pages had frames.
    fn add(&mut self, snapshot: &Snapshot, present_pages: u64) {
        let time_ns = snapshot.end_ns.saturating_sub(snapshot.begin_ns);
        self.snapshots += 1;
        self.processes = snapshot.processes;
        self.most_unread_processes = self.most_unread_processes.max(snapshot.unread_processes);
        self.present_pages = present_pages;
        self.longest_snapshot_ns = self.longest_snapshot_ns.max(time_ns);
    }
}

/// Records processes.
#[derive(Debug)]
pub struct Recorder<W> {
    writer: Writer<W>,
    known: BTreeMap<Pid, Known>,
    figures: Figures,
}

/// Reason why a process was not read.
enum Unread {
    /// The process has no pages: it has ended, or it is a thread of the kernel.
    Ended,
    /// The kernel refuses access to the process.
    Denied(io::Error),
    /// The map cannot be written.
    Write(io::Error),
}

impl<W: Write> Recorder<W> {
    /// Begins a map of this machine.
    ///
    /// # Errors
    /// [`PagesError::NoFrames`], [`PagesError::System`] or [`PagesError::Write`].
    pub fn new(output: W) -> Result<Self, PagesError> {
        let shown =
            shows_frames().map_err(|error| PagesError::System("/proc/self/pagemap", error))?;
        if !shown {
            return Err(PagesError::NoFrames);
        }
        let writer = Writer::new(output, &machine()).map_err(PagesError::Write)?;
        Ok(Recorder { writer, known: BTreeMap::new(), figures: Figures::default() })
    }

    /// Sums over the recording so far.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Makes a snapshot: reads each process once. Returns the number of processes that had pages.
    ///
    /// `must`: whether a process that cannot be read is an error. In the first snapshot, a process
    /// that does not exist is an error too. `marks`: the number of the snapshot for the card, and a
    /// function that makes a mark for free use. It is called before the first process is read and
    /// after the last one.
    ///
    /// # Errors
    /// [`PagesError::NoProcess`], [`PagesError::Denied`] or [`PagesError::Write`].
    pub fn snapshot(
        &mut self,
        pids: &[Pid],
        must: bool,
        mut marks: Option<(u32, &mut dyn FnMut(u8))>,
    ) -> Result<u64, PagesError> {
        if let Some((number, make)) = &mut marks {
            SnapshotMark::begin(*number).marks().for_each(make);
        }
        let (begin_ns, snapshot) = (now_ns(), self.figures.snapshots + 1);
        let (mut processes, mut unread_processes, mut present_pages) = (0, 0, 0);
        for pid in pids {
            match self.read(*pid, snapshot) {
                Ok(pages) => {
                    processes += 1;
                    present_pages += pages;
                }
                Err(Unread::Write(error)) => return Err(PagesError::Write(error)),
                Err(Unread::Denied(error)) if must => return Err(PagesError::Denied(*pid, error)),
                Err(Unread::Ended) if must && snapshot == 1 => {
                    return Err(PagesError::NoProcess(*pid));
                }
                Err(Unread::Denied(_)) => unread_processes += 1,
                Err(Unread::Ended) => {}
            }
        }
        self.forget(snapshot).map_err(PagesError::Write)?;
        let end_ns = now_ns();
        if let Some((number, make)) = &mut marks {
            SnapshotMark::end(*number).marks().for_each(make);
        }
        let mark = marks.map(|(number, _)| number);
        let record = Snapshot { begin_ns, end_ns, processes, unread_processes, mark };
        self.writer.snapshot(record).map_err(PagesError::Write)?;
        self.figures.add(&record, present_pages);
        Ok(processes)
    }

    /// Reads a process. Returns its number of pages with frames.
    fn read(&mut self, pid: Pid, snapshot: u64) -> Result<u64, Unread> {
        let identity = identity(pid).ok_or(Unread::Ended)?;
        let is_same = self.known.get(&pid).is_none_or(|known| {
            (&known.identity.exe, known.identity.start_ticks)
                == (&identity.exe, identity.start_ticks)
        });
        if !is_same {
            self.remove(pid).map_err(Unread::Write)?;
        }
        let begin_ns = now_ns();
        let mapped = mappings(pid).map_err(|error| match error {
            PtraceError::System { source, .. } if is_denied(&source) => Unread::Denied(source),
            _ => Unread::Ended,
        })?;
        let mut pages = Pages::open(pid).map_err(unread)?;
        let mut known = match self.known.remove(&pid) {
            Some(known) => known,
            None => Known {
                number: self.writer.process(&identity).map_err(Unread::Write)?,
                identity,
                runs: Vec::new(),
                mappings: BTreeMap::new(),
                begin_ns,
                snapshot,
            },
        };
        match self.scan(&mut known, &mapped, &mut pages, begin_ns) {
            Ok(scan) => {
                if known.snapshot < snapshot {
                    let stale_ns = scan.end_ns - known.begin_ns;
                    self.figures.longest_stale_ns = self.figures.longest_stale_ns.max(stale_ns);
                }
                self.known.insert(pid, Known { begin_ns, snapshot, ..known });
                Ok(scan.present_pages)
            }
            Err(error) => {
                self.writer.gone(known.number, now_ns()).map_err(Unread::Write)?;
                Err(error)
            }
        }
    }

    /// Reads the pages of a process, and writes the changes since its last reading.
    fn scan(
        &mut self,
        known: &mut Known,
        mapped: &[ptrace::Mapping],
        pages: &mut Pages,
        begin_ns: u64,
    ) -> Result<Scan, Unread> {
        let mut findings = Found::default();
        for mapping in mapped.iter().filter(|mapping| mapping.start.0 < KERNEL) {
            let described = described(mapping);
            let number = match known.mappings.get(&described) {
                Some(number) => *number,
                None => {
                    let new_mappings = std::slice::from_ref(&described);
                    self.writer.mappings(known.number, new_mappings).map_err(Unread::Write)?
                }
            };
            known.mappings.insert(described, number);
            // A process that ends meanwhile has no entries any more.
            pages.read(mapping.start..mapping.end, number, &mut findings).map_err(unread)?;
        }
        let end_ns = now_ns();
        let changed = changes(&known.runs, &findings.runs);
        self.writer.pages(known.number, &changed).map_err(Unread::Write)?;
        let Found { runs, present_pages, swapped_pages, hidden_pages } = findings;
        let process = known.number;
        let scan = Scan { process, begin_ns, end_ns, present_pages, swapped_pages, hidden_pages };
        self.writer.scan(scan).map_err(Unread::Write)?;
        known.runs = runs;
        self.figures.longest_scan_ns = self.figures.longest_scan_ns.max(end_ns - begin_ns);
        Ok(scan)
    }

    /// Writes that a process does not exist any more.
    fn remove(&mut self, pid: Pid) -> io::Result<()> {
        self.known.remove(&pid).map_or(Ok(()), |known| self.writer.gone(known.number, now_ns()))
    }

    /// Removes the processes that were not read in this snapshot.
    fn forget(&mut self, snapshot: u64) -> io::Result<()> {
        let unread = self.known.iter().filter(|(_, known)| known.snapshot < snapshot);
        let unread: Vec<Pid> = unread.map(|(pid, _)| *pid).collect();
        unread.into_iter().try_for_each(|pid| self.remove(pid))
    }

    /// Ends the map.
    ///
    /// # Errors
    /// [`PagesError::Write`].
    pub fn finish(self, ending: Ending) -> Result<W, PagesError> {
        self.writer.finish(ending).map_err(PagesError::Write)
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

fn unread(error: io::Error) -> Unread {
    if is_denied(&error) { Unread::Denied(error) } else { Unread::Ended }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_processes_of_any_snapshot_are_known() {
        let mut figures = Figures::default();
        for (processes, unread_processes) in [(4, 0), (2, 3), (5, 1)] {
            figures.add(&Snapshot { processes, unread_processes, ..Snapshot::default() }, 10);
        }
        let Figures { snapshots, processes, most_unread_processes, .. } = figures;
        assert_eq!((snapshots, processes, most_unread_processes), (3, 5, 3));
    }
}
