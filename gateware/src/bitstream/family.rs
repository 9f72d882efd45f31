//! FPGA families: the tools of each and what they are told.

use super::tools::Step;

/// An FPGA, as its tools know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Lattice iCE40, by Project IceStorm.
    Ice40 {
        /// nextpnr's name of the device.
        device: &'static str,
        /// Its package.
        package: &'static str,
    },
    /// Lattice ECP5, by Project Trellis.
    Ecp5 {
        /// nextpnr's name of the device.
        device: &'static str,
        /// Its package.
        package: &'static str,
        /// Its speed grade.
        speed: &'static str,
    },
}

/// A resource worth a column: its name in tables, nextpnr's in reports, and yosys' in cell counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// In tables.
    pub name: &'static str,
    /// In nextpnr's report.
    pub reported: &'static str,
}

impl Family {
    /// The tools a bitstream needs, in the order of their use.
    pub fn tools(self) -> [&'static str; 3] {
        match self {
            Family::Ice40 { .. } => ["yosys", "nextpnr-ice40", "icepack"],
            Family::Ecp5 { .. } => ["yosys", "nextpnr-ecp5", "ecppack"],
        }
    }

    /// Logic and memory.
    pub fn resources(self) -> [Resource; 2] {
        match self {
            Family::Ice40 { .. } => [
                Resource { name: "logic cells", reported: "ICESTORM_LC" },
                Resource { name: "block RAMs", reported: "ICESTORM_RAM" },
            ],
            Family::Ecp5 { .. } => [
                Resource { name: "logic cells", reported: "TRELLIS_COMB" },
                Resource { name: "block RAMs", reported: "DP16KD" },
            ],
        }
    }

    /// Nanoseconds added to the period each clock reaches, before it is judged.
    ///
    /// Project Trellis gives the block RAM of grade 8_5G, the only one of these devices, exactly a third
    /// of its delays in grade 8: 1.42 ns from clock to data for 4.26 ns. Logic has 78 % of them there,
    /// multipliers 83 %, so that third is not believed. A path that leaves a block RAM is late by 2.85 ns
    /// at most, one that ends in it by 0.15 ns; nextpnr does not report which paths do, so all are.
    pub fn allowance_ns(self) -> f64 {
        match self {
            Family::Ecp5 { device, .. } if device.starts_with("um5g") => 3.0,
            _ => 0.0,
        }
    }

    /// Kinds of cells worth counting after mapping: name in the line, start of yosys' name.
    pub fn cells(self) -> [(&'static str, &'static str); 4] {
        match self {
            Family::Ice40 { .. } => [
                ("LUTs", "SB_LUT4"),
                ("flip-flops", "SB_DFF"),
                ("carries", "SB_CARRY"),
                ("block RAMs", "SB_RAM40"),
            ],
            Family::Ecp5 { .. } => [
                ("LUTs", "LUT4"),
                ("flip-flops", "TRELLIS_FF"),
                ("carries", "CCU2C"),
                ("block RAMs", "DP16KD"),
            ],
        }
    }

    /// `card.v` to `card.json`, with a count of cells in `cells.json`.
    pub fn map(self) -> Step {
        let synthesis = match self {
            Family::Ice40 { .. } => "synth_ice40 -device hx -dffe_min_ce_use 10 -top top",
            Family::Ecp5 { .. } => "synth_ecp5 -top top",
        };
        // Older versions of nextpnr do not know the cells that only describe scopes. Of a net's many
        // names only those that are kept shall be left: nextpnr reports a clock by one of them.
        let script = format!(
            "read_verilog card.v; {synthesis}; delete t:$scopeinfo; opt_clean -purge; check; \
             tee -q -o cells.json stat -json; write_json card.json"
        );
        Step::new("yosys", "yosys.log", &["-q", "-l", "yosys.log", "-p", &script])
    }

    /// `card.json` and the constraints to a routed design and its report.
    pub fn place(self, constraints: &str, seed: u32) -> Step {
        let [log, report, routed] =
            [format!("seed-{seed}.log"), report_name(seed), self.routed_name(seed)];
        let seed = seed.to_string();
        let own: Vec<String> = match self {
            Family::Ice40 { device, package } => {
                let device = format!("--{device}");
                [&device, "--package", package, "--pcf", constraints, "--asc", &routed]
                    .map(String::from)
                    .to_vec()
            }
            Family::Ecp5 { device, package, speed } => {
                let device = format!("--{device}");
                [&device, "--package", package, "--speed", speed, "--lpf", constraints]
                    .into_iter()
                    .chain(["--textcfg", &routed])
                    .map(String::from)
                    .collect()
            }
        };
        // Timing is judged from the report, so that a miss gives figures.
        let shared = ["--json", "card.json", "--report", &report, "--seed", &seed, "--quiet"];
        let shared = shared.into_iter().chain(["--log", &log, "--timing-allow-fail"]);
        let arguments: Vec<&str> = own.iter().map(String::as_str).chain(shared).collect();
        Step::new(self.tools()[1], &log, &arguments)
    }

    /// The routed design of a seed to the files of [`Family::packed`].
    pub fn pack(self, seed: u32, met: bool) -> Step {
        let routed = self.routed_name(seed);
        let files = self.packed(met);
        match self {
            Family::Ice40 { .. } => Step::new("icepack", "icepack.log", &[&routed, files[0]]),
            Family::Ecp5 { .. } => Step::new(
                "ecppack",
                "ecppack.log",
                &["--input", &routed, "--bit", files[0], "--svf", files[1]],
            ),
        }
    }

    /// Names of what packing writes. A design that misses timing is not given the name of one that
    /// does not.
    pub fn packed(self, met: bool) -> &'static [&'static str] {
        match (self, met) {
            (Family::Ice40 { .. }, true) => &["card.bin"],
            (Family::Ice40 { .. }, false) => &["card-misses-timing.bin"],
            (Family::Ecp5 { .. }, true) => &["card.bit", "card.svf"],
            (Family::Ecp5 { .. }, false) => &["card-misses-timing.bit", "card-misses-timing.svf"],
        }
    }

    fn routed_name(self, seed: u32) -> String {
        match self {
            Family::Ice40 { .. } => format!("seed-{seed}.asc"),
            Family::Ecp5 { .. } => format!("seed-{seed}.config"),
        }
    }
}

/// Name of a seed's report.
pub fn report_name(seed: u32) -> String {
    format!("seed-{seed}.json")
}
