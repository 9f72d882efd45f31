//! Describes vector instructions that access elements one by one: under a mask, or at the addresses
//! in a vector.
//!
//! `vmovups [rax]{k1}, zmm0` has 16 elements of 4 bytes from `rax` on. Element n is written if bit
//! n of `k1` is set.

use iced_x86::{Instruction, Mnemonic, OpKind, Register, TupleType, UsedMemory};

/// The elements of an operand, and which of them are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// Number of elements, 1 to 64.
    pub elements: u8,
    /// Number of lanes of the vector, a multiple of the number of elements. Lane n uses the element
    /// n modulo the number of elements: with `{1to16}`, 16 lanes use one element.
    pub lanes: u8,
    /// Which lanes are active; `None` if all are. An element is accessed if one of its lanes is
    /// active.
    pub mask: Option<Mask>,
    /// Where the elements are in memory.
    pub order: Order,
}

/// How the active lanes of a vector are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// A lane is active if its bit is set in a mask register.
    Bits(Register),
    /// A lane is active if the highest bit of its element in a vector register is set.
    Signs {
        /// The vector register.
        register: Register,
        /// Bytes of an element: 1, 4 or 8.
        bytes: u8,
    },
    /// A lane is active if its bit is set in a general register.
    Flags {
        /// The register.
        register: Register,
        /// Number of the bit of the first lane.
        first_bit: u8,
    },
}

/// Where the accessed elements are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Each element has its own place, whether the other elements are accessed or not.
    Apart,
    /// The accessed elements are one after the other, without gaps for the others: `vpcompressd`.
    Packed,
    /// Each element is at an index. The index of the operand is a vector, and each lane of the
    /// vector contains the index of one element.
    Indexed {
        /// Bytes of an index: 4, which is extended by its sign, or 8.
        bytes: u8,
    },
    /// There is one element, a component of the processor's state. It is behind the earlier
    /// components that the same register of flags chooses.
    Compacted {
        /// Number of the component.
        component: u8,
    },
}

/// The lanes of an operand, and the bytes of an element; `None` if the instruction accesses the
/// whole operand.
pub(super) fn of(instruction: &Instruction, used: &UsedMemory) -> Option<(Lanes, u32)> {
    use Mnemonic::{
        Maskmovdqu, Maskmovq, Vmaskmovdqu, Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq,
    };
    if used.index().is_vector_register() {
        return Some((indexed(instruction, used), used.memory_size().size() as u32));
    }
    let bytes = match instruction.mnemonic() {
        Maskmovdqu | Maskmovq | Vmaskmovdqu => 1,
        Vmaskmovps | Vpmaskmovd => 4,
        Vmaskmovpd | Vpmaskmovq => 8,
        _ => return masked(instruction, used),
    };
    let register = instruction.op_register(if bytes == 1 { 2 } else { 1 });
    let lanes = register.size() as u8 / bytes;
    let mask = Some(Mask::Signs { register, bytes });
    Some((Lanes { elements: lanes, lanes, mask, order: Order::Apart }, bytes.into()))
}

/// The lanes of a gather or scatter. There are as many as indexes or elements of data, whichever
/// are fewer.
fn indexed(instruction: &Instruction, used: &UsedMemory) -> Lanes {
    let bytes = if instruction.is_vsib64() { 8 } else { 4 };
    let is_data = |operand: &u32| instruction.op_register(*operand).is_vector_register();
    let data = (0..instruction.op_count()).find(is_data).map(|one| instruction.op_register(one));
    let size = used.memory_size().size();
    let indexes = used.index().size() / usize::from(bytes);
    let elements = data.map_or(indexes, |data| data.size() / size.max(1));
    let mask = match instruction.op_mask() {
        Register::None => {
            // Without a mask register, the last operand is the mask.
            let register = instruction.op2_register();
            register.is_vector_register().then_some(Mask::Signs { register, bytes: size as u8 })
        }
        register => Some(Mask::Bits(register)),
    };
    let lanes = indexes.min(elements) as u8;
    Lanes { elements: lanes, lanes, mask, order: Order::Indexed { bytes } }
}

