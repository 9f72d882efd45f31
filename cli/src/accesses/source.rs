//! Opens the input of an analysis: a file, standard input, or a data set.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::analysis::source::{Ending, Kind, Part, Source};
#[cfg(feature = "dataset")]
use hmtt_dataset::{Dataset, Plan};

use crate::standard_io::{input, is_standard, name_of_input};

/// An open source that has not been read yet.
pub struct Opened {
    /// Printable name of the source.
    pub name: String,
    content: Content,
}

enum Content {
    File(Source),
    #[cfg(feature = "dataset")]
    DataSet(Dataset, Plan),
}

impl Opened {
    /// Opens a file or a data set.
    ///
    /// # Errors
    /// The source cannot be opened, or has no accesses.
    pub fn open(path: &Path) -> Result<Opened> {
        let name = name_of_input(path);
        let content = if is_standard(path) {
            input().map_err(Into::into).and_then(|file| Ok(Content::File(Source::stream(file)?)))
        } else if path.is_dir() {
            data_set(path)
        } else {
            Source::open(path).map(Content::File).map_err(Into::into)
        };
        let content = content.with_context(|| name.clone())?;
        Ok(Opened { name, content })
    }

    /// Kind of the source, such as "data set".
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::File(source) => source.kind().name(),
            #[cfg(feature = "dataset")]
            Content::DataSet(..) => "data set",
        }
    }

    /// Whether the source is a trace of a program.
    pub fn is_program(&self) -> bool {
        matches!(&self.content, Content::File(source) if source.kind() == Kind::Program)
    }

    /// Refuses data sets, whose accesses cannot be divided into groups.
    pub fn check_groups(&self) -> Result<()> {
        match &self.content {
            Content::File(_) => Ok(()),
            #[cfg(feature = "dataset")]
            Content::DataSet(..) => bail!(
                "{} is a data set; --by needs the marks and functions of captures and traces of programs",
                self.name
            ),
        }
    }

    /// Reads the source to its end, and passes on its parts. Each part has the number of its memory
    /// in the source.
    pub fn read(self, with_functions: bool, add: &mut dyn FnMut(usize, Part<'_>)) -> Ending {
        match self.content {
            Content::File(source) if with_functions => source.with_functions().read(add),
            Content::File(source) => source.read(add),
            #[cfg(feature = "dataset")]
            Content::DataSet(dataset, plan) => plan.read(dataset.root(), add),
        }
    }
}

#[cfg(feature = "dataset")]
fn data_set(path: &Path) -> Result<Content> {
    let dataset = Dataset::open(path)?;
    let plan = dataset.plan_pieces()?;
    Ok(Content::DataSet(dataset, plan))
}

#[cfg(not(feature = "dataset"))]
fn data_set(_: &Path) -> Result<Content> {
    bail!(
        "is a folder; this program was built without the cargo feature `dataset`, which reads data sets"
    )
}
