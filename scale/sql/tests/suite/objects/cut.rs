//! A connection to a server that ends after some bytes, for all clients at once and for good.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

/// A relay to a server.
pub struct Cut {
    /// The relay's URL.
    pub endpoint: String,
}

impl Cut {
    /// Passes on this many bytes, both directions counted.
    pub fn after(server: &str, bytes: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = server.trim_start_matches("http://").to_owned();
        let left = Arc::new(AtomicI64::new(bytes));
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if left.load(Ordering::SeqCst) <= 0 {
                    // The port refuses connections from here on.
                    break;
                }
                let Ok(server) = TcpStream::connect(&server) else { break };
                pass(&client, &server, &left);
                pass(&server, &client, &left);
            }
        });
        Cut { endpoint }
    }
}

/// Passes on what one side sends.
fn pass(from: &TcpStream, to: &TcpStream, left: &Arc<AtomicI64>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let left = left.clone();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let before = left.fetch_sub(read as i64, Ordering::SeqCst);
            let allowed = usize::try_from(before).unwrap_or(0).min(read);
            if to.write_all(&buffer[..allowed]).is_err() || allowed < read {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}
