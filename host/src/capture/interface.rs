//! An interface's name to what it dropped.
//!
//! Reads the kernel's files only; what goes through pnet, for the fallback, opens sockets.

use std::io;
use std::time::{Duration, Instant};

use super::CaptureError;

/// The kernel's table of interfaces, that of our own network namespace.
const TABLE: &str = "/proc/net/dev";

/// How old counts may be.
const READ_EVERY: Duration = Duration::from_millis(200);

/// An interface that exists.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    before: Counts,
    now: Counts,
    read: Instant,
}

/// What an interface counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames it dropped, those it missed included, if the kernel says.
    pub drops: Option<u64>,
    /// Those it had no buffer for (`rx_missed_errors`), if the kernel says.
    pub missed: Option<u64>,
}

impl Counts {
    fn read(name: &str) -> Self {
        Counts { drops: drops(name), missed: missed(name) }
    }

    fn since(self, before: Counts) -> Counts {
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Counts { drops: since(self.drops, before.drops), missed: since(self.missed, before.missed) }
    }
}

impl Interface {
    /// The names of all interfaces.
    pub fn names() -> Vec<String> {
        let table = table().unwrap_or_default();
        rows(&table).map(|(name, _)| name.to_owned()).collect()
    }

    /// Finds an interface.
    pub fn find(name: &str) -> Result<Self, CaptureError> {
        let known = Interface::names();
        if !known.iter().any(|known| known == name) {
            return Err(CaptureError::NoInterface { name: name.into(), known: known.join(", ") });
        }
        let before = Counts::read(name);
        Ok(Interface { name: name.into(), before, now: before, read: Instant::now() })
    }

    /// Whether there still is an interface of this name.
    pub fn is_there(&self) -> bool {
        Interface::names().contains(&self.name)
    }

    /// Whether it is up, if there still is one of this name; asked through pnet.
    pub fn is_up(&self) -> Option<bool> {
        let interfaces = pnet_datalink::interfaces();
        let interface = interfaces.iter().find(|interface| interface.name == self.name)?;
        Some(interface.is_up())
    }

    /// A raw Ethernet channel through pnet.
    pub fn open_channel(
        &self,
        config: pnet_datalink::Config,
    ) -> io::Result<pnet_datalink::Channel> {
        let interfaces = pnet_datalink::interfaces();
        let interface = interfaces.iter().find(|interface| interface.name == self.name);
        let interface = interface.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        if !interface.is_up() {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        pnet_datalink::channel(interface, config)
    }

    /// What it counted since [`Interface::find`]; a moment ago unless `fresh`.
    pub fn counts(&mut self, fresh: bool) -> Counts {
        if fresh || self.read.elapsed() >= READ_EVERY {
            (self.now, self.read) = (Counts::read(&self.name), Instant::now());
        }
        self.now.since(self.before)
    }
}

/// The interface's `drop` column in the kernel's table, `rx_dropped` and `rx_missed_errors` added up
/// (Linux `net/core/net-procfs.c`).
fn drops(name: &str) -> Option<u64> {
    dropped(&table()?, name)
}

/// The kernel's table. A name in it may hold any bytes but a slash, a colon and white space; one that is no
/// UTF-8 must not hide the others.
fn table() -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(TABLE).ok()?).into_owned())
}

/// Names, and the columns after them: bytes packets errs drop ...
fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = table.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, columns)| (name.trim(), columns))
}

fn dropped(table: &str, name: &str) -> Option<u64> {
    let (_, columns) = rows(table).find(|(interface, _)| *interface == name)?;
    columns.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// sysfs may be that of another network namespace, with an interface of the same name: it is
/// believed only where it agrees with the table.
fn missed(name: &str) -> Option<u64> {
    let read = |counter: &str| -> Option<u64> {
        let path = format!("/sys/class/net/{name}/statistics/{counter}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let missed = read("rx_missed_errors")?;
    (read("rx_dropped")? + missed == drops(name)?).then_some(missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_in_the_kernels_table() {
        let table = "Inter-|   Receive                 |  Transmit\n \
            face |bytes    packets errs drop fifo|bytes    packets errs drop\n    \
            lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n \
            veth1:  1514  7   0 12 0 0 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(dropped(table, "veth1"), Some(12));
        assert_eq!(dropped(table, "lo"), Some(0));
        assert_eq!(dropped(table, "veth"), None);
        assert!(rows(table).map(|(name, _)| name).eq(["lo", "veth1"]));
    }
}
