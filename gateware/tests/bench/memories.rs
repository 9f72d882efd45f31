//! Memory descriptions the tests build gateware for.

use hmtt_format::{MemoryDescription, toml_memory};

fn memory(text: &str) -> MemoryDescription {
    toml_memory::parse(text).expect("the description is right")
}

/// 512 MB of DDR-200, the default; ticks and sequences as short as `extra` makes them.
pub fn ddr1(extra: &str) -> MemoryDescription {
    memory(&format!(
        "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n{extra}\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14-p15']\nrow = ['p16-p28']\n"
    ))
}

/// DDR2 with the rows below the banks.
pub fn ddr2() -> MemoryDescription {
    memory(
        "generation = 'DDR2'\ntck_ns = 5.0\nbus_bytes = 8\nburst_length = 4\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p26-p28']\nrow = ['p13-p25']\n",
    )
}

/// DDR3 with banks that are XORs with row bits.
pub fn ddr3() -> MemoryDescription {
    memory(
        "generation = 'DDR3'\ntck_ns = 2.5\nbus_bytes = 8\nburst_length = 8\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13^p16', 'p14^p17', 'p15^p18']\nrow = ['p16-p30']\n",
    )
}

/// DDR4 up to the last address bit a map may name.
pub fn ddr4() -> MemoryDescription {
    memory(
        "generation = 'DDR4'\ntck_ns = 1.25\nbus_bytes = 8\nburst_length = 8\n[map]\n\
         column = ['p3-p12']\nbank = ['p13^p22', 'p14^p23', 'p15^p39', 'p16^p38']\nrow = ['p22-p39']\n",
    )
}

/// One of each.
pub fn all() -> [MemoryDescription; 4] {
    [ddr1(""), ddr2(), ddr3(), ddr4()]
}
