//! Makes a change. Any of its steps may have been made already.

use std::io::{self, ErrorKind};

use hmtt_paths::{Folder, check_own_file, is_regular};

use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::journal::{PartStep, Step};
use crate::partition::Partition;

/// Makes the steps of a change. `staged`: folder with the parts that are placed.
pub fn apply(set: &DataFolder, staged: &Folder, steps: &[Step]) -> Result<(), DatasetError> {
    let mut changed = Changed { set, last: None, emptied: Vec::new() };
    for step in steps {
        let path = set.path(step.path());
        match step.parts() {
            Some(PartStep::Place(from, partition, name)) => {
                let folder = changed.create(partition)?;
                let placed = place(staged, from, folder, name);
                placed.map_err(|error| DatasetError::change("place", &path, error))?;
            }
            Some(PartStep::Remove(partition, name)) => {
                let Some(folder) = changed.find(&partition)? else { continue };
                match folder.remove_file(name.as_ref()) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => {
                        removed.map_err(|error| DatasetError::file("remove", &path, error))?
                    }
                }
                changed.emptied.push(partition);
            }
            None => return Err(DatasetError::Journal(path)),
        }
    }
    changed.sync()?;
    changed.emptied.dedup();
    changed.emptied.iter().for_each(|partition| set.remove_empty(partition));
    Ok(())
}

/// Renames a staged part to its place. Does nothing if an earlier process has already placed the
/// part.
fn place(staged: &Folder, from: &str, folder: &Folder, name: &str) -> io::Result<()> {
    match staged.status_of(from.as_ref())? {
        Some(status) => {
            check_own_file(&status)?;
            staged.rename(from.as_ref(), folder, name.as_ref())
        }
        None if folder.status_of(name.as_ref())?.is_some_and(|there| is_regular(&there)) => Ok(()),
        None => Err(ErrorKind::NotFound.into()),
    }
}

/// The partitions that a change touches. Only one folder is open at a time, because steps of one
/// partition follow each other.
struct Changed<'a> {
    set: &'a DataFolder,
    last: Option<(Partition, Folder)>,
    /// Partitions from which parts were removed.
    emptied: Vec<Partition>,
}

impl Changed<'_> {
    /// Opens the folder of a partition, which is created if it does not exist.
    fn create(&mut self, partition: Partition) -> Result<&Folder, DatasetError> {
        let set = self.set;
        self.change(partition, |partition| set.create_partition(partition).map(Some))?
            .ok_or_else(|| DatasetError::NoDataset(set.path("")))
    }

    /// Opens the folder of a partition; `None` if it does not exist.
    fn find(&mut self, partition: &Partition) -> Result<Option<&Folder>, DatasetError> {
        let set = self.set;
        self.change(partition.clone(), |partition| set.partition(partition))
    }

    fn change(
        &mut self,
        partition: Partition,
        open: impl Fn(&Partition) -> Result<Option<Folder>, DatasetError>,
    ) -> Result<Option<&Folder>, DatasetError> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != partition) {
            self.sync()?;
            let folder = open(&partition)?;
            self.last = folder.map(|folder| (partition, folder));
        }
        Ok(self.last.as_ref().map(|(_, folder)| folder))
    }

    /// Makes the names in the open folder durable.
    fn sync(&self) -> Result<(), DatasetError> {
        let Some((partition, folder)) = &self.last else { return Ok(()) };
        let path = self.set.path(partition.folder());
        folder.sync().map_err(|error| DatasetError::file("sync", &path, error))
    }
}
