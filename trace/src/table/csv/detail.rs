//! Prints and parses the texts of the column `detail`.

use std::fmt;
use std::time::Duration;

use hmtt_format::record::CountGroup;
use hmtt_format::{Cycles, Event};

use crate::decode::{DdrClock, Gap, parse_seconds};

/// The detail of an event: the values for which there are no columns.
pub(super) struct Detail<'a>(pub &'a Event);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Event::Access(_) | Event::Page { .. } => Ok(()),
            Event::Tag { offset, .. } => write!(f, "{offset:#x}"),
            Event::Mark { register, .. } => write!(f, "{register:#x} {register}"),
            Event::Fault { kind, bank, .. } => write!(f, "{kind} bank {bank}"),
            Event::Slice { length, .. } => {
                f.write_str(if length.is_partial() { "partial" } else { "" })
            }
            Event::Interval { part, .. } => write!(f, "part {part}"),
            Event::Count { dump, group, index, value } => {
                write!(f, "dump {dump} {} {index}: {value}", group.name())
            }
            Event::HotPage { dump, count, votes, .. } => {
                write!(f, "dump {dump} count {count} votes {votes}")
            }
        }
    }
}

/// Parses an offset. Files of earlier versions have it without `0x`.
pub(super) fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Parses `dump D GROUP I: V`.
pub(super) fn count(text: &str) -> Option<(u8, CountGroup, u16, u32)> {
    let (dump, rest) = text.strip_prefix("dump ")?.split_once(' ')?;
    let (group, rest) = rest.split_once(' ')?;
    let (index, value) = rest.split_once(": ")?;
    Some((
        dump.parse().ok()?,
        CountGroup::from_name(group)?,
        index.parse().ok()?,
        value.parse().ok()?,
    ))
}

/// Parses `dump D count C votes V`.
pub(super) fn hot_page(text: &str) -> Option<(u8, u32, u32)> {
    let (dump, rest) = text.strip_prefix("dump ")?.split_once(" count ")?;
    let (count, votes) = rest.split_once(" votes ")?;
    Some((dump.parse().ok()?, count.parse().ok()?, votes.parse().ok()?))
}

/// Parses `gap [at start: ][CAUSES, ]N accesses[ lost][ between clocks A and B][, PLACE]`, also
/// with ` after clock A` or ` before clock B`, as printed by [`Gap`]'s `Display` and
/// [`crate::decode::LocatedGap`]. Causes are accepted with and without the place of the loss (`7
/// records lost on the card`, `7 records`), because tables of different versions have either. PLACE
/// names the packets around the gap.
pub(super) fn gap(text: &str) -> Option<Gap> {
    let text = text.strip_prefix("gap ")?;
    let at = [", packet ", ", after packet ", ", before packet "]
        .iter()
        .find_map(|sort| text.find(sort));
    let (text, place) = at.map_or((text, ""), |at| (&text[..at], &text[at + 2..]));
    let text = text.strip_prefix("at start: ").unwrap_or(text);
    let clock = |text: &str| text.parse().ok().map(|clock| Some(Cycles(clock)));
    let (what, after, before) = if let Some((what, clocks)) = text.split_once(" between clocks ") {
        let (after, before) = clocks.split_once(" and ")?;
        (what, clock(after)?, clock(before)?)
    } else if let Some((what, after)) = text.split_once(" after clock ") {
        (what, clock(after)?, None)
    } else if let Some((what, before)) = text.split_once(" before clock ") {
        (what, None, clock(before)?)
    } else {
        (text, None, None)
    };
    let mut gap = Gap { after, before, ..parse_place(place)? };
    let accesses = match what.split_once(", ") {
        Some((causes, lost)) => {
            causes.split(" and ").try_for_each(|text| cause(text, &mut gap))?;
            lost.split_once(" lost")?.0
        }
        None => what,
    };
    gap.accesses = match accesses {
        "an unknown number of accesses" => None,
        _ => Some(accesses.strip_suffix(" accesses")?.parse().ok()?),
    };
    Some(gap)
}

/// Parses `[after |before ]packet 3 (1700000000.000002000 s)[ to packet 4 (...)]`, or an empty
/// text.
fn parse_place(text: &str) -> Option<Gap> {
    let (after, before) = match text.split_once(" to ") {
        Some((after, before)) => (Some(after), Some(before)),
        None => match text.strip_prefix("before ") {
            Some(before) => (None, Some(before)),
            None => (text.strip_prefix("after "), None),
        },
    };
    if text.is_empty() != (after.is_none() && before.is_none()) {
        return None;
    }
    let (after, before) = (after.map(side), before.map(side));
    let (after_packet, after_time) = after.map_or(Some((None, None)), |side| side)?;
    let (before_packet, before_time) = before.map_or(Some((None, None)), |side| side)?;
    Some(Gap { after_packet, before_packet, after_time, before_time, ..Gap::default() })
}

