//! Which bytes an instruction accesses by its description, with given values of registers.

use hmtt_format::Direction;
use hmtt_translator::memory_accesses::{Condition, Mask, MemoryAccess, Order, state_components};
use iced_x86::Register;

/// Values of registers.
#[derive(Clone)]
pub struct Registers {
    pub general: [u64; 16],
    pub vectors: [[u8; 64]; 32],
    pub masks: [u64; 8],
}

/// Bytes that are accessed.
#[derive(Clone, Copy, Debug)]
pub struct Touched {
    pub from: u64,
    pub bytes: u64,
    pub direction: Direction,
    /// Whether they may not be.
    pub is_uncertain: bool,
}

impl Registers {
    pub fn general(&self, register: Register) -> u64 {
        if register == Register::None {
            return 0;
        }
        let whole = self.general[register.full_register().number()];
        match register.size() {
            1 => whole & 0xff,
            4 => whole & 0xffff_ffff,
            _ => whole,
        }
    }

    fn element(&self, register: Register, lane: usize, bytes: usize) -> u64 {
        let mut value = [0; 8];
        let vector = &self.vectors[register.number()];
        value[..bytes].copy_from_slice(&vector[lane * bytes..(lane + 1) * bytes]);
        u64::from_le_bytes(value)
    }

    fn is_active(&self, mask: Option<Mask>, lane: usize) -> bool {
        match mask {
            None => true,
            Some(Mask::Bits(register)) => self.masks[register.number()] >> lane & 1 != 0,
            Some(Mask::Signs { register, bytes }) => {
                let bytes = usize::from(bytes);
                self.element(register, lane, bytes) >> (8 * bytes - 1) & 1 != 0
            }
            Some(Mask::Flags { register, first_bit }) => {
                self.general(register) >> first_bit >> lane & 1 != 0
            }
        }
    }

    /// The bytes of an access.
    pub fn touched(&self, access: &MemoryAccess) -> Vec<Touched> {
        let operand = &access.operand;
        let is_vector = operand.index.is_vector_register();
        let index = if is_vector { 0 } else { self.general(operand.index) };
        let at = self
            .general(operand.base)
            .wrapping_add(index.wrapping_mul(operand.scale.into()))
            .wrapping_add(operand.displacement as u64);
        let at = at >> operand.alignment << operand.alignment;
        let touched_bytes = |from: u64| Touched {
            from,
            bytes: access.size.into(),
            direction: access.direction,
            is_uncertain: access.is_uncertain,
        };
        let Condition::Lanes(lanes) = access.condition else { return vec![touched_bytes(at)] };
        let size = u64::from(access.size);
        let is_accessed = |element: &usize| {
            let mut own = (*element..lanes.lanes.into()).step_by(lanes.elements.into());
            own.any(|lane| self.is_active(lanes.mask, lane))
        };
        let active: Vec<usize> = (0..lanes.elements.into()).filter(is_accessed).collect();
        match lanes.order {
            Order::Compacted { component } => {
                let flags = self.general[0];
                let before = state_components()
                    .iter()
                    .filter(|state| state.number < component && flags >> state.number & 1 != 0);
                let before: u64 = before.map(|state| u64::from(state.size)).sum();
                active.iter().map(|_| touched_bytes(at + 576 + before)).collect()
            }
            Order::Apart => {
                active.iter().map(|lane| touched_bytes(at + *lane as u64 * size)).collect()
            }
            Order::Packed => {
                (0..active.len()).map(|lane| touched_bytes(at + lane as u64 * size)).collect()
            }
            Order::Indexed { bytes } => {
                let address = |lane: &usize| {
                    let index = self.element(operand.index, *lane, bytes.into());
                    let index = if bytes == 4 { index as i32 as i64 as u64 } else { index };
                    touched_bytes(at.wrapping_add(index.wrapping_mul(operand.scale.into())))
                };
                active.iter().map(address).collect()
            }
        }
    }
}
