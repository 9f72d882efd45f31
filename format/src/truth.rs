//! Parses truth files, which list the accesses of a recording: one `clock R|W hex-address` on each
//! line.

use crate::units::{Access, Cycles, Direction, PhysAddr};

/// The form that was expected where a line of a truth file is invalid.
pub type Expected = &'static str;

/// Parses one line; `Ok(None)` for blank lines and comments (`#`).
///
/// # Errors
/// The expected form, if the line is neither blank nor a comment nor an access.
pub fn parse_line(line: &str) -> Result<Option<Access>, Expected> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut fields = line.split_ascii_whitespace();
    let mut field = |expected| fields.next().ok_or(expected);
    let clock = field("a clock")?.parse().map_err(|_| "a decimal clock")?;
    let direction = match field("R or W after the clock")? {
        "R" => Direction::Read,
        "W" => Direction::Write,
        _ => return Err("R or W after the clock"),
    };
    let address =
        u64::from_str_radix(field("an address")?, 16).map_err(|_| "a hexadecimal address")?;
    if fields.next().is_some() {
        return Err("three fields: clock, R or W, address");
    }
    Ok(Some(Access { clock: Cycles(clock), direction, address: PhysAddr(address) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let access = parse_line("347 R 150e7080").unwrap().unwrap();
        assert_eq!(format!("{access}"), "347 R 150e7080");
        assert_eq!(parse_line("# clock R|W address"), Ok(None));
        assert!(parse_line("347 X 1").is_err());
        assert!(parse_line("347 R 1 2").is_err());
    }
}
