//! Reads the secret that the programs of a cluster share.
//!
//! A program derives a token from the secret, and forgets the secret. The token is sent and
//! compared: 64 hexadecimal digits, whatever bytes the secret has. The secret comes from a file or
//! from the environment, never from an argument, because all users of a machine can read arguments.
//!
//! Invariant: no message of this module and no `Debug` output contains the secret or the token.
//! Only [`Secret::agent`] returns the token.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blake3::Hash;

/// The environment variable with the secret, which is used if no file is named.
pub const VARIABLE: &str = "HMTT_CLUSTER_SECRET";
/// A command that creates a file with a secret.
pub const HOW_TO_MAKE: &str = "(umask 077; head -c 32 /dev/urandom | base64 > FILE)";
/// Fewest bytes of a secret, without the end of the line: 128 bits.
const LEAST_BYTES: usize = 16;
/// Most bytes of a file.
const MOST_BYTES: u64 = 4096;
/// Purpose of the token. The token is derived from the secret and this text. Another version of the
/// protocol has another text.
const CONTEXT: &str = "HMTT 2026-11 token of the programs of a cluster";
/// Start of the header's value. The token follows.
pub(crate) const AGENT: &str = "hmtt-cluster/";
/// Permission bits: all bits of the group, the group's right to read, and all bits of others.
const OF_GROUP: u32 = 0o070;
const READ_OF_GROUP: u32 = 0o040;
const OF_OTHERS: u32 = 0o007;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{}: cannot read the secret", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// Other users can read or change the file.
    #[error(
        "{0}: other users can read or change the secret (mode {mode:03o}); make another one, and `chmod 600 {0}`",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// The file belongs to another user than the user of the process and root.
    #[error(
        "{}: the file of the secret belongs to user {owner}; it must belong to the user who runs the program, or to root",
        path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Number of the user.
        owner: u32,
    },
    /// The secret is too short or too long.
    #[error(
        "{of}: a secret has {LEAST_BYTES} to {MOST_BYTES} bytes, and this one has {bytes}; {HOW_TO_MAKE} makes one"
    )]
    Length {
        /// The file or the environment variable.
        of: String,
        /// Bytes of the secret.
        bytes: usize,
    },
}

