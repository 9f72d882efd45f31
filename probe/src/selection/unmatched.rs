//! Finds rules that match no function, and proposes names that may have been meant.

use std::collections::BTreeSet;

use super::{Effect, Selection, TrackedRule};
use crate::elf::Function;

/// Maximum number of names that are proposed for a rule.
const PROPOSED: usize = 5;
/// Maximum length of names that are compared letter by letter. The time is quadratic in the length.
const LONGEST: usize = 256;
/// Characters of patterns that are not part of a name.
const WILD: [char; 4] = ['*', '?', '^', '$'];

/// A rule that has matched no function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// Text of the rule.
    pub rule: String,
    /// Whether the rule excludes functions.
    pub excludes: bool,
    /// Whether the rule matches functions of libraries only.
    pub is_of_library: bool,
}

impl Selection {
    /// Records which rules match functions of a file. `library`: as for [`Selection::matches`].
    /// Rules that do not apply to the functions of a library match none of them.
    pub fn record_matches(&self, functions: &[Function], library: Option<&str>) {
        let rules = self.rules_for(library).map(|(_, named)| named);
        for named in rules.chain(self.granularity_rules.iter().map(|(_, named)| named)) {
            if !named.has_matched()
                && functions.iter().any(|function| named.rule.matches(function, library))
            {
                named.set_matched();
            }
        }
    }

    /// Records that the functions of a file could not be read. All rules that apply to them then
    /// count as matching. `library`: as for [`Selection::matches`].
    pub fn record_unknown(&self, library: Option<&str>) {
        let rules = self.rules_for(library).map(|(_, named)| named);
        rules.filter(|named| named.rule.applies_to(library)).for_each(TrackedRule::set_matched);
    }

    /// The rules that have matched none of the recorded functions, in the order of the rules.
    pub fn unmatched(&self) -> Vec<Unmatched> {
        let rules = self.rules.iter().map(|(effect, named)| (*effect == Effect::Exclude, named));
        let finer = self.granularity_rules.iter().map(|(_, named)| (false, named));
        let unmatched = rules.chain(finer).filter(|(_, named)| !named.has_matched());
        let unmatched = unmatched.map(|(excludes, named)| Unmatched {
            rule: named.text.clone(),
            excludes,
            is_of_library: named.rule.is_of_library(),
        });
        unmatched.collect()
    }
}

