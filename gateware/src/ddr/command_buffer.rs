//! DDR command buffer unit (DCBU): pin levels to commands.
//!
//! Every pin is registered once, then decoded by the truth table of the generation (JESD79, -2, -3,
//! -4: command truth tables) and registered again.
//!
//! ```text
//! clock     _/0\_/1\_/2\_
//! pins      <A ><B ><C >       sampled at the edge
//! command       .   <A ><B >   two edges later
//! ```
//!
//! Before the first sample the command is `Quiet` and CKE counts as what the first sample says.

use hmtt_format::Generation;
use rust_hdl::prelude::*;

use super::{CommandCode, SlotCommand};

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Sample {
    valid: Bit,
    cke: Bit,
    cs_n: Bit,
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
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Clock enable pin.
    pub cke: Signal<In, Bit>,
    /// Chip select pin.
    pub cs_n: Signal<In, Bit>,
    /// ACTIVATE pin (DDR4; tied high elsewhere).
    pub act_n: Signal<In, Bit>,
    /// Row address strobe pin.
    pub ras_n: Signal<In, Bit>,
    /// Column address strobe pin.
    pub cas_n: Signal<In, Bit>,
    /// Write enable pin.
    pub we_n: Signal<In, Bit>,
    /// Bank address pins; absent ones tied low.
    pub ba: Signal<In, Bits<4>>,
    /// Address pins; absent ones tied low.
    pub a: Signal<In, Bits<18>>,
    /// The command of two clocks before.
    pub command: Signal<Out, SlotCommand>,
    /// The first sample has reached `command`.
    pub valid: Signal<Out, Bit>,
    sample: DFF<Sample>,
    cke_was_low: DFF<Bit>,
    decoded: DFF<SlotCommand>,
    decoded_valid: DFF<Bit>,
    strobed: Signal<Local, CommandCode>,
    starts_low: Signal<Local, Bit>,
    pins: Signal<Local, Bits<18>>,
    with_a14: Signal<Local, Bits<18>>,
    with_a15: Signal<Local, Bits<18>>,
    has_act_n: Constant<Bit>,
    has_burst_terminate: Constant<Bit>,
    has_zq: Constant<Bit>,
    below_a14: Constant<Bits<18>>,
    a14: Constant<Bits<18>>,
    a15: Constant<Bits<18>>,
    a16: Constant<Bits<18>>,
}

impl CommandBuffer {
    /// A buffer for one generation.
    pub fn new(generation: Generation) -> Self {
        Self {
            clock: Default::default(),
            cke: Default::default(),
            cs_n: Default::default(),
            act_n: Default::default(),
            ras_n: Default::default(),
            cas_n: Default::default(),
            we_n: Default::default(),
            ba: Default::default(),
            a: Default::default(),
            command: Default::default(),
            valid: Default::default(),
            sample: Default::default(),
            cke_was_low: Default::default(),
            decoded: Default::default(),
            decoded_valid: Default::default(),
            strobed: Default::default(),
            starts_low: Default::default(),
            pins: Default::default(),
            with_a14: Default::default(),
            with_a15: Default::default(),
            has_act_n: Constant::new(generation.has_act_n()),
            has_burst_terminate: Constant::new(generation == Generation::Ddr1),
            has_zq: Constant::new(generation >= Generation::Ddr3),
            below_a14: Constant::new(0x2_3fff.into()),
            a14: Constant::new((1 << 14).into()),
            a15: Constant::new((1 << 15).into()),
            a16: Constant::new((1 << 16).into()),
        }
    }
}

impl Logic for CommandBuffer {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, sample, cke_was_low, decoded, decoded_valid);
        self.sample.d.next.valid = true;
        self.sample.d.next.cke = self.cke.val();
        self.sample.d.next.cs_n = self.cs_n.val();
        self.sample.d.next.act_n = self.act_n.val();
        self.sample.d.next.ras_n = self.ras_n.val();
        self.sample.d.next.cas_n = self.cas_n.val();
        self.sample.d.next.we_n = self.we_n.val();
        self.sample.d.next.ba = self.ba.val();
        self.sample.d.next.a = self.a.val();

        self.pins.next = self.sample.q.val().a;
        self.strobed.next = CommandCode::Quiet;
        if !self.sample.q.val().cs_n {
            if self.has_act_n.val() & !self.sample.q.val().act_n {
                self.strobed.next = CommandCode::Activate;
            } else if !self.sample.q.val().ras_n {
                if self.sample.q.val().cas_n {
                    if self.sample.q.val().we_n {
                        self.strobed.next = CommandCode::Activate;
                        if self.has_act_n.val() {
                            self.strobed.next = CommandCode::Reserved;
                        }
                    } else {
                        self.strobed.next = CommandCode::Precharge;
                        if self.pins.val().get_bit(10) {
                            self.strobed.next = CommandCode::PrechargeAll;
                        }
                    }
                } else if self.sample.q.val().we_n {
                    self.strobed.next = CommandCode::Refresh;
                } else {
                    self.strobed.next = CommandCode::ModeRegisterSet;
                }
            } else if !self.sample.q.val().cas_n {
                if self.sample.q.val().we_n {
                    self.strobed.next = CommandCode::Read;
                } else {
                    self.strobed.next = CommandCode::Write;
                }
            } else if !self.sample.q.val().we_n {
                self.strobed.next = CommandCode::Reserved;
                if self.has_burst_terminate.val() {
                    self.strobed.next = CommandCode::BurstTerminate;
                }
                if self.has_zq.val() {
                    self.strobed.next = CommandCode::ZqCalibration;
                }
            }
        }

        // The first sample falls from nowhere: low, it has been low for long.
        self.starts_low.next = !self.sample.q.val().cke & !self.decoded_valid.q.val();
        // On the edge where CKE falls only DESELECT, NOP (power-down) and REFRESH (self refresh)
        // are defined; on the edge where it rises and while it is low the pins mean nothing.
        self.decoded.d.next.code = self.strobed.val();
        if self.cke_was_low.q.val() | !self.sample.q.val().valid | self.starts_low.val() {
            self.decoded.d.next.code = CommandCode::Quiet;
        } else if !self.sample.q.val().cke {
            match self.strobed.val() {
                CommandCode::Quiet => {
                    self.decoded.d.next.code = CommandCode::Quiet;
                }
                CommandCode::Refresh => {
                    self.decoded.d.next.code = CommandCode::SelfRefreshEntry;
                }
                _ => {
                    self.decoded.d.next.code = CommandCode::Reserved;
                }
            }
        }
        if self.sample.q.val().valid {
            self.cke_was_low.d.next = !self.sample.q.val().cke;
        }
        self.decoded_valid.d.next = self.sample.q.val().valid;

        self.with_a14.next = self.sample.q.val().a & self.below_a14.val();
        if self.sample.q.val().we_n {
            self.with_a14.next = (self.sample.q.val().a & self.below_a14.val()) | self.a14.val();
        }
        self.with_a15.next = self.with_a14.val();
        if self.sample.q.val().cas_n {
            self.with_a15.next = self.with_a14.val() | self.a15.val();
        }
        self.decoded.d.next.ba = self.sample.q.val().ba;
        self.decoded.d.next.a = self.sample.q.val().a;
        if self.has_act_n.val() & !self.sample.q.val().act_n {
            self.decoded.d.next.a = self.with_a15.val();
            if self.sample.q.val().ras_n {
                self.decoded.d.next.a = self.with_a15.val() | self.a16.val();
            }
        }
        self.command.next = self.decoded.q.val();
        self.valid.next = self.decoded_valid.q.val();
    }
}
