//! Resolves physical pages to processes, mappings and virtual addresses by a map of pages.
//!
//! A card's clock is not related to that of the map. So a page is resolved by all snapshots of the map, and ambiguous if they
//! differ.

mod described;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::analysis::frames::Frames;
use hmtt::analysis::source::{Kind, Source};
use hmtt::analysis::{AddressSpace, Known};
use hmtt::page_map::{Attribution, Owner, Owners, PageMap, ProcessAccesses};
use hmtt_format::escape;
use serde_json::{Value, json};

pub use described::{Described, quoted};
use described::{mapping_name, process_name};

use super::figures::{counted, share};

/// Columns of a page in text and CSV.
pub const CSV_COLUMNS: &str = "owner,pid,comm,mapping,virtual_address";

/// A map of pages.
pub struct Resolver {
    name: String,
    map: PageMap,
    owners: Owners,
}

/// A map of pages, and accesses by who owns their pages.
pub struct Resolution {
    resolver: Resolver,
    accesses: u64,
    attribution: Attribution,
}

impl Resolver {
    /// Opens a map.
    pub fn open(path: &Path) -> Result<Resolver> {
        let name = path.display().to_string();
        let map = PageMap::open(path).with_context(|| name.clone())?;
        let owners = Owners::new(&map);
        Ok(Resolver { name, map, owners })
    }

    /// log2 of the bytes of a page.
    pub fn page_log2(&self) -> u32 {
        self.map.machine.page_log2.into()
    }

    /// Refuses a trace of a program before it is read. What a table has is known only from its rows.
    pub fn check(name: &str, source: &Source) -> Result<()> {
        if source.kind() == Kind::Program {
            bail!(
                "{name} is a trace of a program, whose addresses are virtual; --pagemap resolves physical ones"
            );
        }
        Ok(())
    }

    /// Refuses what was read of a file if it has virtual addresses.
    pub fn check_known(name: &str, known: &Known) -> Result<()> {
        if known.address_space == AddressSpace::Virtual {
            bail!(
                "{name} has accesses of a program, whose addresses are virtual; --pagemap resolves physical ones"
            );
        }
        Ok(())
    }

    /// Attributes accesses to memories of which this is known.
    pub fn resolve<'a>(
        self,
        frames: &Frames,
        memories: impl Iterator<Item = &'a Known>,
    ) -> Result<Resolution> {
        for capacity in memories.filter_map(|known| known.capacity_bytes) {
            self.map.check_capacity(capacity).with_context(|| self.name.clone())?;
        }
        let accesses = frames.iter().fold(0, |sum: u64, (_, one)| sum.saturating_add(one));
        let attribution = Attribution::new(&self.map, &self.owners, frames.iter());
        Ok(Resolution { resolver: self, accesses, attribution })
    }
}

impl Resolution {
    /// What is missing in the map.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let name = &self.resolver.name;
        self.resolver.map.missing.iter().map(move |what| format!("{name}: {what}"))
    }

    /// The map, what is missing in it, and the shares of accesses that are resolved and that are not: names and values.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let Resolver { name, map, .. } = &self.resolver;
        let missing = |what: String| ("missing", escape::message(&what).to_string());
        let mut lines: Vec<_> = self.missing().map(missing).collect();
        let of = format!(
            "{}: {} of {}",
            escape::message(name),
            counted(map.snapshots.len() as u64, "snapshot"),
            counted(map.processes.len() as u64, "process")
        );
        let [resolved, shared, ambiguous, unresolved] =
            self.shares().map(|accesses| share(accesses as f64, self.accesses));
        let all = format!(
            "{resolved} of accesses; shared {shared}, ambiguous {ambiguous}, unresolved {unresolved}"
        );
        lines.extend([("map of pages", of), ("resolved", all)]);
        lines
    }

    /// Resolved, shared, ambiguous and unresolved accesses.
    fn shares(&self) -> [u64; 4] {
        let of = &self.attribution;
        [of.resolved_accesses, of.shared_accesses, of.ambiguous_accesses, of.unresolved_accesses]
    }

    /// The map and the attribution.
    pub fn to_json(&self) -> Value {
        let Resolver { name, map, .. } = &self.resolver;
        let mut object = json!(self.attribution);
        if let Value::Object(object) = &mut object {
            object.insert("file".to_owned(), json!(name));
            object.insert("accesses".to_owned(), json!(self.accesses));
            object.insert("snapshot_count".to_owned(), json!(map.snapshots.len()));
            object.insert("longest_stale_ns".to_owned(), json!(map.longest_stale_ns()));
        }
        object
    }

    /// Who owns the page of a physical address.
    pub fn describe(&self, address: u64) -> Described {
        let Resolver { map, owners, .. } = &self.resolver;
        let log2 = self.resolver.page_log2();
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

    /// How many accesses of all there are, by what is known of the owners of their pages.
    pub fn by_owner(&self) -> [(&'static str, u64); 4] {
        let [resolved, shared, ambiguous, unresolved] = self.shares();
        [
            ("resolved", resolved),
            ("shared", shared),
            ("ambiguous", ambiguous),
            ("unresolved", unresolved),
        ]
    }

    /// Accesses by process, most accesses first.
    pub fn by_process(&self) -> impl ExactSizeIterator<Item = (String, u64)> {
        let name = |of: &ProcessAccesses| process_name(of.pid.map(|pid| (pid, &*of.comm)));
        self.attribution.processes.iter().map(move |of| (name(of), of.accesses))
    }

    /// Accesses by mapping, most accesses first.
    pub fn by_mapping(&self) -> impl ExactSizeIterator<Item = (String, u64)> {
        let all = self.attribution.mappings.iter();
        all.map(|of| (mapping_name(of.mapping.as_deref()), of.accesses))
    }

    /// Prints accesses by process and by mapping, at most `most` of each.
    pub fn write_tables(&self, most: usize, output: &mut dyn Write) -> io::Result<()> {
        write_table("process", self.by_process(), most, self.accesses, output)?;
        write_table("mapping", self.by_mapping(), most, self.accesses, output)
    }

    /// Prints accesses by process and by mapping, as rows of pages are printed.
    pub fn write_rows(&self, output: &mut dyn Write) -> io::Result<()> {
        for of in &self.attribution.processes {
            let pid = of.pid.map(|pid| pid.to_string()).unwrap_or_default();
            writeln!(output, "process,,,{},,{pid},{},,", of.accesses, quoted(&of.comm))?;
        }
        for of in &self.attribution.mappings {
            let mapping = quoted(of.mapping.as_deref().unwrap_or_default());
            writeln!(output, "mapping,,,{},,,,{mapping},", of.accesses)?;
        }
        Ok(())
    }
}

/// Prints the first accesses of a list by name.
fn write_table(
    what: &str,
    list: impl ExactSizeIterator<Item = (String, u64)>,
    most: usize,
    all: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    if list.len() > 0 {
        writeln!(output, "\n{:>14}  {:>15}  {what}", "accesses", "of all accesses")?;
    }
    list.take(most).try_for_each(|(name, accesses)| {
        let part = share(accesses as f64, all);
        writeln!(output, "{accesses:>14}  {part:>15}  {name}")
    })
}
