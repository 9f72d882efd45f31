//! Defines expressions of addresses: base, index and displacement, with versions of registers.
//!
//! After `inc rax`, `[rax + rcx*8 + 16]` has the expression `<rax.1, rcx.0*8, 0x10>`: `rax` has
//! been written once since the start of the block.

use std::fmt;

use iced_x86::Register;

/// The value of a register between two writes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versioned {
    /// The register as the address names it: `RAX`, `EAX`, or `AL` as the index of `xlat`; `FS` for
    /// its base address.
    pub register: Register,
    /// Number of writes to the full register since the start of the block.
    pub version: u32,
}

/// The index of an address. Its value is the value of the register times the scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    /// The register.
    pub register: Versioned,
    /// Factor of the register: 1, 2, 4 or 8.
    pub scale: u8,
}

/// The three parts of an expression. The first part decides the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Template {
    /// RRI: a register, an index and an immediate value. Dynamic memory and the stack are addressed
    /// in this way.
    Rri {
        /// The base.
        base: Versioned,
        /// The index, if there is one.
        index: Option<Index>,
        /// The displacement, in bytes.
        displacement: i64,
    },
    /// IRR: an immediate address, an index and a register. Static memory is addressed in this way:
    /// by addresses relative to `rip`, by absolute addresses, and by an index without a base
    /// register.
    Irr {
        /// The base, as an absolute address; relative to the segment's base if there is a segment.
        base: u64,
        /// The index, if there is one.
        index: Option<Index>,
        /// The base register, if the index register is known to hold a static address. It is known
        /// only with [`Equality::Values`](super::Equality::Values). Otherwise an address with a
        /// base register is an [`Rri`](Self::Rri).
        displacement: Option<Versioned>,
    },
}

/// The expression of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    /// `FS`, if the address is relative to the base of that segment. Other segments have the base 0
    /// (`gs` does not occur in blocks).
    pub segment: Option<Versioned>,
    /// Base, index and displacement.
    pub template: Template,
}

impl Expression {
    /// Whether two expressions have the same template, so that they have a distance.
    pub fn is_comparable(&self, other: &Self) -> bool {
        matches!(self.template, Template::Rri { .. })
            == matches!(other.template, Template::Rri { .. })
    }
}

/// The address of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// The address is the value of an expression.
    Expression(Expression),
    /// No expression describes the addresses that the instruction accesses. Such an access equals
    /// no other one.
    Set,
}

impl Address {
    /// The expression; `None` for a set.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            Address::Expression(expression) => Some(expression),
            Address::Set => None,
        }
    }
}

impl fmt::Display for Versioned {
    /// Prints the register and its version: `rax.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", format!("{:?}", self.register).to_ascii_lowercase(), self.version)
    }
}

impl fmt::Display for Index {
    /// Prints the register and the scale: `rcx.1*8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}", self.register, self.scale)
    }
}

impl fmt::Display for Expression {
    /// Prints base, index and displacement: `<rbp.0, -, -0x14>`, `fs.0:<0x28, -, ->`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        if let Some(segment) = self.segment {
            write!(f, "{segment}:")?;
        }
        match self.template {
            Template::Rri { base, index, displacement } => {
                let index = or_none(index.map(|index| index.to_string()));
                let sign = if displacement < 0 { "-" } else { "" };
                write!(f, "<{base}, {index}, {sign}{:#x}>", displacement.unsigned_abs())
            }
            Template::Irr { base, index, displacement } => {
                let index = or_none(index.map(|index| index.to_string()));
                let displacement = or_none(displacement.map(|register| register.to_string()));
                write!(f, "<{base:#x}, {index}, {displacement}>")
            }
        }
    }
}

impl fmt::Display for Address {
    /// Prints the expression, or `set`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Expression(expression) => expression.fmt(f),
            Address::Set => f.write_str("set"),
        }
    }
}
