//! Writes charts as SVG or PNG files into a directory.
//!
//! All charts are drawn before the first file is written, so that an error in drawing leaves no
//! file. Each file is written under another name, and renamed when it is complete. An existing file
//! is replaced only if the user asks for that. PNG is drawn from the SVG. The texts of a PNG need a
//! font of the system. Without a font PNG is refused, because charts without numbers are of no use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::chart::{Chart, Parts};
use super::svg;
use crate::accesses::file;

/// Pixels of a PNG for each CSS pixel: 288 pixels in an inch.
const SCALE: f32 = 3.0;
/// Permissions of created directories, before the umask is applied.
const FOLDER_MODE: u32 = 0o777;
/// Preferred fonts. They are common, and have all letters that charts use.
const FONTS: [&str; 5] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];

/// A drawn file that is not yet written.
pub struct Image {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The name of a chart's file: the words of its title with hyphens. Example:
/// `source-2-reuse-distances.svg`.
fn file_name(memory: Option<usize>, title: &str, extension: &str) -> String {
    let letters = title.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
    });
    let name: String = letters.collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    let source = memory.map_or_else(String::new, |number| format!("source-{number}-"));
    format!("{source}{}.{extension}", words.join("-"))
}

/// Refuses a path that exists and is no directory. Called before the files are read.
pub fn check(directory: &Path) -> Result<()> {
    let is_other = directory.symlink_metadata().is_ok() && !directory.is_dir();
    ensure!(!is_other, "{} is no directory", directory.display());
    Ok(())
}

/// Loads the fonts of the system, and sets the font of charts.
///
/// # Errors
/// The system has no font.
pub fn fonts() -> Result<Arc<fontdb::Database>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let has = |name: &&str| {
        let families = fonts.faces().flat_map(|face| &face.families);
        families.into_iter().any(|(family, _)| family == name)
    };
    let family = FONTS.iter().find(|name| has(name)).map(|name| (*name).to_owned());
    let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
    let family = family.or_else(any).context(
        "no font is installed, so that a PNG would have no numbers; install one (fonts-dejavu-core), or use --svg",
    )?;
    fonts.set_sans_serif_family(family);
    Ok(Arc::new(fonts))
}

fn png(svg: &str, fontdb: &Arc<fontdb::Database>) -> Result<Vec<u8>> {
    let options = Options {
        fontdb: Arc::clone(fontdb),
        // Charts refer to no other files, so none are looked for.
        resources_dir: None,
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).context("a chart cannot be drawn")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("a chart is too large")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).context("a chart is too large")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("a chart cannot be written as PNG")
}

/// Draws all charts for a directory: as PNG if there are fonts, otherwise as SVG.
///
/// # Errors
/// A chart cannot be drawn, or a file exists and `force` is not set.
pub fn draw(
    directory: &Path,
    parts: &Parts,
    files: &str,
    fontdb: Option<&Arc<fontdb::Database>>,
    force: bool,
) -> Result<Vec<Image>> {
    let image = |(memory, chart): (Option<usize>, &Chart)| {
        let svg = svg::svg(chart, files);
        let (extension, bytes) = match fontdb {
            None => ("svg", svg.into_bytes()),
            Some(fontdb) => ("png", png(&svg, fontdb)?),
        };
        let path = directory.join(file_name(memory, &chart.title, extension));
        file::check(&path, force)?;
        Ok(Image { path, bytes })
    };
    parts.charts().map(image).collect()
}

/// Writes drawn charts. Missing directories are created.
///
/// # Errors
/// A file could not be written. The files before it are complete.
pub fn write(directory: &Path, images: &[Image], force: bool) -> Result<()> {
    hmtt_paths::Folder::create_to_change(directory, FOLDER_MODE)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    images.iter().try_for_each(|image| file::write(&image.path, &image.bytes, force))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_words_of_titles() {
        assert_eq!(file_name(None, "Miss-ratio curve", "svg"), "miss-ratio-curve.svg");
        assert_eq!(file_name(Some(2), "Rows over time, A", "png"), "source-2-rows-over-time-a.png");
        assert_eq!(file_name(None, "../x", "svg"), "x.svg");
    }

    #[test]
    fn letters_are_drawn() {
        let Ok(fonts) = fonts() else { return };
        let draw = |text: &str| {
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\">\
                 <text x=\"2\" y=\"15\" font-family=\"sans-serif\">{text}</text></svg>"
            );
            let drawn = Pixmap::decode_png(&png(&svg, &fonts).unwrap()).unwrap();
            drawn.pixels().iter().filter(|pixel| pixel.alpha() > 128).count()
        };
        assert!(draw("8 ms") > 50 && draw("") == 0);
    }
}
