//! Prints results: as text with the verdict and a table, as one JSON object, or as CSV.

use std::io::{self, Write};

use anyhow::{Result, anyhow};
use hmtt::analysis::Known;
use hmtt_format::escape;
use serde_json::{Value, json};

use super::figures::counted;
use super::input::{Files, Read};
use super::options::Options;
use crate::standard_io::print;

/// Width of the column of names, in characters.
const NAME_WIDTH: usize = 22;

/// A result in all forms in which it can be printed.
pub struct Forms<'a> {
    /// Name of the result in the JSON object.
    pub name: &'static str,
    pub json: Value,
    /// Column names of CSV.
    pub heading: &'a str,
    /// Writes the rows of CSV.
    pub rows: &'a dyn Fn(&mut dyn Write) -> io::Result<()>,
    /// Writes the result as text.
    pub text: &'a dyn Fn(&mut dyn Write) -> io::Result<()>,
}

/// Groups of accesses that can be printed.
pub trait Printed {
    /// The groups as a JSON object. `name`: name of the command's result.
    fn json(&self, name: &str) -> Value;
    /// Writes the CSV rows of all groups.
    fn rows(&self, output: &mut dyn Write) -> io::Result<()>;
    /// Writes the criterion that divides the groups, and the limits of the division.
    fn notes(&self, output: &mut dyn Write) -> io::Result<()>;
    /// Writes the groups as a table of text.
    fn text(&self, output: &mut dyn Write) -> io::Result<()>;
}

/// CSV columns before the columns of a command's results.
const HEADING: &str = "group,object,";

/// Texts on what is missing in a file.
fn missing(read: &Read) -> impl Iterator<Item = &String> {
    read.ending.missing.iter().chain(&read.ending.only_summed)
}

/// Whether accesses or other parts of a file are missing.
fn is_incomplete(read: &Read) -> bool {
    missing(read).next().is_some() || read.ending.failure.is_some()
}

/// Whether parts of any file, or of the map of pages, are missing.
fn is_any_incomplete(files: &Files) -> bool {
    let of_map = files.resolution.iter().flat_map(|of| of.missing()).next();
    files.iter().any(is_incomplete) || of_map.is_some()
}

/// The verdict: whether all accesses could be used, or what is missing.
fn verdict(files: &Files) -> String {
    let accesses = files.iter().map(|read| read.ending.accesses).fold(0, u64::saturating_add);
    let memories = files.iter().map(|read| read.ending.memories.len() as u64).sum();
    let counts = format!(
        "{} to {}",
        counted(accesses, "access"),
        match memories {
            1 => "1 memory".to_owned(),
            more => format!("{more} memories"),
        }
    );
    if is_any_incomplete(files) {
        format!("INCOMPLETE: {counts}, and not all: see `missing`")
    } else {
        format!("complete: {counts}, nothing is missing")
    }
}

/// What is known of each memory, with the file that has it.
fn sources(files: &[Read]) -> impl Iterator<Item = (&Read, &Known)> {
    files.iter().flat_map(|read| read.ending.memories.iter().map(move |known| (read, known)))
}

/// Prints a name and its value.
pub fn line(output: &mut dyn Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(output, "{name:<NAME_WIDTH$} {value}")
}

/// A text about a file, which begins with the file's name if there are several files.
fn with_name(files: &[Read], read: &Read, what: &str) -> String {
    match files {
        [_] => what.to_owned(),
        _ => format!("{}: {what}", escape::message(&read.name)),
    }
}

fn write_verdict(files: &Files, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "{}", verdict(files))?;
    let with_name = |read: &Read, what: &str| with_name(files, read, what);
    for read in files.iter() {
        for what in missing(read) {
            line(output, "missing", &with_name(read, what))?;
        }
        if let Some(error) = &read.ending.failure {
            let what = format!("what follows this error: {error}");
            line(output, "missing", &with_name(read, &escape::message(&what).to_string()))?;
        }
        for note in &read.ending.notes {
            line(output, "note", &with_name(read, note))?;
        }
    }
    if files.len() > 1 {
        for ((read, _), number) in sources(files).zip(1..) {
            let what = format!("{} ({})", escape::message(&read.name), read.kind);
            line(output, &format!("source {number}"), &what)?;
        }
    }
    let mut absent: Vec<&str> = sources(files).flat_map(|(_, known)| known.absent()).collect();
    absent.sort_unstable();
    absent.dedup();
    if !absent.is_empty() {
        line(output, "not known", &absent.join(", "))?;
    }
    let mut lines = files.resolution.iter().flat_map(|resolution| resolution.lines());
    lines.try_for_each(|(name, value)| line(output, name, &value))
}

