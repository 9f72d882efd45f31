//! Describes one level of a cache hierarchy, and parses its description.
//!
//! ```text
//! SIZE,WAYS,LINE,REPLACEMENT[,inclusive]      32K,8,64,lru   8M,16,64,random:7,inclusive
//! ```

use std::str::FromStr;

/// Smallest and largest line in bytes.
const LINE_BYTES: std::ops::RangeInclusive<u32> = 8..=4096;
/// Maximum number of ways. The tree of a set is a word of 64 bits, with one bit for each way.
const MOST_WAYS: u32 = 64;
/// Largest cache in bytes. The model needs 8 bytes of memory for each line.
const MOST_BYTES: u64 = 1 << 30;

/// The rule by which a line of a full set is chosen for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used line.
    Lru,
    /// The line to which a binary tree of bits points. Each use of a line makes the bits on its
    /// path point away from it.
    TreePlru,
    /// A random line.
    Random {
        /// Seed of the random numbers.
        seed: u64,
    },
}

/// Description of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfiguration {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Number of lines of a set.
    pub ways: u32,
    /// Size of a line in bytes, a power of two.
    pub line_bytes: u32,
    /// The rule by which a line of a full set is chosen for eviction.
    pub replacement: Replacement,
    /// Whether a line that is evicted is removed from the levels before this one, too.
    pub inclusive: bool,
}

/// The reason why a description of a cache or of a hierarchy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum CacheError {
    #[error("expected SIZE,WAYS,LINE,lru|tree-plru|random[:SEED][,inclusive], got `{0}`")]
    Expected(String),
    #[error("a line of {0} bytes is not a power of two from 8 to 4096")]
    Line(u32),
    #[error("{0} ways are not 1 to 64")]
    Ways(u32),
    #[error("tree-plru needs a power of two of ways, not {0}")]
    TreeWays(u32),
    #[error(
        "{size_bytes} bytes in {ways} ways of {line_bytes} bytes are not 2^n sets in up to 1 GiB"
    )]
    Sets { size_bytes: u64, ways: u32, line_bytes: u32 },
    #[error("a level has lines of {line} bytes, and the level before it longer ones of {before}")]
    ShorterLine { line: u32, before: u32 },
    #[error("a hierarchy needs a level for data")]
    NoLevel,
}

impl CacheConfiguration {
    /// Instruction cache of a small desktop processor: 32 KiB, 8 ways.
    pub const DESKTOP_INSTRUCTIONS: CacheConfiguration = Self::desktop(32 << 10, 8);
    /// Data path of a small desktop processor with one core: 32 KiB with 8 ways, 256 KiB with 8
    /// ways, 8 MiB with 16 ways.
    pub const DESKTOP_LEVELS: [CacheConfiguration; 3] =
        [Self::desktop(32 << 10, 8), Self::desktop(256 << 10, 8), Self::desktop(8 << 20, 16)];

    const fn desktop(size_bytes: u64, ways: u32) -> Self {
        let replacement = Replacement::Lru;
        CacheConfiguration { size_bytes, ways, line_bytes: 64, replacement, inclusive: false }
    }

    /// Number of sets.
    ///
    /// # Errors
    /// [`CacheError`] if a size is out of range, if the sizes do not make 2^n sets, or if a tree is
    /// needed and the number of ways is no power of two.
    pub fn sets(&self) -> Result<u64, CacheError> {
        let CacheConfiguration { size_bytes, ways, line_bytes, .. } = *self;
        if !line_bytes.is_power_of_two() || !LINE_BYTES.contains(&line_bytes) {
            return Err(CacheError::Line(line_bytes));
        }
        if !(1..=MOST_WAYS).contains(&ways) {
            return Err(CacheError::Ways(ways));
        }
        if self.replacement == Replacement::TreePlru && !ways.is_power_of_two() {
            return Err(CacheError::TreeWays(ways));
        }
        let set_bytes = u64::from(ways) * u64::from(line_bytes);
        let sets = size_bytes / set_bytes;
        if size_bytes > MOST_BYTES || size_bytes % set_bytes != 0 || !sets.is_power_of_two() {
            return Err(CacheError::Sets { size_bytes, ways, line_bytes });
        }
        Ok(sets)
    }
}

impl FromStr for CacheConfiguration {
    type Err = CacheError;

    /// Parses a description such as `32K,8,64,lru`.
    fn from_str(text: &str) -> Result<Self, CacheError> {
        parse(text).ok_or_else(|| CacheError::Expected(text.to_owned())).and_then(|configuration| {
            configuration.sets()?;
            Ok(configuration)
        })
    }
}

fn parse(text: &str) -> Option<CacheConfiguration> {
    let mut fields = text.split(',');
    let size_bytes = parse_bytes(fields.next()?)?;
    let ways = parse_number(fields.next()?)?.try_into().ok()?;
    let line_bytes = parse_number(fields.next()?)?.try_into().ok()?;
    let replacement = match fields.next()? {
        "lru" => Replacement::Lru,
        "tree-plru" => Replacement::TreePlru,
        "random" => Replacement::Random { seed: 1 },
        other => Replacement::Random { seed: parse_number(other.strip_prefix("random:")?)? },
    };
    let inclusive = match fields.next() {
        None => false,
        Some("inclusive") => true,
        Some(_) => return None,
    };
    if fields.next().is_some() {
        return None;
    }
    Some(CacheConfiguration { size_bytes, ways, line_bytes, replacement, inclusive })
}

/// Parses a number of bytes, with `K` or `M` for 2^10 or 2^20.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    parse_number(digits)?.checked_mul(unit)
}

fn parse_number(digits: &str) -> Option<u64> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read() {
        let parse = |text: &str| text.parse::<CacheConfiguration>().unwrap();
        assert_eq!(parse("32K,8,64,lru"), CacheConfiguration::DESKTOP_LEVELS[0]);
        let random = parse("1M,3,128,random:9,inclusive".replace("1M", "393216").as_str());
        assert_eq!((random.replacement, random.inclusive), (Replacement::Random { seed: 9 }, true));
        assert_eq!(random.sets(), Ok(1024));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<CacheConfiguration>().unwrap_err().to_string();
        let texts = [
            "32K,8,64",
            "32K,8,64,fifo",
            "32K,8,64,lru,x",
            "+32,8,64,lru",
            "99999999999999999999M,8,64,lru",
            "32K,8,48,lru",
            "32K,0,64,lru",
            "24K,3,64,tree-plru",
            "48K,8,64,lru",
        ];
        let errors: Vec<_> = texts.into_iter().map(error).collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        expected SIZE,WAYS,LINE,lru|tree-plru|random[:SEED][,inclusive], got `32K,8,64`
        expected SIZE,WAYS,LINE,lru|tree-plru|random[:SEED][,inclusive], got `32K,8,64,fifo`
        expected SIZE,WAYS,LINE,lru|tree-plru|random[:SEED][,inclusive], got `32K,8,64,lru,x`
        expected SIZE,WAYS,LINE,lru|tree-plru|random[:SEED][,inclusive], got `+32,8,64,lru`
        expected SIZE,WAYS,LINE,lru|tree-plru|random[:SEED][,inclusive], got `99999999999999999999M,8,64,lru`
        a line of 48 bytes is not a power of two from 8 to 4096
        0 ways are not 1 to 64
        tree-plru needs a power of two of ways, not 3
        49152 bytes in 8 ways of 64 bytes are not 2^n sets in up to 1 GiB
        ");
    }
}
