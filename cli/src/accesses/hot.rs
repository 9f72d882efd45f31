//! `hmtt hot`: lists the pages and lines with most accesses, and states which part of all accesses
//! a few pages have.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::pages::{Hot, HotPages, Pages};
use hmtt::analysis::split::GroupResult;
use serde_json::{Value, json};

use super::figures::{share, with_bytes};
use super::need::Need;
use super::options::Options;
use super::output::{Forms, Printed, line, write_split};
use super::resolution::{CSV_COLUMNS, Described, Resolution};
use super::split::forms::{Forms as GroupForms, View};
use super::split::options::SplitOptions;
use super::split::{Analysed, analyse_split};
use super::stats::distinct;

const COLUMNS: &str = "kind,source,address,touches";

/// List pages and lines with most accesses, how many pages have most of them, and runs on one page
#[derive(clap::Args)]
#[command(
    after_help = "An access touches each line of 64 bytes that it has bytes of; pages have the touches of their lines."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    /// List at most this many pages, and as many lines
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, split, top } = arguments;
    let new = Pages::new(*top);
    let need = Need::of("hmtt hot", &new);
    let Analysed { found: analysis, files, groups } = analyse_split(options, split, need, new)?;
    let ranking = analysis.result();
    let owners = files.resolution.clone();
    let owners = owners.as_deref();
    let rows = |output: &mut dyn Write| {
        write_rows(&ranking, owners, output)?;
        owners.map_or(Ok(()), |owners| owners.write_rows(output))
    };
    let text = |output: &mut dyn Write| {
        write_text(&ranking, owners, output)?;
        owners.map_or(Ok(()), |owners| owners.write_tables(*top, output))
    };
    let heading = match owners {
        Some(_) => format!("{COLUMNS},{CSV_COLUMNS}"),
        None => COLUMNS.to_owned(),
    };
    let columns = &["hottest page", "its touches", "pages with 90%"];
    let of_group = |group: &GroupResult<HotPages>, output: &mut dyn Write| {
        write_rows(&group.result, owners, output)
    };
    let json = |found: &HotPages| to_json(found, owners);
    let view = View { columns, cells: &cells, json: &json, rows: &of_group };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = json(&ranking);
    let forms = Forms { name: "hot", json, heading: &heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

fn to_json(ranking: &HotPages, owners: Option<&Resolution>) -> Value {
    let mut json = json!(ranking);
    if let Some(owners) = owners {
        add_owners(&ranking.hot_pages, &mut json["hot_pages"], owners);
        add_owners(&ranking.hot_lines, &mut json["hot_lines"], owners);
    }
    json
}

/// The hottest page, its part of all touches, and the number of pages that have 90 % of all
/// touches.
fn cells(ranking: &HotPages) -> Vec<String> {
    let hottest = ranking.hot_pages.first();
    let page = hottest.map_or_else(|| "-".to_owned(), |hot| format!("{:#x}", hot.address));
    let part = share(hottest.map_or(0.0, |hot| hot.touches as f64), ranking.touches);
    let most = ranking.concentration.iter().find(|one| one.share_percent == 90);
    vec![page, part, most.map_or_else(|| "-".to_owned(), |most| most.pages.to_string())]
}

/// Adds the owners of pages or lines to a list in JSON.
fn add_owners(list: &[Hot], json: &mut Value, owners: &Resolution) {
    for (hot, object) in list.iter().zip(json.as_array_mut().into_iter().flatten()) {
        owners.describe(hot.address).add_to(object);
    }
}

fn write_rows(
    ranking: &HotPages,
    owners: Option<&Resolution>,
    output: &mut dyn Write,
) -> io::Result<()> {
    for (kind, list) in [("page", &ranking.hot_pages), ("line", &ranking.hot_lines)] {
        for Hot { touches, source, address } in list {
            write!(output, "{kind},{source},{address:#x},{touches}")?;
            match owners {
                Some(owners) => writeln!(output, ",{}", owners.describe(*address).to_csv())?,
                None => writeln!(output)?,
            }
        }
    }
    Ok(())
}

fn write_list(
    what: &str,
    list: &[Hot],
    touches: u64,
    owners: Option<&Resolution>,
    output: &mut dyn Write,
) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    if let Some(owners) = owners {
        let heading = Described::heading();
        writeln!(output, "\n{what:>14}  source  {:>12}  {:>8}  {heading}", "touches", "of all")?;
        for Hot { touches: count, source, address } in list {
            let (part, owner) =
                (share(*count as f64, touches), owners.describe(*address).to_text());
            writeln!(output, "{address:>#14x}  {source:>6}  {count:>12}  {part:>8}  {owner}")?;
        }
        return Ok(());
    }
    writeln!(output, "\n{:>18}  source  {:>14}  of all touches", what, "touches")?;
    for Hot { touches: count, source, address } in list {
        let part = share(*count as f64, touches);
        writeln!(output, "{address:>#18x}  {source:>6}  {count:>14}  {part:>14}")?;
    }
    Ok(())
}

fn write_text(
    ranking: &HotPages,
    owners: Option<&Resolution>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let of_runs = ranking.page_run_accesses;
    let touches = match of_runs {
        0 => ranking.touches.to_string(),
        runs if runs == ranking.touches => format!("{runs} of pages, whose lines are not known"),
        runs => {
            format!("{}, and {runs} of pages, whose lines are not known", ranking.touches - runs)
        }
    };
    line(output, "touches of lines", &touches)?;
    line(output, "pages of 4 KiB", &with_bytes(ranking.pages, 12))?;
    let lines = distinct(ranking.lines, 6, ranking.touches, of_runs);
    line(output, "lines of 64 bytes", &lines)?;
    for quantile in &ranking.concentration {
        let name = format!("pages with {} %", quantile.share_percent);
        let part = share(quantile.pages as f64, ranking.pages);
        line(output, &name, &format!("{} ({part} of all pages)", quantile.pages))?;
    }
    write_list("page", &ranking.hot_pages, ranking.touches, owners, output)?;
    let of_lines = ranking.touches - of_runs.min(ranking.touches);
    write_list("line", &ranking.hot_lines, of_lines, owners, output)?;
    if !ranking.page_runs.is_empty() {
        writeln!(output, "\n{:>25}  {:>14}", "touches in a row of a page", "runs")?;
    }
    for bucket in &ranking.page_runs {
        let range = if bucket.at_least == bucket.at_most {
            bucket.at_least.to_string()
        } else {
            format!("{} to {}", bucket.at_least, bucket.at_most)
        };
        writeln!(output, "{range:>26}  {:>14}", bucket.runs)?;
    }
    Ok(())
}
