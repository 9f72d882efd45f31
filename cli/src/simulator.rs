//! Describes a file that was written for a simulator, and how to run the simulator: one paragraph
//! on standard error.

use std::borrow::Cow;
use std::path::Path;

use hmtt::table::requests::{LINE_BYTES, RequestSums};
use hmtt_format::escape;

use super::format::Format;
use super::standard_io::is_standard;

/// Clock period in picoseconds at 1 MHz. Divided by a clock period, it is the frequency in MHz.
const MHZ_PS: u32 = 1_000_000;

/// Unit of the requests' cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockUnit {
    /// Clocks of the bus that a card has recorded.
    Bus,
    /// Instructions that the program has executed.
    #[cfg_attr(not(feature = "tag"), allow(dead_code))]
    Instructions,
    /// Accesses, because the trace has no times.
    Accesses,
    /// Units of time in a trace that another program has written.
    Imported,
}

/// A file that was written for a simulator.
pub struct SimulatorFile<'f> {
    /// Format of the file.
    pub format: Format,
    /// Path of the file; `None` or `-` for standard output.
    pub path: Option<&'f Path>,
    /// Sums of the requests or instructions in the file.
    pub sums: RequestSums,
    /// Unit of the requests' cycles.
    pub clock: ClockUnit,
    /// Whether the requests are the misses and write-backs of modelled caches.
    pub has_caches: bool,
}

/// Quotes a path for a shell. Example: `it's` becomes `'it'\''s'`.
fn shell_word(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:@%,".contains(&byte);
    if !path.is_empty() && !path.starts_with('-') && path.bytes().all(is_plain) {
        return path.to_owned();
    }
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    format!("'{}'", escape::message(&path).to_string().replace('\'', r"'\''"))
}

