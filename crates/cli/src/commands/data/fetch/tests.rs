use super::*;

#[path = "../../../../tests/support/server.rs"]
mod server;

use server::{Manners, Server};
use tempfile::TempDir;

/// Without a proxy that the environment may name, and with short waits.
fn test_agent() -> Agent {
    let wait = Some(Duration::from_secs(10));
    let config = Agent::config_builder().http_status_as_error(false).proxy(None);
    config.timeout_connect(wait).timeout_recv_response(wait).timeout_per_read(wait).build().new_agent()
}

fn content() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(i) % 251) as u8).collect()
}

struct Case {
    folder: TempDir,
    addresses: Vec<String>,
    md5: String,
    bytes: u64,
}

impl Case {
    fn new(addresses: &[&str]) -> Case {
        let (md5, bytes) = md5_of(&content()[..]).unwrap();
        let addresses = addresses.iter().map(|folder| format!("{folder}set.bin")).collect();
        Case { folder: TempDir::new().unwrap(), addresses, md5, bytes }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("set.bin")
    }

    fn part(&self) -> PathBuf {
        self.folder.path().join("set.bin.part")
    }

    fn fetch(&self) -> Result<Fetched, Problem> {
        let file = self.file();
        let target = Target { addresses: &self.addresses, file: &file, bytes: self.bytes, md5: &self.md5 };
        fetch(&test_agent(), &target, &Counter::of_bytes(self.bytes))
    }

    /// The whole file is there, and nothing else.
    fn is_there(&self) {
        assert_eq!(fs::read(self.file()).unwrap(), content());
        assert!(!self.part().exists());
    }

    /// What each address said.
    fn refusal(&self) -> String {
        let failure = self.fetch().unwrap_err().failure("bring it by hand");
        assert!(!self.file().exists());
        failure.to_string()
    }
}

fn serve(manners: Manners) -> Server {
    Server::start(vec![("set.bin".into(), content())], manners)
}

fn ranges(cuts: &[usize]) -> Manners {
    Manners { ranges: true, cuts: cuts.to_vec(), ..Manners::default() }
}

#[test]
fn files_arrive_whole() {
    let server = serve(Manners::default());
    let case = Case::new(&[server.address()]);
    let fetched = case.fetch().unwrap();
    assert!(fetched.as_published);
    case.is_there();
    assert_eq!(server.asked(), ["set.bin"]);
}

#[test]
fn broken_downloads_go_on_where_they_were() {
    let server = serve(ranges(&[100_000, 50_000]));
    let case = Case::new(&[server.address()]);
    assert!(case.fetch().unwrap().as_published);
    case.is_there();
    assert_eq!(server.asked(), ["set.bin", "set.bin from 100000", "set.bin from 150000"]);
}

#[test]
fn another_run_goes_on_too() {
    let server = serve(ranges(&[]));
    let case = Case::new(&[server.address()]);
    fs::write(case.part(), &content()[..299_999]).unwrap();
    assert!(case.fetch().unwrap().as_published);
    case.is_there();
    assert_eq!(server.asked(), ["set.bin from 299999"]);
    // All of it was there, but for the last word.
    fs::rename(case.file(), case.part()).unwrap();
    assert!(case.fetch().unwrap().as_published);
    case.is_there();
    assert_eq!(server.asked()[1..], ["set.bin from 300000"]);
}

#[test]
fn servers_without_ranges_start_over() {
    let server = serve(Manners::default());
    let case = Case::new(&[server.address()]);
    fs::write(case.part(), &content()[..1000]).unwrap();
    assert!(case.fetch().unwrap().as_published);
    case.is_there();
}

