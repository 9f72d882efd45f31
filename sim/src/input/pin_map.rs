//! Parses a pin map in TOML, which assigns the signals of a logic analyser's VCD to pins.
//!
//! `docs/vcd.md` states the format. Missing keys and unknown keys are errors.

use serde::Deserialize;

/// The signals of several pins: one vector, or one signal for each pin, low bit first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Bus {
    /// A signal as wide as the bus.
    Vector(String),
    /// One signal for each pin.
    Signals(Vec<String>),
}

impl Bus {
    fn names(&self) -> &[String] {
        match self {
            Bus::Vector(name) => std::slice::from_ref(name),
            Bus::Signals(names) => names,
        }
    }
}

/// Which levels are sampled when the clock and other pins change at one time stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sample {
    /// The levels before the time stamp, as a flip-flop samples them: for simulations and fast
    /// analysers.
    #[default]
    Before,
    /// The levels after the time stamp: for analysers that sample all pins at the clock edge.
    After,
}

/// A pin map.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the pins' names say all
pub struct PinMap {
    pub clock: String,
    pub cke: Bus,
    pub cs_n: Bus,
    pub act_n: Option<String>,
    pub ras_n: String,
    pub cas_n: String,
    pub we_n: String,
    pub ba: Bus,
    pub a: Bus,
    #[serde(default)]
    pub sample: Sample,
}

impl PinMap {
    /// Parses a pin map.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Returns the names of all signals.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let single = [&self.clock, &self.ras_n, &self.cas_n, &self.we_n];
        let buses = [&self.cke, &self.cs_n, &self.ba, &self.a].into_iter().flat_map(Bus::names);
        single.into_iter().chain(&self.act_n).chain(buses).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "clock='ck'\ncke='cke'\ncs_n='cs'\nras_n='ras'\ncas_n='cas'\nwe_n='we'\n\
        ba=['ba0','ba1']\na='a'\n";

    #[test]
    fn a_pin_map_is_read() {
        let map = PinMap::parse(TEXT).unwrap();
        assert_eq!(map.ba, Bus::Signals(vec!["ba0".into(), "ba1".into()]));
        assert_eq!(map.a, Bus::Vector("a".into()));
        assert_eq!((map.act_n, map.sample), (None, Sample::Before));
    }

    #[test]
    fn an_error_names_a_missing_or_misspelt_pin() {
        let error = |from, to| PinMap::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(error("cke='cke'\n", "").contains("missing field `cke`"));
        assert!(error("we_n", "we").contains("unknown field `we`"));
    }
}
