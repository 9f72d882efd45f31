//! Names the places of caches, and puts the caches of a command line in order.
//!
//! ```text
//! PLACE=SIZE,WAYS,LINE,REPLACEMENT[,inclusive]      i1=32K,8,64,lru   l2=1M,16,64,tree-plru
//! ```

use std::fmt;
use std::str::FromStr;

use super::{CacheConfiguration, CacheError};

/// Maximum number of levels of the data path.
pub const MOST_LEVELS: u8 = 4;

/// The place of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The instruction cache, beside the first level.
    Instructions,
    /// A level of the data path, from 1.
    Level(u8),
}

impl fmt::Display for Place {
    /// Writes `i1`, `l1` and so on.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Instructions => write!(formatter, "i1"),
            Place::Level(level) => write!(formatter, "l{level}"),
        }
    }
}

/// A cache in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedCache {
    /// The place of the cache.
    pub place: Place,
    /// The description of the cache.
    pub configuration: CacheConfiguration,
}

/// The reason why caches cannot be put in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PlaceError {
    #[error("expected a place and a description: l1=32K,8,64,lru")]
    Expected,
    #[error("expected i1 or l1 to l4 before `=`")]
    Place,
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("{0}: this cache is given twice")]
    Twice(Place),
    #[error("{given}: {missing} is missing")]
    Missing { given: Place, missing: Place },
}

impl FromStr for PlacedCache {
    type Err = PlaceError;

    /// Parses a place and a description, such as `l1=32K,8,64,lru`.
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (place, configuration) = text.split_once('=').ok_or(PlaceError::Expected)?;
        let place = match place {
            "i1" => Place::Instructions,
            "l1" => Place::Level(1),
            "l2" => Place::Level(2),
            "l3" => Place::Level(3),
            "l4" => Place::Level(MOST_LEVELS),
            _ => return Err(PlaceError::Place),
        };
        Ok(PlacedCache { place, configuration: configuration.parse()? })
    }
}

/// Puts caches in order: the data path from the processor to memory, and the instruction cache if
/// there is one.
///
/// # Errors
/// [`PlaceError`] if a cache is given twice, or if a level before a given cache is missing.
pub fn in_order(
    caches: &[PlacedCache],
) -> Result<(Vec<CacheConfiguration>, Option<CacheConfiguration>), PlaceError> {
    let mut sorted_caches = caches.to_vec();
    sorted_caches.sort_by_key(|cache| cache.place);
    if let Some(twice) = sorted_caches.windows(2).find(|pair| pair[0].place == pair[1].place) {
        return Err(PlaceError::Twice(twice[0].place));
    }
    let (mut levels, mut instructions) = (Vec::new(), None);
    for PlacedCache { place, configuration } in sorted_caches {
        let expected = Place::Level(levels.len() as u8 + 1);
        match place {
            Place::Instructions => instructions = Some(configuration),
            Place::Level(_) if place == expected => levels.push(configuration),
            Place::Level(_) => return Err(PlaceError::Missing { given: place, missing: expected }),
        }
    }
    if levels.is_empty() && instructions.is_some() {
        let (present, missing) = (Place::Instructions, Place::Level(1));
        return Err(PlaceError::Missing { given: present, missing });
    }
    Ok((levels, instructions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_have_a_place() {
        let PlacedCache { place, configuration } = "l2=256K,8,64,lru".parse().unwrap();
        assert_eq!((place, configuration.ways), (Place::Level(2), 8));
        for wrong in ["", "l2", "l5=32K,8,64,lru", "l1=32K", "=32K,8,64,lru"] {
            assert!(wrong.parse::<PlacedCache>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn caches_are_put_in_order() {
        let placed = |texts: &[&str]| -> Result<(usize, bool), String> {
            let caches: Vec<PlacedCache> =
                texts.iter().map(|place| format!("{place}=1K,2,64,lru").parse().unwrap()).collect();
            let levels = in_order(&caches).map_err(|error| error.to_string())?;
            Ok((levels.0.len(), levels.1.is_some()))
        };
        assert_eq!(placed(&["l2", "i1", "l1"]), Ok((2, true)));
        assert_eq!(placed(&[]), Ok((0, false)));
        assert_eq!(placed(&["l1", "l1"]), Err("l1: this cache is given twice".into()));
        assert_eq!(placed(&["l1", "l3"]), Err("l3: l2 is missing".into()));
        assert_eq!(placed(&["i1"]), Err("i1: l1 is missing".into()));
    }
}
