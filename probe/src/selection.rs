//! Rules to the functions they choose.
//!
//! Rules are tried in order and the last one that matches a function decides. Without a rule that
//! includes, everything is included that no rule excludes. Rules are written so:
//!
//! | rule | matches |
//! |---|---|
//! | `NAME`, `name=NAME` | the function of that name or symbol |
//! | `glob=PATTERN` | names or symbols that a glob matches as a whole; `NAME` with `*` or `?` is one too |
//! | `regex=PATTERN` | names or symbols that have a match in them |
//! | `size>=N`, `size<N`, `>=N`, `<N` | functions of at least, of less than N bytes |
//! | `list=FILE` | names or symbols of a file: one a line; `#` and what follows is left out where it begins a line or comes after a space |
//!
//! | `source=FILE` | functions whose source file a glob matches, its name or its whole path |
//! | `library=FILE`, `library=FILE/RULE` | functions of libraries whose file names a glob matches; those that a rule matches |
//!
//! C++ names have parameters: `f(int)`, which `glob=f(*` matches. Functions of libraries are included by
//! rules that say `library=` only; they are excluded by any.

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

use crate::disassembly::Grain;
use crate::elf::Function;

/// What a rule does with the functions it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It chooses them.
    Include,
    /// It leaves them out.
    Exclude,
}

/// What is wrong with a rule.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// It matches nothing.
    #[error("rule `{rule}`: there is nothing to match")]
    Empty {
        /// The rule.
        rule: String,
    },
    /// No glob.
    #[error("rule `{rule}`: no glob")]
    Glob {
        /// The rule.
        rule: String,
        /// Why.
        #[source]
        source: Box<globset::Error>,
    },
    /// No regular expression.
    #[error("rule `{rule}`: no regular expression")]
    Regex {
        /// The rule.
        rule: String,
        /// Why.
        #[source]
        source: Box<regex::Error>,
    },
    /// No size.
    #[error("rule `{rule}`: no number of bytes after `>=` or `<`")]
    Size {
        /// The rule.
        rule: String,
    },
    /// No list.
    #[error("rule `{rule}`: cannot read {path}")]
    List {
        /// The rule.
        rule: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A rule, as it was given, and whether it has matched anything; all copies know that.
#[derive(Clone, Debug)]
struct Named {
    text: String,
    rule: Rule,
    is_hit: Arc<AtomicBool>,
}

impl Named {
    fn parse(text: &str) -> Result<Named, SelectionError> {
        let (rule, is_hit) = (Rule::parse(text)?, Arc::default());
        Ok(Named { text: text.into(), rule, is_hit })
    }

    fn is_hit(&self) -> bool {
        self.is_hit.load(Ordering::Relaxed)
    }

    fn hit(&self) {
        self.is_hit.store(true, Ordering::Relaxed);
    }
}

/// Which functions are meant; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    rules: Vec<(Effect, Named)>,
    /// Of which functions more is to be seen; the last that matches decides.
    finer: Vec<(Grain, Named)>,
    /// Only these of the program, by their first addresses.
    only: Option<BTreeSet<u64>>,
}

impl Selection {
    /// Reads rules, in the order in which they apply, and the files they name.
    ///
    /// # Errors
    /// [`SelectionError`] for the first rule that is wrong.
    pub fn parse<'a>(
        rules: impl IntoIterator<Item = (Effect, &'a str)>,
    ) -> Result<Selection, SelectionError> {
        let rules = rules.into_iter().map(|(effect, rule)| Ok((effect, Named::parse(rule)?)));
        Ok(Selection { rules: rules.collect::<Result<_, _>>()?, finer: Vec::new(), only: None })
    }

    /// Keeps, of the program's functions that are chosen, those that begin at these addresses of its file.
    pub fn only(self, starts: BTreeSet<u64>) -> Selection {
        Selection { only: Some(starts), ..self }
    }

    /// Chooses functions of which more is to be seen, among those that are chosen. Where several rules match,
    /// the last decides.
    ///
    /// # Errors
    /// [`SelectionError`] for the first rule that is wrong.
    pub fn finer<'a>(
        mut self,
        rules: impl IntoIterator<Item = (Grain, &'a str)>,
    ) -> Result<Selection, SelectionError> {
        let rules = rules.into_iter().map(|(grain, rule)| Ok((grain, Named::parse(rule)?)));
        self.finer = rules.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// What is to be seen of a function, if it is chosen. `library`: as for [`Selection::matches`].
    pub fn grain(&self, function: &Function, library: Option<&str>) -> Option<Grain> {
        let mut finer = self.finer.iter().rev();
        let mut finer = || finer.find(|(_, named)| named.rule.matches(function, library));
        self.matches(function, library)
            .then(|| finer().map_or(Grain::Function, |(grain, _)| *grain))
    }

    /// Whether more than calls is to be seen of some functions; of libraries, if that is asked.
    pub fn is_finer(&self, libraries: bool) -> bool {
        !self.finer.is_empty() && (!libraries || self.has_libraries())
    }

    /// Whether a function is chosen. `library`: the name of the file, if it is not the program.
    pub fn matches(&self, function: &Function, library: Option<&str>) -> bool {
        let is_kept = |starts: &BTreeSet<u64>| starts.contains(&function.start);
        if library.is_none() && !self.only.as_ref().is_none_or(is_kept) {
            return false;
        }
        let counts = |(effect, named): &&(Effect, Named)| {
            *effect == Effect::Exclude || library.is_none() || named.rule.is_of_library()
        };
        let rules = self.rules.iter().rev().filter(counts);
        let last = rules.into_iter().find(|(_, named)| named.rule.matches(function, library));
        match last {
            Some((effect, _)) => *effect == Effect::Include,
            // A library is asked for; the program is meant unless something else is.
            None => {
                library.is_none() && self.rules.iter().all(|(effect, _)| *effect == Effect::Exclude)
            }
        }
    }

    /// Whether functions of a library of this file name may be chosen.
    pub fn wants(&self, file: &str) -> bool {
        self.rules.iter().any(|(effect, named)| {
            *effect == Effect::Include
                && matches!(&named.rule, Rule::Library(glob, _) if glob.is_match(file))
        })
    }

    /// Whether rules need to know source files ([`crate::elf::Image::find_sources`]).
    pub fn has_sources(&self) -> bool {
        let rules = self.rules.iter().map(|(_, named)| &named.rule);
        let mut rules = rules.chain(self.finer.iter().map(|(_, named)| &named.rule));
        rules.any(Rule::needs_sources)
    }

    /// Whether functions of libraries are chosen.
    pub fn has_libraries(&self) -> bool {
        let chooses = |(effect, named): &(Effect, Named)| {
            *effect == Effect::Include && named.rule.is_of_library()
        };
        self.rules.iter().any(chooses)
    }
}
