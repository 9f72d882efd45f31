//! Counts the writes to each page of a capture: `writes_by_page FILE.pcapng`.

use std::collections::BTreeMap;

use hmtt::{PhysAddr, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("writes_by_page FILE.pcapng")?;
    let mut writes = BTreeMap::<PhysAddr, u64>::new();
    let mut trace = Trace::open(path)?;
    for access in trace.accesses() {
        let access = access?;
        if access.is_write() {
            *writes.entry(access.address.page(4096)).or_default() += 1;
        }
    }
    for (page, count) in writes {
        println!("{page}: {count}");
    }
    println!("{} accesses are missing", trace.counts()?.sum().lost_accesses);
    Ok(())
}
