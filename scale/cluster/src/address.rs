//! Parses the addresses of a cluster's programs.

use std::fmt;
use std::str::FromStr;

/// Port of a scheduler, if none is given.
pub const SCHEDULER_PORT: u16 = 50050;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or number of the host. An IPv6 address has no brackets here.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// The address as a URL.
    pub fn url(&self) -> String {
        format!("http://{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "an address such as 192.0.2.1:50050, [2001:db8::1]:50050 or host:50050";
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(expected)?;
                (host, port.strip_prefix(':'))
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| expected())?,
            None => SCHEDULER_PORT,
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_name) {
            return Err(expected().into());
        }
        Ok(Address { host: host.into(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, host, port) in [
            ("127.0.0.1:7", "127.0.0.1", 7),
            ("node-1.example:50050", "node-1.example", 50050),
            ("[::1]:50051", "::1", 50051),
            ("localhost", "localhost", SCHEDULER_PORT),
        ] {
            assert_eq!(text.parse(), Ok(Address { host: host.into(), port }));
        }
        assert_eq!("[::1]:50051".parse::<Address>().unwrap().url(), "http://[::1]:50051");
        for text in ["", ":1", "host:", "host:70000", "::1:5", "[::1", "http://host:1", "a b:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
