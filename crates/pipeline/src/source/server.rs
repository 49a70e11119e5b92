//! A file server on the loopback device for tests: one thread, faults to order.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is wrong with the server.
pub(crate) struct Faults {
    /// Bytes of content after which each connection breaks.
    pub(crate) break_after: usize,
    /// Requests answered with 503 first.
    pub(crate) busy: usize,
    /// Whether it can send a part of a file.
    pub(crate) ranges: bool,
}

pub(crate) struct Server {
    at: SocketAddr,
    requests: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Serves files by name until dropped.
pub(crate) fn serve(
    files: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    change: impl FnOnce(&mut Faults),
) -> Server {
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(name, data)| (format!("/{}", name.into()), data)).collect();
    let mut faults = Faults { break_after: usize::MAX, busy: 0, ranges: true };
    change(&mut faults);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (requests, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, stopped) = (requests.clone(), stop.clone());
    let thread = std::thread::spawn(move || {
        for stream in listener.incoming() {
            if stopped.load(Ordering::SeqCst) {
                return;
            }
            // A client that goes away is none of the server's business.
            let _ = stream.and_then(|stream| answer(stream, &files, &faults, &counted));
        }
    });
    Server { at, requests, stop, thread: Some(thread) }
}

impl Server {
    pub(crate) fn address(&self, name: &str) -> String {
        format!("http://{}/{name}", self.at)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let woken = TcpStream::connect(self.at);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, Vec<u8>>,
    faults: &Faults,
    counted: &AtomicUsize,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let Some(first) = lines.next().transpose()? else { return Ok(()) };
    let mut start = 0;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(from) = line.strip_prefix("range: bytes=").filter(|_| faults.ranges) {
            start = from.trim_end_matches('-').parse().unwrap_or(0);
        }
    }
    let number = counted.fetch_add(1, Ordering::SeqCst);
    if number < faults.busy {
        return write!(stream, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let Some(data) = first.split(' ').nth(1).and_then(|name| files.get(name)) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let part = &data[start.min(data.len())..];
    let status = if start > 0 { "206 Partial Content" } else { "200 OK" };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", part.len())?;
    if start > 0 {
        write!(stream, "Content-Range: bytes {start}-{}/{}\r\n", data.len() - 1, data.len())?;
    }
    stream.write_all(b"\r\n")?;
    stream.write_all(&part[..part.len().min(faults.break_after)])
}
