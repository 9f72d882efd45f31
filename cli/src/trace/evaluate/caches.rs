//! Simulates caches for each setting with the accesses that it records, and other caches with all
//! accesses.
//!
//! Only the first level is compared. Further levels are simulated up to the last inclusive one,
//! because an inclusive level removes lines from the levels before it.

use hmtt::access_trace::{ElementBudget, Elements, Refused};
use hmtt::cache::{AccessKind, CacheConfiguration, CacheError, Counters, Hierarchy};
use hmtt_files::access_trace::Made;
use hmtt_format::Direction;

/// The caches of all settings, and the caches for all accesses.
pub struct Caches {
    /// Configuration of the first level.
    first: CacheConfiguration,
    /// Caches for all accesses.
    full: Hierarchy,
    /// Caches for the accesses of each setting.
    chosen: Vec<Hierarchy>,
    /// Accesses of the current string instruction, kept to reuse the memory.
    instruction: Vec<Made>,
    /// Limit of the elements of string instructions that are made, because a forged file may state
    /// any number.
    budget: ElementBudget,
    /// Number of accesses that are not made: their addresses are not known, or no instruction can
    /// make them.
    unknown: u64,
}

impl Caches {
    /// Creates empty caches. `settings`: number of settings.
    ///
    /// # Errors
    /// [`CacheError`] if caches cannot have this configuration.
    pub fn new(levels: &[CacheConfiguration], settings: usize) -> Result<Self, CacheError> {
        let first = *levels.first().ok_or(CacheError::NoLevel)?;
        let needed = levels.iter().rposition(|level| level.inclusive).unwrap_or(0);
        Hierarchy::new(levels, None)?;
        let full = Hierarchy::new(&levels[..=needed], None)?;
        let chosen = vec![full.clone(); settings];
        let budget = ElementBudget::of_file();
        Ok(Caches { first, full, chosen, instruction: Vec::new(), budget, unknown: 0 })
    }

    /// Configuration of the first level.
    pub fn configuration(&self) -> CacheConfiguration {
        self.first
    }

    /// Number of accesses that were made in no cache, because their addresses are not known.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Elements of string instructions among the unknown accesses; they were refused because there
    /// are too many.
    pub fn refused(&self) -> Option<Refused> {
        self.budget.refused()
    }

    /// Counts of the first level for all accesses.
    pub fn full(&self) -> Counters {
        first(&self.full)
    }

    /// Counts of the first level for the accesses of a setting.
    pub fn chosen(&self, setting: usize) -> Counters {
        first(&self.chosen[setting])
    }

    /// Makes the accesses of one execution of a block in the caches. `accesses`: each access, with
    /// its place in the block. `recorded_by`: for each place, the settings that record the access.
    pub fn execute(&mut self, mut accesses: &[(u16, Made)], recorded_by: &[Vec<u16>]) {
        while let [(place, first), ..] = accesses {
            if first.elements == 1 {
                self.budget.earn();
                self.make(first, &recorded_by[usize::from(*place)]);
                accesses = &accesses[1..];
                continue;
            }
            // All settings record all operands of a repeated instruction. The elements of the
            // operands are accessed in turn.
            let count = accesses.iter().take_while(|(_, one)| one.pc == first.pc).count();
            let place = usize::from(*place);
            let mut instruction = std::mem::take(&mut self.instruction);
            instruction.clear();
            instruction.extend(accesses[..count].iter().map(|(_, one)| *one));
            accesses = &accesses[count..];
            instruction.iter().for_each(|_| self.budget.earn());
            if !self.budget.spend(&instruction) {
                instruction.iter_mut().for_each(|one| one.address = None);
            }
            Elements::new(&instruction).for_each(|one| self.make(&one, &recorded_by[place]));
            self.instruction = instruction;
        }
    }

    fn make(&mut self, access: &Made, settings: &[u16]) {
        // A size that no instruction can access, which a forged file may state, leaves the access
        // without an address.
        let known = Elements::new(std::slice::from_ref(access)).next();
        let Some(address) = known.and_then(|known| known.address) else {
            self.unknown = self.unknown.saturating_add(access.elements);
            return;
        };
        let kind = match access.direction {
            Direction::Read => AccessKind::Read,
            Direction::Write => AccessKind::Write,
        };
        self.full.access(kind, address, access.size, &mut |_| {});
        for setting in settings {
            let caches = &mut self.chosen[usize::from(*setting)];
            caches.access(kind, address, access.size, &mut |_| {});
        }
    }
}

fn first(caches: &Hierarchy) -> Counters {
    caches.counters().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pc: u64, address: u64, size: u32, elements: u64) -> Made {
        let (direction, address) = (Direction::Read, Some(address));
        let (is_down, conditional, represents) = (false, false, 1);
        Made { pc, direction, address, represents, size, elements, is_down, conditional }
    }

    #[test]
    fn settings_have_caches_of_their_own() {
        let level: CacheConfiguration = "1K,1,64,lru".parse().unwrap();
        let mut caches = Caches::new(&[level; 2], 2).unwrap();
        let recorded_by = [vec![0, 1], vec![1], vec![], vec![0, 1]];
        let accesses = [
            (0, made(1, 0, 8, 1)),
            (1, made(2, 0x400, 8, 1)),
            (2, made(3, 0x20, 1, 1)),
            (3, made(4, 0x800, 8, 16)),
        ];
        caches.execute(&accesses, &recorded_by);
        let counts = |of: Counters| (of.hits, of.misses);
        assert_eq!(counts(caches.chosen(0)), (14, 3));
        assert_eq!(counts(caches.chosen(1)), (14, 4));
        assert_eq!(counts(caches.full()), (14, 5));
    }

    #[test]
    fn forged_numbers_of_elements_are_bounded() {
        let level: CacheConfiguration = "1K,1,64,lru".parse().unwrap();
        let mut caches = Caches::new(&[level], 1).unwrap();
        caches.execute(&[(0, made(1, 0, 8, 1 << 32))], &[vec![0]]);
        caches.execute(&[(0, made(1, 0, u32::MAX, 1))], &[vec![0]]);
        assert_eq!(caches.full(), Counters::default());
        assert_eq!(caches.unknown(), (1 << 32) + 1);
        assert_eq!(caches.refused(), Some(Refused { elements: 1 << 32, first: 1 }));
        caches.execute(&[(0, made(1, 0, 8, 2))], &[vec![0]]);
        assert_eq!((caches.full().hits, caches.full().misses), (1, 1));
    }
}
