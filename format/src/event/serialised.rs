//! Serialises addresses, directions and names in events as text, and clocks as numbers.
//!
//! Addresses are hexadecimal text, because numbers in JSON lose bits above 2^53. The addresses of
//! events begin with 0x: without it, other readers take `1000` for a decimal number. Text of
//! earlier versions has no prefix, and is read too.

use core::fmt::Display;

use serde::de::Error;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::MarkRegister;
use crate::fault::FaultKind;
use crate::record::CountGroup;
use crate::units::{Direction, PhysAddr};

impl Serialize for PhysAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Serialises the address of an event, with the prefix 0x.
pub(crate) fn prefixed<S: Serializer>(
    address: &PhysAddr,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("0x{address}"))
}

/// Serialises the address of an event that may have none.
pub(crate) fn prefixed_option<S: Serializer>(
    address: &Option<PhysAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => prefixed(address, serializer),
        None => serializer.serialize_none(),
    }
}

impl<'de> Deserialize<'de> for PhysAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        known(PhysAddr::from_hex(digits), format_args!("address {text:?} is not hexadecimal"))
    }
}

impl Serialize for Direction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.letter().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Direction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let letter = char::deserialize(deserializer)?;
        known(
            Direction::from_letter(letter),
            format_args!("direction {letter:?} is neither R nor W"),
        )
    }
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FaultKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        known(FaultKind::from_name(&name), format_args!("no fault is called {name}"))
    }
}

impl Serialize for CountGroup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CountGroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        known(CountGroup::from_name(&name), format_args!("no group of counts is called {name}"))
    }
}

/// Serialises the number of the register, and its name for people.
impl Serialize for MarkRegister {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("MarkRegister", 2)?;
        members.serialize_field("register", &self.0)?;
        members.serialize_field("name", &format!("{self}"))?;
        members.end()
    }
}

/// Reads the register only. The name may be missing, because the register determines it.
impl<'de> Deserialize<'de> for MarkRegister {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Members {
            register: u32,
            #[serde(default, rename = "name")]
            _name: String,
        }
        let Members { register, .. } = Members::deserialize(deserializer)?;
        Ok(MarkRegister(register))
    }
}

fn known<T, E: Error>(value: Option<T>, problem: impl Display) -> Result<T, E> {
    value.ok_or_else(|| E::custom(problem))
}
