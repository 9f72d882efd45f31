//! DDR command buffer unit (DCBU): decodes pin levels into commands.
//!
//! The pins come from the board, the commands go to the state machine. Each pin is registered once,
//! then decoded by the truth table of the generation (JESD79, -2, -3, -4: command truth tables),
//! and registered again. The mirrored pins of odd ranks are swapped back.
//!
//! ```text
//! clock     _/0\_/1\_/2\_
//! pins      <A ><B ><C >       sampled at the edge
//! command       .   <A ><B >   two edges later
//! ```
//!
//! Before the first sample the command is `NoCommand`, and CKE is assumed to have had the level of
//! the first sample.

use hmtt_format::address_map::Axis;
use hmtt_format::command::A10;
use hmtt_format::{Generation, MemoryDescription};
use rust_hdl::prelude::*;

use super::{CommandCode, DdrPins, SlotCommand};
use crate::reset::{Domain, Register};

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Sample {
    valid: Bit,
    cke: Bits<4>,
    /// Active high, so that nothing is selected before the first sample.
    cs: Bits<4>,
    act_n: Bit,
    ras_n: Bit,
    cas_n: Bit,
    we_n: Bit,
    ba: Bits<4>,
    a: Bits<18>,
}

/// See the module's description. All ports are one clock wide.
#[derive(LogicBlock)]
pub struct CommandBuffer {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The slot's command pins.
    pub pins: DdrPins,
    /// The command of two clocks before.
    pub command: Signal<Out, SlotCommand>,
    /// The first sample has reached `command`.
    pub valid: Signal<Out, Bit>,
    sample: Register<Sample>,
    cke_was_low: Register<Bits<4>>,
    decoded: Register<SlotCommand>,
    decoded_valid: Register<Bit>,
    selects: Signal<Local, Bits<4>>,
    strobe_code: Signal<Local, CommandCode>,
    low: Signal<Local, Bits<4>>,
    low_before: Signal<Local, Bits<4>>,
    cke_was_high: Signal<Local, Bits<4>>,
    selected: Signal<Local, Bits<4>>,
    falling: Signal<Local, Bits<4>>,
    address_pins: Signal<Local, Bits<18>>,
    mirrored: Signal<Local, Bits<18>>,
    true_address: Signal<Local, Bits<18>>,
    bank_pins: Signal<Local, Bits<4>>,
    bank_mirrored: Signal<Local, Bits<4>>,
    true_bank: Signal<Local, Bits<4>>,
    with_a14: Signal<Local, Bits<18>>,
    with_a15: Signal<Local, Bits<18>>,
    with_a16: Signal<Local, Bits<18>>,
    ranks: Constant<Bits<4>>,
    has_act_n: Constant<Bit>,
    has_burst_terminate: Constant<Bit>,
    has_zq: Constant<Bit>,
    has_mirror: Constant<Bit>,
    mirrors_a11: Constant<Bit>,
    mirrors_group: Constant<Bit>,
    kept: Constant<Bits<18>>,
    lower: Constant<Bits<18>>,
    upper: Constant<Bits<18>>,
    kept_a11: Constant<Bits<18>>,
    a11: Constant<Bits<18>>,
    a13: Constant<Bits<18>>,
    below_a14: Constant<Bits<18>>,
    a14: Constant<Bits<18>>,
    a15: Constant<Bits<18>>,
    a16: Constant<Bits<18>>,
    a10: Constant<Bits<4>>,
    even_ranks: Constant<Bits<4>>,
    bank_low: Constant<Bits<4>>,
    bank_high: Constant<Bits<4>>,
    ba0: Constant<Bits<4>>,
    ba1: Constant<Bits<4>>,
    ba2: Constant<Bits<4>>,
    ba3: Constant<Bits<4>>,
}

