//! `hmtt tag list`: lists the functions of a program or a process, the calls and jumps to them, and
//! the reasons why some cannot be tagged.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hmtt_format::escape;
use hmtt_probe::address::{LoadBias, RunAddr};
use hmtt_probe::control::{bias, compare};
use hmtt_probe::disassembly::{Disassembly, FileIndex, Refusal, Rewrite, Site, SiteKind};
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::ptrace::{
    Mapping, ReadMemory, RunningMemory, code_files, open_mapped, program_mapping,
};
use hmtt_probe::selection::Selection;
use nix::unistd::Pid;
use serde_json::json;

use super::super::standard_io::print;
use super::options::RuleOptions;
use super::warnings::shown;
use super::{blocks, program, rules};

/// List the functions of a program, the calls and jumps to each, and why some cannot be tagged;
/// with --blocks or --loops, the blocks of the functions that these select
#[derive(clap::Args)]
pub struct List {
    /// A program, or a process id
    #[arg(value_name = "PROG|PID")]
    program: String,
    #[command(flatten)]
    rules: RuleOptions,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A program or library whose functions can be chosen.
struct Object {
    image: Image,
    /// File name of the library; `None` for the program.
    library: Option<String>,
    /// Load bias; [`LoadBias::NONE`] if the object is not loaded.
    bias: LoadBias,
}

/// An object with its chosen functions, and with its calls and jumps.
struct Listing<'a> {
    object: &'a Object,
    chosen: Vec<(&'a Function, std::result::Result<Rewrite, Refusal>)>,
    sites: Vec<Site>,
}

/// Runs the command: prints the list.
pub fn run(arguments: &List) -> Result<()> {
    let selection = arguments.rules.selection()?;
    let objects = objects(&arguments.program, &selection)?;
    rules::check(&selection, &objects[0].image)?;
    for Object { image, library, .. } in &objects[1..] {
        selection.record_matches(&image.functions, library.as_deref());
    }
    rules::warn_of_libraries(&selection);
    if selection.has_granularity_rules(false) {
        return blocks::list(&objects[0].image, &selection, arguments.json);
    }
    let listings = || objects.iter().map(|object| Listing::of(object, &selection));
    print(|mut output| {
        if arguments.json {
            let objects: Vec<_> = listings().map(|listing| listing.json()).collect();
            hmtt_format::json::to_writer_pretty(&mut output, &json!({ "objects": objects }))?;
            writeln!(output)
        } else {
            listings().try_for_each(|listing| listing.print(&mut output))
        }
    })
}

/// The program and, for a process, the libraries from which rules choose functions.
fn objects(program: &str, selection: &Selection) -> Result<Vec<Object>> {
    let Ok(pid) = program.parse::<i32>() else {
        let image = program::read(Path::new(program), selection)?;
        return Ok(vec![Object { image, library: None, bias: LoadBias::NONE }]);
    };
    let pid = Pid::from_raw(pid);
    let image = program::read_from_process(pid, selection)?;
    let memory = RunningMemory::open(pid);
    if let Err(error) = &memory {
        report!(
            "hmtt: warning: process {pid}: functions are not compared with its memory, which cannot be read: {error}"
        );
    }
    let memory = memory.ok();
    let (files, mapped) = code_files(pid)?;
    let program = program_mapping(pid, &mapped).cloned();
    let is_program =
        |file: &Mapping| program.as_ref().is_some_and(|program| program.is_same_file(file));
    let at = program.as_ref().and_then(|program| bias(&image, program, &mapped));
    let mut objects = vec![Object { bias: at.unwrap_or_default(), image, library: None }];
    for file in files.iter().filter(|file| !is_program(file)) {
        let name = file.file_name();
        if !selection.wants(&name) {
            continue;
        }
        match library(pid, file, &mapped, memory.as_ref(), selection) {
            Ok((image, bias)) => objects.push(Object { bias, image, library: Some(name) }),
            Err(error) => {
                let (path, error) = (shown(&file.original_path()), format!("{error:#}"));
                report!("hmtt: warning: {path} is not listed: {error}");
            }
        }
    }
    let mut loaded = objects.iter_mut().skip(usize::from(at.is_none()));
    let is_compared = |object: &mut Object, memory: &RunningMemory| {
        compare(&mut object.image, object.bias, &mapped, memory)
    };
    if let Some(memory) = &memory
        && !loaded.all(|object| is_compared(object, memory))
    {
        report!(
            "hmtt: warning: process {pid} has tags: functions are not compared with its memory"
        );
    }
    Ok(objects)
}

/// Reads a library of a process and finds its load address.
fn library(
    pid: Pid,
    file: &Mapping,
    mapped: &[Mapping],
    memory: Option<&RunningMemory>,
    selection: &Selection,
) -> Result<(Image, LoadBias)> {
    let read = |address: RunAddr, bytes: &mut [u8]| {
        memory.is_some_and(|memory| memory.read(address, bytes).is_ok())
    };
    let opened = open_mapped(pid, file, mapped, read)?;
    let mut image = Image::from_file(opened, &file.original_path())?;
    if selection.has_sources() {
        image.find_sources()?;
    }
    let bias = bias(&image, file, mapped).context("it is not in the process's memory")?;
    Ok((image, bias))
}

impl<'a> Listing<'a> {
    fn of(object: &'a Object, selection: &Selection) -> Self {
        let image = &object.image;
        let library = object.library.as_deref();
        let chosen = image.functions.iter().filter(|function| selection.matches(function, library));
        let chosen: Vec<&Function> = chosen.collect();
        let known = FileIndex::new(image);
        let disassembly = Disassembly::new(image, &known);
        let rewrites = disassembly.rewrites(&chosen, true);
        let chosen = chosen.into_iter().zip(rewrites).collect();
        Listing { object, chosen, sites: disassembly.sites() }
    }

