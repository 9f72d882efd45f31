//! Decodes the levels of the command pins at a clock edge into a DDR command, and encodes commands
//! as levels, by the command truth tables of JESD79, JESD79-2, JESD79-3 and JESD79-4.

/// A DDR memory generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Generation {
    /// DDR SDRAM, JESD79.
    Ddr1 = 1,
    /// DDR2 SDRAM, JESD79-2.
    Ddr2 = 2,
    /// DDR3 SDRAM, JESD79-3.
    Ddr3 = 3,
    /// DDR4 SDRAM, JESD79-4.
    Ddr4 = 4,
}

impl Generation {
    /// All generations.
    pub const ALL: [Generation; 4] =
        [Generation::Ddr1, Generation::Ddr2, Generation::Ddr3, Generation::Ddr4];

    /// Name of the generation: `DDR1` to `DDR4`.
    pub const fn name(self) -> &'static str {
        match self {
            Generation::Ddr1 => "DDR1",
            Generation::Ddr2 => "DDR2",
            Generation::Ddr3 => "DDR3",
            Generation::Ddr4 => "DDR4",
        }
    }

    /// The generation with this name, in upper or lower case; `DDR` is DDR1.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("DDR") {
            return Some(Generation::Ddr1);
        }
        Self::ALL.into_iter().find(|g| g.name().eq_ignore_ascii_case(name))
    }

    /// The generation with this number, 1 to 4.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|g| *g as u8 == number)
    }

    /// Whether ACTIVATE has a pin of its own (ACT_n). The pins RAS, CAS and WE are then also A16,
    /// A15 and A14.
    pub const fn has_act_n(self) -> bool {
        matches!(self, Generation::Ddr4)
    }

    /// The address pin of column bit `bit`. A10 (auto-precharge) is not a column bit, so column bit
    /// 10 is on pin A11. From DDR2 on, A12 (burst chop of DDR3 and DDR4) is not used for a column
    /// bit either.
    pub const fn column_pin(self, bit: u8) -> u8 {
        match (self, bit) {
            (_, 0..=9) => bit,
            (_, 10) => 11,
            (Generation::Ddr1, _) => bit + 1,
            (_, _) => bit + 2,
        }
    }
}

/// Address pin A10: selects auto-precharge in READ and WRITE, and all banks in PRECHARGE.
pub const A10: u32 = 1 << 10;

/// Maximum number of ranks of a slot, each with a chip select and a clock enable.
pub const MAX_RANKS: u8 = 4;
/// Mask of all ranks.
pub const ALL_RANKS: u8 = (1 << MAX_RANKS) - 1;

/// The levels of a slot's command pins at a rising clock edge. Pins whose names end in `_n` are
/// active low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Clock enables, one bit for each rank, rank 0 lowest. Ranks without a pin have the level of
    /// rank 0.
    pub cke: u8,
    /// Chip selects, one bit for each rank, rank 0 lowest; the bits of absent ranks are high.
    pub cs_n: u8,
    /// ACTIVATE (DDR4); high on generations without the pin.
    pub act_n: bool,
    /// Row address strobe (DDR4: A16 while `act_n` is low).
    pub ras_n: bool,
    /// Column address strobe (DDR4: A15 while `act_n` is low).
    pub cas_n: bool,
    /// Write enable (DDR4: A14 while `act_n` is low).
    pub we_n: bool,
    /// Bank address; on DDR4 with the bank group in its high bits.
    pub ba: u8,
    /// Address pins, A0 lowest.
    pub a: u32,
}

impl Pins {
    /// DESELECT with CKE high, for clocks without a command.
    pub const DESELECT: Pins = Pins {
        cke: ALL_RANKS,
        cs_n: ALL_RANKS,
        act_n: true,
        ras_n: true,
        cas_n: true,
        we_n: true,
        ba: 0,
        a: 0,
    };
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are JEDEC's
pub enum CommandKind {
    Deselect,
    Nop,
    Activate,
    Read,
    Write,
    Precharge,
    PrechargeAll,
    Refresh,
    SelfRefreshEntry,
    ModeRegisterSet,
    BurstTerminate,
    ZqCalibration,
    PowerDownEntry,
    Reserved,
}

/// A command with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The kind of the command.
    pub kind: CommandKind,
    /// Bank address pins.
    pub ba: u8,
    /// Address pins. For ACTIVATE on DDR4 they include A14 to A16, which share the strobe pins.
    pub a: u32,
}

