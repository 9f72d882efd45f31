//! Collects the counts of programs, and writes them as JSON to a file or as a table to standard
//! error.

use anyhow::Result;
use hmtt_format::escape;
use hmtt_probe::control::{CountReport, CountRow, ProgramCounts, TreeCounts};

use super::files::Created;
use super::warnings::shown;

/// Counts of the programs that are no longer followed.
pub struct Counts {
    /// `None` selects standard error.
    file: Option<Created>,
    /// Counts of each program, with its number in the order of start.
    programs: Vec<(usize, ProgramCounts)>,
}

impl Counts {
    pub fn new(file: Option<Created>) -> Self {
        Counts { file, programs: Vec::new() }
    }

    /// Adds the counts of a program. `number`: its number in the order of start.
    pub fn add(&mut self, number: usize, counts: ProgramCounts) {
        self.programs.push((number, counts));
    }

    /// Writes the counts of a process that was followed alone.
    pub fn write_process(&self) -> Result<()> {
        self.programs.iter().try_for_each(|(_, counts)| self.write(&CountReport::Process(counts)))
    }

    /// Writes the counts of a process tree.
    pub fn write_tree(&mut self) -> Result<()> {
        self.programs.sort_by_key(|(number, _)| *number);
        let programs = std::mem::take(&mut self.programs).into_iter();
        let programs: Vec<ProgramCounts> = programs.map(|(_, counts)| counts).collect();
        self.write(&CountReport::Tree(TreeCounts::new(&programs)))
    }

    /// Writes counts to the file, or prints the counts that are not 0.
    fn write(&self, report: &CountReport) -> Result<()> {
        if let Some(file) = &self.file {
            return Ok(file.write(hmtt_format::json::to_string_pretty(&report.to_json())? + "\n")?);
        }
        for CountRow { program, name, count } in report.rows() {
            let name = escape::name(name);
            match program.map(|path| shown(path.file_name().unwrap_or_default().as_ref())) {
                _ if count == 0 => {}
                Some(program) => report!("{count:>14} {program}: {name}"),
                None => report!("{count:>14} {name}"),
            }
        }
        Ok(())
    }
}
