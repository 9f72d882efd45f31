//! Memory descriptions for which the tests build gateware.

use hmtt_format::memory::SMALL_TAG_WINDOW_LOG2;
use hmtt_format::{MemoryDescription, toml_memory};

/// The tag window is small, so that most addresses are outside of it.
fn memory(text: &str) -> MemoryDescription {
    let memory = toml_memory::parse(text).expect("the description is right");
    MemoryDescription { tag_window_log2: SMALL_TAG_WINDOW_LOG2, ..memory }
}

/// Returns 512 MB of DDR-200, the default. `extra` may shorten ticks and sequences.
pub fn ddr1(extra: &str) -> MemoryDescription {
    memory(&format!(
        "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n{extra}\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14-p15']\nrow = ['p16-p28']\n"
    ))
}

/// Returns DDR2 with the rows below the banks.
pub fn ddr2() -> MemoryDescription {
    memory(
        "generation = 'DDR2'\ntck_ns = 5.0\nbus_bytes = 8\nburst_length = 4\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p26-p28']\nrow = ['p13-p25']\n",
    )
}

/// Returns DDR3 with banks that are XORs with row bits.
pub fn ddr3() -> MemoryDescription {
    memory(
        "generation = 'DDR3'\ntck_ns = 2.5\nbus_bytes = 8\nburst_length = 8\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13^p16', 'p14^p17', 'p15^p18']\nrow = ['p16-p30']\n",
    )
}

/// Returns DDR4 up to the last address bit of a map.
pub fn ddr4() -> MemoryDescription {
    memory(
        "generation = 'DDR4'\ntck_ns = 1.25\nbus_bytes = 8\nburst_length = 8\n[map]\n\
         column = ['p3-p12']\nbank = ['p13^p22', 'p14^p23', 'p15^p39', 'p16^p38']\nrow = ['p22-p39']\n",
    )
}

/// Returns DDR1 with two ranks, a burst length that the mode register sets, and every distance
/// checked.
pub fn ddr1_ranks() -> MemoryDescription {
    memory(
        "generation = 'DDR1'\ntck_ns = 5.0\nbus_bytes = 8\nburst_length = 'mode_register'\n\
         trcd_clocks = 3\ntrp_clocks = 4\ntmrd_clocks = 5\ntxs_clocks = 11\nrefresh_limit_clocks = 150\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14-p15']\nrow = ['p16-p28']\nrank = ['p29']\n",
    )
}

/// Returns DDR2 with the burst length of its mode register, and no distance checked but tRFC.
pub fn ddr2_follows() -> MemoryDescription {
    memory(
        "generation = 'DDR2'\ntck_ns = 5.0\nbus_bytes = 8\nburst_length = 'mode_register'\n\
         trcd_clocks = 0\ntrp_clocks = 0\ntmrd_clocks = 0\ntxs_clocks = 0\nrefresh_limit_clocks = 0\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p26-p28']\nrow = ['p13-p25']\n",
    )
}

/// Returns DDR3 with two ranks, the odd one mirrored.
pub fn ddr3_ranks() -> MemoryDescription {
    memory(
        "generation = 'DDR3'\ntck_ns = 2.5\nbus_bytes = 8\nburst_length = 'mode_register'\n\
         mirror_odd_ranks = true\nrefresh_limit_clocks = 400\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13^p16', 'p14^p17', 'p15^p18']\nrow = ['p16-p30']\n\
         rank = ['p31^p19']\n",
    )
}

/// Returns DDR4 with four ranks, the odd ones mirrored.
pub fn ddr4_ranks() -> MemoryDescription {
    memory(
        "generation = 'DDR4'\ntck_ns = 1.25\nbus_bytes = 8\nburst_length = 8\nmirror_odd_ranks = true\n\
         trcd_clocks = 4\ntrp_clocks = 3\n[map]\ncolumn = ['p3-p12']\n\
         bank = ['p13^p22', 'p14^p23', 'p15', 'p16']\nrow = ['p22-p37']\nrank = ['p38', 'p39']\n",
    )
}

/// Returns one memory of each generation, with several ranks and mode registers.
pub fn decoded() -> Vec<MemoryDescription> {
    let more = [ddr1_ranks(), ddr2_follows(), ddr3_ranks(), ddr4_ranks()];
    all().into_iter().chain(more).collect()
}

/// Returns one memory of each generation.
pub fn all() -> [MemoryDescription; 4] {
    [ddr1(""), ddr2(), ddr3(), ddr4()]
}