/// The lanes of an operand under a mask register, and the bytes of an element.
fn masked(instruction: &Instruction, used: &UsedMemory) -> Option<(Lanes, u32)> {
    let mask = Some(instruction.op_mask()).filter(|mask| *mask != Register::None)?;
    if reads_everything(instruction) {
        return None;
    }
    let size = used.memory_size();
    let whole = size.size();
    let broadcast = broadcast(instruction.op_code().tuple_type());
    let (bytes, lanes) = if instruction.is_broadcast() {
        let (bytes, total) = broadcast?;
        (bytes, total / bytes)
    } else if is_broadcast(instruction.mnemonic()) {
        let bytes = size.element_size().max(1);
        (bytes, instruction.op0_register().size() / bytes)
    } else {
        // The elements that the mask counts, which are not always the elements of data: `vpdpbusd`
        // has one bit for four bytes.
        let bytes = broadcast.map_or(size.element_size(), |(bytes, _)| bytes).max(1);
        (bytes, whole / bytes)
    };
    let order = if is_packed(instruction.mnemonic()) { Order::Packed } else { Order::Apart };
    let elements = (whole / bytes).max(1) as u8;
    let lanes = Lanes { elements, lanes: lanes as u8, mask: Some(Mask::Bits(mask)), order };
    Some((lanes, bytes as u32))
}

/// Bytes of an element, and bytes of all elements. The operand has a type in which one element may
/// be used for all lanes. `None` for other operands.
fn broadcast(kind: TupleType) -> Option<(usize, usize)> {
    Some(match kind {
        TupleType::N8b4 => (4, 8),
        TupleType::N16b4 => (4, 16),
        TupleType::N32b4 => (4, 32),
        TupleType::N64b4 => (4, 64),
        TupleType::N16b8 => (8, 16),
        TupleType::N32b8 => (8, 32),
        TupleType::N64b8 => (8, 64),
        TupleType::N4b2 => (2, 4),
        TupleType::N8b2 => (2, 8),
        TupleType::N16b2 => (2, 16),
        TupleType::N32b2 => (2, 32),
        TupleType::N64b2 => (2, 64),
        _ => return None,
    })
}

/// Whether the elements of active lanes are one after the other in memory.
fn is_packed(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Vcompresspd, Vcompressps, Vexpandpd, Vexpandps, Vpcompressb, Vpcompressd, Vpcompressq,
        Vpcompressw, Vpexpandb, Vpexpandd, Vpexpandq, Vpexpandw,
    };
    matches!(
        mnemonic,
        Vcompresspd
            | Vcompressps
            | Vexpandpd
            | Vexpandps
            | Vpcompressb
            | Vpcompressd
            | Vpcompressq
            | Vpcompressw
            | Vpexpandb
            | Vpexpandd
            | Vpexpandq
            | Vpexpandw
    )
}

/// Whether an instruction copies its operand to all lanes, such as `vbroadcastss`.
fn is_broadcast(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Vbroadcastf32x2, Vbroadcastf32x4, Vbroadcastf32x8, Vbroadcastf64x2, Vbroadcastf64x4,
        Vbroadcasti32x2, Vbroadcasti32x4, Vbroadcasti32x8, Vbroadcasti64x2, Vbroadcasti64x4,
        Vbroadcastsd, Vbroadcastss, Vpbroadcastb, Vpbroadcastd, Vpbroadcastq, Vpbroadcastw,
    };
    matches!(
        mnemonic,
        Vbroadcastf32x2
            | Vbroadcastf32x4
            | Vbroadcastf32x8
            | Vbroadcastf64x2
            | Vbroadcastf64x4
            | Vbroadcasti32x2
            | Vbroadcasti32x4
            | Vbroadcasti32x8
            | Vbroadcasti64x2
            | Vbroadcasti64x4
            | Vbroadcastsd
            | Vbroadcastss
            | Vpbroadcastb
            | Vpbroadcastd
            | Vpbroadcastq
            | Vpbroadcastw
    )
}

