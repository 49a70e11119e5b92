//! A file server on the loopback device for tests: one thread, faults to order.

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
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
    scheme: &'static str,
    requests: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Serves files by name until dropped.
pub(crate) fn serve(
    files: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    change: impl FnOnce(&mut Faults),
) -> Server {
    start(files, change, None)
}

/// The certificate of `serve_tls`, signed by nobody but itself, for localhost and 127.0.0.1 until 2126.
pub(crate) const CERTIFICATE: &[u8] = include_bytes!("../../tests/tls/self-signed.der");

/// Serves files by https.
pub(crate) fn serve_tls(
    files: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    change: impl FnOnce(&mut Faults),
) -> Server {
    let key = include_bytes!("../../tests/tls/self-signed.key.der").to_vec();
    let key = PrivateKeyDer::try_from(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![CERTIFICATE.into()], key).unwrap();
    start(files, change, Some(Arc::new(config)))
}

fn start(
    files: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    change: impl FnOnce(&mut Faults),
    tls: Option<Arc<ServerConfig>>,
) -> Server {
    let scheme = if tls.is_some() { "https" } else { "http" };
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
            let _ = stream.and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                stream.set_write_timeout(Some(Duration::from_secs(5)))?;
                let Some(tls) = &tls else { return answer(&mut stream, &files, &faults, &counted) };
                let connection = ServerConnection::new(tls.clone()).map_err(std::io::Error::other)?;
                let mut stream = StreamOwned::new(connection, stream);
                answer(&mut stream, &files, &faults, &counted)?;
                stream.conn.send_close_notify();
                stream.flush()
            });
        }
    });
    Server { at, scheme, requests, stop, thread: Some(thread) }
}

impl Server {
    pub(crate) fn address(&self, name: &str) -> String {
        format!("{}://{}/{name}", self.scheme, self.at)
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
    stream: &mut (impl Read + Write),
    files: &BTreeMap<String, Vec<u8>>,
    faults: &Faults,
    counted: &AtomicUsize,
) -> std::io::Result<()> {
    // A request has nothing behind its headers, so that no byte is lost with the reader.
    let mut lines = BufReader::new(&mut *stream).lines();
    let Some(first) = lines.next().transpose()? else { return Ok(()) };
    let mut start = 0;
    for line in &mut lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(from) = line.strip_prefix("range: bytes=").filter(|_| faults.ranges) {
            start = from.trim_end_matches('-').parse().unwrap_or(0);
        }
    }
    drop(lines);
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