/// A secret. Secrets are compared in a time that does not depend on their bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    token: Hash,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl Secret {
    /// Reads the secret from a file or, if none is named, from the environment variable
    /// `HMTT_CLUSTER_SECRET`; `None` without both.
    ///
    /// # Errors
    /// The file cannot be read, other users can read or change it, or it belongs to another user;
    /// or the secret has fewer than 16 or more than 4096 bytes.
    pub fn read(file: Option<&Path>) -> Result<Option<Secret>, SecretError> {
        if let Some(path) = file {
            return Secret::of_file(path).map(Some);
        }
        let Some(value) = std::env::var_os(VARIABLE) else { return Ok(None) };
        Secret::of_bytes(value.as_bytes(), VARIABLE).map(Some)
    }

    fn of_file(path: &Path) -> Result<Secret, SecretError> {
        let failed = |error| SecretError::Read { path: path.to_owned(), error };
        let file = hmtt_paths::open_file(path).map_err(failed)?;
        check(&file.metadata().map_err(failed)?, path)?;
        let bytes = content(&file).map_err(failed)?;
        Secret::of_bytes(&bytes, &path.display().to_string())
    }

    /// Derives the secret from bytes. `source`: their source, for errors. White space at the end is
    /// ignored, because most files end with a line end.
    fn of_bytes(bytes: &[u8], source: &str) -> Result<Secret, SecretError> {
        let bytes = bytes.trim_ascii_end();
        if bytes.len() < LEAST_BYTES || bytes.len() as u64 > MOST_BYTES {
            return Err(SecretError::Length { of: source.to_owned(), bytes: bytes.len() });
        }
        Ok(Secret { token: Hash::from_bytes(blake3::derive_key(CONTEXT, bytes)) })
    }

    /// The value of the header `user-agent` that a program with the secret sends. Whoever knows
    /// this text needs no secret.
    pub fn agent(&self) -> String {
        format!("{AGENT}{}", self.token.to_hex())
    }

    /// Whether a text is the token.
    pub(crate) fn is_token(&self, text: &str) -> bool {
        Hash::from_hex(text).is_ok_and(|token| token == self.token)
    }
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more byte is read, so that a longer file is noticed.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Accepts a file that only its owner can read. The owner must be the user of the process or root.
/// If root owns the file, its group may read it too: systemd and Kubernetes pass a file to a
/// program of another user in this way.
fn check(status: &Metadata, path: &Path) -> Result<(), SecretError> {
    let (owner, mode) = (status.uid(), status.mode() & 0o777);
    if owner != 0 && owner != hmtt_paths::effective_user() {
        return Err(SecretError::Owner { path: path.to_owned(), owner });
    }
    let accepted = if owner == 0 { READ_OF_GROUP } else { 0 };
    if mode & (OF_GROUP | OF_OTHERS) & !accepted != 0 {
        return Err(SecretError::Open { path: path.to_owned(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TEXT: &str = "0123456789abcdef";

    /// Writes a file with these permissions, and reads the secret in it.
    fn read(text: &str, mode: u32) -> Result<Secret, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let secret = Secret::read(Some(&path)).map_err(|error| error.to_string())?;
        Ok(secret.expect("a file was named"))
    }

    #[test]
    fn a_secret_has_the_bytes_before_the_end_of_the_line() {
        let secret = read(TEXT, 0o600).unwrap();
        assert_eq!(read(&format!("{TEXT}\n"), 0o400).unwrap(), secret);
        assert_eq!(read(&format!("{TEXT}\r\n"), 0o600).unwrap(), secret);
        assert_ne!(read(&format!(" {TEXT}"), 0o600).unwrap(), secret);
        assert_ne!(read("0123456789abcdeF", 0o600).unwrap(), secret);
    }

    #[test]
    fn files_that_others_can_use_are_refused() {
        for mode in [0o604, 0o602, 0o601, 0o620, 0o644, 0o660, 0o666] {
            let reason = read(TEXT, mode).unwrap_err();
            assert!(reason.contains(&format!("(mode {mode:o})")), "{reason}");
            assert!(reason.contains("chmod 600"), "{reason}");
        }
        // Only root can give a file to any group.
        let is_root = hmtt_paths::effective_user() == 0;
        assert_eq!(read(TEXT, 0o440).is_ok(), is_root);
    }

    #[test]
    fn short_and_long_secrets_are_refused() {
        for text in ["", "\n", "0123456789abcde", "0123456789abcde\n\n", "               \n"] {
            let reason = read(text, 0o600).unwrap_err();
            assert!(reason.contains("a secret has 16 to 4096 bytes"), "{reason}");
            assert!(reason.contains(HOW_TO_MAKE), "{reason}");
        }
        assert!(read(&"a".repeat(4096), 0o600).is_ok());
        assert!(read(&"a".repeat(4097), 0o600).is_err());
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [folder.path(), &missing, &fifo, Path::new("/dev/zero")] {
            let reason = Secret::read(Some(path)).unwrap_err().to_string();
            assert!(reason.contains("cannot read the secret"), "{reason}");
        }
    }

    #[test]
    fn only_the_token_of_the_same_secret_is_accepted() {
        let secret = read(TEXT, 0o600).unwrap();
        let agent = secret.agent();
        let token = agent.strip_prefix(AGENT).unwrap();
        assert!(!agent.contains(TEXT));
        assert!(secret.is_token(token));
        let other = read("0123456789abcdeF", 0o600).unwrap();
        assert!(!other.is_token(token));
        for text in ["", &token[1..], &format!("{token}0"), &format!("{token} "), TEXT] {
            assert!(!secret.is_token(text), "{text}");
        }
        assert_eq!(format!("{secret:?}"), "Secret { .. }");
    }
}