    /// Numbers of direct calls and jumps to each function.
    fn named(&self) -> HashMap<u64, (usize, usize)> {
        let mut named: HashMap<u64, (usize, usize)> = HashMap::new();
        for Site { kind, target, .. } in &self.sites {
            if let Some(target) = target {
                let (calls, jumps) = named.entry(*target).or_default();
                *if kind.is_call() { calls } else { jumps } += 1;
            }
        }
        named
    }

    /// Number of call sites of each kind.
    fn kinds(&self) -> Vec<(SiteKind, usize)> {
        let count = |kind| self.sites.iter().filter(|site| site.kind == kind).count();
        SiteKind::ALL.into_iter().map(|kind| (kind, count(kind))).collect()
    }

    /// Whether data contain the function's address, so that it can be called indirectly.
    fn is_pointed_at(&self, function: &Function) -> bool {
        self.object.image.indirect_targets.binary_search(&function.start).is_ok()
    }

    fn print(&self, output: &mut impl Write) -> io::Result<()> {
        let named = self.named();
        if let Some(library) = &self.object.library {
            writeln!(output, "\n{}:", escape::name(library))?;
        }
        writeln!(
            output,
            "{:>16} {:>7} {:>6} {:>6}  function",
            "address", "bytes", "calls", "jumps"
        )?;
        for (function, rewrite) in &self.chosen {
            let (calls, jumps) = named.get(&function.start).copied().unwrap_or_default();
            let Function { name, size, .. } = function;
            let (start, name) = (self.object.bias.to_run(function.address()), escape::name(name));
            write!(output, "{start:>16x} {size:>7} {calls:>6} {jumps:>6}  {name}")?;
            match rewrite {
                Ok(rewrite) if rewrite.hidden.is_empty() => writeln!(output)?,
                Ok(rewrite) => writeln!(output, ": {} hidden exits", rewrite.hidden.len())?,
                Err(refusal) => writeln!(output, ": not tagged: {refusal}")?,
            }
        }
        self.summary(output)
    }

    fn summary(&self, output: &mut impl Write) -> io::Result<()> {
        let good = self.chosen.iter().filter(|(_, rewrite)| rewrite.is_ok()).count();
        let total = self.chosen.len();
        let pointed = self.chosen.iter().filter(|(one, _)| self.is_pointed_at(one)).count();
        writeln!(
            output,
            "\n{good} of {total} functions can be tagged; data contain the addresses of {pointed}"
        )?;
        writeln!(
            output,
            "Calls and jumps to functions in the whole file; each runs the tags of its target:"
        )?;
        for (kind, count) in self.kinds() {
            writeln!(output, "{count:>9} {kind}")?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let named = self.named();
        let functions = self.chosen.iter().map(|(function, rewrite)| {
            let (calls, jumps) = named.get(&function.start).copied().unwrap_or_default();
            json!({
                "name": function.name,
                "code_address": format!("{:#x}", self.object.bias.to_run(function.address())),
                "size_bytes": function.size,
                "calls": calls,
                "jumps": jumps,
                "pointed_at": self.is_pointed_at(function),
                "hidden_exits": rewrite.as_ref().map_or(0, |rewrite| rewrite.hidden.len()),
                "refused": rewrite.as_ref().err().map(ToString::to_string),
            })
        });
        let kinds =
            self.kinds().into_iter().map(|(kind, count)| (kind.name().to_owned(), count.into()));
        json!({
            "object": self.object.image.path,
            "functions": functions.collect::<Vec<_>>(),
            "sites": kinds.collect::<serde_json::Map<_, _>>(),
        })
    }
}
