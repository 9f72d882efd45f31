//! Resolves physical pages to processes, mappings and virtual addresses by a map of pages.
//!
//! A card's clock is not related to that of the map. So a page is resolved by all snapshots of the map, and ambiguous if they
//! differ.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::analysis::frames::Frames;
use hmtt::analysis::source::{Kind, Source};
use hmtt::analysis::{AddressSpace, Known};
use hmtt::page_map::{Attribution, Owner, Owners, PageMap};
use hmtt_format::escape;
use serde_json::{Value, json};

use super::figures::{counted, share};

/// Columns of a page in text and CSV.
pub const CSV_COLUMNS: &str = "owner,pid,comm,mapping,virtual_address";
/// Widths of a process and a mapping in text.
const PROCESS_WIDTH: usize = 18;
const MAPPING_WIDTH: usize = 30;

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

/// Who owns a page.
pub struct Described {
    /// `resolved`, `shared`, `ambiguous` or `unresolved`.
    pub owner: &'static str,
    /// Number and name of the process.
    pub process: Option<(u32, String)>,
    /// What the page belongs to.
    pub mapping: Option<String>,
    /// The virtual address.
    pub virtual_address: Option<u64>,
    /// Pages that have the frame.
    pub owner_count: u64,
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

    /// Prints accesses by process and by mapping, at most `most` of each.
    pub fn write_tables(&self, most: usize, output: &mut dyn Write) -> io::Result<()> {
        let row = |output: &mut dyn Write, name: &str, accesses: u64| {
            let part = share(accesses as f64, self.accesses);
            writeln!(output, "{accesses:>14}  {part:>15}  {name}")
        };
        let Attribution { processes, mappings, .. } = &self.attribution;
        if !processes.is_empty() {
            writeln!(output, "\n{:>14}  {:>15}  process", "accesses", "of all accesses")?;
        }
        for of in processes.iter().take(most) {
            row(output, &process_name(of.pid.map(|pid| (pid, &*of.comm))), of.accesses)?;
        }
        if !mappings.is_empty() {
            writeln!(output, "\n{:>14}  {:>15}  mapping", "accesses", "of all accesses")?;
        }
        for of in mappings.iter().take(most) {
            row(output, &mapping_name(of.mapping.as_deref()), of.accesses)?;
        }
        Ok(())
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

impl Described {
    /// As fields of a row.
    pub fn to_csv(&self) -> String {
        let (pid, comm) = match &self.process {
            Some((pid, comm)) => (pid.to_string(), quoted(comm)),
            None => Default::default(),
        };
        let mapping = quoted(self.mapping.as_deref().unwrap_or_default());
        let address = self.virtual_address.map(|at| format!("{at:x}")).unwrap_or_default();
        format!("{},{pid},{comm},{mapping},{address}", self.owner)
    }

    /// Adds names and values to an object.
    pub fn add_to(&self, object: &mut Value) {
        let Value::Object(object) = object else { return };
        let (pid, comm) = self.process.clone().unzip();
        let address = self.virtual_address.map(|at| format!("{at:x}"));
        for (name, value) in [
            ("owner", json!(self.owner)),
            ("owner_count", json!(self.owner_count)),
            ("pid", json!(pid)),
            ("comm", json!(comm)),
            ("mapping", json!(self.mapping)),
            ("virtual_address", json!(address)),
        ] {
            object.insert(name.to_owned(), value);
        }
    }

    /// Heading of [`Described::to_text`].
    pub fn heading() -> String {
        format!("{:>14}  {:<PROCESS_WIDTH$}  mapping", "virtual", "process")
    }

    /// As columns of a table.
    pub fn to_text(&self) -> String {
        let address = self.virtual_address.map_or("-".to_owned(), |at| format!("{at:x}"));
        if self.owner_count == 0 {
            return format!("{address:>14}  {}", self.owner);
        }
        let of = self.process.as_ref().map(|(pid, comm)| (*pid, &**comm));
        let process = shortened(&process_name(of), PROCESS_WIDTH);
        let mapping = shortened(&mapping_name(self.mapping.as_deref()), MAPPING_WIDTH);
        format!("{address:>14}  {process:<PROCESS_WIDTH$}  {mapping}")
    }
}

fn process_name(of: Option<(u32, &str)>) -> String {
    of.map_or("several processes".to_owned(), |(pid, comm)| {
        format!("{pid} {}", escape::message(comm)).trim_end().to_owned()
    })
}

fn mapping_name(of: Option<&str>) -> String {
    of.map_or("several mappings".to_owned(), |name| escape::message(name).to_string())
}

/// The end of a text that is too long.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count + 3 - most).collect();
    format!("...{end}")
}

/// A field of CSV, escaped and with quotation marks where it needs them.
pub fn quoted(text: &str) -> String {
    let text = escape::name(text).to_string();
    match text.contains(['"', ',']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
