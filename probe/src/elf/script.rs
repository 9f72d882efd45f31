//! Recognizes scripts, which can be started as programs but are not ELF files.

use hmtt_format::escape;

/// Bytes of a script's first line that the kernel reads (Linux, `BINPRM_BUF_SIZE`).
pub(crate) const LINE_BYTES: usize = 256;

/// Returns the interpreter in the first line of a script, escaped for printing; `None` if the file
/// is no script.
pub(crate) fn interpreter(bytes: &[u8]) -> Option<String> {
    let line = bytes.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES)]).trim().to_owned();
    Some(escape::name(line.split([' ', '\t']).next().unwrap_or_default()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_escaped_for_printing() {
        assert_eq!(interpreter(b"#! /bin/a\x1bb -x\nrest").unwrap(), "/bin/a\\u{1b}b");
        assert_eq!(interpreter(b"\x7fELF"), None);
    }
}
