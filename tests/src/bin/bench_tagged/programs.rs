//! Sources of C, ours and those that packages of Rust bring along, to programs that are measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What is run.
pub struct Program {
    pub name: &'static str,
    /// As it is, and as `gcc -pg` makes it; the latter needs its source.
    pub plain: PathBuf,
    pub profiled: Option<PathBuf>,
    before: Vec<String>,
    /// The last word: much work, less for logs, and little for slow tools.
    pub sizes: [String; 3],
}

impl Program {
    pub fn words(&self, size: usize) -> Vec<String> {
        [&self.before[..], &self.sizes[size..=size]].concat()
    }
}

fn ours(file: &str) -> String {
    format!("{}/programs/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn compile(output: &Path, flags: &[String], files: &[String]) -> Result<()> {
    let mut command = Command::new("cc");
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

/// The library that says what a process has used.
pub fn own_time(folder: &Path) -> Result<PathBuf> {
    let library = folder.join("own_time.so");
    compile(&library, &["-shared".into(), "-fPIC".into()], &[ours("own_time.c")])?;
    Ok(library)
}

/// Where cargo has put a package.
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
    let found = packages.iter().find(|package| package["name"] == name);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("no package {name}"))?;
    Ok(Path::new(manifest).parent().context("in a folder")?.to_owned())
}

/// The folder in a package that has a file, and all its sources but some.
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
    sizes: [&str; 3],
) -> Result<Program> {
    let (plain, profiled) = (folder.join(name), folder.join(format!("{name}-pg")));
    compile(&plain, flags, files)?;
    compile(&profiled, &[flags, &["-pg".into()]].concat(), files)?;
    let sizes = sizes.map(String::from);
    Ok(Program { name, plain, profiled: Some(profiled), before, sizes })
}

fn lua(folder: &Path) -> Result<Program> {
    let package = package("lua-src")?.join("lua-5.4.9");
    let parent = package.parent().context("in a folder")?;
    let (place, mut files) = sources(parent, "lutf8lib.c", &["lua.c", "luac.c"])?;
    files.push(ours("lua_main.c"));
    let flags = ["-DLUA_USE_POSIX".into(), format!("-I{place}")];
    build(folder, "lua", &flags, &files, vec![ours("work.lua")], ["60", "20", "2"])
}

fn bzip2(folder: &Path, inputs: &[String; 3]) -> Result<Program> {
    let without = ["bzip2recover.c", "dlltest.c", "mk251.c", "spewG.c", "unzcrash.c"];
    let (_, files) = sources(&package("bzip2-sys")?, "bzip2.c", &without)?;
    let sizes = inputs.each_ref().map(String::as_str);
    build(folder, "bzip2", &[], &files, vec!["-k".into(), "-c".into()], sizes)
}

/// All there are; what is missing is said.
pub fn all(folder: &Path) -> Result<Vec<Program>> {
    let mut inputs = [const { String::new() }; 3];
    for (input, bytes) in inputs.iter_mut().zip([6_000_000u64, 2_000_000, 300_000]) {
        let path = folder.join(format!("input-{bytes}"));
        let text: Vec<u8> = (0..bytes).map(|n| (n * n * 7 + n / 3) as u8 % 97).collect();
        std::fs::write(&path, text)?;
        *input = path.display().to_string();
    }
    let own =
        |name, source: &str, sizes| build(folder, name, &[], &[ours(source)], Vec::new(), sizes);
    let mut programs = vec![
        own("fib", "fib.c", ["41", "36", "30"])?,
        own("tree", "tree.c", ["300000", "100000", "10000"])?,
    ];
    for more in [lua(folder), bzip2(folder, &inputs)] {
        match more {
            Ok(program) => programs.push(program),
            Err(error) => eprintln!("skipped: {error:#}"),
        }
    }
    let xz = PathBuf::from("/usr/bin/xz");
    if xz.exists() {
        let before = ["-k", "-c", "-3"].map(String::from).into();
        programs.push(Program { name: "xz", plain: xz, profiled: None, before, sizes: inputs });
    }
    Ok(programs)
}
