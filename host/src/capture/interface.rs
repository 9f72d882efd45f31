//! Finds network interfaces and reads how many frames each has dropped.
//!
//! Reads `/proc` and `/sys` only. The functions that use pnet, for the fallback, open sockets.

use std::io;
use std::time::{Duration, Instant};

use super::CaptureError;

/// The kernel's table of the interfaces in the network namespace of this process.
const TABLE: &str = "/proc/net/dev";

/// Age after which cached counts are read again.
const READ_EVERY: Duration = Duration::from_millis(200);

/// An interface that exists.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    before: Counts,
    now: Counts,
    read: Instant,
}

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that the interface dropped, including the missed frames; `None` if the kernel does
    /// not report their number.
    pub drops: Option<u64>,
    /// Missed frames: frames for which the interface had no buffer (`rx_missed_errors`); `None` if
    /// the kernel does not report their number.
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
    /// Names of all interfaces in this network namespace.
    pub fn names() -> Vec<String> {
        let table = table().unwrap_or_default();
        rows(&table).map(|(name, _)| name.to_owned()).collect()
    }

    /// Finds an interface by its name.
    ///
    /// # Errors
    /// [`CaptureError::NoInterface`] if there is none of that name.
    pub fn find(name: &str) -> Result<Self, CaptureError> {
        let known = Interface::names();
        if !known.iter().any(|known| known == name) {
            return Err(CaptureError::NoInterface { name: name.into(), known: known.join(", ") });
        }
        let before = Counts::read(name);
        Ok(Interface { name: name.into(), before, now: before, read: Instant::now() })
    }

    /// Whether an interface of this name still exists.
    pub fn is_there(&self) -> bool {
        Interface::names().contains(&self.name)
    }

    /// Whether the interface is up, by pnet; `None` if it no longer exists.
    pub fn is_up(&self) -> Option<bool> {
        let interfaces = pnet_datalink::interfaces();
        let interface = interfaces.iter().find(|interface| interface.name == self.name)?;
        Some(interface.is_up())
    }

    /// Opens a raw Ethernet channel through pnet.
    ///
    /// # Errors
    /// If the interface is down or gone, or a privilege is missing.
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

    /// Changes the name after the interface was renamed. Its counts continue.
    pub(super) fn rename(&mut self, name: String) {
        self.name = name;
    }

    /// Counts since [`Interface::find`]; up to 200 ms old unless `fresh`.
    pub fn counts(&mut self, fresh: bool) -> Counts {
        if fresh || self.read.elapsed() >= READ_EVERY {
            (self.now, self.read) = (Counts::read(&self.name), Instant::now());
        }
        self.now.since(self.before)
    }
}

/// The interface's `drop` column in the kernel's table. It is the sum of `rx_dropped` and
/// `rx_missed_errors` (Linux `net/core/net-procfs.c`).
fn drops(name: &str) -> Option<u64> {
    dropped(&table()?, name)
}

/// Reads the kernel's table. A name in the table may hold any bytes except a slash, a colon and
/// white space. The text is decoded lossily, because a name that is not UTF-8 must not hide the
/// other names.
fn table() -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(TABLE).ok()?).into_owned())
}

/// Rows of the table: name, and the columns after it (bytes packets errs drop ...).
fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = table.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, columns)| (name.trim(), columns))
}

fn dropped(table: &str, name: &str) -> Option<u64> {
    let (_, columns) = rows(table).find(|(interface, _)| *interface == name)?;
    columns.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Reads `rx_missed_errors` from sysfs. The mounted sysfs may belong to another network namespace,
/// which may have an interface of the same name. So the value is used only if sysfs agrees with the
/// table of this namespace.
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