impl Command {
    /// Decodes the pins at a clock edge for rank 0. `cke_before`: CKE of rank 0 at the previous
    /// edge. If CKE was low, the other pins are ignored; at the edge at which CKE rises, JEDEC
    /// allows only DESELECT and NOP.
    pub fn decode(generation: Generation, pins: Pins, cke_before: bool) -> Command {
        Self::decode_rank(generation, pins, 0, cke_before)
    }

    /// Decodes the pins at a clock edge for rank `rank`, as [`Command::decode`] does for rank 0.
    /// Mirrored addresses are not corrected, see [`mirror`].
    pub fn decode_rank(generation: Generation, pins: Pins, rank: u8, cke_before: bool) -> Command {
        let selected = pins.cs_n >> rank & 1 == 0;
        let strobed = if selected { strobed(generation, pins) } else { CommandKind::Deselect };
        let kind = match (cke_before, pins.cke >> rank & 1 != 0) {
            (false, _) => CommandKind::Deselect,
            (true, true) => strobed,
            (true, false) => match strobed {
                CommandKind::Refresh => CommandKind::SelfRefreshEntry,
                CommandKind::Deselect | CommandKind::Nop => CommandKind::PowerDownEntry,
                _ => CommandKind::Reserved,
            },
        };
        let mut a = pins.a;
        if generation.has_act_n() && kind == CommandKind::Activate {
            a = (a & 0x2_3fff)
                | u32::from(pins.we_n) << 14
                | u32::from(pins.cas_n) << 15
                | u32::from(pins.ras_n) << 16;
        }
        Command { kind, ba: pins.ba, a }
    }

    /// Whether a READ or WRITE has auto-precharge (A10), which closes its row.
    pub const fn auto_precharge(&self) -> bool {
        self.a & A10 != 0
    }

    /// The column of a READ or WRITE, from its address pins. `bits`: number of column bits.
    pub fn column(&self, generation: Generation, bits: u8) -> u32 {
        (0..bits).fold(0, |column, bit| column | (self.a >> generation.column_pin(bit) & 1) << bit)
    }
}

/// Decodes a command by the truth table of a selected device with CKE high.
fn strobed(generation: Generation, pins: Pins) -> CommandKind {
    use CommandKind::*;
    if generation.has_act_n() && !pins.act_n {
        return Activate;
    }
    match (pins.ras_n, pins.cas_n, pins.we_n) {
        (false, true, true) if generation.has_act_n() => Reserved,
        (false, true, true) => Activate,
        (true, false, true) => Read,
        (true, false, false) => Write,
        (false, true, false) if pins.a & A10 != 0 => PrechargeAll,
        (false, true, false) => Precharge,
        (false, false, true) => Refresh,
        (false, false, false) => ModeRegisterSet,
        (true, true, false) => match generation {
            Generation::Ddr1 => BurstTerminate,
            Generation::Ddr2 => Reserved,
            Generation::Ddr3 | Generation::Ddr4 => ZqCalibration,
        },
        (true, true, true) => Nop,
    }
}

/// Encodes a command to rank 0, for tests and traffic generators. CKE is high, except for the kinds
/// at which it falls ([`CommandKind::SelfRefreshEntry`], [`CommandKind::PowerDownEntry`]).
pub fn encode(generation: Generation, command: Command) -> Pins {
    use CommandKind::*;
    let (ras_n, cas_n, we_n) = match command.kind {
        Deselect | Nop | PowerDownEntry => (true, true, true),
        Activate => (false, true, true),
        Read => (true, false, true),
        Write => (true, false, false),
        Precharge | PrechargeAll => (false, true, false),
        Refresh | SelfRefreshEntry => (false, false, true),
        ModeRegisterSet => (false, false, false),
        BurstTerminate | ZqCalibration | Reserved => (true, true, false),
    };
    let mut pins = Pins {
        cke: if matches!(command.kind, SelfRefreshEntry | PowerDownEntry) { 0 } else { ALL_RANKS },
        cs_n: if matches!(command.kind, Deselect | PowerDownEntry) {
            ALL_RANKS
        } else {
            ALL_RANKS & !1
        },
        act_n: true,
        ras_n,
        cas_n,
        we_n,
        ba: command.ba,
        a: command.a,
    };
    if generation.has_act_n() && command.kind == Activate {
        pins.act_n = false;
        pins.we_n = command.a >> 14 & 1 != 0;
        pins.cas_n = command.a >> 15 & 1 != 0;
        pins.ras_n = command.a >> 16 & 1 != 0;
    }
    pins
}