/// Whether an instruction reads its whole operand whatever the mask is. Its lanes may need any
/// element, or it has no faults that a mask could suppress (classes of exceptions with NF in the
/// Intel SDM).
fn reads_everything(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Valignd, Valignq, Vcvtne2ps2bf16, Vdbpsadbw, Vgf2p8affineinvqb, Vgf2p8affineqb,
        Vinsertf32x4, Vinsertf32x8, Vinsertf64x2, Vinsertf64x4, Vinserti32x4, Vinserti32x8,
        Vinserti64x2, Vinserti64x4, Vmovddup, Vmovshdup, Vmovsldup, Vpackssdw, Vpacksswb,
        Vpackusdw, Vpackuswb, Vpalignr, Vpconflictd, Vpconflictq, Vpermb, Vpermd, Vpermi2b,
        Vpermi2d, Vpermi2pd, Vpermi2ps, Vpermi2q, Vpermi2w, Vpermilpd, Vpermilps, Vpermpd, Vpermps,
        Vpermq, Vpermt2b, Vpermt2d, Vpermt2pd, Vpermt2ps, Vpermt2q, Vpermt2w, Vpermw, Vpmaddubsw,
        Vpmaddwd, Vpmultishiftqb, Vpshufb, Vpshufd, Vpshufhw, Vpshuflw, Vpslld, Vpsllq, Vpsllw,
        Vpsrad, Vpsraq, Vpsraw, Vpsrld, Vpsrlq, Vpsrlw, Vpunpckhbw, Vpunpckhdq, Vpunpckhqdq,
        Vpunpckhwd, Vpunpcklbw, Vpunpckldq, Vpunpcklqdq, Vpunpcklwd, Vshuff32x4, Vshuff64x2,
        Vshufi32x4, Vshufi64x2, Vshufpd, Vshufps, Vunpckhpd, Vunpckhps, Vunpcklpd, Vunpcklps,
    };
    match instruction.mnemonic() {
        Valignd | Valignq | Vcvtne2ps2bf16 | Vdbpsadbw | Vgf2p8affineinvqb | Vgf2p8affineqb
        | Vinsertf32x4 | Vinsertf32x8 | Vinsertf64x2 | Vinsertf64x4 | Vinserti32x4
        | Vinserti32x8 | Vinserti64x2 | Vinserti64x4 | Vmovddup | Vmovshdup | Vmovsldup
        | Vpackssdw | Vpacksswb | Vpackusdw | Vpackuswb | Vpalignr | Vpconflictd | Vpconflictq
        | Vpermb | Vpermd | Vpermi2b | Vpermi2d | Vpermi2pd | Vpermi2ps | Vpermi2q | Vpermi2w
        | Vpermilpd | Vpermilps | Vpermpd | Vpermps | Vpermq | Vpermt2b | Vpermt2d | Vpermt2pd
        | Vpermt2ps | Vpermt2q | Vpermt2w | Vpermw | Vpmaddubsw | Vpmaddwd | Vpmultishiftqb
        | Vpshufb | Vpshufd | Vpshufhw | Vpshuflw | Vpunpckhbw | Vpunpckhdq | Vpunpckhqdq
        | Vpunpckhwd | Vpunpcklbw | Vpunpckldq | Vpunpcklqdq | Vpunpcklwd | Vshuff32x4
        | Vshuff64x2 | Vshufi32x4 | Vshufi64x2 | Vshufpd | Vshufps | Vunpckhpd | Vunpckhps
        | Vunpcklpd | Vunpcklps => true,
        // The memory operand is the number of bits to shift by, unless that is an immediate value.
        Vpslld | Vpsllq | Vpsllw | Vpsrad | Vpsraq | Vpsraw | Vpsrld | Vpsrlq | Vpsrlw => {
            instruction.op2_kind() == OpKind::Memory
        }
        _ => false,
    }
}
