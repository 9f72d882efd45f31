//! The rights of a process to those it still needs once its sockets are open.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Lets the calling thread, and all that it starts, keep no capability but that of writing where
/// root may (files of a capture are begun later, too); none can be won back.
///
/// Capabilities belong to threads: call this before others are started.
pub fn drop_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let kept = capabilities(None)?.permitted & CapabilitySet::DAC_OVERRIDE;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}