impl SimulatorFile<'_> {
    /// Path of the file; `None` for standard output.
    fn path(&self) -> Option<Cow<'_, str>> {
        self.path.filter(|path| !is_standard(path)).map(Path::to_string_lossy)
    }

    /// Prints the paragraph.
    pub fn report(&self) {
        let name = self.path().map_or_else(
            || "standard output".to_owned(),
            |path| escape::message(&path).to_string(),
        );
        report!("hmtt: {name}: {}", self.paragraph());
    }

    fn paragraph(&self) -> String {
        let mut sentences = vec![self.counts()];
        sentences.extend(self.remarks());
        if self.sums.reads > 0 || self.sums.writes > 0 || self.sums.instructions > 0 {
            sentences.extend(self.command_line());
        }
        sentences.join(" ")
    }

    /// A sentence with the counts of the file.
    fn counts(&self) -> String {
        let RequestSums { reads, writes, instructions, last_clock, tck_ps, .. } = self.sums;
        if self.format.has_instructions() {
            return format!("{instructions} instructions with {reads} reads and {writes} writes.");
        }
        let unit = match self.clock {
            ClockUnit::Bus => "a clock of the bus",
            ClockUnit::Instructions => "an executed instruction",
            ClockUnit::Accesses => "an access, as the trace has no times",
            ClockUnit::Imported => "a unit of time of the trace",
        };
        let cycle = match tck_ps {
            Some(tck_ps) => format!("{unit}, {} ns", f64::from(tck_ps) / 1e3),
            None => unit.to_owned(),
        };
        let is_in_file = if self.format == Format::Ramulator { ", not in the file" } else { "" };
        format!(
            "requests: {reads} reads and {writes} writes, last cycle {last_clock} (a cycle is {cycle}{is_in_file})."
        )
    }

    /// Sentences on how accesses became requests: by caches, by merging, or with an assumed size.
    fn remarks(&self) -> Vec<String> {
        let RequestSums { merged_bursts, unsized_accesses, .. } = self.sums;
        let mut notes = Vec::new();
        if self.has_caches {
            notes.push(
                "They are what the caches have read from memory and written back; changed lines that were still in the \
                 caches at the end were not written."
                    .to_owned(),
            );
        }
        if merged_bursts > 0 {
            notes.push(format!(
                "{merged_bursts} bursts of fewer than {LINE_BYTES} bytes are merged with another one of their line."
            ));
        }
        if unsized_accesses > 0 {
            notes.push(format!(
                "Of {unsized_accesses} accesses the bytes are not known: each is a request for {LINE_BYTES} bytes."
            ));
        }
        notes
    }

    /// Sentences on how to run the simulator; `None` if there is no advice.
    fn command_line(&self) -> Option<String> {
        let file = self.path().map_or_else(|| "FILE".to_owned(), |path| shell_word(&path));
        let RequestSums { reads, writes, instructions, drained_clock, tck_ps, .. } = self.sums;
        Some(match self.format {
            Format::Dramsim3 => {
                let cycles = drained_clock.saturating_add(1);
                let reads = reads + 1;
                format!(
                    "Set `unified_queue = true` in the section [system] of the configuration: without it DRAMsim3 stops at \
                     a write behind a read of the same line. Then run: dramsim3main CONFIG.ini -c {cycles} -t {file}; \
                     all requests are done when it has counted {reads} reads (one more: it repeats the last request as a \
                     read) and {writes} writes, if not, with a higher -c."
                )
            }
            Format::Ramulator => format!(
                "Run: ramulator2 -f CONFIG.yaml, which has `Frontend: {{impl: LoadStoreTrace, path: {file}, clock_ratio: \
                 1}}` and `clock_ratio: 1` of the memory system (in Ramulator 2.1 the same parameters in its Python script): \
                 a request is sent in each cycle in which a queue takes it, and the run ends when the last one is queued: \
                 with {reads} total_num_read_requests and {writes} total_num_write_requests."
            ),
            Format::Dramsys => {
                let frequency = tck_ps.map_or_else(
                    || "MHZ".to_owned(),
                    |tck_ps| format!("{:.0}", f64::from(MHZ_PS) / f64::from(tck_ps)),
                );
                format!(
                    "Run: DRAMSys CONFIG.json, in which `tracesetup` is [{{\"type\": \"player\", \"clkMhz\": {frequency}, \
                     \"dataLength\": {LINE_BYTES}, \"name\": \"{}\"}}] (clkMhz is a whole number), with a memory of \
                     {LINE_BYTES} bytes a burst and `StoreMode` NoStorage. The name of the file must end in .stl.",
                    self.path().map_or_else(
                        || "FILE".to_owned(),
                        |path| escape::message(&path).to_string()
                    )
                )
            }
            Format::Libcachesim => format!(
                "Run: cachesim {file} oracleGeneral lru 1MB, or with another policy and size. An object is a line of \
                 {LINE_BYTES} bytes, and reads are not told from writes."
            ),
            Format::Champsim => format!(
                "Run: champsim --warmup-instructions 0 --simulation-instructions {instructions} {file}; behind the last \
                 instruction ChampSim begins again with the first one. It ends with the cycle in which it has retired so \
                 many, which can be a few more. Without --simulation-instructions it ends before it has retired the last \
                 ones. It takes a name that ends in gz or xz for a compressed file."
            ),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        assert_eq!(shell_word("a/b-c.stl"), "a/b-c.stl");
        assert_eq!(shell_word("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(shell_word("-t"), "'./-t'");
        assert_eq!(shell_word("a\nb"), r"'a\nb'");
    }

    #[test]
    fn an_empty_file_has_no_command_line() {
        let (path, clock, has_caches) = (Some(Path::new("a.ds3")), ClockUnit::Instructions, false);
        let sums = RequestSums::default();
        let file = SimulatorFile { format: Format::Dramsim3, path, sums, clock, has_caches };
        let expected =
            "requests: 0 reads and 0 writes, last cycle 0 (a cycle is an executed instruction).";
        assert_eq!(file.paragraph(), expected);
    }
}
