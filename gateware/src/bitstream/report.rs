//! Reads nextpnr's JSON report of a seed and judges it against the requirements.
//!
//! Where the delays of nextpnr are doubtful, [`Family::allowance_ns`] reduces the frequencies that
//! it reports.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Requirement;
use super::family::Family;

/// nextpnr reads constraints in picoseconds, so the frequencies that it prints are rounded.
const ROUNDING: f64 = 0.002;

#[derive(Deserialize)]
struct Report {
    fmax: BTreeMap<String, Fmax>,
    utilization: BTreeMap<String, Utilization>,
}

#[derive(Deserialize)]
struct Fmax {
    achieved: f64,
    constraint: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
/// Use of a resource.
pub struct Utilization {
    /// Number in use.
    pub used: u64,
    /// Number on the device.
    pub available: u64,
}

/// Frequency that a clock reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// Name of the clock in tables.
    pub name: &'static str,
    /// Required MHz.
    pub required: f64,
    /// MHz that the clock reaches, after the allowance.
    pub achieved: f64,
}

impl Reached {
    /// Returns whether the clock is fast enough.
    pub fn met(&self) -> bool {
        self.achieved >= self.required
    }
}

/// A routed design.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// nextpnr's seed.
    pub seed: u32,
    /// Use of each of [`Family::resources`].
    pub utilization: Vec<Utilization>,
    /// Frequency of each requirement.
    pub clocks: Vec<Reached>,
}

impl Routed {
    /// Returns whether each clock is fast enough.
    pub fn met(&self) -> bool {
        self.clocks.iter().all(Reached::met)
    }

    /// Returns the smallest ratio of reached to required frequency of all clocks. From 1 on, each
    /// clock is fast enough.
    pub fn margin(&self) -> f64 {
        let ratios = self.clocks.iter().map(|clock| clock.achieved / clock.required);
        ratios.fold(f64::INFINITY, f64::min)
    }
}

/// Reads a report. Each clock of the design must have a requirement, and nextpnr must have used it.
pub fn read(
    text: &str,
    seed: u32,
    family: Family,
    requirements: &[Requirement],
) -> Result<Routed, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut unclaimed = report.fmax;
    let mut clocks = Vec::new();
    for requirement in requirements {
        let named = |name: &&String| is_of_net(name, requirement.net);
        let name = unclaimed.keys().find(named).cloned().ok_or_else(|| {
            format!("no clock on net {}, but: {}", requirement.net, names(&unclaimed))
        })?;
        let fmax = unclaimed.remove(&name).expect("the name was found there");
        if (fmax.constraint / requirement.mhz - 1.0).abs() > ROUNDING {
            return Err(format!(
                "clock {name} was constrained to {} MHz instead of {}",
                fmax.constraint, requirement.mhz
            ));
        }
        clocks.push(Reached {
            name: requirement.name,
            required: requirement.mhz,
            achieved: 1e3 / (1e3 / fmax.achieved + family.allowance_ns()),
        });
    }
    if !unclaimed.is_empty() {
        return Err(format!("clocks without a requirement: {}", names(&unclaimed)));
    }
    let usage = |resource: &super::family::Resource| {
        report.utilization.get(resource.reported).copied().unwrap_or_default()
    };
    Ok(Routed { seed, utilization: family.resources().iter().map(usage).collect(), clocks })
}

/// Whether a clock's name in the report is of this net. nextpnr adds `$` and more to the name of a
/// net on a global network.
fn is_of_net(name: &str, net: &str) -> bool {
    name.strip_prefix("$glbnet$")
        .unwrap_or(name)
        .strip_prefix(net)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('$'))
}

fn names(clocks: &BTreeMap<String, Fmax>) -> String {
    clocks.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: Family = Family::Ice40 { device: "hx8k", package: "cb132" };
    const WANTED: [Requirement; 2] = [
        Requirement { name: "GMII", net: "pll.tx_clock", mhz: 125.0 },
        Requirement { name: "DDR", net: "ddr", mhz: 100.0 },
    ];

    fn report(tx: f64, constraint: f64, other: &str) -> String {
        format!(
            r#"{{"fmax": {{"pll.tx_clock": {{"achieved": {tx}, "constraint": {constraint}}},
            "{other}": {{"achieved": 101.5, "constraint": 100.0}}}},
            "utilization": {{"ICESTORM_LC": {{"used": 7, "available": 7680}}}}}}"#
        )
    }

    #[test]
    fn the_slowest_clock_decides() {
        let slow =
            read(&report(124.9, 125.0, "ddr$glb_clk"), 3, FAMILY, &WANTED).expect("a report");
        assert!(!slow.met() && slow.margin() < 1.0 && slow.clocks[1].met());
        let fast =
            read(&report(125.0, 125.0, "ddr$glb_clk"), 3, FAMILY, &WANTED).expect("a report");
        assert!(fast.met());
        assert_eq!(fast.utilization[0], Utilization { used: 7, available: 7680 });
    }

    #[test]
    fn doubtful_delays_are_made_longer() {
        let device_clocks = |device: &'static str| {
            let family = Family::Ecp5 { device, package: "CABGA554", speed: "8" };
            read(&report(250.0, 125.0, "ddr"), 1, family, &WANTED).expect("a report").clocks
        };
        let (believed, doubted) = (device_clocks("85k"), device_clocks("um5g-85k"));
        assert!((believed[0].achieved - 250.0).abs() < 1e-6, "{believed:?}");
        assert!((doubted[0].achieved - 1e3 / 7.0).abs() < 1e-6, "{doubted:?}");
        assert!(believed[1].met() && !doubted[1].met());
    }

    #[test]
    fn clocks_nobody_constrained_are_refused() {
        for wrong in [report(126.0, 12.0, "ddr"), report(126.0, 125.0, "ddr2"), "{}".into()] {
            assert!(read(&wrong, 1, FAMILY, &WANTED).is_err(), "{wrong}");
        }
        let extra = report(126.0, 125.0, "ddr")
            .replace(r#""fmax": {"#, r#""fmax": {"x": {"achieved": 1, "constraint": 12},"#);
        assert!(read(&extra, 1, FAMILY, &WANTED).is_err());
    }
}
