use super::*;
use crate::summary::tests::summary;
use crate::{Change, Evaluation, FORMAT, Machine, Metrics, Position, Progress, Resumed, RunReader};
use expect_test::expect;
use sooner_base::{Epochs, Seed, Updates};
use sooner_plan::Split;
use std::collections::BTreeMap;

pub(crate) fn plan() -> Plan {
    let text = r#"
        name = "test"
        seed = 7
        data = { kind = "shapes", validation = 2000 }
        model = { kind = "softmax" }
        pipeline = { stages = [{ normalize = { mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25] } }, { batch = 64 }] }
        optimizer = { kind = "sgd" }
        schedule = { kind = "constant", learning_rate = 0.1 }
        run = { epochs = 2, target = "val.error<=0.30" }
    "#;
    Plan::parse(text).unwrap()
}

pub(crate) fn header() -> Header {
    Header {
        format: FORMAT,
        sooner: "0.1.0".into(),
        machine: Machine {
            cpu: "a \"CPU\" \u{2122}".into(),
            cores: 2,
            os: "linux".into(),
            arch: "x86_64".into(),
        },
        features: vec!["native".into()],
        kernels: BTreeMap::from([("simd".into(), "avx2+fma".into())]),
        threads: 2,
        seed: Seed(7),
        peak_gflops: 170.5,
        started_unix: Some(1.5e9),
        tuned: None,
    }
}

fn at(updates: u64) -> Position {
    Position { updates: Updates(updates), epochs: Epochs(updates as f64 / 704.0), ..Default::default() }
}

pub(crate) fn progress(updates: u64) -> Line {
    let loss = if updates > 500 { f64::NAN } else { 2.25 };
    Line::Progress(Progress {
        at: at(updates),
        loss,
        learning_rate: 0.1,
        examples_per_second: 3600.0,
        gradient: None,
    })
}

pub(crate) fn evaluation(updates: u64) -> Line {
    let metrics = Metrics::from_sums(Split::Val, 5500.0, 3500, 5000);
    Line::Evaluation(Evaluation { at: at(updates), metrics, met: true, seen: None })
}

#[test]
fn writes_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("runs/new/one");
    let mut writer = RunWriter::create(&folder, &plan(), &header()).unwrap();
    let lines =
        [progress(100), evaluation(176), progress(200), evaluation(704), Line::End(Box::new(summary()))];
    for line in &lines {
        writer.append(line).unwrap();
    }
    writer.sync().unwrap();
    let run = RunReader::open(&folder).unwrap();
    assert_eq!(run.plan, plan());
    assert_eq!(run.log.header, Some(header()));
    assert_eq!(run.log.lines, lines);
    assert_eq!((run.log.partial.clone(), run.log.skipped, run.log.taken_back), (None, 0, 0));
    assert_eq!(run.log.summary(), Some(&summary()));
    assert_eq!(writer.weights_path(), folder.join("weights.safetensors"));
}

#[test]
fn the_lines() {
    let lines = [Line::Run(header()), progress(100), progress(501), evaluation(176)];
    let mut text: String = lines.iter().map(Line::to_text).collect();
    let changed = Change { key: "run.epochs".into(), from: Some("2.0".into()), to: None };
    let resumed = Resumed { updates: Updates(100), run: None, changed: Vec::new() };
    text += &Line::Resumed(resumed.clone()).to_text();
    text += &Line::Resumed(Resumed { changed: vec![changed], ..resumed }).to_text();
    expect![[r#"
        {"line":"run","format":1,"sooner":"0.1.0","machine":{"cpu":"a \"CPU\" ™","cores":2,"os":"linux","arch":"x86_64"},"features":["native"],"kernels":{"simd":"avx2+fma"},"threads":2,"seed":7,"peak_gflops":170.5,"started_unix":1500000000.0}
        {"line":"progress","updates":100,"epochs":0.14204545454545456,"fresh_examples":0,"examples":0,"training_seconds":0.0,"wall_seconds":0.0,"loss":2.25,"learning_rate":0.1,"examples_per_second":3600.0}
        {"line":"progress","updates":501,"epochs":0.7116477272727273,"fresh_examples":0,"examples":0,"training_seconds":0.0,"wall_seconds":0.0,"loss":null,"learning_rate":0.1,"examples_per_second":3600.0}
        {"line":"evaluation","updates":176,"epochs":0.25,"fresh_examples":0,"examples":0,"training_seconds":0.0,"wall_seconds":0.0,"split":"val","loss":1.1,"error":0.3,"accuracy":0.7,"met":true}
        {"line":"resumed","updates":100}
        {"line":"resumed","updates":100,"changed":[{"key":"run.epochs","from":"2.0","to":null}]}
    "#]].assert_eq(&text);
}

#[test]
fn a_folder_with_a_record_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    drop(RunWriter::create(folder.path(), &plan(), &header()).unwrap());
    let before = fs::read(folder.path().join(LOG_FILE)).unwrap();
    let error = RunWriter::create(folder.path(), &plan(), &header()).unwrap_err();
    assert!(matches!(error, RecordError::Exists { file: LOG_FILE, .. }), "{error}");
    assert_eq!(fs::read(folder.path().join(LOG_FILE)).unwrap(), before);
    fs::remove_file(folder.path().join(LOG_FILE)).unwrap();
    let error = RunWriter::create(folder.path(), &plan(), &header()).unwrap_err();
    assert!(matches!(error, RecordError::Exists { file: PLAN_FILE, .. }), "{error}");
}

fn resumed(updates: u64) -> Resumed {
    Resumed { updates: Updates(updates), run: Some(header()), changed: Vec::new() }
}

#[test]
fn a_log_that_was_cut_off_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut writer = RunWriter::create(folder, &plan(), &header()).unwrap();
    [progress(100), evaluation(176), progress(200)].iter().for_each(|line| writer.append(line).unwrap());
    drop(writer);
    let path = folder.join(LOG_FILE);
    let bytes = fs::read(&path).unwrap();
    let ends = (0..bytes.len()).filter(|i| bytes[*i] == b'\n').flat_map(|end| [end, end + 1]);
    for cut in ends.chain((0..bytes.len()).step_by(13)) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let whole = Log::parse(&bytes[..cut], &path).unwrap();
        let mut writer = RunWriter::resume(folder, &plan(), &header(), &resumed(176)).unwrap();
        writer.append(&progress(210)).unwrap();
        writer.sync().unwrap();
        let log = RunReader::open(folder).unwrap().log;
        assert_eq!((log.header, log.partial), (Some(header()), None), "cut at {cut}");
        let kept = whole.lines.into_iter().filter(|line| line.updates() <= Some(Updates(176)));
        let expect: Vec<Line> = kept.chain([Line::Resumed(resumed(176)), progress(210)]).collect();
        assert_eq!(log.lines, expect, "cut at {cut}");
    }
}

