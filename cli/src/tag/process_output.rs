//! Holds the output files of a process that are not written by its tags.

use std::path::PathBuf;

use anyhow::Result;
use hmtt_host::files::{Entry, Identity};
use hmtt_probe::control::{LogSummary, Tagged};

use super::files::{Created, NewFiles};

/// The opened outputs of a process.
#[derive(Default)]
pub struct ProcessOutput {
    /// Path of the log.
    pub log: Option<PathBuf>,
    /// File for the counts of all processes.
    pub counts: Option<Created>,
    /// Files that this process created.
    pub(super) created: Vec<(Entry, Identity)>,
    pub(super) map: Option<MapFile>,
}

/// The map file, which names the functions of a log or of a card's tags.
pub struct MapFile {
    pub path: PathBuf,
    /// Whether an existing file may be replaced: if the user requested it, or if this process
    /// created the file.
    pub may_replace: bool,
    pub id: [u8; 8],
    pub sink: &'static str,
    pub is_timed: bool,
    pub window_base: Option<u64>,
}

impl ProcessOutput {
    /// The created files, to be removed if tagging does not start.
    pub fn new_files(&self) -> NewFiles {
        NewFiles::new(self.created.clone())
    }

    /// Removes the files of a log whose recording has not started.
    pub fn remove(self) {
        drop(self.new_files());
        // The map may not exist yet, or belong to another process.
        if let Some(map) = self.map.filter(|map| map.may_replace) {
            let _ = std::fs::remove_file(map.path);
        }
    }

    /// Writes the map, if there is one. `summary`: summary of the log, at the end.
    pub fn save_map(&mut self, tagged: &Tagged, summary: Option<&LogSummary>) -> Result<()> {
        let Some(file) = &mut self.map else { return Ok(()) };
        let mut map = tagged.map(file.id, file.sink, file.is_timed, file.window_base);
        map.tsc_hz = summary.map_or(map.tsc_hz, |summary| summary.tsc_hz);
        if file.may_replace {
            map.save(&file.path)?
        } else {
            map.save_new(&file.path)?
        }
        file.may_replace = true;
        Ok(())
    }
}
