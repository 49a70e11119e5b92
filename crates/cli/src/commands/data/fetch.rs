//! One file from the web to the disk. What has arrived lies in `FILE.part`; a later try asks for the rest only. Whatever a
//! server does, the file is there whole or not at all.

use super::get::cannot_write;
use crate::fail::Failure;
use crate::progress::Counter;
use sooner_pipeline::published::md5_of;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::http::{HeaderMap, StatusCode, header};
use ureq::{Agent, Body, http::Response};

/// Tries at one address that may break off, as long as each brings something.
const TRIES: usize = 5;

/// What to fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// Where it is to be had, in the order they are asked.
    pub(super) addresses: &'a [String],
    /// Where it goes.
    pub(super) file: &'a Path,
    /// Its published length.
    pub(super) bytes: u64,
    /// Its published MD5.
    pub(super) md5: &'a str,
}

/// What came.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Whether length and MD5 are those published; mirrors that pack anew have others.
    pub(super) as_published: bool,
    /// Where it came from.
    pub(super) address: String,
    /// Length and MD5, for messages.
    pub(super) found: String,
}

/// Why nothing came.
#[derive(Debug)]
pub(super) enum Problem {
    /// Each address and what it said.
    Network(Vec<(String, String)>),
    /// The disk.
    Disk(Failure),
}

impl Problem {
    /// As an error of the command, with the way round the network as its hint.
    pub(super) fn failure(self, by_hand: &str) -> Failure {
        match self {
            Problem::Disk(failure) => failure,
            Problem::Network(said) => {
                let addresses: Vec<&str> = said.iter().map(|(address, _)| address.as_str()).collect();
                let found: Vec<&str> = said.iter().map(|(_, what)| what.as_str()).collect();
                let place = addresses.join(" and ");
                Failure::world("cannot download", &place, ["the file", &found.join(" and "), by_hand])
            }
        }
    }
}

/// An agent whose every wait ends.
pub(super) fn agent() -> Agent {
    let wait = Some(Duration::from_secs(30));
    Agent::config_builder()
        .user_agent(concat!("sooner/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .timeout_connect(wait)
        .timeout_recv_response(wait)
        .timeout_per_read(wait)
        .build()
        .new_agent()
}

/// Fetches a file from the first address that has it.
pub(super) fn fetch(agent: &Agent, target: &Target, counter: &Counter) -> Result<Fetched, Problem> {
    let mut said = Vec::new();
    for address in target.addresses {
        match from_address(agent, target, address, counter) {
            Ok(fetched) => return Ok(fetched),
            Err(Broken::Disk(failure)) => return Err(Problem::Disk(failure)),
            Err(Broken::Network(what)) => said.push((address.clone(), what)),
        }
    }
    Err(Problem::Network(said))
}

enum Broken {
    Network(String),
    Disk(Failure),
}

fn from_address(agent: &Agent, target: &Target, address: &str, counter: &Counter) -> Result<Fetched, Broken> {
    let part = PathBuf::from(format!("{}.part", target.file.display()));
    let disk = |error: std::io::Error| Broken::Disk(cannot_write(&part, &error));
    // What an earlier run or another address left; what this loop appends to is of one file.
    let mut inherited = length(&part) > 0;
    let mut tries = TRIES;
    loop {
        let before = length(&part);
        match rest(agent, target, (address, &part), counter) {
            Ok(()) => {}
            Err(Broken::Network(what)) => {
                tries -= 1;
                if tries > 0 && length(&part) > before {
                    continue;
                }
                let kept = match length(&part) {
                    0 => what,
                    n => format!(
                        "{what} ({n} of {} bytes are kept; the next try goes on from there)",
                        target.bytes
                    ),
                };
                return Err(Broken::Network(kept));
            }
            Err(broken) => return Err(broken),
        }
        let (md5, bytes) = File::open(&part).and_then(md5_of).map_err(disk)?;
        let as_published = md5 == target.md5 && bytes == target.bytes;
        if !as_published && inherited {
            // The beginning may have been of another file: once from the start, then.
            fs::remove_file(&part).map_err(disk)?;
            inherited = false;
            counter.forget(bytes);
            continue;
        }
        fs::rename(&part, target.file).map_err(disk)?;
        let found = format!("{bytes} bytes with MD5 {md5}");
        return Ok(Fetched { as_published, address: address.to_string(), found });
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Asks for what is not there yet, and appends it.
fn rest(
    agent: &Agent,
    target: &Target,
    (address, part): (&str, &Path),
    counter: &Counter,
) -> Result<(), Broken> {
    let disk = |error: std::io::Error| Broken::Disk(cannot_write(part, &error));
    let network = |error: ureq::Error| Broken::Network(error.to_string());
    let have = length(part);
    let mut request = agent.get(address).header("accept-encoding", "identity");
    if have > 0 {
        request = request.header("range", format!("bytes={have}-"));
    }
    let response = request.call().map_err(network)?;
    let status = response.status();
    let start = match status {
        StatusCode::OK => 0,
        StatusCode::PARTIAL_CONTENT if have > 0 && range_start(response.headers()) == Some(have) => have,
        StatusCode::RANGE_NOT_SATISFIABLE if range_total(response.headers()) == Some(have) => {
            counter.advance(have);
            return Ok(());
        }
        // What is there fits no part of the server's file.
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
            fs::remove_file(part).map_err(disk)?;
            return rest(agent, target, (address, part), counter);
        }
        _ => return Err(Broken::Network(format!("status {status}"))),
    };
    let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(disk)?;
    if start == 0 {
        file.set_len(0).map_err(disk)?;
    }
    counter.advance(start);
    let copied = copy(response, &mut file, target.bytes, (start, counter));
    if copied.is_err() {
        // Another try counts what is kept anew.
        counter.forget(length(part));
    }
    file.sync_all().map_err(disk)?;
    copied.map_err(|broken| match broken {
        CopyError::Read(what) => Broken::Network(what),
        CopyError::Write(error) => disk(error),
    })
}

enum CopyError {
    Read(String),
    Write(std::io::Error),
}

/// A mirror that packs anew may need a little more than the published length; nothing needs this much more.
const SLACK: u64 = 64 << 20;

fn copy(
    mut response: Response<Body>,
    file: &mut File,
    published: u64,
    (start, counter): (u64, &Counter),
) -> Result<(), CopyError> {
    let mut reader = response.body_mut().as_reader();
    let (mut buffer, mut total) = (vec![0; 1 << 16], start);
    loop {
        let count = reader.read(&mut buffer).map_err(|error| CopyError::Read(error.to_string()))?;
        if count == 0 {
            return Ok(());
        }
        total += count as u64;
        if total > published + SLACK {
            return Err(CopyError::Read(format!("more than {published} bytes")));
        }
        file.write_all(&buffer[..count]).map_err(CopyError::Write)?;
        counter.advance(count as u64);
    }
}

/// From `bytes 100-199/1000`: 100.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let (range, _) = content_range(headers)?;
    range.split_once('-')?.0.parse().ok()
}

/// From `bytes */1000`: 1000.
fn range_total(headers: &HeaderMap) -> Option<u64> {
    content_range(headers)?.1.parse().ok()
}

fn content_range(headers: &HeaderMap) -> Option<(&str, &str)> {
    headers.get(header::CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?.split_once('/')
}

#[cfg(test)]
mod tests;