/// Parses `packet 3[ (1700000000.000002000 s)]`: one end of a place.
fn side(text: &str) -> Option<(Option<u64>, Option<Duration>)> {
    let text = text.strip_prefix("packet ")?;
    let Some((packet, time)) = text.split_once(" (") else {
        return Some((Some(text.parse().ok()?), None));
    };
    let time = parse_seconds(time.strip_suffix(" s)")?)?;
    Some((Some(packet.parse().ok()?), Some(time)))
}

/// Parses one cause of a gap, such as `2 frames missing`, and adds it to the gap.
fn cause(text: &str, gap: &mut Gap) -> Option<()> {
    let (count, what) = text.split_once(' ')?;
    match what {
        "frames missing" | "frames" => gap.frames = count.parse().ok()?,
        "records lost on the card" | "records" => gap.records = count.parse().ok()?,
        // Tables of version 1 have the second name.
        "malformed frames" | "damaged frames" => gap.malformed_frames = count.parse().ok()?,
        _ => return None,
    }
    Some(())
}

/// Parses `DDR clock lost at M ms of the transmit clock (losses since power-on: N)`, also with
/// `found again` or `lost and found again`, as printed by [`DdrClock`]'s `Display`. The text does
/// not state how often the clock was lost since the last heartbeat. So one loss is assumed if it
/// was lost.
pub(super) fn ddr_clock(text: &str) -> Option<DdrClock> {
    let (what, rest) = text.strip_prefix("DDR clock ")?.split_once(" at ")?;
    let (milliseconds, rest) = rest.split_once(" ms of the transmit clock ")?;
    let losses = rest.strip_prefix("(losses since power-on: ")?.strip_suffix(')')?;
    let (running, lost) = match what {
        "lost" => (false, 1),
        "found again" => (true, 0),
        "lost and found again" => (true, 1),
        _ => return None,
    };
    let (whole, micros) = milliseconds.split_once('.').filter(|(_, micros)| micros.len() == 3)?;
    let nanos = whole.parse::<u64>().ok()?.checked_mul(1_000_000)?;
    let transmit_ns = nanos.checked_add(u64::from(micros.parse::<u16>().ok()?) * 1000)?;
    Some(DdrClock { running, lost, losses: losses.parse().ok()?, transmit_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::LocatedGap;
    use proptest::prelude::*;

    fn small_or_any() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..3, any::<u64>()]
    }

    proptest! {
        #[test]
        fn gaps_parse_back_except_for_their_first_frame(
            frames in small_or_any(),
            records: u32,
            malformed_frames in small_or_any(),
            accesses in prop::option::of(small_or_any()),
            after in prop::option::of(small_or_any()),
            before in prop::option::of(small_or_any()),
            sides in any::<[(Option<u64>, Option<(u64, u32)>); 2]>(),
        ) {
            let (after, before) = (after.map(Cycles), before.map(Cycles));
            // The text states an arrival time only together with its packet.
            let [(after_packet, after_time), (before_packet, before_time)] =
                sides.map(|(packet, time)| {
                    let time = time.filter(|_| packet.is_some());
                    (packet, time.map(|(whole, nanos)| Duration::new(whole, nanos % 1_000_000_000)))
                });
            let expected = Gap {
                frames,
                first_frame: None,
                records,
                malformed_frames,
                accesses,
                after,
                before,
                after_packet,
                before_packet,
                after_time,
                before_time,
            };
            prop_assert_eq!(gap(&LocatedGap(&expected).to_string()), Some(expected));
        }

        #[test]
        fn ddr_clock_texts_parse_back(
            running: bool,
            lost in 0u16..2,
            losses: u16,
            micros in 0u64..1 << 41,
        ) {
            let lost = lost.max(u16::from(!running));
            let expected = DdrClock { running, lost, losses, transmit_ns: micros * 1000 };
            prop_assert_eq!(ddr_clock(&expected.to_string()), Some(expected));
        }

        #[test]
        fn any_text_parses_or_is_rejected(text in "(gap |DDR clock |dump )?[ a-z0-9.,:]{0,40}") {
            let _ = (gap(&text), ddr_clock(&text), count(&text), hot_page(&text));
        }
    }
}
