//! Builds the programs to be measured from C sources, of this project and in Rust packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Number of amounts of work of each program.
const SIZES: usize = 4;

/// How a program was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Compiled without instrumentation.
    Plain,
    /// Compiled with `gcc -pg`.
    Profiled,
    /// Compiled with `clang -fxray-instrument` for all functions.
    Xray,
}

/// A program to be measured.
#[derive(Debug)]
pub struct Program {
    /// Name in tables.
    pub name: &'static str,
    /// The untagged program. Other builds need its source.
    pub plain: PathBuf,
    others: Vec<(Build, PathBuf)>,
    /// Whether averages include the program. Programs of this project and small programs are not
    /// included.
    pub is_real: bool,
    /// Rules that select the functions to be tagged. Without rules, the program itself is tagged.
    pub rules: Vec<String>,
    before: Vec<String>,
    /// The last argument, for each amount of work. The amounts are: large; smaller, for logs;
    /// small, for slow tools; and an amount that takes at least three seconds.
    pub sizes: [String; SIZES],
}

impl Program {
    /// Returns a program of Debian, if it is installed. The code of some programs is in a library.
    fn of_debian(
        name: &'static str,
        library: Option<&str>,
        before: &[&str],
        sizes: [String; SIZES],
    ) -> Option<Program> {
        let plain = std::fs::canonicalize(format!("/usr/bin/{name}")).ok()?;
        let before = before.iter().map(|word| (*word).to_owned()).collect();
        let rule = |library| ["-i".to_owned(), format!("library={library}.so*")];
        let rules = library.into_iter().flat_map(rule).collect();
        Some(Program { name, plain, others: Vec::new(), is_real: true, rules, before, sizes })
    }

    /// Returns the path of a build, if it exists.
    pub fn built(&self, build: Build) -> Option<&Path> {
        let other = self.others.iter().find(|(other, _)| *other == build);
        match build {
            Build::Plain => Some(&self.plain),
            _ => other.map(|(_, path)| path.as_path()),
        }
    }

    /// Arguments for an amount of work.
    pub fn words(&self, size: usize) -> Vec<String> {
        [&self.before[..], &self.sizes[size..=size]].concat()
    }
}

