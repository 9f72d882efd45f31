//! Parses one line of a vector into its clock and pin levels.

use hmtt_format::command::ALL_RANKS;
use hmtt_format::{Generation, Pins};

/// A column of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Clock,
    Cke,
    CsN,
    ActN,
    RasN,
    CasN,
    WeN,
    Ba,
    A,
}

impl Column {
    const ALL: [Column; 9] = [
        Column::Clock,
        Column::Cke,
        Column::CsN,
        Column::ActN,
        Column::RasN,
        Column::CasN,
        Column::WeN,
        Column::Ba,
        Column::A,
    ];

    const fn name(self) -> &'static str {
        match self {
            Column::Clock => "clock",
            Column::Cke => "cke",
            Column::CsN => "cs_n",
            Column::ActN => "act_n",
            Column::RasN => "ras_n",
            Column::CasN => "cas_n",
            Column::WeN => "we_n",
            Column::Ba => "ba",
            Column::A => "a",
        }
    }
}

/// Numbers of ranks, bank pins and address pins of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    ranks: u8,
    ba: u32,
    a: u32,
}

impl Widths {
    /// Returns the numbers of BA and A pins of the DIMM slot: JESD21-C 4.5.10 (DDR), 4.20.13
    /// (DDR2), 4.20.19 (DDR3) and 4.20.26 (DDR4, where BG and BA are counted together).
    pub const fn new(generation: Generation, ranks: u8) -> Self {
        match generation {
            Generation::Ddr1 => Widths { ranks, ba: 2, a: 14 },
            Generation::Ddr2 | Generation::Ddr3 => Widths { ranks, ba: 3, a: 16 },
            Generation::Ddr4 => Widths { ranks, ba: 4, a: 18 },
        }
    }
}

/// The order of the columns in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    order: Vec<Column>,
}

impl Columns {
    /// Returns the order that the format prescribes.
    pub fn from_generation(generation: Generation) -> Self {
        let present = |column: &Column| generation.has_act_n() || *column != Column::ActN;
        Columns { order: Column::ALL.into_iter().filter(present).collect() }
    }

    /// Parses the order that a header states, or returns what was expected.
    pub fn parse(names: &str) -> Result<Self, String> {
        let mut order = Vec::new();
        for name in names.split_ascii_whitespace() {
            let column = Column::ALL.into_iter().find(|column| column.name() == name);
            match column {
                Some(column) if !order.contains(&column) => order.push(column),
                _ => return Err(format!("known columns, each once, not `{name}`")),
            }
        }
        let missing = |column: &Column| *column != Column::ActN && !order.contains(column);
        match Column::ALL.into_iter().find(missing) {
            Some(column) => Err(format!("a column {}", column.name())),
            None => Ok(Columns { order }),
        }
    }

    /// Whether lines have a column for ACT_n.
    pub fn has_act_n(&self) -> bool {
        self.order.contains(&Column::ActN)
    }

    /// Parses a line, or returns what was expected.
    pub fn line(&self, line: &str, widths: Widths) -> Result<(u64, Pins), String> {
        let mut fields = line.split_ascii_whitespace();
        let mut clock = 0;
        let mut pins = Pins::DESELECT;
        for column in &self.order {
            let field = fields.next().ok_or_else(|| self.expected())?;
            match column {
                Column::Clock => {
                    clock = field.parse().map_err(|_| "a decimal clock".to_owned())?;
                }
                // Absent ranks follow rank 0 if they share its CKE, and are never selected.
                Column::Cke => pins.cke = of_ranks(*column, field, widths.ranks)?,
                Column::CsN => {
                    pins.cs_n = of_ranks(*column, field, widths.ranks)? | absent(widths.ranks);
                }
                Column::ActN => pins.act_n = level(*column, field)?,
                Column::RasN => pins.ras_n = level(*column, field)?,
                Column::CasN => pins.cas_n = level(*column, field)?,
                Column::WeN => pins.we_n = level(*column, field)?,
                Column::Ba => pins.ba = hexadecimal(*column, field, widths.ba)? as u8,
                Column::A => pins.a = hexadecimal(*column, field, widths.a)?,
            }
        }
        if fields.next().is_some() {
            return Err(self.expected());
        }
        Ok((clock, pins))
    }

