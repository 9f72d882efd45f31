//! Builds programs of every kind from small sources, and runs tools on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// C functions of every kind: local, aliased, indirect, without a size, with a separate part.
const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int __attribute__((noinline)) local(int x) { return x * 3 + 1; }
int global(int x) { return local(x) + 1; }
int alias(int x) __attribute__((alias("global")));
int __alias(int x) __attribute__((weak, alias("global")));
typedef int binary(int, int);
static int plus(int a, int b) { return a + b; }
static binary *resolve(void) { return plus; }
int chosen(int a, int b) __attribute__((ifunc("resolve")));
__asm__(".text\n.globl sizeless\n.type sizeless,@function\nsizeless: mov $1, %eax\nret\n");
int sizeless(void);
int __attribute__((cold, noinline)) complain(const char *why) { fputs(why, stderr); return 2; }
int __attribute__((noinline)) divided(int a, int b, char *s) {
    if (__builtin_expect(b == 0, 0)) { strcpy(s, "b"); complain(s); exit(complain("zero")); }
    return a / b + (int)strlen(s);
}
int main(int argc, char **argv) {
    char s[64] = "x";
    printf("%d\n", global(argc) + alias(2) + chosen(1, argc) + sizeless() + divided(8, argc, s));
    return 0;
}
"#;
/// C++ templates, constructors, lambdas, exceptions.
const CXX: &str = r#"
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
namespace shapes {
template <typename T> struct Box {
    std::vector<T> all;
    explicit Box(T one) : all{one} {}
    virtual ~Box() {}
    T &at(unsigned long i) { if (i >= all.size()) throw std::out_of_range("box"); return all[i]; }
};
template <typename T> __attribute__((noinline)) T twice(T x) { return x + x; }
namespace { __attribute__((noinline)) int hidden(const char *s, int (&a)[3]) { return s[0] + a[1]; } }
int operator*(const Box<int> &b, std::map<std::string, int> m) { return b.all[0] * m["x"]; }
}
int main(int argc, char **) {
    int a[3] = {1, 2, argc};
    shapes::Box<int> box(argc);
    shapes::Box<std::string> texts("t");
    auto lambda = [&](int x) { return x + box.at(0); };
    try { box.at(7); } catch (const std::exception &e) { std::cout << e.what() << "\n"; }
    std::cout << shapes::twice(std::string("a")) << shapes::twice(2) << lambda(3)
              << shapes::hidden("q", a) << texts.at(0) << box * std::map<std::string, int>{} << "\n";
}
"#;
const RUST: &str = r#"
mod shapes {
    pub trait Area { fn area(&self) -> u32; }
    pub struct Square(pub u32);
    impl Area for Square { #[inline(never)] fn area(&self) -> u32 { self.0 * self.0 } }
    #[inline(never)] pub fn total<T: Area>(all: &[T]) -> u32 { all.iter().map(Area::area).sum() }
}
fn main() {
    let all = vec![shapes::Square(std::env::args().count() as u32)];
    println!("{}", shapes::total(&all));
}
"#;

/// Ways to build the C source: name and compiler arguments.
pub(crate) const BUILDS: [(&str, &[&str]); 4] = [
    ("pie", &["-O2", "-pie", "-fPIE"]),
    ("no-pie", &["-O2", "-no-pie", "-fno-pie"]),
    ("static", &["-O2", "-static"]),
    ("library", &["-O2", "-shared", "-fPIC"]),
];

/// Builds programs in a temporary directory.
pub(crate) struct Programs {
    pub folder: TempDir,
}

impl Programs {
    pub(crate) fn new() -> Programs {
        Programs { folder: tempfile::tempdir().unwrap() }
    }

    /// Builds the C source. `None` if that is not possible here.
    pub(crate) fn c(&self, name: &str, arguments: &[&str]) -> Option<PathBuf> {
        self.build("cc", name, "c", C, arguments)
    }

    /// Builds the C++ source.
    pub(crate) fn cxx(&self, name: &str, arguments: &[&str]) -> Option<PathBuf> {
        self.build("g++", name, "cc", CXX, arguments)
    }

    /// Builds the Rust source.
    pub(crate) fn rust(&self, name: &str, arguments: &[&str]) -> Option<PathBuf> {
        self.build("rustc", name, "rs", RUST, arguments)
    }

    /// Builds any source; `extension` is that of the source file.
    pub(crate) fn build(
        &self,
        compiler: &str,
        name: &str,
        extension: &str,
        text: &str,
        arguments: &[&str],
    ) -> Option<PathBuf> {
        let program = self.folder.path().join(name);
        let source = program.with_extension(extension);
        fs::write(&source, text).unwrap();
        let (source, output) = (source.to_str().unwrap(), program.to_str().unwrap());
        run(compiler, &[&[source, "-o", output], arguments].concat())?;
        Some(program)
    }

    /// Makes a stripped copy of a program, in the same directory.
    pub(crate) fn stripped(&self, program: &Path) -> Option<PathBuf> {
        let output = self.folder.path().join(program.file_name()?).with_extension("stripped");
        run("strip", &["-o", output.to_str()?, program.to_str()?])?;
        Some(output)
    }

    /// Builds every program that can be built here, and adds some programs of the system.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let c = BUILDS.into_iter().filter_map(|(name, arguments)| self.c(name, arguments));
        let mut paths: Vec<PathBuf> = c.collect();
        paths.extend(self.cxx("cxx", &["-O1"]));
        paths.extend(self.cxx("cxx-static", &["-O2", "-static"]));
        paths.extend(self.rust("rust", &["-O"]));
        paths.extend(system());
        paths
    }
}

/// Programs and libraries of the system; distributions usually strip them.
pub(crate) fn system() -> Vec<PathBuf> {
    let names = ["/usr/bin/bzip2", "/usr/bin/sqlite3", "/usr/lib/x86_64-linux-gnu/libc.so.6"];
    let exists = |path: &PathBuf| path.exists() || skip(&path.display(), "not exists");
    names.into_iter().map(PathBuf::from).filter(exists).collect()
}

/// Output of a tool; `None`, with a message, if the tool is missing or fails.
pub(crate) fn run(tool: &str, arguments: &[&str]) -> Option<String> {
    // The output is parsed, so it must be in English.
    let output = Command::new(tool).args(arguments).env("LC_ALL", "C").output();
    let reason = match output {
        // readelf also fails if it has printed everything but found something unusual.
        Ok(output) if output.status.success() || !output.stdout.is_empty() => {
            return Some(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    skip(&format_args!("{tool} {arguments:?}"), &reason);
    None
}

fn skip(what: &dyn std::fmt::Display, reason: &str) -> bool {
    eprintln!("skipped: {what}: {reason}");
    false
}
