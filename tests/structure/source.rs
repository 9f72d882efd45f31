//! Parses the text of a crate into its modules and the paths that each of them names.
//!
//! Code that is compiled for tests only is left out. Macros are parsed as any other text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A path as written, by segments: `crate`, `decode`, `Gap`.
type Written = Vec<String>;

/// A module of a crate.
#[derive(Debug, Default)]
pub struct Module {
    /// Names from the crate's root to the module.
    pub path: Vec<String>,
    /// Submodules by name, as indices into [`Crate::modules`].
    pub children: BTreeMap<String, usize>,
    /// The parent module, as an index into [`Crate::modules`].
    pub parent: Option<usize>,
    /// Names that `use` declarations import, with their paths.
    pub uses: BTreeMap<String, Written>,
    /// Modules from which all names are imported.
    pub globs: Vec<Written>,
    /// All paths that the module names.
    pub paths: Vec<Written>,
}

/// The modules of a crate, its root first.
#[derive(Debug, Default)]
pub struct Crate {
    /// The modules, in the order in which they are declared.
    pub modules: Vec<Module>,
}

impl Crate {
    /// Parses a crate from its first file.
    pub fn read(root: &Path) -> Crate {
        let mut read = Crate { modules: vec![Module::default()] };
        read.file(0, root, root.parent().expect("it is in a folder"));
        read
    }

    /// Parses a crate of one file.
    pub fn parse(text: &str) -> Crate {
        let mut read = Crate { modules: vec![Module::default()] };
        read.items(0, &tokens(text), Path::new("."));
        read
    }

    fn file(&mut self, module: usize, file: &Path, folder: &Path) {
        let text = std::fs::read_to_string(file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.items(module, &tokens(&text), folder);
    }

    /// Parses items. `folder`: directory of the files of submodules.
    fn items(&mut self, module: usize, tokens: &[&str], folder: &Path) {
        let (mut at, mut path) = (0, None);
        while at < tokens.len() {
            let rest = &tokens[at..];
            match rest {
                ["#", "[", "cfg", "(", "test", ")", "]", ..] => at += end_of_item(rest),
                ["#", "[", "path", "=", file, "]", ..] => {
                    path = Some(file.trim_matches('"').to_owned());
                    at += 6;
                }
                ["mod", name, ";", ..] => {
                    let (file, inner) = files(folder, name, path.take());
                    let child = self.child(module, name);
                    self.file(child, &file, &inner);
                    at += 3;
                }
                ["mod", name, "{", ..] => {
                    let end = end_of_item(rest);
                    let child = self.child(module, name);
                    self.items(child, &rest[3..end - 1], &folder.join(name));
                    at += end;
                }
                ["use", ..] => {
                    let from = 1 + usize::from(rest.get(1) == Some(&"::"));
                    at += from + self.use_tree(module, &rest[from..], &[]);
                }
                [name, "::", ..] if is_name(name) => {
                    let mut names = vec![name.to_string()];
                    at += 1;
                    while let ["::", next, ..] = &tokens[at..] {
                        if !is_name(next) {
                            break;
                        }
                        names.push(next.to_string());
                        at += 2;
                    }
                    at += usize::from(tokens.get(at) == Some(&"::"));
                    self.modules[module].paths.push(names);
                }
                _ => at += 1,
            }
        }
    }

    fn child(&mut self, module: usize, name: &str) -> usize {
        let path = [&self.modules[module].path[..], &[name.to_owned()]].concat();
        self.modules.push(Module { path, parent: Some(module), ..Module::default() });
        let child = self.modules.len() - 1;
        self.modules[module].children.insert(name.to_owned(), child);
        child
    }

    /// Records the names that a `use` declaration imports. Returns the number of its tokens.
    fn use_tree(&mut self, module: usize, tokens: &[&str], before: &[String]) -> usize {
        let mut path = before.to_vec();
        let mut at = 0;
        loop {
            match tokens[at] {
                "{" => {
                    at += 1;
                    while tokens[at] != "}" {
                        at += self.use_tree(module, &tokens[at..], &path);
                        at += usize::from(tokens[at] == ",");
                    }
                    return at + 1;
                }
                "*" => {
                    self.modules[module].globs.push(path.clone());
                    self.modules[module].paths.push(path);
                    return at + 1;
                }
                name => {
                    path.push(name.to_owned());
                    at += 1;
                }
            }
            if tokens[at] == "::" {
                at += 1;
                continue;
            }
            if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
                path.pop();
            }
            let mut name = path.last().expect("a path has a last segment").clone();
            if tokens[at] == "as" {
                name = tokens[at + 1].to_owned();
                at += 2;
            }
            let module = &mut self.modules[module];
            module.uses.entry(name).or_insert_with(|| path.clone());
            module.paths.push(path);
            return at;
        }
    }

