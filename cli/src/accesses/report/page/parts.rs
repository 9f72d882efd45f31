//! Makes the HTML of a page's parts: tables, sentences, and empty places for charts with their
//! titles. None of these needs a script.
//!
//! The script draws the charts into the elements of class `chart`, in the order of the page's data.

use std::fmt::Write;

use super::text;
use crate::accesses::report::chart::{Part, Parts, Table};

/// A section with a heading. `inside`: the section's HTML.
fn section(class: &str, is_wide: bool, [title, about]: [&str; 2], inside: &str) -> String {
    let wide = if is_wide { " wide" } else { "" };
    let about = match about {
        "" => String::new(),
        about => format!("<p class=\"about\">{}</p>\n", text(about)),
    };
    let title = text(title);
    format!("<section class=\"{class}{wide}\"><h2>{title}</h2>\n{about}{inside}</section>\n")
}

/// A row of a table. `element`: name of the HTML element of each cell.
fn row(class: &str, element: &str, cells: &[String]) -> String {
    let cell = |cell: &String| format!("<{element}>{}</{element}>", text(cell));
    format!("<tr{class}>{}</tr>\n", cells.iter().map(cell).collect::<String>())
}

/// A table in a section. Rows that differ are marked with a star.
fn table(table: &Table) -> String {
    let line = |(at, cells): (usize, &Vec<String>)| {
        if !table.marked.contains(&at) {
            return row("", "td", cells);
        }
        let mut cells = cells.clone();
        if let Some(first) = cells.first_mut() {
            first.push_str(" *");
        }
        row(" class=\"differs\"", "td", &cells)
    };
    let head = row("", "th", &table.heads);
    let lines: String = table.rows.iter().enumerate().map(line).collect();
    let title = text(&table.title);
    let inside = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\n\
         <thead>{head}</thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
    );
    section("table", table.wide, [&table.title, &table.about], &inside)
}

fn part(part: &Part) -> String {
    match part {
        Part::Chart(chart) => section("chart", chart.wide, [&chart.title, &chart.about], ""),
        Part::Table(rows) => table(rows),
        Part::Absent { title, reason, wide } => {
            let reason = format!("<p class=\"absent\">{}</p>\n", text(reason));
            section("none", *wide, [title, ""], &reason)
        }
    }
}

/// The HTML of all parts. Each memory has an element with its parts; if there are several memories,
/// the element begins with the memory's name.
pub fn html(parts: &Parts) -> String {
    let mut html: String = parts.first.iter().map(part).collect();
    let has_names = parts.memories.len() > 1;
    for (name, own) in &parts.memories {
        html.push_str("<div class=\"memory\">\n");
        if has_names {
            let _ = writeln!(html, "<h2 class=\"wide\">{}</h2>", text(name));
        }
        html.extend(own.iter().map(part));
        html.push_str("</div>\n");
    }
    html.extend(parts.last.iter().map(part));
    html
}
