//! Sends the frames of a software card: `load IFACE FRAMES [FRAMES_PER_SECOND]`. Use an interface
//! in a network namespace of your own. `load FILE.pcapng FRAMES [DISTINCT_FRAMES]` writes the
//! frames to a capture.

use anyhow::{Context, Result};
use hmtt_tests::load::{POOL_FRAMES, Pace, send, write};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, frames, rest @ ..] = &arguments[..] else {
        anyhow::bail!(
            "usage: load IFACE FRAMES [FRAMES_PER_SECOND] | load FILE.pcapng FRAMES [DISTINCT_FRAMES]"
        );
    };
    let frames = frames.parse().context("FRAMES must be a number")?;
    if interface.ends_with(".pcapng") {
        let pool =
            rest.first().map(|pool| pool.parse().context("DISTINCT_FRAMES must be a number"));
        let pool = pool.transpose()?.unwrap_or(POOL_FRAMES);
        return write(interface.as_ref(), frames, pool).with_context(|| interface.clone());
    }
    let rate = rest.first().map(|rate| rate.parse().context("FRAMES_PER_SECOND must be a number"));
    let sent = send(interface, Pace { frames_per_second: rate.transpose()?, frames })?;
    let seconds = sent.time.as_secs_f64();
    println!(
        "{{\"frames\":{},\"accesses\":{},\"seconds\":{seconds:.3}}}",
        sent.frames, sent.accesses
    );
    Ok(())
}
