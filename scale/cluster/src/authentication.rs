//! Sends the token of a cluster with each call, and refuses calls without it.
//!
//! ```text
//! Endpoint -> with_token      each call of its connections has the header `user-agent: hmtt-cluster/TOKEN tonic/VERSION`
//! call     -> Authentication  accepted, or ended with UNAUTHENTICATED, before any of its body is read
//! ```
//!
//! Ballista makes some of the connections itself. This header is the only one that it lets other
//! code set.
//!
//! Invariant: a call that is refused has no effect. A program without a secret accepts only calls
//! without a token, so programs with different settings do not work together unnoticed. The
//! services behind this module do not see the token.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

use crate::secret::{AGENT, Secret};

const HEADER: &str = "user-agent";

/// Returns an endpoint whose calls carry the token of a secret; without a secret the endpoint
/// itself.
///
/// # Errors
/// Never: a token is text.
pub fn with_token(
    endpoint: Endpoint,
    secret: Option<Secret>,
) -> Result<Endpoint, tonic::transport::Error> {
    match secret {
        Some(secret) => endpoint.user_agent(secret.agent()),
        None => Ok(endpoint),
    }
}

/// Accepts calls with the token of a secret or, without a secret, calls without a token.
#[derive(Clone, Debug)]
pub struct Authentication {
    secret: Option<Secret>,
}

impl Authentication {
    /// Creates the check for a program with this secret.
    pub fn new(secret: Option<Secret>) -> Self {
        Authentication { secret }
    }

    fn check(&self, headers: &MetadataMap) -> Result<(), &'static str> {
        let agent = headers.get(HEADER).and_then(|agent| agent.to_str().ok());
        let rest = agent.and_then(|agent| agent.strip_prefix(AGENT));
        let token = rest.map(|rest| rest.split(' ').next().unwrap_or_default());
        match (&self.secret, token) {
            (None, None) => Ok(()),
            (Some(secret), Some(token)) if secret.is_token(token) => Ok(()),
            (Some(_), Some(_)) => Err("the caller has another secret than this cluster"),
            (Some(_), None) => Err(
                "the caller has no secret: name its file (--secret-file), or set HMTT_CLUSTER_SECRET",
            ),
            (None, Some(_)) => {
                Err("the caller has a secret, and this cluster was started without one")
            }
        }
    }
}

impl Interceptor for Authentication {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let caller = request.remote_addr();
        self.check(request.metadata()).map_err(|reason| {
            log::info!("a call of {caller:?} is refused: {reason}");
            Status::unauthenticated(reason)
        })?;
        request.metadata_mut().remove(HEADER);
        if let Some(caller) = caller {
            // Ballista's scheduler takes the address of an executor from this extension.
            request.extensions_mut().insert(ConnectInfo::<SocketAddr>(caller));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, permissions).unwrap();
        Secret::read(Some(&path)).unwrap().unwrap()
    }

    /// Calls a program that has the secret `own` or none. Returns whether the call is accepted.
    fn is_accepted(own: Option<Secret>, agent: Option<&[u8]>) -> bool {
        let mut request = Request::new(());
        if let Some(agent) = agent {
            request.metadata_mut().insert(HEADER, agent.try_into().unwrap());
        }
        match Authentication::new(own).call(request) {
            Ok(request) => {
                assert!(request.metadata().is_empty(), "the token is passed on");
                true
            }
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unauthenticated);
                assert!(status.metadata().is_empty());
                false
            }
        }
    }

    #[test]
    fn a_program_with_a_secret_accepts_its_token_only() {
        let own = secret("0123456789abcdef");
        let right = own.agent();
        assert!(is_accepted(Some(own), Some(right.as_bytes())));
        assert!(is_accepted(Some(own), Some(format!("{right} tonic/0.14").as_bytes())));
        let other = secret("0123456789abcdeF").agent();
        let cut = &right[..right.len() - 1];
        let longer = format!("{right}0");
        let later = format!("tonic/0.14 {right}");
        for agent in [&*other, cut, &longer, &later, AGENT, "hmtt-cluster/ ", "tonic/0.14", ""] {
            assert!(!is_accepted(Some(own), Some(agent.as_bytes())), "{agent}");
        }
        assert!(!is_accepted(Some(own), Some(b"hmtt-cluster/\xff\xfe")));
        assert!(!is_accepted(Some(own), None));
    }

    #[test]
    fn a_program_without_a_secret_accepts_calls_without_a_token_only() {
        let other = secret("0123456789abcdef").agent();
        assert!(is_accepted(None, None));
        assert!(is_accepted(None, Some(b"tonic/0.14")));
        for agent in [&*other, AGENT] {
            assert!(!is_accepted(None, Some(agent.as_bytes())), "{agent}");
        }
    }
}
