//! Inserts the required frequencies of a build into a constraints file for nextpnr. The file is a
//! PCF (`set_frequency NET MHZ`) or an LPF (`FREQUENCY NET "NET" MHZ MHZ;`).

use super::{BitstreamError, Requirement};

/// Returns the text with the MHz of each requirement in the line of its net.
pub fn with_clocks(text: &str, requirements: &[Requirement]) -> Result<String, BitstreamError> {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for requirement in requirements {
        let line = lines
            .iter_mut()
            .find(|line| net_of(line) == Some(requirement.net))
            .ok_or(BitstreamError::NoClockLine(requirement.net))?;
        let is_number = |word: &&str| word.parse::<f64>().is_ok();
        let number = line.split_whitespace().find(is_number);
        let number = number.ok_or(BitstreamError::NoClockLine(requirement.net))?;
        let at = number.as_ptr() as usize - line.as_ptr() as usize;
        let wanted = mhz(requirement.mhz);
        line.replace_range(at..at + number.len(), &wanted);
    }
    Ok(lines.join("\n") + "\n")
}

/// Returns the net of a frequency line.
fn net_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let net = match words.next()? {
        "set_frequency" => words.next()?,
        "FREQUENCY" => words.nth(1)?,
        _ => return None,
    };
    Some(net.trim_matches('"'))
}

/// Formats MHz for a constraint, rounded up, so that no slower clock meets it.
fn mhz(mhz: f64) -> String {
    format!("{}", (mhz * 1000.0 - 1e-6).ceil() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_s_clock_replaces_the_file_s() {
        let wanted = [Requirement { name: "DDR", net: "d.ck", mhz: 1e6 / 6000.0 }];
        let pcf = "set_io d.ck A1\nset_frequency d.ck  100";
        let text = with_clocks(pcf, &wanted).expect("a line");
        assert_eq!(text, "set_io d.ck A1\nset_frequency d.ck  166.667\n");
        let lpf = with_clocks("FREQUENCY NET \"d.ck\" 100 MHZ;", &wanted).expect("a line");
        assert_eq!(lpf, "FREQUENCY NET \"d.ck\" 166.667 MHZ;\n");
        assert!(with_clocks("set_frequency other 100", &wanted).is_err());
    }
}