    /// Returns the module that contains what a path names in a module; `None`: it is in another
    /// crate.
    pub fn target(&self, module: usize, path: &[String]) -> Option<usize> {
        let (from, rest) = self.start(module, path, 0)?;
        self.follow(from, &rest, 0)
    }

    /// Resolves the first segment of a path. Returns the module and the remaining segments.
    /// `depth`: number of declarations followed so far.
    fn start(&self, module: usize, path: &[String], depth: usize) -> Option<(usize, Written)> {
        let (first, rest) = path.split_first()?;
        let own = &self.modules[module];
        match first.as_str() {
            "crate" => Some((0, rest.to_vec())),
            "self" => Some((module, rest.to_vec())),
            "super" => {
                let mut from = own.parent?;
                let more = rest.iter().take_while(|name| *name == "super").count();
                for _ in 0..more {
                    from = self.modules[from].parent?;
                }
                Some((from, rest[more..].to_vec()))
            }
            name if own.children.contains_key(name) => Some((module, path.to_vec())),
            name => {
                let used = own.uses.get(name).filter(|used| used[0] != *name)?;
                let (from, begin) = self.start(module, used, deeper(depth)?)?;
                Some((from, [&begin[..], rest].concat()))
            }
        }
    }

    fn follow(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        let own = &self.modules[module];
        if let Some(child) = own.children.get(first) {
            return self.follow(*child, rest, depth);
        }
        if let Some(used) = own.uses.get(first) {
            let (from, begin) = self.start(module, used, deeper(depth)?)?;
            return self.follow(from, &[&begin[..], rest].concat(), deeper(depth)?);
        }
        for glob in &own.globs {
            let from = self.target_of_glob(module, glob, depth);
            let Some(from) = from.filter(|from| *from != module) else { continue };
            let names = &self.modules[from];
            if names.children.contains_key(first) || names.uses.contains_key(first) {
                return self.follow(from, path, deeper(depth)?);
            }
        }
        Some(module)
    }

    fn target_of_glob(&self, module: usize, glob: &[String], depth: usize) -> Option<usize> {
        let (from, rest) = self.start(module, glob, deeper(depth)?)?;
        self.follow(from, &rest, deeper(depth)?)
    }
}

/// Limits the depth, because declarations may lead to each other.
fn deeper(depth: usize) -> Option<usize> {
    (depth < 20).then_some(depth + 1)
}

/// Returns the file of a module, and the directory of its submodules.
fn files(folder: &Path, name: &str, path: Option<String>) -> (PathBuf, PathBuf) {
    let inner = folder.join(name);
    if let Some(path) = path {
        // It begins at the file that declares the module, which is above its folder unless it is
        // the first one.
        let within = folder.join(&path);
        let above = folder.parent().unwrap_or(folder).join(path);
        return (if within.is_file() { within } else { above }, inner);
    }
    (folder.join(format!("{name}.rs")), inner)
}

fn is_name(token: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphabetic() || letter == '_';
    token.chars().next().is_some_and(is_letter)
}

/// Returns the number of tokens of an item, including its attributes.
fn end_of_item(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 && *token == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Splits a text into names, `::`, strings and single characters, without comments.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = token(rest, first);
        let (word, behind) = rest.split_at(length);
        if !first.is_whitespace() && !word.starts_with("//") && !word.starts_with("/*") {
            tokens.push(word);
        }
        rest = behind;
    }
    tokens
}

/// Returns the length in bytes of the first token of a text.
fn token(text: &str, first: char) -> usize {
    let until = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return until("*/");
    }
    let raw = ["r", "br", "cr"].into_iter().find_map(|prefix| {
        let marks = text.strip_prefix(prefix)?;
        let count = marks.len() - marks.trim_start_matches('#').len();
        marks[count..].starts_with('"').then_some((prefix.len() + count + 1, count))
    });
    if let Some((begin, marks)) = raw {
        let end = format!("\"{}", "#".repeat(marks));
        return text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len());
    }
    match first {
        '"' => quoted(text, '"'),
        'b' if text.starts_with("b\"") => 1 + quoted(&text[1..], '"'),
        'b' if text.starts_with("b'") => 1 + quoted(&text[1..], '\''),
        // A character, or otherwise a lifetime.
        '\'' if text[1..].starts_with('\\') => quoted(text, '\''),
        '\'' => match text[1..].chars().next() {
            Some(letter) if text[1 + letter.len_utf8()..].starts_with('\'') => {
                2 + letter.len_utf8()
            }
            _ => 1,
        },
        ':' if text.starts_with("::") => 2,
        _ if is_name(text) => text
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(text.len()),
        _ => first.len_utf8(),
    }
}

/// Returns the length in bytes of a text in quotes, including the quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
