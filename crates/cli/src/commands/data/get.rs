//! `sooner data get`: fetches what is missing of a set, unpacks it and checks every byte. Files that are there and right
//! are left alone; an interrupted download goes on where it was.

use super::fetch::{Fetched, Target, agent, fetch};
use super::{megabytes, report, set_named};
use crate::args::DataGetArgs;
use crate::fail::Failure;
use crate::progress::Counter;
use anyhow::Context;
use sooner_pipeline::PipelineError;
use sooner_pipeline::published::{Download, PublishedFile, PublishedSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(args: &DataGetArgs) -> anyhow::Result<ExitCode> {
    let set = set_named(&args.set.name)?;
    let from = args.from.as_deref().map(address).transpose()?;
    // Killed by the signal, a process would leave the terminal's cursor hidden and another code than 130.
    ctrlc::set_handler(|| std::process::exit(130)).context("cannot watch for Ctrl-C")?;
    // Files or archives may lie in the folder itself already, brought by hand.
    if set.check(&args.set.dir).is_err() {
        let folder = args.set.dir.join(set.folder);
        fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
        let missing: Vec<&Download> =
            set.downloads.iter().filter(|download| !is_complete(set, download, &folder)).collect();
        let counter = Counter::of_bytes(missing.iter().map(|download| download.bytes).sum());
        for download in missing {
            get(set, download, (&args.set.dir, &folder), (from.as_deref(), &counter))?;
        }
        counter.clear();
    }
    let checked = set.check(&args.set.dir)?;
    if args.set.json {
        println!("{}", report(set, &checked));
    } else {
        println!("{}: all {} files are there and right", set.name, checked.files.len());
        println!("train on them with --data {}", args.set.dir.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// A folder on the web, ending in a slash.
fn address(from: &str) -> Result<String, Failure> {
    if !(from.starts_with("http://") || from.starts_with("https://")) {
        let fields = ["an address that begins with http:// or https://", &format!("`{from}`"), ""];
        return Err(Failure::usage("not an address", "--from", fields));
    }
    Ok(format!("{}/", from.trim_end_matches('/')))
}

/// Whether all files of a download are in the folder, unpacked and right.
fn is_complete(set: &'static PublishedSet, download: &Download, folder: &Path) -> bool {
    let files = set.files.iter().filter(|file| download.files.contains(&file.name));
    files.into_iter().all(|file| {
        let path = folder.join(file.name);
        fs::read(&path).is_ok_and(|bytes| file.verify(&path, &bytes).is_ok())
    })
}

/// Fetches one packed file, unless the user has brought it, and unpacks it.
fn get(
    set: &'static PublishedSet,
    download: &Download,
    (dir, folder): (&Path, &Path),
    (from, counter): (Option<&str>, &Counter),
) -> anyhow::Result<()> {
    let brought =
        [dir, folder].map(|place| place.join(download.name)).into_iter().find(|path| path.is_file());
    if let Some(path) = brought {
        counter.advance(download.bytes);
        return Ok(unpack(set, download, &path, folder)?);
    }
    let addresses: Vec<String> = match from {
        Some(from) => vec![format!("{from}{}", download.name)],
        None => download.addresses.iter().map(|address| format!("{address}{}", download.name)).collect(),
    };
    let file = folder.join(download.name);
    let target = Target { addresses: &addresses, file: &file, bytes: download.bytes, md5: download.md5 };
    let by_hand = format!(
        "without network, bring {} ({}) from {} to {} and run this again",
        download.name,
        megabytes(download.bytes),
        download.addresses[0],
        dir.display(),
    );
    let fetched = fetch(&agent(), &target, counter).map_err(|problem| problem.failure(&by_hand))?;
    let unpacked = unpack(set, download, &file, folder);
    // Loaders read files faster than archives, and a wrong archive must not be taken for a right one next time.
    fs::remove_file(&file).map_err(|error| cannot_write(&file, &error))?;
    match (unpacked, fetched) {
        (Ok(()), _) => Ok(()),
        (Err(GetError::Data(error)), Fetched { as_published: false, address, found }) => {
            let expected = format!("{} bytes with MD5 {}", download.bytes, download.md5);
            let fault = error.complaint();
            let found = format!("{found}: {} in place of {} at {}", fault.found, fault.expected, fault.place);
            let fields =
                [expected.as_str(), found.as_str(), "nothing was kept; try another mirror with --from"];
            Err(Failure::world("what was downloaded is not what was published", &address, fields).into())
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// What can go wrong in unpacking.
#[derive(Debug, thiserror::Error)]
enum GetError {
    /// What was downloaded.
    #[error(transparent)]
    Data(#[from] PipelineError),
    /// The disk.
    #[error(transparent)]
    Disk(Failure),
}

/// Verifies each file of a packed one and writes it into the folder, whole or not at all.
fn unpack(
    set: &'static PublishedSet,
    download: &Download,
    packed: &Path,
    folder: &Path,
) -> Result<(), GetError> {
    set.visit_download(download, packed, |file: &PublishedFile, place, content| {
        file.verify(place, content)?;
        let path = folder.join(file.name);
        write_whole(&path, content).map_err(|error| GetError::Disk(cannot_write(&path, &error)))
    })
}

fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let part = PathBuf::from(format!("{}.part", path.display()));
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Best effort: the disk may be full because of it.
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    fs::rename(&part, path)
}

pub(super) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let fields = ["a place that can be written, with space", &error.to_string(), "choose another folder"];
    Failure::world("cannot write", &path.display().to_string(), fields)
}