fn ours(file: &str) -> String {
    format!("{}/programs/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// A compiler that supports XRay.
const CLANG: &str = "clang-14";

fn compile(compiler: &str, output: &Path, flags: &[String], files: &[String]) -> Result<()> {
    let mut command = Command::new(compiler);
    let done = command
        .args(["-O2", "-w", "-o"])
        .arg(output)
        .args(flags)
        .args(files)
        .arg("-lm")
        .output()?;
    if !done.status.success() {
        bail!("{}: {}", output.display(), String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

/// Builds the library that reports the processor time of a process.
///
/// # Errors
/// The compiler fails.
pub fn own_time(folder: &Path) -> Result<PathBuf> {
    let library = folder.join("own_time.so");
    compile("cc", &library, &["-shared".into(), "-fPIC".into()], &[ours("own_time.c")])?;
    Ok(library)
}

/// Returns the directory of a package's source, as cargo reports it.
fn package(name: &str) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args([
        "metadata",
        "--offline",
        "--format-version=1",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let listed = packages.iter().find(|package| package["name"] == name);
    let manifest = listed.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("no package {name}"))?;
    Ok(Path::new(manifest).parent().context("in a folder")?.to_owned())
}

/// Returns the directory in a package that contains the file `with`, and its sources except
/// `without`.
fn sources(package: &Path, with: &str, without: &[&str]) -> Result<(String, Vec<String>)> {
    let folders = std::fs::read_dir(package)?.flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.join(with).exists()).collect();
    folders.sort();
    let folder = folders.pop().with_context(|| format!("no {with}"))?;
    let files = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    let files = files.filter(|file| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".c") && !without.contains(&name)
    });
    let files = files.map(|file| file.display().to_string()).collect();
    Ok((folder.display().to_string(), files))
}

fn build(
    folder: &Path,
    name: &'static str,
    flags: &[String],
    files: &[String],
    before: Vec<String>,
    sizes: [&str; SIZES],
) -> Result<Program> {
    let plain = folder.join(name);
    compile("cc", &plain, flags, files)?;
    let profiled = folder.join(format!("{name}-pg"));
    compile("cc", &profiled, &[flags, &["-pg".into()]].concat(), files)?;
    let mut others = vec![(Build::Profiled, profiled)];
    if crate::has(CLANG) {
        let xray = folder.join(format!("{name}-xray"));
        let more = ["-fxray-instrument", "-fxray-instruction-threshold=1"].map(String::from);
        compile(CLANG, &xray, &[flags, &more].concat(), files)?;
        others.push((Build::Xray, xray));
    }
    let is_real = !before.is_empty();
    let rules = Vec::new();
    Ok(Program { name, plain, others, is_real, rules, before, sizes: sizes.map(String::from) })
}

fn lua(folder: &Path) -> Result<Program> {
    // The package contains several versions. The last one, 5.5.1, is used.
    let package = package("lua-src")?;
    let (place, mut files) = sources(&package, "lutf8lib.c", &["lua.c", "luac.c"])?;
    files.push(ours("lua_main.c"));
    let flags = ["-DLUA_USE_POSIX".into(), format!("-I{place}")];
    build(folder, "lua", &flags, &files, vec![ours("work.lua")], ["60", "20", "2", "1800"])
}

fn bzip2(folder: &Path, inputs: &[String; SIZES]) -> Result<Program> {
    let without = ["bzip2recover.c", "dlltest.c", "mk251.c", "spewG.c", "unzcrash.c"];
    let (_, files) = sources(&package("bzip2-sys")?, "bzip2.c", &without)?;
    let sizes = inputs.each_ref().map(String::as_str);
    build(folder, "bzip2", &[], &files, vec!["-k".into(), "-c".into()], sizes)
}

/// Returns the C compiler itself, which is much larger than an instruction cache.
///
/// # Errors
/// The compiler is not installed, or its input cannot be written.
pub fn compiler(folder: &Path) -> Result<Program> {
    let output = Command::new("cc").arg("-print-prog-name=cc1").output()?;
    let plain = std::fs::canonicalize(String::from_utf8(output.stdout)?.trim());
    let plain = plain.context("cc1")?;
    let mut sizes = [const { String::new() }; SIZES];
    for (size, functions) in sizes.iter_mut().zip([600, 200, 20, 6000]) {
        let path = folder.join(format!("functions-{functions}.c"));
        let texts = (0..functions).map(|number| {
            let name = format!("{}_{number}", ["sum", "sort", "find"][number % 3]);
            let body = match number % 3 {
                0 => "long s = 0; for (int i = 0; i < n; i++) s += a[i] * (long)i ^ s >> 3; return s;",
                1 => {
                    "for (int i = 1; i < n; i++) for (int j = i; j && a[j] < a[j - 1]; j--) \
                     { int t = a[j]; a[j] = a[j - 1]; a[j - 1] = t; } return a[0];"
                }
                _ => {
                    "switch (n & 7) { case 0: return a[0]; case 3: return a[1] + n; case 5: return \
                     a[2] / (n + 1); default: while (n-- > 0) if (a[n] == 7) return n; } return -1;"
                }
            };
            format!("long {name}(int *a, int n) {{ {body} }}\n")
        });
        std::fs::write(&path, texts.collect::<String>())?;
        *size = path.display().to_string();
    }
    let before = ["-quiet", "-O2", "-o", "/dev/null"].map(String::from).to_vec();
    let (others, rules) = (Vec::new(), Vec::new());
    Ok(Program { name: "cc1", plain, others, is_real: true, rules, before, sizes })
}

/// Returns all available programs, and prints the names of the missing ones.
///
/// # Errors
/// A program of ours cannot be compiled, or its input cannot be written.
pub fn all(folder: &Path) -> Result<Vec<Program>> {
    let mut inputs = [const { String::new() }; SIZES];
    for (input, bytes) in inputs.iter_mut().zip([6_000_000u64, 2_000_000, 300_000, 20_000_000]) {
        let path = folder.join(format!("input-{bytes}"));
        let text: Vec<u8> = (0..bytes).map(|n| (n * n * 7 + n / 3) as u8 % 97).collect();
        std::fs::write(&path, text)?;
        *input = path.display().to_string();
    }
    let own =
        |name, source: &str, sizes| build(folder, name, &[], &[ours(source)], Vec::new(), sizes);
    let mut programs = vec![
        own("fib", "fib.c", ["41", "36", "30", "46"])?,
        own("tree", "tree.c", ["300000", "100000", "10000", "4000000"])?,
    ];
    for more in [lua(folder), bzip2(folder, &inputs)] {
        match more {
            Ok(program) => programs.push(program),
            Err(error) => eprintln!("skipped: {error:#}"),
        }
    }
    let script = ours("work.py");
    let turns = ["400", "60", "2", "1000"].map(String::from);
    let python = Program::of_debian("python3", None, &["-S", "-E", &script], turns);
    // The last argument is a query.
    let rows = ["2000000", "600000", "60000", "5000000"].map(|rows| {
        format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) \
             select sum(length(printf('%d %s', i, hex(i % 97)))), count(distinct i % 1009) from n;"
        )
    });
    let sqlite = Program::of_debian("sqlite3", Some("libsqlite3"), &[":memory:"], rows);
    let xz = Program::of_debian("xz", Some("liblzma"), &["-k", "-c", "-3"], inputs);
    programs.extend([python, sqlite, xz].into_iter().flatten());
    Ok(programs)
}
