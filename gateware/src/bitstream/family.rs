//! Defines the FPGA families, with the tools of each family and their arguments.

use super::tools::Step;

/// An FPGA, with the names that its tools use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Lattice iCE40, by Project IceStorm.
    Ice40 {
        /// nextpnr's name of the device.
        device: &'static str,
        /// Name of the package.
        package: &'static str,
    },
    /// Lattice ECP5, by Project Trellis.
    Ecp5 {
        /// nextpnr's name of the device.
        device: &'static str,
        /// Name of the package.
        package: &'static str,
        /// Speed grade.
        speed: &'static str,
    },
}

/// A resource that tables list, with its names in tables, in nextpnr's reports and in yosys' cell
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Name in tables.
    pub name: &'static str,
    /// Name in nextpnr's report.
    pub reported: &'static str,
}

impl Family {
    /// Returns the tools of a build, in the order of their use.
    pub fn tools(self) -> [&'static str; 3] {
        match self {
            Family::Ice40 { .. } => ["yosys", "nextpnr-ice40", "icepack"],
            Family::Ecp5 { .. } => ["yosys", "nextpnr-ecp5", "ecppack"],
        }
    }

    /// Returns the resources: logic and memory.
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

    /// Returns the nanoseconds that are added to the period of each clock before it is judged.
    ///
    /// In Project Trellis the delays of block RAM in grade 8_5G, the only grade of these devices,
    /// are exactly a third of those in grade 8: 1.42 ns from clock to data instead of 4.26 ns. The
    /// delays of logic are 78 %, those of multipliers 83 %, so the third is probably wrong. A path
    /// from a block RAM would be longer by 2.85 ns at most, a path to it by 0.15 ns. nextpnr does
    /// not report which paths these are, so all paths get the allowance.
    pub fn allowance_ns(self) -> f64 {
        match self {
            Family::Ecp5 { device, .. } if device.starts_with("um5g") => 3.0,
            _ => 0.0,
        }
    }

    /// Returns the kinds of cells that are counted after mapping: name in the output, start of
    /// yosys' name.
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

    /// Returns the step that maps `card.v` to `card.json`, with a count of cells in `cells.json`.
    pub fn map(self) -> Step {
        let synthesis = match self {
            Family::Ice40 { .. } => "synth_ice40 -device hx -dffe_min_ce_use 10 -top top",
            Family::Ecp5 { .. } => "synth_ecp5 -top top",
        };
        // Older versions of nextpnr do not know the cells that only describe scopes. A net has many
        // names. Only the kept names must remain, because nextpnr reports a clock by one name of
        // its net.
        let script = format!(
            "read_verilog card.v; {synthesis}; delete t:$scopeinfo; opt_clean -purge; check; \
             tee -q -o cells.json stat -json; write_json card.json"
        );
        Step::new("yosys", "yosys.log", &["-q", "-l", "yosys.log", "-p", &script])
    }

    /// Returns the step that places and routes `card.json`, and writes a report.
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

    /// Returns the step that packs the routed design of a seed into the files of
    /// [`Family::packed`].
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

    /// Returns the names of the files that packing writes. A design that misses timing gets a
    /// different name.
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

/// Returns the name of the report of a seed.
pub fn report_name(seed: u32) -> String {
    format!("seed-{seed}.json")
}
