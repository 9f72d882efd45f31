//! Opens and creates files whose paths other users may control: data sets, lists of blocks, maps
//! for perf, outputs.
//!
//! ```text
//! path of the user  -> resolve  each component; links of other users are refused -> Folder, name
//!                   -> output   links as above                                   -> a new file, or an existing one
//!                   -> staged   links as above; a temporary name until complete  -> the complete file
//! path below it     -> Folder   one descriptor; no links, no `..`                -> File, Folder
//! file that is open -> status   type, owner, mode, number of names               -> accepted, or the reason why not
//! process           -> rights   its user and groups                              -> operations with these rights
//! ```
//!
//! A [`Folder`] is a descriptor, so it does not matter if its path leads elsewhere later. All
//! operations below it take names, or paths of names, and follow no symbolic link. A file is opened
//! only after it is known to be regular: opening a FIFO would block, and opening a device may have
//! an effect.
//!
//! Invariant: nothing that another user can put at a path makes the caller write, remove, or wait
//! elsewhere. *Own* means: belonging to the effective user of this process. Root is no exception: a
//! file of another user is not root's own file.

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