/// An object with the verdict, what is known of each memory, and the result under `name`.
pub fn to_json(files: &Files, name: &str, result: Value) -> Value {
    let text = |(read, what): (&Read, &String)| with_name(files, read, what);
    let all_missing = files.iter().flat_map(|read| missing(read).map(move |what| (read, what)));
    let notes =
        files.iter().flat_map(|read| read.ending.notes.iter().map(move |what| (read, what)));
    let failure =
        |read: &Read| Some(with_name(files, read, &read.ending.failure.as_ref()?.to_string()));
    let mut all_missing: Vec<_> = all_missing.map(text).collect();
    all_missing.extend(files.iter().filter_map(failure));
    all_missing.extend(files.resolution.iter().flat_map(|of| of.missing()));
    let source = |((read, known), number): ((&Read, &Known), u64)| {
        json!({
            "source": number,
            "file": read.name,
            "kind": read.kind,
            "address_space": known.address_space,
            "tck_ps": known.tck_ps,
            "unit_bytes": known.unit_bytes,
            "capacity_bytes": known.capacity_bytes,
            "bus_bytes": known.bus_bytes,
            "bus_bytes_per_second": known.bus_bytes_per_second(),
            "absent": known.absent(),
        })
    };
    let mut object = json!({
        "complete": !is_any_incomplete(files),
        "missing": all_missing,
        "notes": notes.map(text).collect::<Vec<_>>(),
        "sources": sources(files).zip(1..).map(source).collect::<Vec<_>>(),
    });
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), result);
        if let Some(resolution) = &files.resolution {
            object.insert("page_map".to_owned(), resolution.to_json());
        }
    }
    object
}

/// Prints a result. Returns whether a file or the map of pages is incomplete.
///
/// # Errors
/// Standard output cannot be written, or a file could not be read to its end.
pub fn write(options: &Options, files: Files, forms: Forms<'_>) -> Result<bool> {
    write_split(options, files, forms, None)
}

/// Prints a result as [`write`] does, and the results of groups. CSV has only the groups if there
/// are any.
///
/// # Errors
/// As [`write`].
pub fn write_split(
    options: &Options,
    files: Files,
    forms: Forms<'_>,
    groups: Option<&dyn Printed>,
) -> Result<bool> {
    let Forms { name, json, heading, rows, text } = forms;
    if options.is_json() {
        let mut object = to_json(&files, name, json);
        if let Some(groups) = groups {
            object["split"] = groups.json(name);
        }
        print(|output| {
            hmtt_format::json::to_writer(&mut *output, &object)?;
            writeln!(output)
        })?;
    } else if options.is_csv() {
        print(|output| match groups {
            None => {
                writeln!(output, "{heading}")?;
                rows(output)
            }
            Some(groups) => {
                writeln!(output, "{HEADING}{heading}")?;
                groups.rows(output)
            }
        })?;
        let mut stated = Vec::new();
        write_verdict(&files, &mut stated)?;
        groups.map_or(Ok(()), |groups| groups.notes(&mut stated))?;
        report!("{}", String::from_utf8_lossy(&stated).trim_end());
    } else {
        print(|output| {
            write_verdict(&files, output)?;
            text(output)?;
            groups.map_or(Ok(()), |groups| groups.text(output))
        })?;
    }
    let incomplete = is_any_incomplete(&files);
    let failed =
        files.into_reads().into_iter().find_map(|read| Some((read.name, read.ending.failure?)));
    match failed {
        Some((name, error)) => Err(anyhow!(error).context(name)),
        None => Ok(incomplete),
    }
}

/// A number for CSV; empty if the number is not known.
pub fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
