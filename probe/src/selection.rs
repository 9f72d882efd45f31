//! Selects functions by rules.
//!
//! The last rule that matches a function decides. If there are no including rules, all functions
//! are included except those that a rule excludes. Syntax of rules:
//!
//! | rule | matches |
//! |---|---|
//! | `NAME`, `name=NAME` | the function with that name or symbol |
//! | `glob=PATTERN` | functions whose whole name or symbol matches a glob; a `NAME` with `*` or `?` is a glob too |
//! | `regex=PATTERN` | functions whose name or symbol contains a match of a regular expression |
//! | `size>=N`, `size<N`, `>=N`, `<N` | functions of at least, or of less than N bytes |
//! | `list=FILE` | functions whose name or symbol is a line of a file; a `#` at the start of a line or after a space begins a comment |
//! | `source=FILE` | functions whose source file matches a glob, by its name or its whole path |
//! | `library=FILE`, `library=FILE/RULE` | functions of libraries whose file name matches a glob; those that a rule matches |
//!
//! C++ names include parameters: `glob=f(*` matches `f(int)`. Functions of libraries are included
//! only by `library=` rules; any rule can exclude them.
//!
//! For example, if a first rule includes `glob=parse_*` and a second one excludes `parse_line`,
//! `parse_word` is selected, and `parse_line` and `main` are not.

mod rule;
#[cfg(test)]
mod tests;
mod unmatched;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rule::Rule;
pub use unmatched::{Unmatched, near_misses};

use crate::disassembly::Granularity;
use crate::elf::Function;

/// Effect of a rule on the functions that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Selects the functions.
    Include,
    /// Leaves the functions out.
    Exclude,
}

/// Reason why a rule is not valid.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The pattern is empty.
    #[error("rule `{rule}`: there is nothing to match")]
    Empty {
        /// The rule.
        rule: String,
    },
    /// The pattern is not a valid glob.
    #[error("rule `{rule}`: not a valid glob")]
    Glob {
        /// The rule.
        rule: String,
        /// Why the glob is not valid.
        #[source]
        source: Box<globset::Error>,
    },
    /// The pattern is not a valid regular expression.
    #[error("rule `{rule}`: not a valid regular expression")]
    Regex {
        /// The rule.
        rule: String,
        /// Why the expression is not valid.
        #[source]
        source: Box<regex::Error>,
    },
    /// The size is not a number.
    #[error("rule `{rule}`: no number of bytes after `>=` or `<`")]
    Size {
        /// The rule.
        rule: String,
    },
    /// The list cannot be read.
    #[error("rule `{rule}`: cannot read {path}")]
    List {
        /// The rule.
        rule: String,
        /// The file of names.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: std::io::Error,
    },
}

/// A rule with its text. All copies of the rule record together whether it has matched a function.
#[derive(Clone, Debug)]
struct TrackedRule {
    text: String,
    rule: Rule,
    has_matched: Arc<AtomicBool>,
}

impl TrackedRule {
    fn parse(text: &str) -> Result<TrackedRule, SelectionError> {
        let (rule, has_matched) = (Rule::parse(text)?, Arc::default());
        Ok(TrackedRule { text: text.into(), rule, has_matched })
    }

    fn has_matched(&self) -> bool {
        self.has_matched.load(Ordering::Relaxed)
    }

    fn set_matched(&self) {
        self.has_matched.store(true, Ordering::Relaxed);
    }
}

/// A selection of functions. The default selects all functions of the program.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    rules: Vec<(Effect, TrackedRule)>,
    /// Rules that set the granularity of functions. The last rule that matches decides.
    granularity_rules: Vec<(Granularity, TrackedRule)>,
    /// Starts of the functions of the program that may be selected; `None` if all may.
    only: Option<BTreeSet<u64>>,
}

impl Selection {
    /// Parses rules, in the order in which they apply, and reads the files that they name.
    ///
    /// # Errors
    /// [`SelectionError`] for the first rule that is not valid.
    pub fn parse<'a>(
        rules: impl IntoIterator<Item = (Effect, &'a str)>,
    ) -> Result<Selection, SelectionError> {
        let rules = rules.into_iter().map(|(effect, rule)| Ok((effect, TrackedRule::parse(rule)?)));
        Ok(Selection {
            rules: rules.collect::<Result<_, _>>()?,
            granularity_rules: Vec::new(),
            only: None,
        })
    }

