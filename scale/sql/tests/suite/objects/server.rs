//! Starts servers on the loopback interface, and ends them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest time in which a server may start.
const START: Duration = Duration::from_secs(60);

/// A server, which ends when this is dropped.
pub struct Server {
    child: Child,
    /// Its URL.
    pub endpoint: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Environment variables for programs that use a server.
pub fn settings(endpoint: &str) -> [(&'static str, String); 5] {
    [
        ("AWS_ACCESS_KEY_ID", "tester".into()),
        ("AWS_SECRET_ACCESS_KEY", "secret".into()),
        ("AWS_REGION", "us-east-1".into()),
        ("AWS_ENDPOINT_URL", endpoint.into()),
        ("AWS_ALLOW_HTTP", "true".into()),
    ]
}

/// Path of a program that `tools/setup.sh scale` installs.
fn installed(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/scale/bin");
    Some(folder.join(name)).filter(|path| path.exists())
}

impl Server {
    /// A server of the S3 protocol, with an empty bucket `bucket`; `None` if it is not installed.
    pub fn s3() -> Option<Self> {
        Server::moto(u32::MAX)
    }

    /// The same, which refuses keys that it has not given to users.
    pub fn s3_with_users() -> Option<Self> {
        // The first request makes the bucket.
        Server::moto(1)
    }

    fn moto(unchecked_requests: u32) -> Option<Self> {
        let mut command = Command::new(installed("moto_server")?);
        command.env("INITIAL_NO_AUTH_ACTION_COUNT", unchecked_requests.to_string());
        let server =
            Server::start(command, |port| vec!["-H".into(), "127.0.0.1".into(), "-p".into(), port]);
        let response = server.request("PUT /bucket HTTP/1.1");
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        Some(server)
    }

    /// A WebDAV server of a folder, to which nothing can be written; `None` if it is not installed.
    pub fn webdav(folder: &Path) -> Option<Self> {
        let command = Command::new(installed("wsgidav")?);
        let root = folder.to_str().unwrap().to_owned();
        let words = [
            "--host",
            "127.0.0.1",
            "--auth",
            "anonymous",
            "--server",
            "cheroot",
            "--quiet",
            "--root",
        ];
        Some(Server::start(command, |port| {
            let words = words.map(str::to_owned).into_iter();
            words.chain([root, "--port".into(), port]).collect()
        }))
    }

    /// Starts a server on a port that is free.
    fn start(mut command: Command, arguments: impl FnOnce(String) -> Vec<String>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        command.args(arguments(port.to_string())).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Server { child, endpoint: format!("http://127.0.0.1:{port}") };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < START, "the server does not start");
            assert!(server.child.try_wait().unwrap().is_none(), "the server has ended");
            sleep(Duration::from_millis(50));
        }
        server
    }

    /// The answer to a request without a body.
    fn request(&self, line: &str) -> String {
        let host = self.endpoint.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        let request =
            format!("{line}\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}
