//! Reads the intervals of a program that SimPoint has chosen, and makes regions of them that are
//! cut out of its trace.
//!
//! SimPoint 3.2 writes two files. With `-saveSimpoints` each line has an interval and the number of
//! its cluster. With `-saveSimpointWeights` each line has the weight of a cluster and its number.
//! Both files come from outside, so their size and their numbers are checked.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use super::convert::Region;

/// Maximum size of a file, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum number of intervals in a file.
const MOST_INTERVALS: usize = 512;

/// A chosen interval with the weight of its cluster.
#[derive(Clone, Debug, PartialEq)]
struct SimPoint {
    interval: u64,
    weight: f64,
}

/// The regions of the chosen intervals, ascending. Each region has a file beside `output` whose
/// name contains the number and the weight of the interval. `length`: instructions in an interval.
///
/// # Errors
/// The files cannot be read, or have another content than SimPoint writes.
pub fn regions(list: &Path, weights: &Path, length: u64, output: &Path) -> Result<Vec<Region>> {
    let points = chosen(&read(list)?, &read(weights)?);
    let points = points.with_context(|| format!("{} and {}", list.display(), weights.display()))?;
    let region = |point: &SimPoint| {
        let first = point.interval.checked_mul(length);
        let end = first.and_then(|first| first.checked_add(length));
        let instructions = first.zip(end).map(|(first, end)| first..end);
        let instructions = instructions
            .with_context(|| format!("interval {} of {length} instructions", point.interval))?;
        Ok(Region { instructions, output: Some(name(output, point)) })
    };
    points.iter().map(region).collect()
}

/// The file of weights that belongs to a list. Its name has `weights` where the list has
/// `simpoints`; `None` if the list's name has no `simpoints`.
pub fn weights_of(list: &Path) -> Option<PathBuf> {
    let name = list.file_name()?.to_str()?;
    name.contains("simpoints").then(|| list.with_file_name(name.replace("simpoints", "weights")))
}

/// Inserts the number and the weight of an interval before the extension of a name. Example:
/// `ph.cs` becomes `ph.2-0.75.cs`.
fn name(output: &Path, SimPoint { interval, weight }: &SimPoint) -> PathBuf {
    let mut name = output.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{interval}-{weight}"));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

fn read(path: &Path) -> Result<String> {
    let cannot_read = || format!("{}: cannot read", path.display());
    let file = File::open(path).with_context(cannot_read)?;
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).with_context(cannot_read)?;
    ensure!(text.len() as u64 <= MOST_BYTES, "{}: more than 1 MiB", path.display());
    Ok(text)
}

/// Parses lines of two numbers: a value and the number of a cluster. `what`: name of the file, for
/// errors.
fn pairs<T: FromStr<Err: Display>>(text: &str, what: &str) -> Result<Vec<(T, u64)>> {
    let mut pairs = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [value, cluster] => {
                let value = value.parse().ok().zip(cluster.parse().ok());
                pairs.push(
                    value.with_context(|| format!("{what}: line {number} has no two numbers"))?,
                );
            }
            _ => bail!("{what}: line {number} has no two numbers"),
        }
    }
    Ok(pairs)
}

/// The chosen intervals, ascending. Example: the list `7 0`, `2 1` and the weights `0.25 0`, `0.75
/// 1` give interval 2 with weight 0.75 and interval 7 with weight 0.25.
fn chosen(list: &str, weights: &str) -> Result<Vec<SimPoint>> {
    let mut by_cluster: HashMap<u64, f64> = HashMap::new();
    for (weight, cluster) in pairs::<f64>(weights, "weights")? {
        ensure!((0.0..=1.0).contains(&weight), "weights: cluster {cluster} has weight {weight}");
        let other = by_cluster.insert(cluster, weight);
        ensure!(other.is_none(), "weights: cluster {cluster} has two weights");
    }
    let mut points = Vec::new();
    for (interval, cluster) in pairs::<u64>(list, "simpoints")? {
        let weight = by_cluster.get(&cluster);
        let weight = *weight.with_context(|| format!("cluster {cluster} has no weight"))?;
        points.push(SimPoint { interval, weight });
    }
    ensure!(!points.is_empty(), "no interval is chosen");
    ensure!(points.len() <= MOST_INTERVALS, "more than {MOST_INTERVALS} intervals");
    points.sort_by_key(|point| point.interval);
    let twice = points.windows(2).find(|pair| pair[0].interval == pair[1].interval);
    if let Some([point, _]) = twice {
        bail!("interval {} is chosen twice", point.interval);
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_weights_of_their_clusters() {
        let points = chosen("7 0\n2 1\n", "0.25 0\n0.75 1\n").unwrap();
        let expected = [(2, 0.75), (7, 0.25)];
        assert_eq!(points, expected.map(|(interval, weight)| SimPoint { interval, weight }));
        let names: Vec<_> = points.iter().map(|point| name(Path::new("a/ph.cs"), point)).collect();
        assert_eq!(names, ["a/ph.2-0.75.cs", "a/ph.7-0.25.cs"].map(PathBuf::from));
        assert_eq!(weights_of(Path::new("a/ph.simpoints")), Some("a/ph.weights".into()));
        assert_eq!(weights_of(Path::new("a/ph")), None);
    }

    #[test]
    fn damaged_files_are_refused() {
        for (list, weights) in [
            ("", "1 0"),
            ("1 0", ""),
            ("1 0", "2 0"),
            ("1 0", "NaN 0"),
            ("1 0 3", "1 0"),
            ("-1 0", "1 0"),
            ("1 0\n1 1", "0.5 0\n0.5 1"),
            ("1 0", "0.5 0\n0.5 0"),
        ] {
            assert!(chosen(list, weights).is_err(), "{list:?} {weights:?}");
        }
    }
}
