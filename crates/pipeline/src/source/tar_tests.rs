//! Archives made byte by byte, the way several programs write them.

use super::*;

fn header(name: &str, kind: u8, size: &str, link: &str) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..124 + size.len()].copy_from_slice(size.as_bytes());
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    seal(header)
}

fn seal(mut header: [u8; BLOCK]) -> [u8; BLOCK] {
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn member(name: &str, kind: u8, content: &[u8], link: &str) -> Vec<u8> {
    let mut bytes = header(name, kind, &format!("{:011o}", content.len()), link).to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// `name kind size@data`, one a member, then how it ended.
fn read(archive: &[u8]) -> String {
    let mut members = Members::new(archive);
    let mut all = Vec::new();
    loop {
        match members.next() {
            Ok(Some(member)) => {
                let kind = match &member.kind {
                    Kind::File => "file".to_string(),
                    Kind::Folder => "folder".to_string(),
                    Kind::Hard(to) => format!("= {to}"),
                    Kind::Symbolic(to) => format!("-> {to}"),
                    Kind::Other => "other".to_string(),
                };
                all.push(format!("{} {kind} {}@{}", member.name, member.size, member.data));
            }
            Ok(None) => all.push("end".into()),
            Err(TarError::Cut { offset, expected }) => all.push(format!("cut at {offset}: {expected}")),
            Err(TarError::Malformed { offset, expected, found }) => {
                all.push(format!("at {offset}: expected {expected}, found {found}"))
            }
            Err(TarError::Io(..)) => all.push("failed".into()),
        }
        if !all.last().is_some_and(|line| line.contains('@')) {
            return all.join("; ");
        }
    }
}

const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

fn check(parts: &[&[u8]], expect: &str) {
    assert_eq!(read(&parts.concat()), expect);
}

#[test]
fn kinds_of_members() {
    check(&[&END], "end");
    check(&[&member("a.jpg", b'0', b"xyz", ""), &END], "a.jpg file 3@512; end");
    check(&[&member("./a/b.jpg", 0, &[1; 512], ""), &END], "a/b.jpg file 512@512; end");
    check(
        &[&member("./", b'5', b"", ""), &member("/d", b'5', b"", ""), &END],
        " folder 0@512; d folder 0@1024; end",
    );
    check(&[&member("old/", 0, b"", ""), &END], "old/ folder 0@512; end");
    check(&[&member("h", b'1', b"", "./a.jpg"), &END], "h = a.jpg 0@512; end");
    check(&[&member("d/s", b'2', b"", "../a.jpg"), &END], "d/s -> ../a.jpg 0@512; end");
    check(&[&member("pipe", b'6', b"", ""), &END], "pipe other 0@512; end");
    check(
        &[&member("empty", b'0', b"", ""), &member("b", b'0', b"1", ""), &END],
        "empty file 0@512; b file 1@1024; end",
    );
}

/// A hard link may claim the size of what it names; its content is not there.
#[test]
fn hard_links_have_no_content() {
    let link = header("h", b'1', "00000001000", "a");
    check(&[&link, &member("b", b'0', b"1", ""), &END], "h = a 0@512; b file 1@1024; end");
}

#[test]
fn long_names() {
    let long = format!("{}/{}.jpg", "folder".repeat(30), "\u{e9}".repeat(80));
    let gnu = member("././@LongLink", b'L', format!("{long}\0").as_bytes(), "");
    check(&[&gnu, &member("cut", b'0', b"1", ""), &END], &format!("{long} file 1@{}; end", 512 + 512 + 512));
    let pax = member("PaxHeader/cut", b'x', record("path", &long).as_bytes(), "");
    check(&[&pax, &member("cut", b'0', b"1", ""), &END], &format!("{long} file 1@1536; end"));
    let link = member("././@LongLink", b'K', format!("{long}\0").as_bytes(), "");
    check(&[&link, &member("s", b'2', b"", "cut"), &END], &format!("s -> {long} 0@1536; end"));
    let mut prefixed = header("c.jpg", b'0', "0", "");
    prefixed[345..350].copy_from_slice(b"a/bbb");
    check(&[&seal(prefixed), &END], "a/bbb/c.jpg file 0@512; end");
    // In GNU's own form something else stands there.
    prefixed[257..265].copy_from_slice(b"ustar  \0");
    check(&[&seal(prefixed), &END], "c.jpg file 0@512; end");
}

#[test]
fn records_last_for_one_member_and_global_ones_for_all() {
    let local = member("x", b'x', record("path", "local").as_bytes(), "");
    let global = member("g", b'g', record("path", "global").as_bytes(), "");
    let a = member("a", b'0', b"", "");
    check(&[&local, &a, &a, &END], "local file 0@1536; a file 0@2048; end");
    check(
        &[&global, &a, &local, &a, &a, &END],
        "global file 0@1536; local file 0@3072; global file 0@3584; end",
    );
    let wrong = member("x", b'x', b"99 path=a\n", "");
    check(&[&wrong, &a], "at 512: expected a PAX record, found other bytes");
}

/// Headers of members larger than 8 GiB, which octal digits cannot say; nothing is read or allocated for them.
#[test]
fn members_over_4_gib() {
    let mut large = header("large", b'0', "0", "");
    large[124] = 0x80;
    large[125..136].copy_from_slice(&[0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 7]);
    let size = (5u64 << 32) + 7;
    let bytes = seal(large);
    let mut members = Members::new(&bytes[..]);
    assert_eq!(members.next().unwrap().unwrap().size, size);
    let mut content = Vec::new();
    let member = Member { name: "large".into(), kind: Kind::File, size, offset: 0, data: 512 };
    assert!(matches!(members.content(&member, &mut content), Err(TarError::Cut { offset: 512, .. })));
    let pax = member_of_size(5 << 30);
    assert_eq!(Members::new(&pax[..]).next().unwrap().unwrap().size, 5 << 30);
    check(&[&bytes], "large file 21474836487@512; cut at 512: content up to byte 21474837504");
    let octal = header("large", b'0', "50000000000", "");
    assert_eq!(Members::new(&octal[..]).next().unwrap().unwrap().size, 5 << 30);
}

fn member_of_size(size: u64) -> Vec<u8> {
    let pax = member("x", b'x', record("size", &size.to_string()).as_bytes(), "");
    [&pax[..], &header("large", b'0', "0", "")].concat()
}

#[test]
fn cut_anywhere_is_noticed() {
    let whole = [&member("a", b'0', b"xyz", "")[..], &member("b", b'0', b"1", ""), &END].concat();
    for len in 0..2 * (512 + 512) {
        let text = read(&whole[..len]);
        assert!(text.contains("cut at"), "{len}: {text}");
    }
    check(&[b""], "cut at 0: a member or the end-of-archive mark, 1,024 zero bytes");
    assert_eq!(read(&whole), "a file 3@512; b file 1@1536; end");
}

#[test]
fn what_is_no_archive_is_refused() {
    check(&[&[b'x'; 600]], "at 0: expected a tar header with the sum of its bytes, found other bytes");
    let mut damaged = member("a", b'0', b"xyz", "");
    damaged[3] ^= 1;
    check(&[&damaged], "at 0: expected a tar header with the sum of its bytes, found other bytes");
    let wrong = seal(header("a", b'0', "9", ""));
    check(&[&wrong], "at 124: expected a number, found \"9\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\"");
    let holes = member("a", b'S', b"", "");
    check(&[&holes], "at 0: expected a member stored whole, found one with holes left out (sparse)");
}

#[test]
fn what_is_written_is_read() {
    let mut bytes = Vec::new();
    let long = "\u{e9}".repeat(90);
    write_member(&mut bytes, "a.jpg", b"xyz").unwrap();
    write_member(&mut bytes, &long, &[7; 1000]).unwrap();
    write_end(&mut bytes).unwrap();
    assert_eq!(read(&bytes), format!("a.jpg file 3@512; {long} file 1000@2560; end"));
    let mut members = Members::new(&bytes[..]);
    let first = members.next().unwrap().unwrap();
    let mut content = Vec::new();
    members.content(&first, &mut content).unwrap();
    assert_eq!(content, b"xyz");
}