/// Finds names of functions that may have been meant by a rule, the nearest first. Near names
/// contain the rule's text, are contained in it, or differ from it by a few letters. For example,
/// `pares_line` is near to `parse_line`.
pub fn near_misses(rule: &str, functions: &[Function]) -> Vec<String> {
    let meant = rule.rsplit(['=', '/']).next().unwrap_or(rule);
    let meant: String = meant.trim().trim_matches(WILD).to_lowercase();
    if meant.is_empty() {
        return Vec::new();
    }
    let most = (meant.chars().count() / 3).clamp(1, 3);
    let names = functions
        .iter()
        .flat_map(|function| std::iter::once(&function.name).chain(&function.symbols));
    let mut near: BTreeSet<(usize, usize, &String)> = BTreeSet::new();
    for name in names {
        let lower = name.to_lowercase();
        let distance = if lower.contains(&meant) || (lower.len() > 3 && meant.contains(&lower)) {
            Some(0)
        } else {
            distance(&lower, &meant, most)
        };
        near.extend(distance.map(|distance| (distance, name.len(), name)));
        if near.len() > PROPOSED {
            near.pop_last();
        }
    }
    let mut names: Vec<String> = near.into_iter().map(|(.., name)| name.clone()).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Distance of two texts: the smallest number of single letters to be inserted, removed or changed,
/// or of adjacent letters to be exchanged, to turn one text into the other (optimal string
/// alignment). `None` if the distance is greater than `most`. For example, the distance of `pares`
/// and `parse` is 1.
fn distance(text: &str, other: &str, most: usize) -> Option<usize> {
    let (text, other): (Vec<char>, Vec<char>) = (text.chars().collect(), other.chars().collect());
    if text.len().abs_diff(other.len()) > most || text.len().max(other.len()) > LONGEST {
        return None;
    }
    // Entry `n` of a row: distance of the first letters of `text` to the first `n` letters of
    // `other`. Three rows are kept, for the last three numbers of letters of `text`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let (mut last, mut before_last) = (row.clone(), row.clone());
    for (at, letter) in text.iter().enumerate() {
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut row);
        row[0] = at + 1;
        for (to, wanted) in other.iter().enumerate() {
            let changed = last[to] + usize::from(letter != wanted);
            row[to + 1] = changed.min(last[to + 1] + 1).min(row[to] + 1);
            if at > 0 && to > 0 && *letter == other[to - 1] && text[at - 1] == *wanted {
                row[to + 1] = row[to + 1].min(before_last[to - 1] + 1);
            }
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| Function {
            name: (*name).into(),
            symbols: vec![(*name).into()],
            start: 0,
            size: 1,
            ifunc: false,
            source: None,
        };
        names.iter().map(function).collect()
    }

    #[test]
    fn similar_names_are_proposed_nearest_first() {
        let functions = functions(&["compress", "decompress", "compare", "main", "comprezz"]);
        let near = |rule: &str| near_misses(rule, &functions);
        assert_eq!(near("compres"), ["compress", "decompress", "compare", "comprezz"]);
        assert_eq!(near("Compress_*"), ["compress", "comprezz", "decompress"]);
        assert_eq!(near("glob=nmai"), Vec::<String>::new());
        assert_eq!(near("glob=mian"), ["main"]);
        assert_eq!(near("maim"), ["main"]);
        assert_eq!(near("*"), Vec::<String>::new());
    }

    #[test]
    fn letters_that_changed_places_count_once() {
        assert_eq!(near_misses("wrok", &functions(&["work"])), ["work"]);
        assert_eq!(distance("wrok", "work", 3), Some(1));
        assert_eq!(distance("owrk", "work", 3), Some(1));
        assert_eq!(distance("owkr", "work", 3), Some(2));
        assert_eq!(distance("rkwo", "work", 3), None);
        assert_eq!(distance("wxork", "work", 3), Some(1));
        assert_eq!(distance("", "work", 4), Some(4));
    }

    #[test]
    fn rules_without_a_match_are_reported() {
        let rules = [
            (Effect::Include, "main"),
            (Effect::Include, "mian"),
            (Effect::Exclude, "absent"),
            (Effect::Include, "library=libz*/crc32"),
        ];
        let selection = Selection::parse(rules).unwrap();
        // Copies share what is recorded, because child processes have copies.
        selection.clone().record_matches(&functions(&["main", "crc32"]), None);
        let unmatched = |selection: &Selection| -> Vec<String> {
            selection.unmatched().into_iter().map(|entry| entry.rule).collect()
        };
        assert_eq!(unmatched(&selection), ["mian", "absent", "library=libz*/crc32"]);
        // A rule without `library=` includes nothing of a library.
        selection.record_matches(&functions(&["mian"]), Some("liby.so"));
        assert_eq!(unmatched(&selection), ["mian", "absent", "library=libz*/crc32"]);
        selection.record_matches(&functions(&["crc32"]), Some("libz.so.1"));
        assert_eq!(unmatched(&selection), ["mian", "absent"]);
        let unknown = selection.clone();
        let absent = selection.unmatched().pop().unwrap();
        assert!(absent.excludes && !absent.is_of_library);
        unknown.record_unknown(Some("libx.so"));
        assert_eq!(unmatched(&unknown), ["mian"]);
        unknown.record_unknown(None);
        assert_eq!(unmatched(&unknown), [""; 0]);
    }
}
