use super::*;
use crate::fuzz::memories;
use hmtt_format::header::{END, HeaderParser};

#[test]
fn a_header_describes_its_memory() {
    for description in memories::ALL {
        let memory = memories::parse(description);
        let written = header(&memory, PagePolicy::Open, 1234);
        assert_eq!(written.len(), header(&memory, PagePolicy::Open, CLOCK_MASK).len());
        let mut parser = HeaderParser::default();
        let lines = written.lines().take_while(|line| *line != END);
        lines.for_each(|line| parser.line(line).unwrap());
        let parsed = parser.finish().unwrap();
        assert_eq!((parsed.first_clock, parsed.last_clock), (0, 1234));
        assert_eq!(parsed.memory.map, memory.map);
        assert_eq!(parsed.memory.generation, memory.generation);
        assert_eq!(parsed.memory.burst_bytes(), memory.burst_bytes());
        assert_eq!(parsed.memory.tck_ps, memory.tck_ps);
        assert_eq!(parsed.memory.mirror_odd_ranks, memory.mirror_odd_ranks);
    }
}
