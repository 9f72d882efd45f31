//! Compares dumps of the analysis with the true use of pages, rows and banks: bounds must contain
//! the true counts, and counted and skipped accesses must add up.

use std::collections::{BTreeMap, HashMap};

use hmtt_format::Event;
use hmtt_format::event::{hot_page_at_most, other_page_at_most};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{
    ALL_PARTS, CountGroup, HOT_PARTS_LOG2, REUSE_COLD, REUSE_DEPTH_LOG2, other_count,
};

use super::capture::{Capture, Element};
use super::due::{Burst, Due};
use crate::fuzz::pin_reader::Outcome;

const PARTS: u64 = 1 << HOT_PARTS_LOG2;
/// Clocks within which a dump has read the counts that it sends, unless the next dump begins
/// earlier.
const DUMP_CLOCKS: u64 = 20_000;

/// One dump.
#[derive(Clone, Debug, Default)]
struct Dump {
    clock: u64,
    part: u8,
    number: Option<u8>,
    records: u32,
    /// The lower bound C and the votes V of each page.
    pages: BTreeMap<u64, (u32, u32)>,
    counts: BTreeMap<(CountGroup, u16), u64>,
    closed: bool,
}

impl Dump {
    fn count(&self, group: CountGroup, index: u16) -> u64 {
        self.counts.get(&(group, index)).copied().unwrap_or(0)
    }

    fn skipped(&self) -> u64 {
        self.count(CountGroup::Other, other_count::ACCESSES_SKIPPED)
    }

    fn holds(&self, part: u64) -> bool {
        self.part == ALL_PARTS || u64::from(self.part) == part
    }
}

/// Compares all dumps and returns their number.
///
/// # Errors
/// A description of the first difference.
pub fn check(due: &Due, capture: &Capture) -> Result<usize, String> {
    let (dumps, whole) = read(capture)?;
    if !whole {
        return match capture.lost {
            0 => Err("a dump is not whole, and no record is lost".into()),
            _ => Ok(0),
        };
    }
    let used: Vec<&Burst> = due.bursts.iter().filter(|burst| burst.analysed).collect();
    if capture.lost != 0 {
        // Accesses that the event queue lost were not analysed, and whole dumps may be lost. So the
        // sum may be smaller than the number of accesses.
        let counted = counted(&dumps);
        return if counted <= used.len() as u64 {
            Ok(dumps.len())
        } else {
            Err(format!("{counted} accesses counted or skipped of {}", used.len()))
        };
    }
    let counted = counted(&dumps);
    if counted != used.len() as u64 {
        return Err(format!("{counted} accesses counted or skipped, there were {}", used.len()));
    }
    hot_pages(&dumps, &used)?;
    rows(&dumps, &used)?;
    reuse(&dumps, &used)?;
    Ok(dumps.len())
}

fn counted(dumps: &[Dump]) -> u64 {
    let votes = |dump: &Dump| dump.pages.values().map(|(_, votes)| u64::from(*votes)).sum::<u64>();
    dumps.iter().map(|dump| votes(dump) + dump.skipped()).sum()
}

/// Reads the dumps of a capture. Returns them, and whether all of them are complete.
fn read(capture: &Capture) -> Result<(Vec<Dump>, bool), String> {
    let mut dumps: Vec<Dump> = Vec::new();
    let mut whole = true;
    for element in &capture.elements {
        let Element::Analysis(event) = element else { continue };
        if let Event::Interval { clock, part } = *event {
            whole &= dumps.last().is_none_or(|dump| dump.closed);
            dumps.push(Dump { clock: clock.0, part, records: 1, ..Dump::default() });
            continue;
        }
        let Some(dump) = dumps.last_mut().filter(|dump| !dump.closed) else {
            whole = false;
            continue;
        };
        let (&Event::Count { dump: number, .. } | &Event::HotPage { dump: number, .. }) = event
        else {
            continue;
        };
        whole &= *dump.number.get_or_insert(number) == number;
        match *event {
            Event::HotPage { address, count, votes, .. } => {
                let earlier = dump.pages.insert(address.0 >> PAGE_LOG2, (count, votes));
                if earlier.is_some() {
                    return Err(format!("page {address} twice in a dump"));
                }
            }
            Event::Count {
                group: CountGroup::Other, index: other_count::CLOSING, value, ..
            } => {
                dump.closed = true;
                whole &= value == dump.records;
            }
            Event::Count { group, index, value, .. } => {
                let earlier = dump.counts.insert((group, index), value.into());
                if earlier.is_some() {
                    return Err(format!("{} {index} twice in a dump", group.name()));
                }
            }
            _ => {}
        }
        dump.records += 1;
    }
    let numbers = dumps.iter().zip(0u8..=255).all(|(dump, due)| dump.number == Some(due));
    whole &= dumps.last().is_none_or(|dump| dump.closed) && (numbers || dumps.len() > 256);
    Ok((dumps, whole))
}