#[test]
fn beginnings_of_another_file_are_dropped() {
    for (beginning, asked) in [
        (vec![1; 1000], vec!["set.bin from 1000", "set.bin"]),
        (vec![1; 300_000], vec!["set.bin from 300000", "set.bin"]),
        (vec![1; 300_001], vec!["set.bin from 300001", "set.bin"]),
    ] {
        let server = serve(ranges(&[]));
        let case = Case::new(&[server.address()]);
        fs::write(case.part(), beginning).unwrap();
        assert!(case.fetch().unwrap().as_published);
        case.is_there();
        assert_eq!(server.asked(), asked);
    }
}

#[test]
fn parts_that_begin_elsewhere_are_not_believed() {
    let server = serve(Manners { ranges: true, shift: 5, ..Manners::default() });
    let case = Case::new(&[server.address()]);
    fs::write(case.part(), &content()[..1000]).unwrap();
    assert!(case.fetch().unwrap().as_published);
    case.is_there();
    assert_eq!(server.asked(), ["set.bin from 1000", "set.bin"]);
}

#[test]
fn other_content_is_told() {
    let server = serve(Manners::default());
    let case = Case { md5: "0".repeat(32), ..Case::new(&[server.address()]) };
    let fetched = case.fetch().unwrap();
    assert!(!fetched.as_published);
    assert!(fetched.found.starts_with("300000 bytes with MD5 "), "{}", fetched.found);
}

#[test]
fn the_next_address_is_asked() {
    let (empty, server) = (Server::start(Vec::new(), Manners::default()), serve(Manners::default()));
    let case = Case::new(&[empty.address(), server.address()]);
    assert_eq!(case.fetch().unwrap().address, case.addresses[1]);
    case.is_there();
    assert_eq!(empty.asked(), ["set.bin"]);
}

#[test]
fn without_network_the_way_by_hand_is_told() {
    let empty = Server::start(Vec::new(), Manners::default());
    // A port that was free a moment ago, and that nobody listens on.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let case = Case::new(&[empty.address(), &format!("http://{closed}/")]);
    let text = case.refusal();
    assert!(text.contains("status 404 Not Found"), "{text}");
    assert!(text.contains("refused"), "{text}");
    assert!(text.ends_with("hint: bring it by hand"), "{text}");
}

#[test]
fn a_server_that_never_ends_well_is_given_up_on_and_the_start_kept() {
    let server = serve(ranges(&[10_000, 10_000, 10_000, 10_000, 10_000, 10_000]));
    let case = Case::new(&[server.address()]);
    let text = case.refusal();
    assert!(text.contains("50000 of 300000 bytes are kept"), "{text}");
    assert_eq!(fs::read(case.part()).unwrap(), &content()[..50_000]);
    assert_eq!(server.asked().len(), TRIES);
    // The next run goes on.
    assert!(case.fetch().unwrap().as_published);
    case.is_there();
    // One that brings nothing is asked once.
    let silent = serve(ranges(&[0, 0, 0]));
    let case = Case::new(&[silent.address()]);
    case.refusal();
    assert_eq!(silent.asked(), ["set.bin"]);
}

#[test]
fn endless_files_are_cut() {
    let server = serve(Manners::default());
    let case = Case { bytes: 0, ..Case::new(&[server.address()]) };
    let mut buffer = File::create(case.part()).unwrap();
    let response = test_agent().get(&case.addresses[0]).call().unwrap();
    let counter = Counter::of_bytes(0);
    let copied = copy(response, &mut buffer, 0, (SLACK - 1000, &counter));
    assert!(matches!(copied, Err(CopyError::Read(what)) if what == "more than 0 bytes"));
}

#[test]
fn a_folder_that_is_gone_is_said() {
    let server = serve(Manners::default());
    let case = Case::new(&[server.address()]);
    let file = case.folder.path().join("gone").join("set.bin");
    let target = Target { addresses: &case.addresses, file: &file, bytes: case.bytes, md5: &case.md5 };
    let problem = fetch(&test_agent(), &target, &Counter::of_bytes(1)).unwrap_err();
    let text = problem.failure("").to_string();
    assert!(text.contains("set.bin.part: cannot write"), "{text}");
}
