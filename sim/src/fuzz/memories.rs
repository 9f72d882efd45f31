//! Defines the memories for which commands are generated: every generation, one to four ranks, XOR
//! maps, mirrored ranks, and burst lengths that are fixed or set by the mode register.
//!
//! Their clocks are slow, so that the link can carry all records.

use hmtt_format::{MemoryDescription, toml_memory};

/// The descriptions, each in TOML. The tag windows are small, so that most accesses are not tags.
pub const ALL: [&str; 6] = [
    "generation = 'DDR1'\ntck_ns = 10.0\ntag_window_bytes = 65536\nbus_bytes = 8\nburst_length = 4\n\
     [map]\ncolumn = ['p3-p13']\nbank = ['p14^p16', 'p15^p17']\nrow = ['p16-p28']\n",
    "generation = 'DDR2'\ntck_ns = 10.0\ntag_window_bytes = 65536\nbus_bytes = 8\nburst_length = 'mode_register'\n\
     [map]\ncolumn = ['p3-p12']\nbank = ['p13', 'p14', 'p15']\nrow = ['p17-p30']\nrank = ['p16^p20']\n",
    "generation = 'DDR3'\ntck_ns = 10.0\ntag_window_bytes = 65536\nbus_bytes = 8\nburst_length = 'mode_register'\n\
     mirror_odd_ranks = true\ntrcd_clocks = 4\ntrp_clocks = 5\n[map]\ncolumn = ['p3-p12']\n\
     bank = ['p13^p17', 'p14^p18', 'p15^p19']\nrow = ['p18-p32']\nrank = ['p16', 'p17']\n",
    "generation = 'DDR4'\ntck_ns = 10.0\ntag_window_bytes = 65536\nbus_bytes = 8\nburst_length = 8\n\
     mirror_odd_ranks = true\ntrcd_clocks = 3\n[map]\ncolumn = ['p3-p12']\nbank = ['p13', 'p14', 'p15^p19', 'p16^p20']\n\
     row = ['p18-p33']\nrank = ['p17']\n",
    "generation = 'DDR1'\ntck_ns = 10.0\ntag_window_bytes = 65536\nbus_bytes = 4\nburst_length = 'mode_register'\n\
     refresh_limit_clocks = 700\n[map]\ncolumn = ['p2-p11']\nbank = ['p12', 'p13']\nrow = ['p14-p26']\n\
     rank = ['p27', 'p28']\n",
    "generation = 'DDR1'\ntck_ns = 10.0\ntag_window_bytes = 65536\nbus_bytes = 8\nburst_length = 2\n\
     [map]\ncolumn = ['p3-p12']\nbank = ['p13^p20', 'p14']\nrow = ['p15-p27']\n",
];

/// Parses one of the descriptions.
pub fn parse(text: &str) -> MemoryDescription {
    toml_memory::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
