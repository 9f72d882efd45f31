//! Tests programs from the sources in packages of Rust: an interpreter and a compressor.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::oracle::Real;
use super::{FOLDER, compile, sources};
use crate::{scratch, skipped};

/// Returns the directory of a package's source; `None` if the test is skipped.
fn package(name: &str) -> Option<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args([
        "metadata",
        "--offline",
        "--format-version=1",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let metadata: Option<Value> =
        output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let packages = metadata.as_ref().and_then(|all| all["packages"].as_array());
    let entry = packages.into_iter().flatten().find(|package| package["name"] == name);
    let manifest = entry.and_then(|package| package["manifest_path"].as_str());
    if manifest.is_none() {
        skipped(format!("no package {name}"));
    }
    Some(PathBuf::from(manifest?).parent()?.to_owned())
}

#[test]
fn counts_of_lua_equal_those_of_callgrind() {
    let Some(package) = package("lua-src") else { return };
    let folder = package.join("lua-5.4.9");
    let mut files = sources(&folder, &["lua.c", "luac.c"]);
    files.push(format!("{FOLDER}/lua_main.c"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    // Makes everything constant that depends on addresses or the time.
    let fixed = "-Dluai_makeseed(L)=42u -Dl_randomizePivot()=0u -DSTRCACHE_N=1 -DSTRCACHE_M=2";
    let flags = format!("-O2 -DLUA_USE_POSIX {fixed} -I{}", folder.display());
    let Some(program) = compile("cc", "real-lua", &flags, &files) else { return };
    let mut real = Real::new("real-lua", program);
    real.words = vec![format!("{FOLDER}/script.lua")];
    real.check();
}

#[test]
fn counts_of_bzip2_equal_those_of_callgrind() {
    let Some(package) = package("bzip2-sys") else { return };
    let Some(folder) = std::fs::read_dir(&package)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("bzip2.c").exists())
    else {
        return skipped("no sources of bzip2");
    };
    let without = ["bzip2recover.c", "dlltest.c", "mk251.c", "spewG.c", "unzcrash.c"];
    let files = sources(&folder, &without);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let input = scratch("real-bzip2.txt");
    let text: Vec<u8> = (0..60_000u64).map(|n| (n * n * 7 + n / 3) as u8 % 97).collect();
    std::fs::write(&input, text).unwrap();
    for flags in ["-O2", "-O0"] {
        let name = format!("real-bzip2{flags}");
        let Some(program) = compile("cc", &name, flags, &files) else { return };
        let mut real = Real::new(&name, program);
        real.words = vec!["-k".into(), "-c".into(), input.to_str().unwrap().into()];
        real.check();
    }
}