#[test]
fn resuming_needs_the_plan_alone_and_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(matches!(RunReader::open_started(folder), Err(RecordError::NoRecord { file: PLAN_FILE, .. })));
    fs::write(folder.join(PLAN_FILE), plan().to_toml()).unwrap();
    assert_eq!(RunReader::open_started(folder).unwrap().log, Log::default());
    let mut longer = plan();
    longer.run.epochs = 7.0;
    // A run that turns out to be unable to go on leaves the record as it was.
    drop(RunWriter::resume(folder, &longer, &header(), &resumed(0)).unwrap());
    let untouched = RunReader::open(folder).unwrap();
    assert_eq!((untouched.plan, untouched.log), (plan(), Log::default()));
    let mut writer = RunWriter::resume(folder, &longer, &header(), &resumed(0)).unwrap();
    writer.begin().unwrap();
    writer.begin().unwrap();
    drop(writer);
    let run = RunReader::open(folder).unwrap();
    assert_eq!((run.plan, run.log.header), (longer, Some(header())));
    assert_eq!(run.log.lines, [Line::Resumed(resumed(0))]);
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(folder.path(), &plan(), &header()).unwrap();
    let resume = || RunWriter::resume(folder.path(), &plan(), &header(), &resumed(0));
    assert!(matches!(resume(), Err(RecordError::Busy { .. })));
    drop(writer);
    let writer = resume().unwrap();
    assert!(matches!(resume(), Err(RecordError::Busy { .. })));
    drop(writer);
    drop(resume().unwrap());
}

#[cfg(unix)]
#[test]
fn a_folder_that_vanishes_is_noticed() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("run");
    let gone = |act: &dyn Fn()| {
        let mut writer = RunWriter::create(&folder, &plan(), &header()).unwrap();
        act();
        writer.append(&progress(1)).unwrap();
        let error = writer.checkpoint(&crate::checkpoint::tests::about(), &[]).unwrap_err();
        assert!(matches!(error, RecordError::Vanished { .. }), "{error}");
        assert!(matches!(writer.sync(), Err(RecordError::Vanished { .. })));
        assert!(!folder.join(CHECKPOINT_FILE).exists());
    };
    gone(&|| fs::remove_dir_all(&folder).unwrap());
    // Another record in its place is none of this run's business.
    gone(&|| {
        fs::rename(&folder, outer.path().join("moved")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(LOG_FILE), "").unwrap();
    });
}

#[test]
fn a_file_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "x").unwrap();
    let error = RunWriter::create(&path, &plan(), &header()).unwrap_err();
    assert!(matches!(error, RecordError::NotAFolder { .. }), "{error}");
    let error = RunWriter::create(&path.join("run"), &plan(), &header()).unwrap_err();
    assert!(matches!(error, RecordError::Write { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"x");
}

/// `/proc` refuses new files even to root, whom permissions do not stop.
#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written() {
    let error = RunWriter::create(Path::new("/proc/sooner-run"), &plan(), &header()).unwrap_err();
    assert!(matches!(&error, RecordError::Write { path, .. } if path.starts_with("/proc")), "{error}");
    assert_eq!(error.complaint().what, "cannot write");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let path = PathBuf::from("/dev/full");
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let mut log = LineFile { path, file, whole: 0, torn: false };
    let error = log.append(&progress(1)).unwrap_err();
    assert!(error.complaint().hint.contains("disk is full"), "{error}");
}

#[test]
fn a_torn_line_is_taken_back_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = LineFile::create(&folder.path().join(LOG_FILE)).unwrap();
    log.append(&Line::Run(header())).unwrap();
    // What a write that failed half-way leaves behind when taking it back failed too.
    log.file.write_all(br#"{"line":"progr"#).unwrap();
    log.torn = true;
    log.append(&progress(1)).unwrap();
    let read = crate::Log::parse(&fs::read(&log.path).unwrap(), &log.path).unwrap();
    assert_eq!(read.lines, [progress(1)]);
}
