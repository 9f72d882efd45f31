use super::arrivals::{START, program};
use super::*;
use crate::stubs::{Sink, Stubs, layout::*};
use std::time::Instant;
#[test]
#[ignore]
fn times() {
    let shape =
        LogShape { is_timed: true, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Drop };
    let pats: [(&str, &[u8]); 12] = [
        ("nop", &[0x90]),
        ("ret", &[0xc3]),
        ("inc", &[0xff, 0xc0]),
        ("jmp0", &[0xeb, 0]),
        ("jne back", &[0x75, 0xf0]),
        ("jne far back", &[0x75, 0x80]),
        ("jrcxz", &[0xe3, 0x10]),
        ("loop ret", &[0xe2, 0xf0, 0xc3]),
        ("jne nop ret", &[0x75, 0x40, 0x90, 0xc3]),
        ("call", &[0xe8, 0, 0, 0, 0, 0xc3]),
        ("jmp tail", &[0xe9, 0, 0, 0, 0x40, 0xc3]),
        ("jcc far fwd", &[0x0f, 0x84, 0, 2, 0, 0]),
    ];
    for (name, pat) in pats {
        for (kind, size) in [("one", 0usize), ("many16", 16), ("many320", 320)] {
            let mut line = format!("{name} {kind}:");
            for bytes in [1usize << 12, 1 << 13, 1 << 14] {
                let code: Vec<u8> =
                    pat.iter().copied().cycle().take(bytes / pat.len() * pat.len()).collect();
                let pieces: Vec<&[u8]> =
                    if size == 0 { vec![&code] } else { code.chunks(size).collect() };
                let image = program(&pieces, &[]);
                let t = Instant::now();
                let known = Known::of(&image);
                let all: Vec<_> = image.functions.iter().map(|f| (f, Grain::Blocks)).collect();
                let rw = Disassembly::new(&image, &known).finer_rewrites(&all, true);
                let t1 = t.elapsed().as_millis();
                let ok: Vec<_> = rw
                    .iter()
                    .zip(&image.functions)
                    .filter_map(|(r, f)| Some((r.as_ref().ok()?, f)))
                    .collect();
                let mut stubs = Stubs::new(
                    START + (1 << 20),
                    0,
                    Sink::Log(shape),
                    ok.iter().map(|(r, _)| Stubs::tags(r)).sum(),
                )
                .unwrap();
                let mut n = 1;
                for (r, f) in &ok {
                    if stubs.add(r, f.start, n).is_ok() {
                        n += 1 + r.seen_blocks().count() as u32;
                    }
                }
                line += &format!(
                    "  {}K {t1}+{}ms ok {}/{}",
                    bytes >> 10,
                    t.elapsed().as_millis() - t1,
                    ok.len(),
                    image.functions.len()
                );
            }
            eprintln!("{line}");
        }
    }
}
