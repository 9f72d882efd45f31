//! Opens and creates files whose paths other users may control: data sets, lists of blocks, maps
//! for perf, outputs.
//!
//! ```text
//! path of the user  -> resolve  each component; links of other users are refused -> Folder, name
//!                   -> output   the same                                         -> a new file, or an existing one
//!                   -> staged   the same, under a temporary name until it is whole
//! path below it     -> Folder   one descriptor; no links, no `..`                -> File, Folder
//! file that is open -> status   type, owner, mode, number of names               -> accepted, or the reason why not
//! process           -> rights   its user and groups                              -> what is done for it is done with them
//! ```
//!
//! A [`Folder`] is a descriptor, so what its path leads to later does not matter. All operations
//! below it take names, or paths of names, and follow no symbolic link. A file is opened only after
//! it is known to be a regular one: a FIFO would block, and opening a device may have an effect.
//!
//! Invariant: nothing that another user could have put at a path makes the caller write, remove, or
//! wait elsewhere. *Own* means: of the effective user of this process. Root is no exception: what
//! belongs to another user is not root's own.

#![deny(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod folder;
mod open;
mod output;
mod resolve;
mod rights;
mod staged;
mod status;

pub use folder::Folder;
pub use open::reopen;
pub use output::{create, create_or_replace};
pub use resolve::open_file;
pub use rights::FileRights;
pub use staged::StagedFile;
pub use status::{check_own_file, check_owner, check_private, effective_user, is_regular};
