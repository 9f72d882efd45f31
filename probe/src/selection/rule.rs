//! Parses a rule, and decides whether it matches a function.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use globset::{Glob, GlobMatcher};
use regex::Regex;

use super::SelectionError;
use crate::elf::Function;

/// A parsed rule. [`super`] describes the syntax.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Name(String),
    Glob(GlobMatcher),
    /// A name. It may also be meant as a glob.
    NameOrGlob(String, GlobMatcher),
    Regex(Regex),
    /// Minimum size in bytes.
    AtLeast(u64),
    /// Size limit in bytes, exclusive.
    LessThan(u64),
    List(HashSet<String>),
    /// Glob for the source file, which is compared with its name and its whole path.
    Source(GlobMatcher),
    /// Functions of a library: all functions, or those that another rule matches.
    Library(GlobMatcher, Option<Box<Rule>>),
}

impl Rule {
    /// Parses the text of a rule, and reads the file of a `list=` rule.
    ///
    /// # Errors
    /// [`SelectionError`] if the rule is not valid.
    pub(super) fn parse(rule: &str) -> Result<Rule, SelectionError> {
        let text = rule.trim();
        let size = text.strip_prefix("size").filter(|rest| rest.starts_with(['<', '>', '=']));
        if let Some(size) = size.or_else(|| text.starts_with(['<', '>']).then_some(text)) {
            return size_rule(rule, size);
        }
        let (kind, pattern) = match text.split_once('=') {
            Some((kind @ ("name" | "glob" | "regex" | "list" | "library" | "source"), pattern)) => {
                (kind, pattern)
            }
            _ => ("", text),
        };
        if pattern.is_empty() {
            return Err(SelectionError::Empty { rule: rule.into() });
        }
        match kind {
            "name" => Ok(Rule::Name(pattern.into())),
            "glob" => Ok(Rule::Glob(glob(rule, pattern)?)),
            "regex" => regex(rule, pattern),
            "list" => list(rule, Path::new(pattern)),
            "library" => library(rule, pattern),
            "source" => Ok(Rule::Source(glob(rule, pattern)?)),
            _ if pattern.contains(['*', '?']) => Ok(name_or_glob(pattern)),
            _ => Ok(Rule::Name(pattern.into())),
        }
    }

    /// Whether the rule depends on source files.
    pub(super) fn needs_sources(&self) -> bool {
        match self {
            Rule::Source(_) => true,
            Rule::Library(_, Some(rule)) => rule.needs_sources(),
            _ => false,
        }
    }

    /// Whether the rule may match functions of a file. `library`: file name of its library, `None`
    /// for the program.
    pub(super) fn applies_to(&self, library: Option<&str>) -> bool {
        match self {
            Rule::Library(glob, _) => library.is_some_and(|name| glob.is_match(name)),
            _ => true,
        }
    }

    /// Whether the rule matches functions of libraries only.
    pub(super) fn is_of_library(&self) -> bool {
        matches!(self, Rule::Library(..))
    }

    /// Whether the rule matches a function. `library`: file name of its library, `None` for the
    /// program.
    pub(super) fn matches(&self, function: &Function, library: Option<&str>) -> bool {
        let any = |matches: &dyn Fn(&str) -> bool| {
            matches(&function.name) || function.symbols.iter().any(|symbol| matches(symbol))
        };
        match self {
            Rule::Name(name) => any(&|it| it == name),
            Rule::Glob(glob) => any(&|it| glob.is_match(it)),
            Rule::NameOrGlob(name, glob) => any(&|it| it == name || glob.is_match(it)),
            Rule::Regex(regex) => any(&|it| regex.is_match(it)),
            Rule::AtLeast(bytes) => function.size >= *bytes,
            Rule::LessThan(bytes) => function.size < *bytes,
            Rule::List(names) => any(&|it| names.contains(it)),
            Rule::Source(glob) => function.source.as_deref().is_some_and(|source| {
                let name = Path::new(source).file_name().unwrap_or_default();
                glob.is_match(source) || glob.is_match(name)
            }),
            Rule::Library(glob, then) => {
                library.is_some_and(|name| glob.is_match(name))
                    && then.as_ref().is_none_or(|rule| rule.matches(function, library))
            }
        }
    }
}

fn size_rule(rule: &str, size: &str) -> Result<Rule, SelectionError> {
    let number = |text: &str| text.trim().parse().ok();
    let at_least = size.strip_prefix(">=").and_then(number).map(Rule::AtLeast);
    let less_than = || size.strip_prefix('<').and_then(number).map(Rule::LessThan);
    at_least.or_else(less_than).ok_or_else(|| SelectionError::Size { rule: rule.into() })
}

fn glob(rule: &str, pattern: &str) -> Result<GlobMatcher, SelectionError> {
    let glob = Glob::new(pattern)
        .map_err(|source| SelectionError::Glob { rule: rule.into(), source: Box::new(source) })?;
    Ok(glob.compile_matcher())
}

fn library(rule: &str, pattern: &str) -> Result<Rule, SelectionError> {
    let (file, then) = match pattern.split_once('/') {
        Some((file, then)) => (file, Some(Box::new(Rule::parse(then)?))),
        None => (pattern, None),
    };
    Ok(Rule::Library(glob(rule, file)?, then))
}

/// An invalid glob can still be a name: C++ names contain stars and brackets of their own
/// (`f(char*)`).
fn name_or_glob(pattern: &str) -> Rule {
    match glob(pattern, pattern) {
        Ok(glob) => Rule::NameOrGlob(pattern.into(), glob),
        Err(_) => Rule::Name(pattern.into()),
    }
}

fn regex(rule: &str, pattern: &str) -> Result<Rule, SelectionError> {
    let source = match Regex::new(pattern) {
        Ok(regex) => return Ok(Rule::Regex(regex)),
        Err(source) => Box::new(source),
    };
    Err(SelectionError::Regex { rule: rule.into(), source })
}

fn list(rule: &str, path: &Path) -> Result<Rule, SelectionError> {
    let text = fs::read_to_string(path).map_err(|source| SelectionError::List {
        rule: rule.into(),
        path: path.into(),
        source,
    })?;
    let names = text.lines().map(|line| uncommented(line).trim().to_owned());
    Ok(Rule::List(names.filter(|name| !name.is_empty()).collect()))
}

/// Removes a comment from a line. A `#` within a name begins no comment: names of lambdas contain
/// it (`main::{lambda()#1}`).
fn uncommented(line: &str) -> &str {
    let begins =
        |(at, _): &(usize, _)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}
