//! Generates the data sets, once: one for the speed, and one of many small parts for what a part
//! costs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hmtt_dataset::{AddOptions, Dataset, Table};
use hmtt_test_support::card::MAX_ACCESSES;
use hmtt_test_support::traffic::Traffic;

/// Boards, each with one capture.
pub const BOARDS: u64 = 16;
/// Hours of the data set of small parts. Each board has a part for each.
pub const HOURS: u64 = 24;
/// Frames of an hour of it.
const FRAMES_OF_HOUR: u64 = 4;
/// Clocks of 10 ns in an hour.
const CLOCKS_OF_HOUR: u64 = 3600 * 100_000_000;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The data sets.
pub struct Data {
    /// The one for the speed.
    pub large: PathBuf,
    /// Its accesses.
    pub accesses: u64,
    /// The one of many small parts.
    pub parts: PathBuf,
}

/// Sizes of the parts of accesses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// Number of parts.
    pub parts: u64,
    /// Bytes of the parts.
    pub bytes: u64,
    /// Bytes of their footers.
    pub footer_bytes: u64,
}

impl Data {
    /// Generates what is not there yet.
    pub fn new(folder: &Path, accesses: u64) -> Result<Data> {
        let of_board = accesses / BOARDS / MAX_ACCESSES * MAX_ACCESSES;
        ensure!(of_board > 0, "{accesses} accesses are too few: {BOARDS} frames have more");
        let large = folder.join(format!("accesses-{accesses}"));
        generate(&large, |seed| Traffic::dense(of_board, seed))?;
        let parts = folder.join("parts");
        generate(&parts, |seed| Traffic {
            accesses: HOURS * FRAMES_OF_HOUR * MAX_ACCESSES,
            frame_clocks: CLOCKS_OF_HOUR / FRAMES_OF_HOUR,
            seed,
        })?;
        Ok(Data { large, accesses: BOARDS * of_board, parts })
    }
}

/// Generates a data set. It appears whole.
fn generate(path: &Path, traffic: impl Fn(u64) -> Traffic) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let unfinished = path.with_extension("unfinished");
    if unfinished.is_dir() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)
        .with_context(|| format!("{}: cannot write", unfinished.display()))?;
    let dataset = Dataset::new(&unfinished);
    let capture = unfinished.join("capture.pcapng");
    for board in 0..BOARDS {
        traffic(SEED + board).write(&capture);
        let receiver = format!("rack{board}");
        dataset.add(&capture, &AddOptions { run: "bench", receiver: Some(&receiver) })?;
        fs::remove_file(&capture)?;
    }
    Ok(fs::rename(&unfinished, path)?)
}

/// Sizes of the parts of accesses of a data set.
pub fn size(data: &Path) -> Result<Size> {
    let mut size = Size::default();
    for (_, path) in Dataset::new(data).parts_of(Table::Accesses)? {
        let mut file = File::open(data.join(path))?;
        // A Parquet file ends with the length of its footer and four letters.
        let mut length = [0; 4];
        size.bytes += file.seek(SeekFrom::End(-8))? + 8;
        file.read_exact(&mut length)?;
        size.footer_bytes += u64::from(u32::from_le_bytes(length));
        size.parts += 1;
    }
    Ok(size)
}
