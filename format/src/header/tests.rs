use super::*;
use proptest::prelude::*;

const HEADER: &str = "# ddr command-bus vector 1\ngeneration=DDR1\nspeed=DDR-266 (tCK 7.5 ns)\n\
    bus_bytes=8\nchip_selects=1\nrows=2 banks=2 columns=8\nmap row[0]=p7\nmap bank[0]=p6^p7\n\
    map col[0]=p3\nmap col[1]=p4\nmap col[2]=p5\nburst_bytes=32\nburst_length=4\n\
    unlisted_clocks=none\nfirst_clock=4\nlast_clock=9\ncolumns=clock cke\n";

fn parse(text: &str) -> Result<VectorHeader, HeaderError> {
    let mut parser = HeaderParser::default();
    text.lines().try_for_each(|line| parser.line(line))?;
    parser.finish()
}

#[test]
fn a_header_is_read() {
    let header = parse(HEADER).unwrap();
    assert_eq!((header.first_clock, header.last_clock), (4, 9));
    assert!(header.all_clocks_listed);
    assert_eq!(header.memory.tck_ps, 7500);
    assert_eq!(header.memory.map.mask(Axis::Bank, 0), 0b1100_0000);
    assert_eq!(header.memory.trfc_clocks, 9);
}

#[test]
fn contradictions_are_named() {
    let wrong = |from: &str, to: &str| parse(&HEADER.replace(from, to)).unwrap_err();
    let count = MemoryError::Count { axis: Axis::Row, stated: 4, mapped: 2 };
    assert_eq!(wrong("rows=2", "rows=4"), HeaderError::Memory(count));
    let bytes = MemoryError::BurstBytes { stated: 64, computed: 32 };
    assert_eq!(wrong("burst_bytes=32", "burst_bytes=64"), HeaderError::Memory(bytes));
    let selects = HeaderError::ChipSelects { stated: 2, ranks: 1 };
    assert_eq!(wrong("chip_selects=1", "chip_selects=2"), selects);
    assert_eq!(
        wrong("last_clock=9", "last_clock=3"),
        HeaderError::ClockOrder { first: 4, last: 3 }
    );
    assert!(matches!(wrong("map row[0]=p7", "map row[0]=q7"), HeaderError::Expected(_)));
}

/// The header without the lines that describe the memory. Lines that begin with a text of `kept`
/// stay.
fn undescribed(kept: &[&str]) -> String {
    let extent = ["#", "unlisted_clocks=", "first_clock=", "last_clock=", "columns="];
    let is_kept = |line: &&str| [&extent, kept].concat().iter().any(|key| line.starts_with(key));
    HEADER.lines().filter(is_kept).fold(String::new(), |text, line| text + line + "\n")
}

fn parse_with(text: &str, memory: MemoryDescription) -> Result<VectorHeader, HeaderError> {
    let mut parser = HeaderParser::default();
    text.lines().try_for_each(|line| parser.line(line))?;
    parser.finish_with(memory)
}

#[test]
fn a_description_from_elsewhere_takes_the_place_of_the_header_s() {
    let whole = parse(HEADER).unwrap();
    let wrong = HEADER.replace("rows=2", "rows=64").replace("map bank[0]", "map bank[1]");
    assert!(parse(&wrong).is_err());
    for text in [HEADER, &undescribed(&[]), &undescribed(&["generation=", "rows="]), &wrong] {
        assert_eq!(parse_with(text, whole.memory.clone()).as_ref(), Ok(&whole), "{text}");
    }
}

#[test]
fn lines_keep_the_generation_and_ranks_that_the_header_states() {
    let memory = parse(&(HEADER.to_owned() + "map rank[0]=p8\n").replace("chip_selects=1\n", ""));
    let memory = memory.unwrap().memory;
    let ranks = |text: &str| parse_with(text, memory.clone()).map(|header| header.ranks);
    assert_eq!(ranks(&undescribed(&[])), Ok(2));
    assert_eq!(ranks(&undescribed(&["chip_selects="])), Ok(1));
    assert_eq!(ranks(HEADER), Ok(1));
    let four = undescribed(&[]) + "ranks=4\n";
    assert_eq!(ranks(&four), Err(HeaderError::ChipSelects { stated: 4, ranks: 2 }));
    let three = undescribed(&[]) + "chip_selects=300\n";
    assert_eq!(ranks(&three), Err(HeaderError::Expected("1, 2 or 4 ranks")));
    let other = undescribed(&["generation="]).replace("DDR1", "DDR2");
    assert_eq!(parse_with(&other, memory).unwrap().generation, Generation::Ddr2);
}

#[test]
fn what_is_missing_of_the_description_is_named() {
    let without = |key: &str| {
        let lines = HEADER.lines().filter(|line| !line.starts_with(key));
        parse(&lines.collect::<std::vec::Vec<_>>().join("\n")).unwrap_err().to_string()
    };
    let map = "the header has no address map (`map row[0]=p16` and so on)";
    assert_eq!(without("map "), map);
    assert_eq!(without("speed="), "the header has no speed=");
    assert_eq!(without("last_clock="), "the header has no last_clock=");
}

#[test]
fn speeds_are_read() {
    assert_eq!(parse_speed("DDR-200"), Some(10_000));
    assert_eq!(parse_speed("DDR3-800 (tCK 2.5 ns)"), Some(2_500));
    assert_eq!(parse_speed("DDR4-1866 (tCK 1.071 ns)"), Some(1_071));
    assert_eq!(parse_speed("fast"), None);
}

proptest! {
    #[test]
    fn any_line_is_taken_or_refused(line in ".{0,40}") {
        let _ = HeaderParser::default().line(&line);
        let _ = parse_speed(&line);
        let _ = parse_speed(&std::format!("tCK 1.{line} ns"));
    }
}
