//! Shortens the constructors of blocks.

/// Constructs a block: the fields that are given, and the defaults of those that are named after `default:`. As in any
/// struct literal each field appears once, so that a constant that is not given is an error.
macro_rules! block {
    ($type:ident { $($given:ident $(: $value:expr)?),* $(,)? } default: $($field:ident),* $(,)?) => {
        $type { $($given $(: $value)?,)* $($field: Default::default(),)* }
    };
}
