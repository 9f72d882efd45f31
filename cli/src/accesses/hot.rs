//! `hmtt hot`: pages and lines with most accesses, and how much of all accesses few pages have.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::pages::{Hot, HotPages, Pages};
use serde_json::json;

use super::figures::{share, with_bytes};
use super::input::analyse;
use super::options::Options;
use super::output::{Forms, line, write};

/// List pages and lines with most accesses, how many pages have most of them, and runs on one page
#[derive(clap::Args)]
#[command(
    after_help = "An access touches each line of 64 bytes that it has bytes of; pages have the touches of their lines."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    /// List at most this many pages, and as many lines
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Runs the command. Returns whether something is missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (found, files) = analyse(&arguments.options, Pages::new(arguments.top))?;
    let found = found.result();
    let rows = |output: &mut dyn Write| {
        let all = [("page", &found.hot_pages), ("line", &found.hot_lines)];
        all.into_iter().try_for_each(|(kind, list)| {
            list.iter().try_for_each(|Hot { touches, source, address }| {
                writeln!(output, "{kind},{source},{address:x},{touches}")
            })
        })
    };
    let text = |output: &mut dyn Write| write_text(&found, output);
    let heading = "kind,source,address,touches";
    let json = json!(found);
    write(&arguments.options, files, Forms { name: "hot", json, heading, rows: &rows, text: &text })
}

fn write_list(what: &str, list: &[Hot], touches: u64, output: &mut dyn Write) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(output, "\n{:>18}  source  {:>14}  of all touches", what, "touches")?;
    for Hot { touches: count, source, address } in list {
        let part = share(*count as f64, touches);
        writeln!(output, "{address:>18x}  {source:>6}  {count:>14}  {part:>14}")?;
    }
    Ok(())
}

fn write_text(found: &HotPages, output: &mut dyn Write) -> io::Result<()> {
    line(output, "touches of lines", &found.touches.to_string())?;
    line(output, "pages of 4 KiB", &with_bytes(found.pages, 12))?;
    line(output, "lines of 64 bytes", &with_bytes(found.lines, 6))?;
    for one in &found.concentration {
        let name = format!("pages with {} %", one.share_percent);
        let part = share(one.pages as f64, found.pages);
        line(output, &name, &format!("{} ({part} of all pages)", one.pages))?;
    }
    write_list("page", &found.hot_pages, found.touches, output)?;
    write_list("line", &found.hot_lines, found.touches, output)?;
    if !found.page_runs.is_empty() {
        writeln!(output, "\n{:>25}  {:>14}", "touches in a row of a page", "runs")?;
    }
    for one in &found.page_runs {
        let range = match one.at_least == one.at_most {
            true => one.at_least.to_string(),
            false => format!("{} to {}", one.at_least, one.at_most),
        };
        writeln!(output, "{range:>26}  {:>14}", one.runs)?;
    }
    Ok(())
}
