//! Made-up traffic to a recording in the vectors' format.

use std::fmt::Write as _;
use std::path::Path;

use hmtt_format::address_map::Axis;
use hmtt_sim::traffic::Traffic;

/// Writes the traffic in the vectors' format, its memory in the header.
pub fn write_vector(path: &Path, traffic: &Traffic) {
    let memory = traffic.memory();
    let mut text = String::from("# ddr command-bus vector 1\n");
    let _ = writeln!(text, "generation={}", memory.generation.name());
    let _ = writeln!(text, "speed=DDR (tCK {} ns)", f64::from(memory.tck_ps) / 1000.0);
    let _ = writeln!(text, "bus_bytes={}\nchip_selects={}", 1 << memory.bus_log2, memory.ranks());
    let _ = writeln!(text, "mirror_odd_ranks={}", u8::from(memory.mirror_odd_ranks));
    let count = |axis| 1u64 << memory.bits(axis);
    let (rows, banks) = (count(Axis::Row), count(Axis::Bank));
    let _ = writeln!(text, "rows={rows} banks={banks} columns={}", count(Axis::Column));
    for axis in Axis::ALL {
        for bit in 0..memory.bits(axis) {
            let mask = memory.map.mask(axis, bit);
            let terms: Vec<String> =
                (0..64).filter(|p| mask >> p & 1 != 0).map(|p| format!("p{p}")).collect();
            let _ = writeln!(text, "map {}[{bit}]={}", axis.name(), terms.join("^"));
        }
    }
    let _ = writeln!(text, "burst_bytes={}", memory.burst_bytes());
    let _ = writeln!(text, "burst_length={}\nunlisted_clocks=deselect", memory.burst_length);
    let _ = writeln!(text, "first_clock=0\nlast_clock={}", traffic.clocks() - 1);
    text.push_str("columns=clock cke cs_n act_n ras_n cas_n we_n ba a\n---\n");
    let present = (1 << memory.ranks()) - 1;
    for (clock, pins) in traffic.commands() {
        let level = u8::from;
        let _ = writeln!(
            text,
            "{clock} {:x} {:x} {} {} {} {} {:x} {:x}",
            pins.cke & present,
            pins.cs_n & present,
            level(pins.act_n),
            level(pins.ras_n),
            level(pins.cas_n),
            level(pins.we_n),
            pins.ba,
            pins.a
        );
    }
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
