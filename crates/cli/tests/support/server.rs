//! A small web server on loopback: serves files, in ranges or not, breaks off where it is told to, and remembers what it
//! was asked.

// Each test that includes this file uses a part of it.
#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the server behaves.
#[derive(Debug, Clone, Default)]
pub struct Manners {
    /// Whether it answers requests for a part with a part.
    pub ranges: bool,
    /// After how many bytes of its content each successive answer breaks off; whole answers from then on.
    pub cuts: Vec<usize>,
    /// Parts begin so many bytes away from what was asked for.
    pub shift: usize,
    /// Falls silent after so many bytes of each shard, until the client goes away.
    pub stalls: Option<usize>,
}

/// Runs until dropped.
pub struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves each (name, content) at `/name`.
    pub fn start(files: Vec<(String, Vec<u8>)>, manners: Manners) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/", listener.local_addr().expect("an address"));
        let (asked, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, ended) = (asked.clone(), stop.clone());
        let (files, manners) = (Arc::new(files), Arc::new(Mutex::new(manners)));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                // A client may hold one answer open while it asks for another.
                let (files, manners, log) = (files.clone(), manners.clone(), log.clone());
                std::thread::spawn(move || {
                    // A client that goes away early is no fault of the server.
                    let _ = stream.and_then(|stream| answer(stream, &files, &manners, &log));
                });
            }
        });
        Server { address, asked, stop, thread: Some(thread) }
    }

    /// The folder on the web, ending in a slash.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it was asked so far: `name`, or `name from N`.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic in the server").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes it from waiting.
        let _ = TcpStream::connect(self.address.trim_start_matches("http://").trim_end_matches('/'));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(
    stream: TcpStream,
    files: &[(String, Vec<u8>)],
    manners: &Mutex<Manners>,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_write_timeout(Some(Duration::from_secs(20)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let name = first.split(' ').nth(1).unwrap_or("/")[1..].to_string();
    let mut from = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse::<usize>().ok();
        }
    }
    let said = from.map_or(name.clone(), |from| format!("{name} from {from}"));
    log.lock().expect("no panic in the server").push(said);

    let mut stream = stream;
    let Some((_, content)) = files.iter().find(|(n, _)| *n == name) else {
        return stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    };
    let total = content.len();
    let mut manners = manners.lock().expect("no panic in the server");
    let (head, body) = match from.filter(|_| manners.ranges) {
        None => ("200 OK".to_string(), &content[..]),
        Some(from) if from >= total => {
            return write!(
                stream,
                "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{total}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
        }
        Some(from) => {
            let from = (from + manners.shift).min(total - 1);
            let range = format!("bytes {from}-{}/{total}", total - 1);
            (format!("206 Partial Content\r\nContent-Range: {range}"), &content[from..])
        }
    };
    write!(stream, "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    let end = if manners.cuts.is_empty() { body.len() } else { manners.cuts.remove(0).min(body.len()) };
    let stalls = manners.stalls.filter(|_| name.ends_with(".tar"));
    drop(manners);
    stream.write_all(&body[..stalls.map_or(end, |most| most.min(end))])?;
    stream.flush()?;
    if stalls.is_some_and(|most| most < end) {
        let _ = std::io::Read::read(&mut stream, &mut [0]);
    }
    Ok(())
}
