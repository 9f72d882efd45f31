//! Looks up words in a constant table, without a clock. The Verilog is a `case`, which synthesis
//! turns into LUTs or a ROM.

use rust_hdl::prelude::*;

/// `N` index bits, words of `W` bits; indices beyond the contents give 0.
#[derive(LogicBlock)]
pub struct Table<const N: usize, const W: usize> {
    /// Index of the word.
    pub index: Signal<In, Bits<N>>,
    /// The word.
    pub word: Signal<Out, Bits<W>>,
    _words: Vec<Bits<W>>,
}

impl<const N: usize, const W: usize> Table<N, W> {
    /// Builds a table of these words; bits above `W` are removed.
    pub fn new(words: impl IntoIterator<Item = u64>) -> Self {
        let mut words: Vec<Bits<W>> =
            words.into_iter().map(|word| (word & Bits::<W>::mask().to_u64()).into()).collect();
        words.resize(1 << N, Bits::default());
        Self { index: Default::default(), word: Default::default(), _words: words }
    }
}

impl<const N: usize, const W: usize> Logic for Table<N, W> {
    fn update(&mut self) {
        self.word.next = self._words[self.index.val().index()];
    }

    fn connect(&mut self) {
        self.word.connect();
    }

    fn hdl(&self) -> Verilog {
        let cases: Vec<String> = self
            ._words
            .iter()
            .enumerate()
            .filter(|(_, word)| word.any())
            .map(|(index, word)| format!("    {N}'d{index}: word = {W}'h{word:x};"))
            .collect();
        Verilog::Custom(format!(
            "always @(*) begin\n    case (index)\n{}\n    default: word = {W}'h0;\n    endcase\nend\n",
            cases.join("\n")
        ))
    }
}
