use super::*;
use crate::source::published::blocks::BLOCK;
use sooner_plan::Complaint;

fn complaint(error: &PipelineError) -> String {
    let Complaint { place, expected, found, .. } = error.complaint();
    format!("{place}: expected {expected}, found {found}")
}

fn refusal(file: &PublishedFile, content: &[u8]) -> String {
    complaint(&file.verify(Path::new("F"), content).unwrap_err())
}

#[test]
fn hashes_are_those_of_the_standards() {
    assert_eq!(md5_of(&b"abc"[..]).unwrap(), ("900150983cd24fb0d6963f7d28e17f72".to_string(), 3));
    assert_eq!(
        hex(&Sha256::digest(b"abc")),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn tables_agree_with_themselves() {
    let hexadecimal = |text: &str| text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    for set in sets() {
        let of_split = |split| set.files.iter().any(|file| file.split == split);
        assert!(of_split(Split::Train) && of_split(Split::Test), "{}", set.name);
        for file in set.files {
            assert_eq!(file.blocks.len() as u64, file.bytes.div_ceil(BLOCK as u64), "{}", file.name);
            assert!(file.md5.len() == 32 && hexadecimal(file.md5), "{}", file.name);
            assert!(file.sha256.len() == 64 && hexadecimal(file.sha256), "{}", file.name);
            let from = set.downloads.iter().filter(|download| download.files.contains(&file.name)).count();
            assert_eq!(from, 1, "{} comes from one download", file.name);
        }
        for download in set.downloads {
            assert!(download.md5.len() == 32 && hexadecimal(download.md5), "{}", download.name);
            assert!(download.files.iter().all(|name| set.files.iter().any(|file| file.name == *name)));
            assert!(!download.addresses.is_empty() && download.addresses.iter().all(|a| a.ends_with('/')));
        }
    }
}

#[test]
fn the_first_difference_is_named() {
    let labels = &sets()[0].files[1];
    assert_eq!((labels.name, labels.bytes), ("train-labels-idx1-ubyte", 60_008));
    let header = [0u8, 0, 8, 1, 0, 0, 0xea, 0x60];
    let mut content = [&header[..], &[7; 60_000]].concat();
    let expect = |content: &[u8], expected: &str| assert_eq!(refusal(labels, content), expected);
    expect(&[], "F, byte 0: expected 60008 bytes, found an empty file");
    expect(&content[..9], "F, byte 9: expected 60008 bytes, found the end of the file after 9");
    expect(&[&content[..], &[1]].concat(), "F, byte 60008: expected 60008 bytes, found more");
    let found = refusal(labels, &content);
    assert!(found.starts_with("F, byte 0: expected bytes 0 to 60007 with CRC-32 "), "{found}");
    content[100] = 10;
    expect(&content, "F, byte 100: expected a label from 0 to 9, found 10");
    content[3] = 3;
    expect(
        &content,
        "F, byte 0: expected the magic number 0x00000801 of unsigned bytes in 1 dimensions, found 0x00000803",
    );
    let records = &sets()[2].files[5];
    let mut content = vec![0; 30_730_000];
    content[3 * 3073] = 11;
    assert_eq!(refusal(records, &content), "F, byte 9219: expected a label from 0 to 9, found 11");
}

/// A made file of three blocks, verified, then with a byte of the second and of the third changed.
#[test]
fn differences_are_named_to_the_block() {
    let content: Vec<u8> =
        (0..2 * BLOCK + 3073 * 100).map(|i| if i % 3073 == 0 { 3 } else { i as u8 }).collect();
    let crcs = content.chunks(BLOCK).map(|block| {
        let mut crc = Crc::new();
        crc.update(block);
        crc.sum()
    });
    let file = PublishedFile {
        name: "made",
        split: Split::Train,
        bytes: content.len() as u64,
        md5: hex(&Md5::digest(&content)).leak(),
        sha256: hex(&Sha256::digest(&content)).leak(),
        form: Form::Records,
        blocks: crcs.collect::<Vec<_>>().leak(),
    };
    let verified = file.verify(Path::new("F"), &content).unwrap();
    assert_eq!((verified.bytes, verified.md5.as_str()), (file.bytes, file.md5));
    for (changed, block) in
        [(0usize, 0), (BLOCK - 1, 0), (BLOCK, 1), (2 * BLOCK - 1, 1), (content.len() - 1, 2)]
    {
        let mut content = content.clone();
        // No label, so that only the checksum can tell.
        let at = if changed % 3073 == 0 { changed + 1 } else { changed };
        content[at] ^= 0x10;
        let place = format!("F, byte {}: expected bytes {} to ", block * BLOCK, block * BLOCK);
        let found = refusal(&file, &content);
        assert!(found.starts_with(&place), "{changed}: {found}");
    }
    let other = PublishedFile { md5: "00000000000000000000000000000000", ..file };
    assert!(refusal(&other, &content).starts_with("F, byte 0: expected a file with MD5 0000"));
}

#[test]
fn sets_that_are_not_there_say_what_is_missing() {
    let folder = tempfile::TempDir::new().unwrap();
    for set in sets() {
        let error = set.check(folder.path()).unwrap_err();
        assert!(matches!(error, PipelineError::Missing { .. }), "{error}");
        assert!(complaint(&error).ends_with("found an empty folder"), "{error}");
    }
}
