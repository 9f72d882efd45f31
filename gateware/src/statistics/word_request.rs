//! Declares the port at which the block writer reads words that other units make, with an end for
//! either side; `join` connects both ends.
//!
//! ```text
//! clock       _/0\_/1\_/2\_/3\_
//! index       <A  ><B  ><C  >
//! high, low        <A  ><B  >    a word of a slice or of the analysis; a word of a report comes two clocks after this
//! ```

// LogicInterface derives `join` without documentation. A signal is documented once, at the end that
// is named first.
#![allow(missing_docs)]

use rust_hdl::prelude::*;

use crate::record::RecordKind;

/// The port at the units that make the words.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "WordReader"]
pub struct WordRequest {
    /// Kind of the record that the words belong to. Kinds other than slice and analysis select a
    /// report.
    pub kind: Signal<In, RecordKind>,
    /// Index of the word. The word follows one clock later, a word of a report three clocks later.
    pub index: Signal<In, Bits<6>>,
    /// Bits 63..32 of the word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of the word.
    pub low: Signal<Out, Bits<32>>,
    /// Two clocks ago, `index` was the index of a report's last word.
    pub report_last: Signal<Out, Bit>,
}

/// The end of [`WordRequest`] at the block writer.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "WordRequest"]
pub struct WordReader {
    pub kind: Signal<Out, RecordKind>,
    pub index: Signal<Out, Bits<6>>,
    pub high: Signal<In, Bits<32>>,
    pub low: Signal<In, Bits<32>>,
    pub report_last: Signal<In, Bit>,
}
