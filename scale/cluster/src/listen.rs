//! Opens the port of a scheduler or an executor.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;

use crate::address::Address;
use crate::secret::{HOW_TO_MAKE, Secret, VARIABLE};

/// Listens at an address. Returns the listener, and the address with the port in use. Port 0: any
/// port. Without a secret, an address that other machines could reach is refused and nothing is
/// opened.
///
/// # Errors
/// The address cannot be used, or needs a secret.
pub async fn listen(address: Address, secret: Option<Secret>) -> Result<(TcpListener, Address)> {
    let numbers = tokio::net::lookup_host((address.host.as_str(), address.port)).await;
    let numbers = numbers.with_context(|| format!("{address}: no address"))?;
    let numbers: Vec<SocketAddr> = numbers.collect();
    let is_open = numbers.iter().any(|number| !number.ip().is_loopback());
    if is_open && secret.is_none() {
        bail!(
            "{address}: other machines could use the cluster without a secret. Make one, {HOW_TO_MAKE}, and give the \
             same to the scheduler, all executors and clients, by --secret-file FILE or {VARIABLE}"
        );
    }
    let listener = TcpListener::bind(&*numbers).await;
    let listener = listener.with_context(|| format!("{address}: cannot listen"))?;
    let port = listener.local_addr()?.port();
    Ok((listener, Address { port, ..address }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listening = runtime.block_on(listen(address.parse().unwrap(), None));
        listening.err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn without_a_secret_only_loopback_is_used() {
        for address in ["127.0.0.1:0", "127.1.2.3:0", "localhost:0"] {
            assert_eq!(refused(address), None, "{address}");
        }
        // 192.0.2.1 is no address of this machine. If it were opened, another error would be
        // returned.
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:127.0.0.1]:0", "10.0.0.1:1"]
        {
            let reason = refused(address).unwrap();
            assert!(reason.contains("without a secret"), "{reason}");
            assert!(reason.contains("--secret-file"), "{reason}");
        }
    }
}
