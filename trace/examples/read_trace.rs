//! Prints the accesses and gaps of a capture: `read_trace FILE.pcapng`.

use hmtt::Trace;
use hmtt::decode::Item;
use hmtt_format::Event;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("read_trace FILE.pcapng")?;
    let mut trace = Trace::open(path)?;
    for next in trace.items() {
        let (card, item) = next?;
        match item {
            Item::Event(Event::Access(access)) => println!("card {card}: {access}"),
            Item::Gap(gap) => println!("card {card}: {gap}"),
            _ => {}
        }
    }
    let counts = trace.counts()?.sum();
    println!("{} accesses, {} lost", counts.accesses, counts.lost_accesses);
    Ok(())
}
