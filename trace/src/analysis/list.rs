//! Serialises the items of an iterator as a list whose length is stated first, as binary formats
//! need.

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

/// Serialises a list. `items`: returns an iterator over the items; it is called twice, and has to
/// return the same items.
pub fn serialize<S: Serializer, I: Iterator<Item: Serialize>>(
    serializer: S,
    items: impl Fn() -> I,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(items().count()))?;
    items().try_for_each(|item| list.serialize_element(&item))?;
    list.end()
}
