//! Decodes recordings of memories that the project was never run on: geometries, maps, burst
//! lengths and page policies that are generated from a seed.

use hmtt_format::{MemoryDescription, toml_memory};
use hmtt_sim::traffic::Traffic;

use crate::captures::{decode, lines, replay_file};
use crate::recording::write_vector;

/// Random numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }
}

/// Returns a DDR1 memory with a map that scatters its coordinates.
fn invent(numbers: &mut Numbers) -> MemoryDescription {
    let bus_log2 = numbers.below(4) as u32;
    let burst_log2 = 1 + numbers.below(3) as u32;
    let (columns, rows) = (8 + numbers.below(5) as u32, 11 + numbers.below(3) as u32);
    // The first columns stay lowest, sometimes fewer than a burst needs. All bits above are
    // shuffled.
    let straight = burst_log2.saturating_sub(numbers.below(2) as u32).max(1);
    let mut above: Vec<u32> = (bus_log2 + straight..bus_log2 + columns + rows + 2).collect();
    for at in (1..above.len()).rev() {
        above.swap(at, numbers.below(at as u64 + 1) as usize);
    }
    let mut take = |count: u32| above.drain(..count as usize).collect::<Vec<_>>();
    let (banks, row_bits, rest) = (take(2), take(rows), take(columns - straight));
    let quote = |bits: &[String]| format!("[{}]", bits.join(", "));
    let plain = |bits: &[u32]| bits.iter().map(|bit| format!("'p{bit}'")).collect::<Vec<_>>();
    let bank: Vec<String> =
        banks.iter().zip(&row_bits).map(|(bank, row)| format!("'p{bank}^p{row}'")).collect();
    let mut column = plain(&(bus_log2..bus_log2 + straight).collect::<Vec<_>>());
    column.extend(plain(&rest));
    let speed = ["DDR-200", "DDR-266", "DDR-333", "DDR-400"][numbers.below(4) as usize];
    let text = format!(
        "generation = 'DDR1'\nspeed = '{speed}'\nbus_bytes = {}\nburst_length = {}\n[map]\n\
         column = {}\nbank = {}\nrow = {}\n",
        1 << bus_log2,
        1 << burst_log2,
        quote(&column),
        quote(&bank),
        quote(&plain(&row_bits))
    );
    toml_memory::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn generated_memories_decode_exactly() {
    for seed in 1..=6 {
        let mut numbers = Numbers(seed);
        let memory = invent(&mut numbers);
        let named = memory.map.named_bits();
        let mut traffic = Traffic::new(memory.clone());
        traffic.idle(50);
        for _ in 0..3000 {
            let near = numbers.below(4) != 0;
            let address = numbers.below(1 << 30) & named;
            let address = if near { address & 0x3ff } else { address };
            let mut at = memory.map.to_coordinates(address);
            at.column &= !(u32::from(memory.burst_length) - 1);
            let aligned = memory.map.to_address(at);
            match numbers.below(16) {
                0 => traffic.refresh(),
                1 => traffic.idle(numbers.below(300)),
                2..=6 => traffic.write(aligned),
                _ => traffic.read(aligned),
            };
        }
        let folder = tempfile::tempdir().unwrap();
        let (input, capture) = (folder.path().join("made_up.cmd"), folder.path().join("c.pcapng"));
        write_vector(&input, &traffic);
        replay_file(&input, &["--granularity", "burst"], &capture);
        let text = decode(&capture);
        let expected: Vec<String> = traffic.truth().iter().map(ToString::to_string).collect();
        assert!(expected.len() > 2000);
        assert_eq!(lines(&text), expected, "seed {seed}: {memory:?}");
        assert_eq!(text.matches("# fault").count(), 0, "seed {seed}");
    }
}
