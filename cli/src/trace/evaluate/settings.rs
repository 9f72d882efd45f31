//! Defines the settings of selective tracing that are compared.

use hmtt_translator::recorded::{Choice, Scope, Silence};
use hmtt_translator::selection::{Chunk, Equality, Omega, Selector};

use crate::trace::options::omega;

/// The share of the representatives that a setting records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All accesses, not only representatives.
    Everything,
    /// A share of the representatives of each block.
    Representatives(Omega),
}

impl std::str::FromStr for Share {
    type Err = anyhow::Error;

    /// Parses `25%`, `25` or `all`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" { Ok(Self::Everything) } else { omega(text).map(Self::Representatives) }
    }
}

/// The compared settings, in the order of the results.
pub struct Settings {
    /// The rule by which two accesses of a block have equal addresses.
    pub equality: Equality,
    selectors: Vec<Selector>,
}

impl Settings {
    /// Makes a setting of each pair of a share and a chunk size. The share `all` makes only one
    /// setting, because it needs no chunks. Equal settings are left out.
    pub fn new(shares: &[Share], chunks: &[Chunk], equality: Equality) -> Self {
        let mut selectors = Vec::new();
        for share in shares {
            for &chunk in chunks {
                let selector = match *share {
                    Share::Everything => Selector::Every,
                    Share::Representatives(omega) => Selector::Representatives { omega, chunk },
                };
                if !selectors.contains(&selector) {
                    selectors.push(selector);
                }
            }
        }
        Settings { equality, selectors }
    }

    /// Number of settings.
    pub fn len(&self) -> usize {
        self.selectors.len()
    }

    /// The selector of each setting, which chooses the accesses of a block.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The options of the recorder for each setting.
    pub fn choices(&self) -> impl Iterator<Item = Choice> {
        let equality = self.equality;
        let choice = move |&selector| Choice {
            selector,
            scope: Scope::Block,
            equality,
            direction: None,
            silence: Silence::Never,
        };
        self.selectors.iter().map(choice)
    }
}
