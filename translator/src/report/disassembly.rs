//! Disassembles blocks from the bytes in their profile, in the notation of the GNU tools.

use hmtt_files::profile::Block;
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};

use super::shown_address;

/// An instruction of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Address in the file, or in the process if the address in the file is not known.
    pub address: u64,
    /// Number of its bytes.
    pub bytes: u64,
    /// The instruction as text. Addresses in it are in the file, too, or in the process.
    pub text: String,
}

/// Addresses and sizes of the instructions of a block.
pub fn instructions(block: &Block) -> Vec<(u64, u64)> {
    decode(block).map(|one| (one.ip(), one.len() as u64)).collect()
}

/// The instructions of a block, as text.
pub fn lines(block: &Block) -> Vec<Line> {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_uppercase_hex(false);
    formatter.options_mut().set_branch_leading_zeros(false);
    let line = |instruction: Instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        Line { address: instruction.ip(), bytes: instruction.len() as u64, text }
    };
    decode(block).map(line).collect()
}

fn decode(block: &Block) -> impl Iterator<Item = Instruction> {
    let start = shown_address(block);
    let mut decoder = Decoder::with_ip(64, &block.code, start, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn addresses_are_those_of_the_file() {
        let lines = lines(&profile().blocks[0]);
        let texts: Vec<_> = lines.iter().map(|line| (line.address, line.text.as_str())).collect();
        assert_eq!(texts, [(0x1000, "dec %ecx"), (0x1002, "je 0x1008")]);
        let forged = Block { code: vec![0x06, 0x48], ..Block::default() };
        assert_eq!(instructions(&forged).len(), 1);
        let last = Block { code_address: u64::MAX, code: vec![0x90; 3], ..Block::default() };
        assert_eq!(super::lines(&last)[2].address, 1);
    }
}
