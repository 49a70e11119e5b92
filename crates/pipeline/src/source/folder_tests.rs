//! Folders made for the purpose: what is found, in which order, and what is said of the rest.

use super::*;
use sooner_base::Bytes;
use sooner_plan::ImagesPlan;
use tempfile::TempDir;

fn folder(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        if file.ends_with('/') {
            fs::create_dir_all(&path).unwrap();
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    folder
}

fn listed(manifest: &Manifest) -> String {
    let files = manifest.files.iter().map(|(path, label)| format!("{label} {path}"));
    files.collect::<Vec<_>>().join(", ")
}

fn check(files: &[&str], expect: &str) {
    let manifest = Manifest::scan(folder(files).path(), None).unwrap();
    assert_eq!(listed(&manifest), expect);
}

#[test]
fn classes_and_files_are_sorted_byte_by_byte() {
    check(&["b/2.jpg", "b/10.jpg", "a/x.PNG", "B/y.jpeg"], "0 B/y.jpeg, 1 a/x.PNG, 2 b/10.jpg, 2 b/2.jpg");
    check(&["\u{e9}/1.jpg", "z/1.jpg"], "0 z/1.jpg, 1 \u{e9}/1.jpg");
    check(&["a/deep/er/1.jpg", "a/1.jpg", "a/deep-1.jpg"], "0 a/1.jpg, 0 a/deep-1.jpg, 0 a/deep/er/1.jpg");
}

#[test]
fn what_is_no_image_is_counted() {
    let folder = folder(&["a/1.jpg", "a/notes.txt", "a/._1.jpg", ".hidden/1.jpg", "README.md", "a/noext"]);
    let manifest = Manifest::scan(folder.path(), None).unwrap();
    assert_eq!(listed(&manifest), "0 a/1.jpg");
    assert!(matches!(&manifest.notices[..], [Notice::Ignored { files: 5, .. }]), "{:?}", manifest.notices);
}

#[test]
fn empty_classes_keep_their_number() {
    let folder = folder(&["a/1.jpg", "b/", "c/1.jpg"]);
    let manifest = Manifest::scan(folder.path(), None).unwrap();
    assert_eq!(listed(&manifest), "0 a/1.jpg, 2 c/1.jpg");
    assert!(matches!(&manifest.notices[..], [Notice::EmptyClass { class, .. }] if class == "b"));
}

/// The other splits take the training folder's classes: one without files does not move the others.
#[test]
fn one_class_list_for_all_splits() {
    let classes = ["a", "b", "c"].map(String::from);
    let val = folder(&["a/1.jpg", "c/1.jpg"]);
    let manifest = Manifest::scan(val.path(), Some(&classes)).unwrap();
    assert_eq!(listed(&manifest), "0 a/1.jpg, 2 c/1.jpg");
    assert!(matches!(&manifest.notices[..], [Notice::EmptyClass { class, .. }] if class == "b"));
    let other = folder(&["a/1.jpg", "d/1.jpg"]);
    let error = Manifest::scan(other.path(), Some(&classes)).unwrap_err().complaint();
    assert!(error.expected.contains("a, b, c") && error.found.contains("folder d"), "{error}");
}

#[test]
fn hashes_tell_lists_apart() {
    let of = |files: &[&str]| Manifest::scan(folder(files).path(), None).unwrap();
    let (a, b, c) = (of(&["a/1.jpg", "b/1.jpg"]), of(&["a/1.jpg", "b/2.jpg"]), of(&["ab/1.jpg"]));
    assert_eq!(a.class_hash(), b.class_hash());
    assert_ne!(a.file_hash(), b.file_hash());
    assert_ne!(a.class_hash(), c.class_hash());
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    use std::os::unix::fs::symlink;
    let folder = folder(&["a/1.jpg", "a/deep/", "b/2.jpg"]);
    let at = |path: &str| folder.path().join(path);
    symlink("../..", at("a/deep/up")).unwrap();
    symlink(".", at("a/self")).unwrap();
    symlink("nothing", at("a/broken.jpg")).unwrap();
    symlink("ring.jpg", at("a/ring.jpg")).unwrap();
    symlink("../b/2.jpg", at("a/other.jpg")).unwrap();
    symlink("../b", at("a/all")).unwrap();
    let manifest = Manifest::scan(folder.path(), None).unwrap();
    assert_eq!(listed(&manifest), "0 a/1.jpg, 0 a/all/2.jpg, 0 a/other.jpg, 1 b/2.jpg");
    let loops = manifest.notices.iter().filter(|notice| matches!(notice, Notice::Loop { .. })).count();
    assert_eq!(loops, 2);
    assert!(manifest.notices.iter().any(|notice| matches!(notice, Notice::Ignored { files: 2, .. })));
}

#[test]
fn folders_without_classes_say_so() {
    for (files, expect) in
        [(&["1.jpg", "2.jpg"][..], "a folder for each class"), (&[][..], "a folder for each class")]
    {
        let error = Manifest::scan(folder(files).path(), None).unwrap_err().complaint();
        assert!(error.expected.contains(expect), "{error}");
    }
    assert!(matches!(Manifest::scan(Path::new("/no/such/folder"), None), Err(PipelineError::Read { .. })));
}

/// A damaged file is an error that names it; reading writes nothing, so that the folder may be read-only.
#[test]
fn bad_files_are_named() {
    let folder = folder(&["a/1.jpg", "b/2.jpg"]);
    let manifest = Manifest::scan(folder.path(), None).unwrap();
    let decoder = Decoder::new(&ImagesPlan::default(), Bytes(1 << 20));
    let source = ImageFolder::new(folder.path(), Split::Train, manifest, decoder, None);
    let (mut bytes, mut image, go) = (Vec::new(), Image::default(), AtomicBool::new(false));
    source.read(1, &mut bytes, &go).unwrap();
    let error = source.decode(1, &bytes, None, &mut image).unwrap_err().complaint();
    assert!(error.place.contains("b/2.jpg, byte 0") && error.found == "bytes 78", "{error}");
    fs::remove_file(folder.path().join("b/2.jpg")).unwrap();
    assert!(source.read(1, &mut bytes, &go).unwrap_err().to_string().contains("2.jpg"));
    go.store(true, Ordering::Relaxed);
    assert!(source.read(0, &mut bytes, &go).is_err());
}
