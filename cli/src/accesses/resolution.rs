//! Resolves physical pages to processes, mappings and virtual addresses, with a map of pages.
//!
//! The map has several snapshots. If the trace of a card has marks of the snapshots, an access is
//! resolved by the snapshots before and after it. Otherwise the card's clock is not related to the
//! clock of the map. Then a page is resolved by all snapshots together, and is ambiguous if they
//! differ. A page in a list, which has accesses at many times, is also described by all snapshots.

mod described;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::analysis::source::Part;
use hmtt::analysis::{AddressSpace, Known};
use hmtt::page_map::{Attribution, Attributor, Owner, Owners, PageMap, ProcessAccesses, Rule};
use hmtt_format::escape;
use serde_json::{Value, json};

pub use described::{Described, quoted};
use described::{mapping_name, process_name};

use super::figures::{counted, share};
use super::source::Opened;

/// Columns of a page's owner in text and CSV.
pub const CSV_COLUMNS: &str = "owner,pid,comm,mapping,virtual_address";

/// An open map, with an index of the owners.
struct Map {
    name: String,
    map: PageMap,
    owners: Owners,
}

/// Attributes accesses to the owners of their pages, while files are read.
pub struct Resolver {
    map: Map,
    attributor: Attributor,
}

/// The accesses of each owner, after all files were read.
pub struct Resolution {
    map: Map,
    attribution: Attribution,
}

impl Resolver {
    /// Opens a map.
    pub fn open(path: &Path) -> Result<Resolver> {
        let name = path.display().to_string();
        let map = PageMap::open(path).with_context(|| name.clone())?;
        let (owners, attributor) = (Owners::new(&map), Attributor::new(&map));
        Ok(Resolver { map: Map { name, map, owners }, attributor })
    }

    /// Refuses a trace of a program before it is read. Whether a table has virtual addresses is
    /// known only from its rows.
    pub fn check(source: &Opened) -> Result<()> {
        if source.is_program() {
            let name = &source.name;
            bail!(
                "{name} is a trace of a program, whose addresses are virtual; --pagemap resolves physical ones"
            );
        }
        Ok(())
    }

    /// Refuses a file whose accesses turned out to have virtual addresses.
    pub fn check_known(name: &str, known: &Known) -> Result<()> {
        if known.address_space == AddressSpace::Virtual {
            bail!(
                "{name} has accesses of a program, whose addresses are virtual; --pagemap resolves physical ones"
            );
        }
        Ok(())
    }

    /// Attributes the accesses in a part of a source.
    pub fn part(&mut self, memory: usize, part: &Part<'_>) {
        self.attributor.part(&self.map.map, &self.map.owners, memory, part);
    }

    /// Ends the attribution. `memories`: what is known of each memory, whose capacity must fit the
    /// map.
    pub fn resolve<'a>(self, memories: impl Iterator<Item = &'a Known>) -> Result<Resolution> {
        let Resolver { map, attributor } = self;
        for capacity in memories.filter_map(|known| known.capacity_bytes) {
            map.map.check_capacity(capacity).with_context(|| map.name.clone())?;
        }
        let attribution = attributor.finish(&map.map, &map.owners);
        Ok(Resolution { map, attribution })
    }
}