    fn expected(&self) -> String {
        let names: Vec<_> = self.order.iter().map(|column| column.name()).collect();
        format!("{} fields ({})", names.len(), names.join(" "))
    }
}

/// Parses a level for each rank. With one rank the level is repeated for the absent ranks.
fn of_ranks(column: Column, field: &str, ranks: u8) -> Result<u8, String> {
    match ranks {
        1 => Ok(if level(column, field)? { ALL_RANKS } else { 0 }),
        _ => Ok(hexadecimal(column, field, ranks.into())? as u8),
    }
}

const fn absent(ranks: u8) -> u8 {
    ALL_RANKS >> ranks << ranks
}

fn level(column: Column, field: &str) -> Result<bool, String> {
    match field {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{}=0 or 1, not `{field}`", column.name())),
    }
}

fn hexadecimal(column: Column, field: &str, width: u32) -> Result<u32, String> {
    let digits = field.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u32::from_str_radix(field, 16) {
        Ok(value) if digits && value >> width == 0 => Ok(value),
        _ => Err(format!("{} as {width} bits in hexadecimal, not `{field}`", column.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DDR1: Widths = Widths::new(Generation::Ddr1, 1);

    #[test]
    fn a_line_is_parsed_into_pins() {
        let (clock, pins) =
            Columns::from_generation(Generation::Ddr1).line("42 1 0 0 1 1 3 1fff", DDR1).unwrap();
        assert_eq!(clock, 42);
        let expected = Pins { cs_n: 0b1110, ras_n: false, ba: 3, a: 0x1fff, ..Pins::DESELECT };
        assert_eq!(pins, expected);
    }

    #[test]
    fn a_column_has_a_bit_for_each_rank() {
        let two = Widths::new(Generation::Ddr1, 2);
        let (_, pins) =
            Columns::from_generation(Generation::Ddr1).line("42 3 1 0 1 1 3 1fff", two).unwrap();
        assert_eq!((pins.cke, pins.cs_n), (0b0011, 0b1101));
        let error =
            Columns::from_generation(Generation::Ddr1).line("42 3 4 0 1 1 3 0", two).unwrap_err();
        assert_eq!(error, "cs_n as 2 bits in hexadecimal, not `4`");
    }

    #[test]
    fn columns_may_come_in_any_order() {
        let columns = Columns::parse("a ba we_n cas_n ras_n cs_n cke clock").unwrap();
        let (clock, pins) = columns.line("7 1 0 1 1 0 1 9", DDR1).unwrap();
        assert_eq!((clock, pins.a, pins.ba, pins.we_n), (9, 7, 1, false));
    }

    #[test]
    fn mistakes_are_named() {
        let columns = Columns::from_generation(Generation::Ddr1);
        let error = |line: &str| columns.line(line, DDR1).unwrap_err();
        assert_eq!(error("4 1 0 2 1 1 3 0"), "ras_n=0 or 1, not `2`");
        assert_eq!(error("4 1 0 0 1 1 4 0"), "ba as 2 bits in hexadecimal, not `4`");
        assert_eq!(error("4 1 0 0 1 1 3 4000"), "a as 14 bits in hexadecimal, not `4000`");
        assert_eq!(error("4 1 0 0 1 1 3 +1"), "a as 14 bits in hexadecimal, not `+1`");
        assert_eq!(error("-4 1 0 0 1 1 3 0"), "a decimal clock");
        let fields = "8 fields (clock cke cs_n ras_n cas_n we_n ba a)";
        assert_eq!(error("4 1 0 0 1 1 3"), fields);
        assert_eq!(error("4 1 0 0 1 1 3 0 0"), fields);
        assert_eq!(Columns::parse("clock cke").unwrap_err(), "a column cs_n");
        assert_eq!(
            Columns::parse("clock clock").unwrap_err(),
            "known columns, each once, not `clock`"
        );
    }
}