    /// Texts of the rules with an effect, in the order in which they apply.
    pub fn texts(&self, effect: Effect) -> Vec<String> {
        let rules = self.rules.iter().filter(|(of, _)| *of == effect);
        rules.map(|(_, named)| named.text.clone()).collect()
    }

    /// Restricts the selection to functions of the program that start at these addresses of its
    /// file.
    pub fn only(self, starts: BTreeSet<u64>) -> Selection {
        Selection { only: Some(starts), ..self }
    }

    /// Adds rules that set the granularity of selected functions. If several rules match a
    /// function, the last one decides.
    ///
    /// # Errors
    /// [`SelectionError`] for the first rule that is not valid.
    pub fn with_granularity<'a>(
        mut self,
        rules: impl IntoIterator<Item = (Granularity, &'a str)>,
    ) -> Result<Selection, SelectionError> {
        let rules = rules
            .into_iter()
            .map(|(granularity, rule)| Ok((granularity, TrackedRule::parse(rule)?)));
        self.granularity_rules = rules.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Granularity of a function; `None` if it is not selected. `library`: as for
    /// [`Selection::matches`].
    pub fn granularity(&self, function: &Function, library: Option<&str>) -> Option<Granularity> {
        let mut finer = self.granularity_rules.iter().rev();
        let mut finer = || finer.find(|(_, named)| named.rule.matches(function, library));
        self.matches(function, library)
            .then(|| finer().map_or(Granularity::Function, |(granularity, _)| *granularity))
    }

    /// Whether rules set the granularity of functions: of functions in libraries if `libraries` is
    /// set, otherwise of the program's functions.
    pub fn has_granularity_rules(&self, libraries: bool) -> bool {
        !self.granularity_rules.is_empty() && (!libraries || self.has_libraries())
    }

    /// Whether a function is selected. `library`: file name of its library, `None` for the program.
    pub fn matches(&self, function: &Function, library: Option<&str>) -> bool {
        let is_kept = |starts: &BTreeSet<u64>| starts.contains(&function.start);
        if library.is_none() && !self.only.as_ref().is_none_or(is_kept) {
            return false;
        }
        let mut rules = self.rules_for(library).rev();
        let last = rules.find(|(_, named)| named.rule.matches(function, library));
        match last {
            Some((effect, _)) => *effect == Effect::Include,
            // No rule matches. A function of the program is included then, unless there are
            // including rules. A function of a library is not.
            None => {
                library.is_none() && self.rules.iter().all(|(effect, _)| *effect == Effect::Exclude)
            }
        }
    }

    /// The rules that apply to functions of a file. `library`: as for [`Selection::matches`].
    fn rules_for(
        &self,
        library: Option<&str>,
    ) -> impl DoubleEndedIterator<Item = &(Effect, TrackedRule)> {
        let is_program = library.is_none();
        self.rules.iter().filter(move |(effect, named)| {
            *effect == Effect::Exclude || is_program || named.rule.is_of_library()
        })
    }

    /// Whether functions of a library with this file name may be selected.
    pub fn wants(&self, file: &str) -> bool {
        self.rules.iter().any(|(effect, named)| {
            *effect == Effect::Include
                && matches!(&named.rule, Rule::Library(glob, _) if glob.is_match(file))
        })
    }

    /// Whether any rule depends on source files ([`crate::elf::Image::find_sources`]).
    pub fn has_sources(&self) -> bool {
        let rules = self.rules.iter().map(|(_, named)| &named.rule);
        let mut rules = rules.chain(self.granularity_rules.iter().map(|(_, named)| &named.rule));
        rules.any(Rule::needs_sources)
    }

    /// Whether the selection of a file's functions depends on source files. `library`: as for
    /// [`Selection::matches`].
    pub fn needs_sources(&self, library: Option<&str>) -> bool {
        // If no rule includes functions of a library, none of them is selected.
        let is_wanted = library.is_none_or(|name| self.wants(name));
        let mut rules = self.rules_for(library).map(|(_, named)| &named.rule);
        is_wanted && rules.any(|rule| rule.applies_to(library) && rule.needs_sources())
    }

    /// Whether the selection of the program's functions depends on their names.
    pub fn needs_program(&self) -> bool {
        self.rules.iter().any(|(_, named)| !named.rule.is_of_library())
    }

    /// Whether functions of libraries may be selected.
    pub fn has_libraries(&self) -> bool {
        let chooses = |(effect, named): &(Effect, TrackedRule)| {
            *effect == Effect::Include && named.rule.is_of_library()
        };
        self.rules.iter().any(chooses)
    }
}
