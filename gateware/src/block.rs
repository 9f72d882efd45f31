//! Shortens the code of blocks: constructors that name only some fields, and updates that are split
//! over several modules.

use rust_hdl::prelude::*;

/// Constructs a block from the given fields, and from the defaults of the fields that are named
/// after `default:`. As in any struct literal each field must appear once, so a missing constant is
/// an error.
macro_rules! block {
    ($type:ident { $($given:ident $(: $value:expr)?),* $(,)? } default: $($field:ident),* $(,)?) => {
        $type { $($given $(: $value)?,)* $($field: Default::default(),)* }
    };
}

/// A part of the update of a block. `P` names the part; its `#[hdl_gen] fn update` is in a module
/// of its own.
pub(crate) trait Part<P> {
    /// Assigns the signals that this part of the block decides.
    fn update(&mut self);
    /// Marks the signals that the part assigns as connected.
    fn connect(&mut self);
    /// Returns the Verilog of the part.
    fn hdl(&self) -> Verilog;
}

/// Returns the statements of all parts as one `always` block.
///
/// # Panics
/// When a part is not the output of `#[hdl_gen]`.
pub(crate) fn joined<const PARTS: usize>(parts: [Verilog; PARTS]) -> Verilog {
    let statements = parts.into_iter().flat_map(|part| match part {
        Verilog::Combinatorial(statements) => statements,
        _ => panic!("a part that #[hdl_gen] did not make"),
    });
    Verilog::Combinatorial(statements.collect())
}

/// The functions of [`Logic`] of a block whose update consists of parts ([`Part`]). The parts are
/// evaluated in the given order, so a later part overrides the assignments of an earlier one.
macro_rules! update_in_parts {
    ($($part:ty),+ $(,)?) => {
        fn update(&mut self) {
            $(<Self as $crate::block::Part<$part>>::update(self);)+
        }

        fn connect(&mut self) {
            $(<Self as $crate::block::Part<$part>>::connect(self);)+
        }

        fn hdl(&self) -> Verilog {
            $crate::block::joined([$(<Self as $crate::block::Part<$part>>::hdl(self)),+])
        }
    };
}
