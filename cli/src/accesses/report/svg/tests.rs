//! Tests what is drawn, and that names from outside stay texts.

use super::*;
use crate::accesses::report::chart::{Axis, Curve, Mark, Row, Slices, TimeSeries, Unit};

fn chart(content: Content) -> Chart {
    let (title, about) = ("A <title> & \"more\"\u{1b}".to_owned(), String::new());
    let [x, y] = [Axis::new("time", Unit::Seconds), Axis::new("accesses", Unit::Count)];
    Chart { title, about, wide: true, extent: (0.0, 4.0), is_time: true, x, y, content }
}

/// The numbers behind a letter of a path.
fn numbers(svg: &str, letter: char) -> Vec<f64> {
    let paths = svg.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let commands = paths.flat_map(|path| path.split_inclusive(|at: char| at.is_ascii_alphabetic()));
    let parts: Vec<&str> = commands.collect();
    let pairs = parts.windows(2).filter(|pair| pair[0].ends_with(letter));
    pairs.filter_map(|pair| pair[1].trim_end_matches(char::is_alphabetic).parse().ok()).collect()
}

#[test]
fn stacked_areas_end_where_their_sums_are() {
    let series = |colour, values: &[f64]| TimeSeries {
        name: "x".to_owned(),
        colour,
        slices: 0,
        values: values.to_vec(),
    };
    let content = Content::Time {
        style: Style::Stacked,
        slices: vec![Slices { begins: vec![0.0, 2.0], width: 2.0 }],
        series: vec![series(0, &[10.0, 0.0]), series(1, &[10.0, 5.0])],
        marks: vec![Mark { at: 1.0, text: String::new() }],
        borders: Vec::new(),
        limit: None,
    };
    let svg = svg(&chart(content), "file");
    // The top is 21: the sum of the first slice with a twentieth above it.
    let y = |value: f64| TOP + PLOT_HEIGHT - value / 21.0 * PLOT_HEIGHT;
    for value in [10.0, 20.0, 5.0] {
        let is_there = numbers(&svg, 'V').iter().any(|found| (found - y(value)).abs() < 0.02);
        assert!(is_there, "{value}: {svg}");
    }
    assert!(svg.contains("class=\"mark\"") && svg.contains("gaps"));
}

#[test]
fn names_from_outside_end_nothing() {
    let row = |label: &str, counts: &[u64]| Row {
        label: label.to_owned(),
        name: String::new(),
        counts: counts.to_vec(),
    };
    let rows = vec![row("<script>", &[0, 1, 1, 90]), row("b", &[0, 0, 0, 0])];
    let heat = svg(&chart(Content::Heat { first: 0.0, width: 1.0, rows }), "\"><script>");
    assert!(!heat.contains("<script>") && !heat.contains('\u{1b}'), "{heat}");
    assert!(heat.contains("A &lt;title&gt; &amp; &quot;more&quot;"));
    // Two equal neighbours are one box; slices without accesses are none.
    assert_eq!(heat.matches("class=\"heat\"").count(), 2);
    assert_eq!(heat.matches("<g").count(), heat.matches("</g>").count());
}

#[test]
fn parts_of_a_row_are_beside_each_other() {
    let labels = vec!["<a>".to_owned(), "b".repeat(200)];
    let names = vec!["reads".to_owned(), "writes".to_owned()];
    let values = vec![vec![1.0, 0.0], vec![3.0, 2.0]];
    let content = Content::Rows { labels, texts: vec![], names, values };
    let svg = svg(&chart(content), "file");
    let x = |value: f64| LEFT + value / 4.0 * (RIGHT - LEFT);
    let ends = numbers(&svg, 'H');
    for value in [1.0, 4.0, 2.0] {
        assert!(ends.iter().any(|end| (end - x(value)).abs() < 0.02), "{value}: {svg}");
    }
    assert!(svg.contains("&lt;a&gt;") && svg.contains("b\u{2026}") && svg.contains("writes"));
}

#[test]
fn charts_without_values_are_drawn() {
    let curves = vec![Curve { name: "x".to_owned(), points: vec![(1.0, 0.5), (2.0, f64::NAN)] }];
    let empty = [
        Content::bars(vec![], None, vec![], vec![vec![]]),
        Content::bars(vec![], Some("x"), vec!["y".to_owned()], vec![vec![]]),
        Content::Heat { first: 0.0, width: 1.0, rows: vec![] },
        Content::Rows { labels: vec![], texts: vec![], names: vec![], values: vec![] },
        Content::Curves { curves },
    ];
    for content in empty {
        assert!(svg(&chart(content), "").ends_with("</svg>\n"));
    }
}
