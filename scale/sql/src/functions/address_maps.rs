//! Finds the address map for a board and run. A map gives the bank and row of an address. The cards
//! of a query's sources have reported the maps.

use std::collections::HashMap;
use std::sync::OnceLock;

use datafusion::common::{Result, exec_err, plan_err};
use hmtt::analysis::bank_map::{BankLookup, BankMap, rank_and_bank};
use hmtt_format::address_map::Axis;

/// A map of one memory.
#[derive(Debug)]
pub struct AddressMap {
    lookup: Box<BankLookup>,
    bank_bits: u8,
}

impl AddressMap {
    /// Parses a map in the form of `runs.memory`.
    fn parse(entries: &[String]) -> Option<AddressMap> {
        let map = hmtt_dataset::address_map(entries.iter().map(String::as_str))?;
        let lookup = BankLookup::new(&BankMap::from(&map));
        Some(AddressMap { lookup, bank_bits: map.bits(Axis::Bank) })
    }

    /// Number of an address's bank among the banks of all ranks; the banks of rank 0 come first.
    /// With 4 banks in each rank, bank 1 of rank 1 is 5.
    pub fn bank(&self, address: i64) -> i64 {
        let (rank, bank) = rank_and_bank(self.lookup.place(address as u64).index);
        i64::from(rank) << self.bank_bits | i64::from(bank)
    }

    /// The row of an address in its bank.
    pub fn row(&self, address: i64) -> i64 {
        self.lookup.place(address as u64).row.into()
    }
}

/// The map of a group of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    /// No card has reported a map.
    #[default]
    None,
    One(usize),
    Several,
}

impl Choice {
    fn add(&mut self, map: usize) {
        *self = match *self {
            Choice::None => Choice::One(map),
            Choice::One(known) if known == map => Choice::One(map),
            _ => Choice::Several,
        };
    }
}

/// The maps of all runs, by board and run.
#[derive(Debug, Default)]
struct Known {
    rows: Vec<MapRow>,
    maps: Vec<AddressMap>,
    all: Choice,
    boards: HashMap<String, Choice>,
    runs: HashMap<(String, String), Choice>,
}

/// A row of `runs`: run, board and memory. The memory is a JSON object.
pub type MapRow = (String, String, String);

/// Maps that are loaded when a query needs them.
#[derive(Debug, Default)]
pub struct AddressMaps(OnceLock<Known>);

impl AddressMaps {
    /// Whether the maps are loaded.
    pub fn is_loaded(&self) -> bool {
        self.0.get().is_some()
    }

    /// The rows of `runs` that were loaded; `None` if nothing is loaded.
    pub fn rows(&self) -> Option<&[MapRow]> {
        self.0.get().map(|known| &known.rows[..])
    }

    /// Loads maps from rows of `runs`.
    ///
    /// # Errors
    /// The description of a memory is damaged.
    pub fn load(&self, rows: &[MapRow]) -> Result<()> {
        let mut known = Known { rows: rows.to_vec(), ..Known::default() };
        let mut numbers: HashMap<Vec<String>, usize> = HashMap::new();
        for (run, board, memory) in rows {
            let memory: serde_json::Value = serde_json::from_str(memory).unwrap_or_default();
            let entries = memory["map"].as_array().into_iter().flatten();
            let entries: Vec<String> =
                entries.filter_map(|entry| entry.as_str().map(str::to_owned)).collect();
            let number = match numbers.get(&entries) {
                Some(number) => *number,
                None => {
                    let Some(map) = AddressMap::parse(&entries) else {
                        return exec_err!(
                            "run {run}, board {board}: the memory in `runs` is damaged"
                        );
                    };
                    known.maps.push(map);
                    numbers.insert(entries, known.maps.len() - 1);
                    known.maps.len() - 1
                }
            };
            known.all.add(number);
            known.boards.entry(board.clone()).or_default().add(number);
            known.runs.entry((run.clone(), board.clone())).or_default().add(number);
        }
        // If a second query has set the maps before, they are equal.
        let _ = self.0.set(known);
        Ok(())
    }

    /// Finds the map of all runs, of all runs of a board, or of one run of a board. `function`: for
    /// errors.
    ///
    /// # Errors
    /// No map is known, or several different ones are.
    pub fn find(
        &self,
        function: &str,
        board: Option<&str>,
        run: Option<&str>,
    ) -> Result<&AddressMap> {
        let Some(known) = self.0.get() else {
            return exec_err!("{function}: the maps of addresses are not loaded");
        };
        let choice = match (board, run) {
            (None, _) => Some(&known.all),
            (Some(board), None) => known.boards.get(board),
            (Some(board), Some(run)) => known.runs.get(&(run.to_owned(), board.to_owned())),
        };
        match (choice.copied().unwrap_or_default(), board) {
            (Choice::One(number), _) => Ok(&known.maps[number]),
            (Choice::None, None) => {
                plan_err!("{function}: no card has reported a map of its addresses")
            }
            (Choice::None, Some(board)) => {
                plan_err!("{function}: board {board} has reported no map of its addresses")
            }
            (Choice::Several, None) => plan_err!(
                "{function}(address): the boards have different maps of addresses; write \
                 {function}(address, board), or {function}(address, board, run)"
            ),
            (Choice::Several, Some(board)) => plan_err!(
                "{function}(address, board): board {board} has different maps of addresses; write \
                 {function}(address, board, run)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bank: &str) -> String {
        let entries = ["col[0]=p3", bank, "row[0]=p5", "row[1]=p6", "rank[0]=p7"];
        serde_json::json!({ "map": entries }).to_string()
    }

    #[test]
    fn maps_are_those_of_the_board_and_the_run() {
        let (plain, hashed) = (memory("bank[0]=p4"), memory("bank[0]=p4^p5"));
        let row = |run: &str, board: &str, memory: &String| {
            (run.to_owned(), board.to_owned(), memory.clone())
        };
        let maps = AddressMaps::default();
        let rows = [row("a", "eth1", &plain), row("a", "eth2", &plain), row("b", "eth2", &hashed)];
        maps.load(&rows).unwrap();
        let find = |board, run| maps.find("bank", board, run);
        assert!(find(None, None).unwrap_err().to_string().contains("bank(address, board)"));
        assert!(find(Some("eth2"), None).unwrap_err().to_string().contains("board, run)"));
        assert!(find(Some("eth3"), None).unwrap_err().to_string().contains("no map"));
        let map = find(Some("eth1"), None).unwrap();
        // Rank 1, row 3, bank 0.
        assert_eq!((map.bank(0xe0), map.row(0xe0)), (2, 3));
        assert_eq!(find(Some("eth2"), Some("b")).unwrap().bank(0xe0), 3);
    }

    #[test]
    fn damaged_maps_are_errors() {
        for memory in ["", "{}", "{\"map\": [\"bank[0]\"]}", "{\"map\": [\"bank[0]=p99\"]}"] {
            let rows = [("run".to_owned(), "eth1".to_owned(), memory.to_owned())];
            assert!(AddressMaps::default().load(&rows).is_err(), "{memory}");
        }
    }
}