/// Checks that the number of accesses to each page is within the bounds of the dumps.
fn hot_pages(dumps: &[Dump], used: &[&Burst]) -> Result<(), String> {
    let mut pages: HashMap<u64, Vec<u64>> = HashMap::new();
    for burst in used {
        pages.entry(burst.access.address.0 >> PAGE_LOG2).or_default().push(burst.access.clock.0);
    }
    let within = |page: u64, from: u64, to: u64| {
        let clocks = pages.get(&page).map_or(&[][..], |clocks| clocks);
        let first = clocks.partition_point(|clock| *clock < from);
        clocks.partition_point(|clock| *clock <= to).saturating_sub(first) as u64
    };
    for (at, dump) in dumps.iter().enumerate() {
        let end = dumps.get(at + 1).map_or(u64::MAX, |next| next.clock);
        for part in (0..PARTS).filter(|part| dump.holds(*part)) {
            let last = dumps[..at].iter().rposition(|before| before.holds(part));
            let from = last.map_or(0, |last| dumps[last].clock);
            // Accesses during a dump may be counted in this dump or in the next one.
            let later = last.map_or(0, |last| dumps[last + 1].clock.min(from + DUMP_CLOCKS) + 1);
            let skipped: u64 = dumps[last.unwrap_or(0)..=at].iter().map(Dump::skipped).sum();
            let named = dump.pages.iter().filter(|(page, _)| *page % PARTS == part);
            let mut others = 0;
            for (page, (count, votes)) in named {
                others = others.max(u64::from(other_page_at_most(*count, *votes)));
                let most = u64::from(hot_page_at_most(*count, *votes)) + skipped;
                let (inner, outer) = (within(*page, later, dump.clock), within(*page, from, end));
                if u64::from(*count) > outer || inner > most {
                    return Err(format!(
                        "dump at {}: page {page:x} {count} to {most}, there were {inner} to {outer}",
                        dump.clock
                    ));
                }
            }
            for page in pages.keys().filter(|page| *page % PARTS == part) {
                let inner = within(*page, later, dump.clock);
                if !dump.pages.contains_key(page) && inner > others + skipped {
                    return Err(format!(
                        "dump at {}: page {page:x} is not named and had {inner}, others at most {}",
                        dump.clock,
                        others + skipped
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Checks that the counts of row outcomes are exact, except for skipped accesses.
fn rows(dumps: &[Dump], used: &[&Burst]) -> Result<(), String> {
    let mut exact: BTreeMap<(CountGroup, u16), u64> = BTreeMap::new();
    for burst in used {
        let group = match burst.outcome {
            Outcome::Hit => CountGroup::RowHits,
            Outcome::Miss => CountGroup::RowMisses,
            Outcome::Conflict => CountGroup::RowConflicts,
        };
        *exact.entry((group, burst.bank.into())).or_default() += 1;
    }
    let skips = |dump: &Dump| dump.count(CountGroup::Other, other_count::ROWS_SKIPPED);
    let skipped: u64 = dumps.iter().map(skips).sum();
    let mut counted: BTreeMap<(CountGroup, u16), u64> = BTreeMap::new();
    let groups = [CountGroup::RowHits, CountGroup::RowMisses, CountGroup::RowConflicts];
    for (key, value) in dumps.iter().flat_map(|dump| &dump.counts) {
        if groups.contains(&key.0) {
            *counted.entry(*key).or_default() += value;
        }
    }
    let total = counted.values().sum::<u64>() + skipped;
    if total != used.len() as u64 {
        return Err(format!("{total} row outcomes counted or skipped of {}", used.len()));
    }
    for key in exact.keys().chain(counted.keys()) {
        let get = |counts: &BTreeMap<_, u64>| counts.get(key).copied().unwrap_or(0);
        let (count, exact) = (get(&counted), get(&exact));
        if count > exact || exact > count + skipped {
            let (group, bank) = (key.0.name(), key.1);
            return Err(format!("{group} of bank {bank}: {count}, there were {exact}"));
        }
    }
    Ok(())
}

/// Whether a page is sampled. One page in 64 is: the XOR of the 6-bit pieces of its number is 0.
fn is_sampled(page: u64) -> bool {
    (0..5).fold(0, |folded, piece| folded ^ page >> (6 * piece) & 63) == 0
}

/// Checks that every run of a sampled page is counted or skipped. If none is skipped, and the
/// stored order was cleared only at the end, each distance must equal the distance in an exact list
/// of the pages by last use.
fn reuse(dumps: &[Dump], used: &[&Burst]) -> Result<(), String> {
    let (mut order, mut before): (Vec<u64>, Option<u64>) = (Vec::new(), None);
    let mut exact: BTreeMap<u16, u64> = BTreeMap::new();
    for page in used.iter().map(|burst| burst.access.address.0 >> PAGE_LOG2) {
        if before.replace(page) == Some(page) || !is_sampled(page) {
            continue;
        }
        let position = order.iter().position(|kept| *kept == page);
        let bucket = |position: usize| if position == 0 { 0 } else { position.ilog2() as u16 + 1 };
        *exact.entry(position.map_or(REUSE_COLD, bucket)).or_default() += 1;
        position.map(|position| order.remove(position));
        order.insert(0, page);
        order.truncate(1 << REUSE_DEPTH_LOG2);
    }
    let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
    for ((_, index), value) in dumps
        .iter()
        .flat_map(|dump| &dump.counts)
        .filter(|((group, _), _)| *group == CountGroup::Reuse)
    {
        *counted.entry(*index).or_default() += value;
    }
    let skips = |dump: &Dump| dump.count(CountGroup::Other, other_count::RUNS_SKIPPED);
    let skipped: u64 = dumps.iter().map(skips).sum();
    let forgets = dumps.iter().filter(|dump| dump.part == ALL_PARTS).count() as u64;
    let runs: u64 = exact.values().sum();
    let reported = counted.values().sum::<u64>() + skipped;
    // A run is counted twice if the stored order is cleared during the run.
    if !(runs..=runs + forgets.saturating_sub(1)).contains(&reported) {
        return Err(format!("{reported} runs counted or skipped, there were {runs}"));
    }
    if skipped == 0 && forgets <= 1 && counted != exact {
        return Err(format!("reuse distances {counted:?}, exact are {exact:?}"));
    }
    Ok(())
}