/// Encodes a command to one or several ranks, as [`encode`] does for rank 0. `ranks`: one bit for
/// each rank, rank 0 lowest; CKE falls for these ranks only.
pub fn encode_to(generation: Generation, command: Command, ranks: u8) -> Pins {
    let pins = encode(generation, command);
    let chosen = ranks & ALL_RANKS;
    Pins {
        cke: if pins.cke == 0 { ALL_RANKS & !chosen } else { ALL_RANKS },
        cs_n: if pins.cs_n == ALL_RANKS { ALL_RANKS } else { ALL_RANKS & !chosen },
        ..pins
    }
}

/// Swaps the pins of a command to a mirrored rank. It converts the slot's levels to the rank's
/// levels and back, because swapping twice restores them. `bank_bits`: number of bank bits of the
/// map, since only DDR4 with two bank group bits swaps BG0 and BG1. Source: JESD21-C 4.20.18 and
/// 4.20.19 (DDR3 modules), 4.20.25 and 4.20.26 (DDR4 modules), annexes on address mirroring.
pub fn mirror(generation: Generation, bank_bits: u8, ba: u8, a: u32) -> (u8, u32) {
    let swap = |word: u32, low: u32, high: u32| {
        let differ = (word >> low ^ word >> high) & 1;
        word ^ (differ << low | differ << high)
    };
    let mut a = swap(swap(swap(a, 3, 4), 5, 6), 7, 8);
    let mut ba = swap(ba.into(), 0, 1);
    if generation.has_act_n() {
        a = swap(a, 11, 13);
        if bank_bits > 3 {
            ba = swap(ba, 2, 3);
        }
    }
    (ba as u8, a)
}

/// The address pins of a column. `bits`: number of column bits.
pub fn column_pins(generation: Generation, column: u32, bits: u8) -> u32 {
    (0..bits).fold(0, |a, bit| a | (column >> bit & 1) << generation.column_pin(bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cke_low_makes_pins_meaningless() {
        let read = encode(Generation::Ddr1, Command { kind: CommandKind::Read, ba: 1, a: 8 });
        let exit = Command::decode(Generation::Ddr1, read, false);
        assert_eq!(exit.kind, CommandKind::Deselect);
        let low = Pins { cke: 0, ..read };
        assert_eq!(Command::decode(Generation::Ddr1, low, true).kind, CommandKind::Reserved);
    }

    #[test]
    fn column_bit_ten_travels_above_the_auto_precharge_pin() {
        assert_eq!(column_pins(Generation::Ddr1, 0x400, 11), 1 << 11);
        assert_eq!(column_pins(Generation::Ddr1, 0x800, 12), 1 << 12);
        assert_eq!(column_pins(Generation::Ddr3, 0x800, 12), 1 << 13);
    }

    #[test]
    fn mirrored_pins_cross_in_pairs_and_come_back() {
        let (ba, a) = mirror(Generation::Ddr3, 3, 0b101, 1 << 3 | 1 << 6 | 1 << 8 | 1 << 11);
        assert_eq!((ba, a), (0b110, 1 << 4 | 1 << 5 | 1 << 7 | 1 << 11));
        let (ba, a) = mirror(Generation::Ddr4, 4, 0b0110, 1 << 11 | 1 << 10);
        assert_eq!((ba, a), (0b1001, 1 << 13 | 1 << 10));
        assert_eq!(mirror(Generation::Ddr4, 3, 0b0110, 0), (0b0101, 0));
        for generation in [Generation::Ddr3, Generation::Ddr4] {
            let (ba, a) = mirror(generation, 4, 0b0111, 0x2_a5c9);
            assert_eq!(mirror(generation, 4, ba, a), (0b0111, 0x2_a5c9));
        }
    }

    proptest! {
        #[test]
        fn columns_survive_the_pins(column in 0u32..4096, number in 1u8..=4) {
            let generation = Generation::from_number(number).unwrap();
            let a = column_pins(generation, column, 12);
            prop_assert_eq!(a & A10, 0);
            let command = Command { kind: CommandKind::Read, ba: 0, a };
            prop_assert_eq!(command.column(generation, 12), column);
        }

        #[test]
        fn commands_survive_the_pins(number in 1u8..=4, which in 0usize..8, ba in 0u8..16, a in 0u32..0x4_0000) {
            use CommandKind::*;
            let generation = Generation::from_number(number).unwrap();
            let kind = [Nop, Activate, Read, Write, Precharge, PrechargeAll, Refresh, ModeRegisterSet][which];
            let a = match kind { Precharge => a & !A10, PrechargeAll => a | A10, _ => a };
            let command = Command { kind, ba, a };
            prop_assert_eq!(Command::decode(generation, encode(generation, command), true), command);
        }
    }
}
