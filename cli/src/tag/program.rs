//! Reads program files, with line tables if rules choose functions by source file.

use std::path::Path;

use anyhow::{Result, bail};
use hmtt_probe::control::program_image;
use hmtt_probe::elf::Image;
use hmtt_probe::selection::Selection;
use nix::unistd::Pid;

/// Reads a program's file.
pub fn read(path: &Path, selection: &Selection) -> Result<Image> {
    let mut image = Image::read(path)?;
    if selection.has_sources() {
        image.find_sources()?;
    }
    check_sources(&image, selection)?;
    Ok(image)
}

/// Reads the program of a process.
pub fn read_from_process(pid: Pid, selection: &Selection) -> Result<Image> {
    let image = program_image(pid, selection)?;
    check_sources(&image, selection)?;
    Ok(image)
}

fn check_sources(image: &Image, selection: &Selection) -> Result<()> {
    let has_none = image.functions.iter().all(|function| function.source.is_none());
    if selection.has_sources() && has_none && !selection.has_libraries() {
        bail!("{}: rules choose by source file, and it has no line tables", image.path.display());
    }
    Ok(())
}
