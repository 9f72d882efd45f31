//! `hmtt pagemap convert`: converts a map to a table or to HMTT's 13-byte records, and such records
//! to a map.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hmtt::page_map::table_records::{Counts, from_map, to_map};
use hmtt::page_map::{Held, PageMap};
use hmtt_files::page_map::MAGIC;
use hmtt_files::page_table_record::Layout;

use super::output::open;
use crate::accesses::figures::counted;
use crate::accesses::resolution::quoted;
use crate::output::is_same_file;

const HEADING: &str =
    "pid,comm,virtual_address,physical_address,pages,mapping,of_file,first_snapshot,last_snapshot";

/// Where the numbers of pages are in a 13-byte record.
#[derive(Clone, Copy, clap::ValueEnum)]
enum RecordLayout {
    /// As the program beside the published traces reads them: 3 bytes of the frame, 5 of the
    /// virtual page
    Program,
    /// As the text beside them says: 4 bytes of the virtual page, 4 of the frame
    Text,
}

/// Convert a map of pages to CSV or to HMTT's 13-byte records of page tables, or such records to a
/// map
#[derive(clap::Args)]
#[command(
    after_help = "A map becomes CSV if the output's extension is csv, otherwise records; anything else is read as records."
)]
pub struct Arguments {
    /// A map, or records
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The output
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Layout of records
    #[arg(long, value_name = "NAME", default_value = "program")]
    layout: RecordLayout,
    /// Overwrite the output
    #[arg(short, long)]
    force: bool,
}

/// Runs the command. Returns whether parts of the map are missing, or records were left out.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { from, to, force, .. } = arguments;
    let layout = match arguments.layout {
        RecordLayout::Program => Layout::Program,
        RecordLayout::Text => Layout::Text,
    };
    ensure!(!is_same_file(from, to), "{} is read", to.display());
    let name = || from.display().to_string();
    let mut file = File::open(from).with_context(name)?;
    let mut begin = Vec::new();
    Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut begin).with_context(name)?;
    file.rewind().with_context(name)?;
    if begin != MAGIC {
        return records(BufReader::new(file), from, to, layout, *force);
    }
    let map = PageMap::read(BufReader::new(file)).with_context(name)?;
    for what in &map.missing {
        report!("missing: {what}");
    }
    let (file, mut unnamed) = open(to, *force, "-f")?;
    let mut output = BufWriter::new(file);
    let is_csv = to.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    let place = || to.display().to_string();
    let left_out = if is_csv {
        write_csv(&map, &mut output).with_context(place)?;
        0
    } else {
        from_map(&map, layout, &mut output).with_context(place)?.left_out
    };
    unnamed.name()?;
    if left_out > 0 {
        report!("{} left out, whose numbers have too many bits", counted(left_out, "record"));
    }
    Ok(left_out > 0 || !map.missing.is_empty())
}

/// Converts 13-byte records to a map. Returns whether records were left out.
fn records(input: impl Read, from: &Path, to: &Path, layout: Layout, force: bool) -> Result<bool> {
    let (file, mut unnamed) = open(to, force, "-f")?;
    let counts =
        to_map(input, layout, BufWriter::new(file)).with_context(|| to.display().to_string())?;
    let Counts { records, left_out, is_cut, .. } = counts;
    let from = from.display();
    // A map without snapshots is of no use, and bytes that are no such records make no map. Then
    // the file does not get its name.
    ensure!(records > 0, "{from} is no map of pages, and has no records of page tables");
    ensure!(
        counts.is_plausible(),
        "{from} is no map of pages, and no file of records of page tables: {} of {} begin as one does, and no mark is in it",
        counted(records, "record"),
        left_out.saturating_add(records)
    );
    unnamed.name()?;
    report!("{}", counted(records, "record"));
    if left_out > 0 {
        report!("{} left out, which say nothing of a page", counted(left_out, "record"));
    }
    if is_cut {
        report!("missing: the file ends within a record");
    }
    Ok(is_cut)
}

fn write_csv(map: &PageMap, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "{HEADING}")?;
    let log2 = map.machine.page_log2;
    for held in &map.held {
        let Held { run, first, last, .. } = held;
        let (pid, comm) = map
            .process(held.process)
            .map_or((0, String::new()), |of| (of.process.pid, quoted(&of.process.comm)));
        writeln!(
            output,
            "{pid},{comm},{:#x},{:#x},{},{},{},{first},{last}",
            u128::from(run.page) << log2,
            u128::from(run.place.frame) << log2,
            run.count,
            quoted(&held.label(map)),
            run.place.is_file
        )?;
    }
    output.flush()
}
