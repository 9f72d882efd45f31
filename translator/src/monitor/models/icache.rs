//! Models an instruction cache with sets of equal size. In each set, the line that was not used for
//! the longest time is replaced.

/// Size and shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    size_bytes: u64,
    ways: u64,
    line_bytes: u64,
}

/// Limits of the modelled size, in bytes, and of the number of ways.
const MOST_BYTES: u64 = 64 << 20;
const MOST_WAYS: u64 = 64;

impl Geometry {
    /// The geometry of a cache: size in bytes, lines of a set, bytes of a line. `None` if the size
    /// of a line or the number of sets is no power of two, or a value is 0 or too large.
    pub fn new(size_bytes: u64, ways: u64, line_bytes: u64) -> Option<Self> {
        let fits = (1..=MOST_BYTES).contains(&size_bytes) && (1..=MOST_WAYS).contains(&ways);
        let set = ways.checked_mul(line_bytes).filter(|set| *set > 0)?;
        let is_regular = size_bytes.is_multiple_of(set)
            && (size_bytes / set).is_power_of_two()
            && line_bytes.is_power_of_two();
        (fits && is_regular).then_some(Geometry { size_bytes, ways, line_bytes })
    }

    /// Size of the cache in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Number of lines of a set.
    pub fn ways(&self) -> u64 {
        self.ways
    }

    /// Size of a line in bytes.
    pub fn line_bytes(&self) -> u64 {
        self.line_bytes
    }

    fn sets(&self) -> u64 {
        self.size_bytes / (self.ways * self.line_bytes)
    }
}

/// Value of an unused place in a set. No block has a line with this number.
const NONE: u64 = u64::MAX;

/// An instruction cache.
#[derive(Clone, Debug)]
pub struct ICache {
    line_shift: u32,
    set_mask: u64,
    ways: usize,
    /// Lines of each set, the last used line first.
    lines: Vec<u64>,
}

impl ICache {
    /// An empty cache.
    pub fn new(geometry: Geometry) -> Self {
        ICache {
            line_shift: geometry.line_bytes.trailing_zeros(),
            set_mask: geometry.sets() - 1,
            ways: geometry.ways as usize,
            lines: vec![NONE; (geometry.sets() * geometry.ways) as usize],
        }
    }

    /// Fetches the lines of the bytes from `start` to before `end`. Returns the number of lines,
    /// and how many of them were not in the cache.
    pub fn fetch(&mut self, start: u64, end: u64) -> (u64, u64) {
        let (first, last) = (start >> self.line_shift, end.wrapping_sub(1) >> self.line_shift);
        let mut misses = 0;
        for line in first..=last {
            misses += u64::from(!self.use_line(line));
        }
        ((first..=last).count() as u64, misses)
    }

    /// Moves a line to the front of its set. Returns whether the line was in the set.
    fn use_line(&mut self, line: u64) -> bool {
        let at = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.lines[at..at + self.ways];
        let position = set.iter().position(|one| *one == line);
        set[..=position.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = line;
        position.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the last line is in the cache: fewer than `ways` others of its set were used since
    /// its last use.
    fn is_hit(lines: &[u64], sets: u64, ways: usize) -> bool {
        let (last, before) = lines.split_last().unwrap();
        let Some(at) = before.iter().rposition(|one| one == last) else { return false };
        let mut others: Vec<u64> =
            before[at + 1..].iter().copied().filter(|one| one % sets == last % sets).collect();
        others.sort_unstable();
        others.dedup();
        others.len() < ways
    }

    #[test]
    fn lines_are_kept_that_were_used_last() {
        for (size, ways, line) in [(1024, 2, 32), (512, 8, 64), (256, 1, 16), (768, 3, 64)] {
            let mut cache = ICache::new(Geometry::new(size, ways, line).unwrap());
            let sets = size / ways / line;
            let (mut seed, mut lines) = (3u64, Vec::new());
            for _ in 0..2_000 {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
                let start = (seed >> 40) % (2 * size);
                let bytes = 1 + (seed >> 30) % 100;
                let (mut fetches, mut misses) = (0, 0);
                for line_number in start / line..=(start + bytes - 1) / line {
                    lines.push(line_number);
                    fetches += 1;
                    misses += u64::from(!is_hit(&lines, sets, ways as usize));
                }
                assert_eq!(cache.fetch(start, start + bytes), (fetches, misses));
            }
        }
    }

    #[test]
    fn impossible_caches_are_refused() {
        for (size, ways, line) in [
            (0, 1, 64),
            (1024, 0, 64),
            (1024, 1, 0),
            (1000, 1, 64),
            (1024, 1, 48),
            (192 * 64, 1, 64),
            (1 << 40, 1, 64),
            (1 << 20, 1 << 10, 64),
            (u64::MAX, u64::MAX, u64::MAX),
        ] {
            assert_eq!(Geometry::new(size, ways, line), None, "{size} {ways} {line}");
        }
        assert!(Geometry::new(48 << 10, 12, 64).is_some());
    }
}
