//! Prints the accesses and gaps of a capture, or of several in the order of time: `read_trace
//! FILE.pcapng...`.

use hmtt::{Event, Item, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let mut trace = match &paths[..] {
        [] => return Err("read_trace FILE.pcapng...".into()),
        [path] => Trace::open(path)?,
        paths => Trace::merged(paths)?,
    };
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
