//! Draws curves and bars of all memories of two files.

use hmtt::analysis::Detail;

use super::{SIDES, Side, by_number};
use crate::accesses::report::all_memories::{
    ABOUT_FIRST, BY_NUMBER, BY_RANK, DISTANCES, FIRST, FIRST_TOUCHES, MISS_RATIOS, REUSE_DISTANCES,
    RUN_LENGTHS, distribution_chart, distribution_curve, miss_curve, miss_part, sampled,
};
use crate::accesses::report::chart::{Axis, Chart, Content, Curve, Part, Unit};
use crate::accesses::report::found::{Found, MOST_BLOCKS};
use crate::accesses::report::modes::Modes;
use crate::accesses::report::numbers::text;

/// Makes bars of the ranges that either file has. `shares` returns the begin of each range, and the
/// range's part of all values. First touches, whose range begins with `u64::MAX`, are set apart.
/// Example: file A has ranges from 1 and 2, file B from 2 and 4; there are bars for 1, 2 and 4.
fn ranges(sides: &[Side; 2], shares: impl Fn(&Found) -> Vec<(u64, f64)>, noun: &str) -> Content {
    let both = [&sides[0], &sides[1]].map(|side| shares(&side.found));
    let mut starts: Vec<u64> = both.iter().flatten().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    let value = |list: &Vec<(u64, f64)>, start: u64| {
        list.iter().find(|(at, _)| *at == start).map_or(0.0, |(_, value)| *value)
    };
    let values: Vec<Vec<f64>> =
        both.iter().map(|list| starts.iter().map(|start| value(list, *start)).collect()).collect();
    let label = |start: u64| match start {
        u64::MAX => FIRST.to_owned(),
        start => text(Unit::Count, start as f64),
    };
    let words = |(at, start): (usize, &u64)| {
        let lists = SIDES.into_iter().zip(&values);
        let texts: Vec<String> =
            lists.map(|(side, list)| format!("{side} {}", text(Unit::Share, list[at]))).collect();
        let label = label(*start);
        let words = match *start {
            u64::MAX => format!("{FIRST_TOUCHES}: {}", texts.join(", ")),
            _ => format!("{noun} from {label}: {}", texts.join(", ")),
        };
        (label, words)
    };
    let words = starts.iter().enumerate().map(words).collect();
    let apart = (starts.last() == Some(&u64::MAX)).then_some(FIRST_TOUCHES);
    Content::bars(words, apart, SIDES.map(str::to_owned).to_vec(), values)
}

/// The chart of touches by page number.
fn touches_by_number(sides: &[Side; 2]) -> Part {
    let [first, other] = sides.each_ref().map(|side| &side.found);
    let files = [&first.address_distribution, &other.address_distribution];
    let touches = [first.hot.touches, other.hot.touches];
    let (content, block) = by_number::bars(files, touches, MOST_BLOCKS);
    let about = format!(
        "Touches of the pages in the order of their numbers, in blocks of {block}, as parts of all touches of each file; blocks \
         without touches are left out."
    );
    let x = Axis::new("address", Unit::Count);
    let y = Axis::new("of all touches", Unit::Share);
    Part::Chart(Chart::new([BY_NUMBER, &about], content.bars_extent(), x, y, content))
}

fn bars(words: [&str; 2], x: &str, content: Content) -> Part {
    let [x, y] = [Axis::new(x, Unit::Count), Axis::new("of all", Unit::Share)];
    Part::Chart(Chart::new(words, content.bars_extent(), x, y, content))
}

/// The bars and curves of all memories of both files.
pub fn together(sides: &[Side; 2]) -> Vec<Part> {
    if sides.iter().all(|side| side.found.stats.accesses == 0) {
        return vec![Part::absent("Charts", "There are no accesses.", true)];
    }
    let curves = |curve: fn(&Found, &str) -> Curve| {
        SIDES
            .into_iter()
            .zip(sides)
            .map(|(name, side)| curve(&side.found, name))
            .collect::<Vec<_>>()
    };
    let distances = |results: &Found| {
        let total = (results.reuse.touches as f64).max(1.0);
        let reuse = &results.reuse;
        let buckets =
            reuse.distances.iter().map(|bucket| (bucket.distance_at_least, bucket.touches / total));
        buckets.chain([(u64::MAX, reuse.first_touches / total)]).collect()
    };
    let runs = |results: &Found| {
        let total: u64 = results.hot.page_runs.iter().map(|bucket| bucket.runs).sum();
        let part = |runs: u64| runs as f64 / total.max(1) as f64;
        results.hot.page_runs.iter().map(|bucket| (bucket.at_least, part(bucket.runs))).collect()
    };
    let estimated: Vec<String> = sides.iter().map(|side| sampled(&side.found)).collect();
    let about = format!(
        "Distinct lines touched between two touches of a line, as parts of all touches. {ABOUT_FIRST}{}",
        estimated[0]
    );
    let reuse = ranges(sides, distances, "distances");
    let runs = ranges(sides, runs, "touches in a row");
    // A chart is left out if one of the files does not know the needed detail of any access.
    let absent = |needed: Detail, title: &str| {
        let of_side = |side: &Side| Modes::of_sums(&side.found.stats).absent(needed);
        let absence = sides.iter().zip(SIDES).find_map(|(side, name)| Some((of_side(side)?, name)));
        absence.map(|(reason, name)| Part::absent(title, format!("{reason} ({name})"), false))
    };
    let words = [RUN_LENGTHS, "Touches in a row of one page, as parts of all runs."];
    vec![
        absent(Detail::Page, BY_RANK)
            .unwrap_or_else(|| Part::Chart(distribution_chart(curves(distribution_curve)))),
        absent(Detail::Page, BY_NUMBER).unwrap_or_else(|| touches_by_number(sides)),
        absent(Detail::Page, RUN_LENGTHS)
            .unwrap_or_else(|| bars(words, "touches in a row, from", runs)),
        absent(Detail::Address, REUSE_DISTANCES)
            .unwrap_or_else(|| bars([REUSE_DISTANCES, &about], DISTANCES, reuse)),
        absent(Detail::Address, MISS_RATIOS)
            .unwrap_or_else(|| miss_part(curves(miss_curve), &estimated[0])),
    ]
}