impl CommandBuffer {
    /// Builds the unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let generation = memory.generation;
        let mirrors_group = generation.has_act_n() && memory.bits(Axis::Bank) > 3;
        block! {
            Self {
                ranks: Constant::new(((1u64 << memory.ranks()) - 1).into()),
                has_act_n: Constant::new(generation.has_act_n()),
                has_burst_terminate: Constant::new(generation == Generation::Ddr1),
                has_zq: Constant::new(generation >= Generation::Ddr3),
                has_mirror: Constant::new(memory.mirror_odd_ranks),
                mirrors_a11: Constant::new(generation.has_act_n()),
                mirrors_group: Constant::new(mirrors_group),
                kept: Constant::new(0x3_fe07.into()),
                lower: Constant::new(0x0a8.into()),
                upper: Constant::new(0x150.into()),
                kept_a11: Constant::new(0x3_d7ff.into()),
                a11: Constant::new((1 << 11).into()),
                a13: Constant::new((1 << 13).into()),
                below_a14: Constant::new(0x2_3fff.into()),
                a14: Constant::new((1 << 14).into()),
                a15: Constant::new((1 << 15).into()),
                a16: Constant::new((1 << 16).into()),
                a10: Constant::new(u64::from(A10.trailing_zeros()).into()),
                even_ranks: Constant::new(0b0101u64.into()),
                bank_low: Constant::new(0b0011u64.into()),
                bank_high: Constant::new(0b1100u64.into()),
                ba0: Constant::new(0b0001u64.into()),
                ba1: Constant::new(0b0010u64.into()),
                ba2: Constant::new(0b0100u64.into()),
                ba3: Constant::new(0b1000u64.into()),
            }
            default: clock, pins, command, valid, sample, cke_was_low, decoded, decoded_valid,
                selects, strobe_code, low, low_before, cke_was_high, selected, falling,
                address_pins, mirrored, true_address, bank_pins, bank_mirrored, true_bank, with_a14,
                with_a15, with_a16
        }
    }
}

