//! Recognises programs that contain LeakSanitizer, which does not work in a traced program.
//!
//! When such a program ends, LeakSanitizer traces the program's threads to read their registers. A
//! thread that is already traced cannot be traced by another process, so LeakSanitizer prints an
//! error and ends the program with another status. AddressSanitizer contains LeakSanitizer.
//!
//! A program contains LeakSanitizer if the program's symbols name the function that starts it, if
//! one of its libraries is mapped, or if `LD_PRELOAD` names such a library. A statically linked
//! runtime whose symbols were stripped is not recognised.

use std::fs::File;
use std::path::Path;

use nix::unistd::Pid;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol, ReadCache};

use crate::ptrace::mappings;

/// Maximum number of bytes of an environment that are read.
const MOST_ENVIRONMENT: u64 = 1 << 22;

/// A sanitizer that looks for leaks when the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeakDetector {
    /// LeakSanitizer alone.
    Leak,
    /// AddressSanitizer, which contains LeakSanitizer.
    Address,
}

/// Each sanitizer, with the function that starts it, and the beginnings of the names of its
/// libraries.
const DETECTORS: [(LeakDetector, &str, [&str; 2]); 2] = [
    (LeakDetector::Leak, "__lsan_init", ["liblsan.so", "libclang_rt.lsan"]),
    (LeakDetector::Address, "__asan_init", ["libasan.so", "libclang_rt.asan"]),
];

impl LeakDetector {
    /// The sanitizer that a symbol belongs to.
    fn of_symbol(name: &str) -> Option<Self> {
        DETECTORS.iter().find(|(_, start, _)| *start == name).map(|(detector, ..)| *detector)
    }

    /// The sanitizer whose library has this path.
    fn of_library(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let is_named = |names: &[&str; 2]| names.iter().any(|prefix| name.starts_with(prefix));
        DETECTORS.iter().find(|(.., names)| is_named(names)).map(|(detector, ..)| *detector)
    }

    /// Whether variables of an environment switch the search for leaks off. The last setting of a
    /// flag counts: `LSAN_OPTIONS=detect_leaks=0:detect_leaks=1` does not switch it off.
    fn is_switched_off(self, environment: &[u8]) -> bool {
        let names: &[&str] = match self {
            LeakDetector::Leak => &["LSAN_OPTIONS"],
            LeakDetector::Address => &["ASAN_OPTIONS", "LSAN_OPTIONS"],
        };
        let settings = names.iter().filter_map(|name| value(environment, name));
        let mut flags = settings.flat_map(|text| text.split([' ', ',', ':', '\n', '\t', '\r']));
        let last = flags.rfind(|flag| flag.starts_with("detect_leaks="));
        let last = last.and_then(|flag| flag.strip_prefix("detect_leaks="));
        last.is_some_and(|value| matches!(value.trim_matches(['"', '\'']), "0" | "no" | "false"))
    }
}

/// The value of a variable in an environment. Each variable ends with a zero byte.
fn value<'e>(environment: &'e [u8], name: &str) -> Option<&'e str> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = |variable: &'e [u8]| {
        std::str::from_utf8(variable).ok()?.strip_prefix(name)?.strip_prefix('=')
    };
    variables.find_map(value)
}

/// The sanitizer that the symbols of a program file name.
fn of_file(file: File) -> Option<LeakDetector> {
    let cache = ReadCache::new(file);
    let file = ElfFile64::<LittleEndian, _>::parse(&cache).ok()?;
    let of_symbol = |symbol: object::read::elf::ElfSymbol64<'_, '_, LittleEndian, _>| {
        LeakDetector::of_symbol(symbol.name().ok()?)
    };
    let dynamic = file.dynamic_symbols().filter_map(of_symbol).max();
    dynamic.or_else(|| file.symbols().filter_map(of_symbol).max())
}

/// Reads the environment with which the program of a process was started.
fn environment(pid: Pid) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // An environment that cannot be read switches nothing off.
    if let Ok(file) = File::open(format!("/proc/{pid}/environ")) {
        let _ = file.take(MOST_ENVIRONMENT).read_to_end(&mut bytes);
    }
    bytes
}

/// The sanitizer that will look for leaks when the program of a process ends; `None` if the
/// program's environment switches this off.
pub fn leak_detector(pid: Pid) -> Option<LeakDetector> {
    let environment = environment(pid);
    let program = File::open(format!("/proc/{pid}/exe")).ok().and_then(of_file);
    let name = |path: &Path| LeakDetector::of_library(path.to_str()?);
    let mapped = || mappings(pid).ok()?.iter().filter_map(|mapping| name(&mapping.path)).max();
    let preloaded = || {
        let libraries = value(&environment, "LD_PRELOAD")?.split([' ', ':']);
        libraries.filter_map(LeakDetector::of_library).max()
    };
    let detector = program.or_else(mapped).or_else(preloaded)?;
    (!detector.is_switched_off(&environment)).then_some(detector)
}

/// Returns a warning for the user if the program of a process contains LeakSanitizer.
pub fn leak_warning(pid: Pid) -> Option<String> {
    let contains = match leak_detector(pid)? {
        LeakDetector::Leak => "contains LeakSanitizer",
        LeakDetector::Address => "contains AddressSanitizer, and so LeakSanitizer",
    };
    Some(format!(
        "process {pid} {contains}, which does not work in a traced program: it prints an error when the program ends, \
         and changes the exit status; set LSAN_OPTIONS=detect_leaks=0 for the program"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_switch_the_search_off() {
        let off = |detector: LeakDetector, text: &str| detector.is_switched_off(text.as_bytes());
        let (leak, address) = (LeakDetector::Leak, LeakDetector::Address);
        assert!(off(leak, "A=1\0LSAN_OPTIONS=detect_leaks=0\0"));
        assert!(off(leak, "LSAN_OPTIONS=verbosity=1:detect_leaks=false"));
        assert!(off(address, "ASAN_OPTIONS=detect_leaks=0,abort_on_error=1\0B=2\0"));
        assert!(off(address, "LSAN_OPTIONS=detect_leaks=0\0"));
        assert!(!off(leak, "ASAN_OPTIONS=detect_leaks=0\0"));
        assert!(!off(leak, "LSAN_OPTIONS=detect_leaks=0:detect_leaks=1\0"));
        assert!(!off(leak, "XLSAN_OPTIONS=detect_leaks=0\0LSAN_OPTIONS=xdetect_leaks=0\0"));
        assert!(!off(address, ""));
    }

    #[test]
    fn libraries_are_recognised_by_their_names() {
        let library = LeakDetector::of_library;
        assert_eq!(library("/usr/lib/x86_64-linux-gnu/liblsan.so.0.0.0"), Some(LeakDetector::Leak));
        assert_eq!(library("libasan.so.8"), Some(LeakDetector::Address));
        let clang = "/usr/lib/clang/19/lib/linux/libclang_rt.asan-x86_64.so";
        assert_eq!(library(clang), Some(LeakDetector::Address));
        for other in ["/lib/libtsan.so.2", "/opt/libasan.so/libother.so", "", "/"] {
            assert_eq!(library(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_without_a_sanitizer_is_not_warned_of() {
        assert_eq!(leak_warning(Pid::this()), None);
    }
}
