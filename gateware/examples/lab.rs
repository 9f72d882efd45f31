use gateware::*;
use hmtt_format::config::*;
use hmtt_format::*;
use std::io::Read;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let mut p = header::HeaderParser::default();
    let mut lines = text.lines();
    for l in lines.by_ref() {
        if l == "---" {
            break;
        }
        p.line(l).unwrap();
    }
    let h = p.finish().unwrap();
    let params = CardParameters { memory: h.memory.clone(), fifo_log2: DEFAULT_FIFO_LOG2 };
    std::fs::write("/tmp/lab/top.v", emit::verilog(&params).unwrap()).unwrap();
    let mut card = SimulatedCard::new(&params);
    let g = if std::env::args().nth(2).as_deref() == Some("line") {
        Granularity::Line
    } else {
        Granularity::Burst
    };
    let mode = match std::env::args().nth(3).as_deref() {
        Some("page") => Mode::Page,
        Some("freq") => Mode::Frequency,
        _ => Mode::Line,
    };
    let straps = straps(mode, g, false, 0);
    let mut rows = std::collections::BTreeMap::new();
    let mut firstcke = None;
    for l in lines {
        let w: Vec<&str> = l.split_whitespace().collect();
        let c: u64 = w[0].parse().unwrap();
        let b = |i: usize| w[i] == "1";
        let pins = Pins {
            cke: b(1),
            cs_n: b(2),
            act_n: true,
            ras_n: b(3),
            cas_n: b(4),
            we_n: b(5),
            ba: u8::from_str_radix(w[6], 16).unwrap(),
            a: u32::from_str_radix(w[7], 16).unwrap(),
        };
        firstcke.get_or_insert(pins.cke);
        rows.insert(c, pins);
    }
    let mut cke = firstcke.unwrap();
    let tck = h.memory.tck_ps as u64;
    let (mut tx, mut frames, mut cur): (u64, Vec<Vec<u8>>, Vec<u8>) = (1000, vec![], vec![]);
    let t0 = std::time::Instant::now();
    let mut idle = 0u64;
    let mut clk = 0u64;
    loop {
        let pins = rows.get(&clk).copied().unwrap_or(Pins { cke, ..Pins::DESELECT });
        cke = pins.cke;
        card.ddr_edge(pins, clk <= h.last_clock, straps);
        clk += 1;
        while tx < clk * tck {
            let g = card.tx_edge();
            tx += 8000;
            if g.tx_en {
                cur.push(g.txd);
                idle = 0
            } else {
                idle += 1;
                if !cur.is_empty() {
                    frames.push(std::mem::take(&mut cur));
                }
            }
        }
        if clk > h.last_clock + 100 && idle > 2000 {
            break;
        }
    }
    eprintln!(
        "{} clocks {:.0} clocks/s frames {}",
        clk,
        clk as f64 / t0.elapsed().as_secs_f64(),
        frames.len()
    );
    let mut n = 0u64;
    for f in &frames {
        let f = &f[8..f.len() - 4];
        let words: Vec<u64> = f[18..]
            .chunks_exact(8)
            .map(|c| u64::from_be_bytes(c.try_into().unwrap()))
            .take(f[15] as usize)
            .collect();
        let s = frame::Sync::decode([words[0], words[1]]);
        if s.accesses != n {
            println!("# mismatch sync {} counted {}", s.accesses, n);
        }
        match f[14] & 15 {
            0 => {
                let mut b = Block::new(words.into_iter()).unwrap();
                for e in b.by_ref() {
                    match e.unwrap() {
                        Event::Access(a) => println!("{a}"),
                        o => println!("# {o:?}"),
                    }
                }
                n += b.accesses();
            }
            k => println!(
                "# kind {k} {:?}",
                Report::decode(&words[2..]).map(|r| (
                    r.running,
                    r.mode,
                    r.granularity,
                    r.reads,
                    r.writes,
                    r.faults,
                    r.memory == h.memory
                ))
            ),
        }
    }
}