impl Logic for CommandBuffer {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, sample, cke_was_low, decoded, decoded_valid);
        self.selects.next = !self.pins.cs_n.val();
        self.sample.d.next.valid = true;
        self.sample.d.next.cke = self.pins.cke.val() & self.ranks.val();
        self.sample.d.next.cs = self.selects.val() & self.ranks.val();
        self.sample.d.next.act_n = self.pins.act_n.val();
        self.sample.d.next.ras_n = self.pins.ras_n.val();
        self.sample.d.next.cas_n = self.pins.cas_n.val();
        self.sample.d.next.we_n = self.pins.we_n.val();
        self.sample.d.next.ba = self.pins.ba.val();
        self.sample.d.next.a = self.pins.a.val();

        self.address_pins.next = self.sample.q.val().a;
        self.bank_pins.next = self.sample.q.val().ba;
        self.strobe_code.next = CommandCode::NoCommand;
        if self.has_act_n.val() & !self.sample.q.val().act_n {
            self.strobe_code.next = CommandCode::Activate;
        } else if !self.sample.q.val().ras_n {
            if self.sample.q.val().cas_n {
                if self.sample.q.val().we_n {
                    self.strobe_code.next = CommandCode::Activate;
                    if self.has_act_n.val() {
                        self.strobe_code.next = CommandCode::Reserved;
                    }
                } else {
                    self.strobe_code.next = CommandCode::Precharge;
                    if self.address_pins.val().get_bit(self.a10.val().index()) {
                        self.strobe_code.next = CommandCode::PrechargeAll;
                    }
                }
            } else if self.sample.q.val().we_n {
                self.strobe_code.next = CommandCode::Refresh;
            } else {
                self.strobe_code.next = CommandCode::ModeRegisterSet;
            }
        } else if !self.sample.q.val().cas_n {
            if self.sample.q.val().we_n {
                self.strobe_code.next = CommandCode::Read;
            } else {
                self.strobe_code.next = CommandCode::Write;
            }
        } else if !self.sample.q.val().we_n {
            self.strobe_code.next = CommandCode::Reserved;
            if self.has_burst_terminate.val() {
                self.strobe_code.next = CommandCode::BurstTerminate;
            }
            if self.has_zq.val() {
                self.strobe_code.next = CommandCode::ZqCalibration;
            }
        }

        // A CKE that is low at the first sample is assumed to have been low before. While CKE is
        // low, and at the edge where it rises, a rank ignores the other pins.
        self.low.next = !self.sample.q.val().cke;
        self.low_before.next = self.cke_was_low.q.val();
        if !self.decoded_valid.q.val() {
            self.low_before.next = self.low.val();
        }
        self.cke_was_high.next = !self.low_before.val();
        self.selected.next = self.sample.q.val().cs & self.cke_was_high.val();
        self.falling.next = self.selected.val() & self.low.val();
        self.cke_was_low.d.next = self.low.val();
        self.decoded_valid.d.next = self.sample.q.val().valid;

        self.decoded.d.next.code = CommandCode::NoCommand;
        self.decoded.d.next.ranks = bits::<4>(0);
        self.decoded.d.next.cke_falls = bits::<4>(0);
        self.decoded.d.next.cke_rises = self.low_before.val() & self.sample.q.val().cke;
        if (self.selected.val() != 0) & (self.strobe_code.val() != CommandCode::NoCommand) {
            self.decoded.d.next.code = self.strobe_code.val();
            self.decoded.d.next.ranks = self.selected.val();
            self.decoded.d.next.cke_falls = self.falling.val();
            // On the edge where CKE falls only DESELECT, NOP (power-down) and REFRESH (self
            // refresh) are defined.
            if (self.falling.val() != 0) & (self.strobe_code.val() != CommandCode::Refresh) {
                self.decoded.d.next.code = CommandCode::Reserved;
            }
        }

        // A command to odd ranks only has mirrored pins; one to several ranks has the pins of the
        // even ranks.
        self.true_address.next = self.address_pins.val();
        self.true_bank.next = self.bank_pins.val();
        self.mirrored.next = self.address_pins.val();
        self.bank_mirrored.next = self.bank_pins.val();
        if self.has_mirror.val() & ((self.selected.val() & self.even_ranks.val()) == 0) {
            self.mirrored.next = (self.address_pins.val() & self.kept.val())
                | ((self.address_pins.val() & self.lower.val()) << 1)
                | ((self.address_pins.val() & self.upper.val()) >> 1);
            self.true_address.next = self.mirrored.val();
            if self.mirrors_a11.val() {
                self.true_address.next = (self.mirrored.val() & self.kept_a11.val())
                    | ((self.mirrored.val() & self.a11.val()) << 2)
                    | ((self.mirrored.val() & self.a13.val()) >> 2);
            }
            self.bank_mirrored.next = (self.bank_pins.val() & self.bank_high.val())
                | ((self.bank_pins.val() & self.ba0.val()) << 1)
                | ((self.bank_pins.val() & self.ba1.val()) >> 1);
            self.true_bank.next = self.bank_mirrored.val();
            if self.mirrors_group.val() {
                self.true_bank.next = (self.bank_mirrored.val() & self.bank_low.val())
                    | ((self.bank_mirrored.val() & self.ba2.val()) << 1)
                    | ((self.bank_mirrored.val() & self.ba3.val()) >> 1);
            }
        }

        // In a DDR4 ACTIVATE the strobe pins are A14 to A16; they are not mirrored.
        self.with_a14.next = self.true_address.val();
        self.with_a15.next = self.true_address.val();
        self.with_a16.next = self.true_address.val();
        if self.has_act_n.val() & !self.sample.q.val().act_n {
            self.with_a14.next = self.true_address.val() & self.below_a14.val();
            if self.sample.q.val().we_n {
                self.with_a14.next =
                    (self.true_address.val() & self.below_a14.val()) | self.a14.val();
            }
            self.with_a15.next = self.with_a14.val();
            if self.sample.q.val().cas_n {
                self.with_a15.next = self.with_a14.val() | self.a15.val();
            }
            self.with_a16.next = self.with_a15.val();
            if self.sample.q.val().ras_n {
                self.with_a16.next = self.with_a15.val() | self.a16.val();
            }
        }
        self.decoded.d.next.ba = self.true_bank.val();
        self.decoded.d.next.a = self.with_a16.val();
        self.command.next = self.decoded.q.val();
        self.valid.next = self.decoded_valid.q.val();
    }
}