impl Resolution {
    /// Texts on what is missing in the map.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let name = &self.map.name;
        self.map.map.missing.iter().map(move |what| format!("{name}: {what}"))
    }

    /// Lines of text, each with a name and a value: the missing parts of the map, its size, and the
    /// parts of accesses that are resolved and not resolved.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let Map { name, map, .. } = &self.map;
        let missing = |what: String| ("missing", escape::message(&what).to_string());
        let mut lines: Vec<_> = self.missing().map(missing).collect();
        let sizes = format!(
            "{}: {} of {}",
            escape::message(name),
            counted(map.snapshots.len() as u64, "snapshot"),
            counted(map.processes.len() as u64, "process")
        );
        let [resolved, shared, ambiguous, unresolved] =
            self.shares().map(|accesses| share(accesses as f64, self.accesses()));
        let shares = format!(
            "{resolved} of accesses; shared {shared}, ambiguous {ambiguous}, unresolved {unresolved}"
        );
        lines.extend([("map of pages", sizes), ("resolved", shares), ("resolved by", self.rule())]);
        lines
    }

    /// All accesses, resolved or not.
    fn accesses(&self) -> u64 {
        self.shares().into_iter().fold(0, u64::saturating_add)
    }

    /// Names the snapshots that decide the owner of an access, in words.
    pub fn rule(&self) -> String {
        let Attribution { owner_rule, marked_snapshots, outside_accesses, .. } = self.attribution;
        let marked = || {
            format!(
                "the snapshots around each access ({} in the trace; {} of accesses before the first or after the last one)",
                counted(marked_snapshots, "marked snapshot"),
                share(outside_accesses as f64, self.accesses())
            )
        };
        match owner_rule {
            Rule::AllSnapshots => "all snapshots: their marks are not in the trace".to_owned(),
            Rule::Time => marked(),
            Rule::Both => format!("{}; by all snapshots in memories without marks", marked()),
        }
    }

    /// Counts of resolved, shared, ambiguous and unresolved accesses.
    fn shares(&self) -> [u64; 4] {
        let attribution = &self.attribution;
        [
            attribution.resolved_accesses,
            attribution.shared_accesses,
            attribution.ambiguous_accesses,
            attribution.unresolved_accesses,
        ]
    }

    /// Facts about the map, and the counts of attributed accesses, as JSON.
    pub fn to_json(&self) -> Value {
        let Map { name, map, .. } = &self.map;
        let mut object = json!(self.attribution);
        if let Value::Object(object) = &mut object {
            object.insert("file".to_owned(), json!(name));
            object.insert("accesses".to_owned(), json!(self.accesses()));
            object.insert("snapshot_count".to_owned(), json!(map.snapshots.len()));
            object.insert("longest_stale_ns".to_owned(), json!(map.longest_stale_ns()));
        }
        object
    }

    /// Describes the owner of a page by all snapshots. `address`: a physical address in the page.
    pub fn describe(&self, address: u64) -> Described {
        let Map { map, owners, .. } = &self.map;
        let log2 = u32::from(map.machine.page_log2);
        let process =
            |number: u32| map.process(number).map(|of| (of.process.pid, of.process.comm.clone()));
        let nothing = |owner| Described {
            owner,
            process: None,
            mapping: None,
            virtual_address: None,
            owner_count: 0,
        };
        match owners.find(map, address >> log2) {
            Owner::Resolved { held, page } => Described {
                process: process(map.held[held].process),
                mapping: Some(map.held[held].label(map)),
                virtual_address: Some(page << log2 | address & (1 << log2) - 1),
                owner_count: 1,
                ..nothing("resolved")
            },
            Owner::Shared { owners, count } => Described {
                process: map.common_process(&owners, count).and_then(process),
                mapping: map.common_label(&owners),
                owner_count: count,
                ..nothing("shared")
            },
            Owner::Ambiguous => nothing("ambiguous"),
            Owner::Unresolved => nothing("unresolved"),
        }
    }

    /// Counts of accesses, each with its `owner` value.
    pub fn by_owner(&self) -> [(&'static str, u64); 4] {
        let [resolved, shared, ambiguous, unresolved] = self.shares();
        [
            ("resolved", resolved),
            ("shared", shared),
            ("ambiguous", ambiguous),
            ("unresolved", unresolved),
        ]
    }

    /// Accesses by process, in descending order.
    pub fn by_process(&self) -> impl ExactSizeIterator<Item = (String, u64)> {
        let name = |of: &ProcessAccesses| process_name(of.pid.map(|pid| (pid, &*of.comm)));
        self.attribution.processes.iter().map(move |of| (name(of), of.accesses))
    }

    /// Accesses by mapping, in descending order.
    pub fn by_mapping(&self) -> impl ExactSizeIterator<Item = (String, u64)> {
        let mappings = self.attribution.mappings.iter();
        mappings.map(|mapping| (mapping_name(mapping.mapping.as_deref()), mapping.accesses))
    }

    /// Prints tables of accesses by process and by mapping, with at most `most` rows each.
    pub fn write_tables(&self, most: usize, output: &mut dyn Write) -> io::Result<()> {
        write_table("process", self.by_process(), most, self.accesses(), output)?;
        write_table("mapping", self.by_mapping(), most, self.accesses(), output)
    }

    /// Prints accesses by process and by mapping as CSV, with the columns of rows of pages.
    pub fn write_rows(&self, output: &mut dyn Write) -> io::Result<()> {
        for process in &self.attribution.processes {
            let pid = process.pid.map(|pid| pid.to_string()).unwrap_or_default();
            writeln!(output, "process,,,{},,{pid},{},,", process.accesses, quoted(&process.comm))?;
        }
        for entry in &self.attribution.mappings {
            let mapping = quoted(entry.mapping.as_deref().unwrap_or_default());
            writeln!(output, "mapping,,,{},,,,{mapping},", entry.accesses)?;
        }
        Ok(())
    }
}

/// Prints a table of the first `most` rows of a list. `total`: number of all accesses.
fn write_table(
    what: &str,
    list: impl ExactSizeIterator<Item = (String, u64)>,
    most: usize,
    total: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    if list.len() > 0 {
        writeln!(output, "\n{:>14}  {:>15}  {what}", "accesses", "of all accesses")?;
    }
    list.take(most).try_for_each(|(name, accesses)| {
        let part = share(accesses as f64, total);
        writeln!(output, "{accesses:>14}  {part:>15}  {name}")
    })
}
