//! An interface's name to its index and to what it dropped.

use std::io;

use super::CaptureError;

/// An interface that is up.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    pnet: pnet_datalink::NetworkInterface,
    drops_before: Option<u64>,
}

impl Interface {
    /// Finds an interface that is up.
    pub fn find(name: &str) -> Result<Self, CaptureError> {
        let interfaces = pnet_datalink::interfaces();
        let Some(pnet) = interfaces.iter().find(|interface| interface.name == name) else {
            let names: Vec<&str> =
                interfaces.iter().map(|interface| interface.name.as_str()).collect();
            return Err(CaptureError::NoInterface { name: name.into(), known: names.join(", ") });
        };
        if !pnet.is_up() {
            return Err(CaptureError::InterfaceDown(name.into()));
        }
        Ok(Interface { name: name.into(), pnet: pnet.clone(), drops_before: drops(name) })
    }

    /// The kernel's number for it.
    pub fn index(&self) -> u32 {
        self.pnet.index
    }

    /// A raw Ethernet channel through pnet.
    pub fn open_channel(
        &self,
        config: pnet_datalink::Config,
    ) -> io::Result<pnet_datalink::Channel> {
        pnet_datalink::channel(&self.pnet, config)
    }

    /// Frames the interface dropped since [`Interface::find`], if the kernel says.
    pub fn drops(&self) -> Option<u64> {
        Some(drops(&self.name)?.saturating_sub(self.drops_before?))
    }
}

/// The interface's `drop` column in the kernel's table: frames for which there was no room in the
/// interface or above it. The table, unlike sysfs, is that of our own network namespace.
fn drops(name: &str) -> Option<u64> {
    dropped(&std::fs::read_to_string("/proc/net/dev").ok()?, name)
}

/// Columns after the name: bytes packets errs drop ...
fn dropped(table: &str, name: &str) -> Option<u64> {
    let (_, columns) = table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(interface, _)| interface.trim() == name)?;
    columns.split_ascii_whitespace().nth(3)?.parse().ok()
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
    }
}
