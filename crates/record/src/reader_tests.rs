use super::*;
use crate::summary::tests::summary;
use crate::writer::tests::{evaluation, header, plan, progress};
use crate::{Resumed, RunWriter};
use proptest::prelude::*;
use sooner_base::Updates;

fn resumed(updates: u64) -> Line {
    Line::Resumed(Resumed { updates: Updates(updates), run: None, changed: Vec::new() })
}

fn whole() -> (Vec<Line>, String) {
    let lines = vec![progress(100), evaluation(176), progress(200), Line::End(Box::new(summary()))];
    let text = std::iter::once(Line::Run(header())).chain(lines.clone()).map(|l| l.to_text()).collect();
    (lines, text)
}

fn parse(text: &[u8]) -> Result<Log, RecordError> {
    Log::parse(text, Path::new("run.jsonl"))
}

#[test]
fn cut_at_every_byte() {
    let (lines, text) = whole();
    let ends: Vec<usize> =
        text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1).collect();
    assert_eq!(ends.len(), 1 + lines.len());
    for cut in 0..=text.len() {
        let log = parse(&text.as_bytes()[..cut]).unwrap();
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(log.header, (complete > 0).then(header), "cut at {cut}");
        assert_eq!(log.lines, lines[..complete.saturating_sub(1)], "cut at {cut}");
        let begin = if complete == 0 { 0 } else { ends[complete - 1] };
        let partial = Partial { line: complete + 1, byte: begin, bytes: cut - begin };
        assert_eq!(log.partial, (cut > begin).then_some(partial), "cut at {cut}");
    }
}

#[test]
fn resuming_takes_lines_back() {
    let text: String = [
        Line::Run(header()),
        progress(100),
        evaluation(176),
        progress(200),
        resumed(176),
        progress(200),
        evaluation(352),
        Line::End(Box::new(summary())),
        resumed(100),
        progress(300),
    ]
    .iter()
    .map(Line::to_text)
    .collect();
    let log = parse(text.as_bytes()).unwrap();
    assert_eq!(log.lines, [progress(100), resumed(176), resumed(100), progress(300)]);
    assert_eq!((log.taken_back, log.summary()), (1 + 4, None));
}

#[test]
fn the_end_is_taken_back_even_by_resuming_there() {
    let end = Line::End(Box::new(summary()));
    let text = [Line::Run(header()), end, resumed(704)].iter().map(Line::to_text).collect::<String>();
    assert_eq!(parse(text.as_bytes()).unwrap().lines, [resumed(704)]);
}

#[test]
fn unknown_kinds_and_fields_are_skipped() {
    let (lines, text) = whole();
    let text = text.replacen('\n', "\n{\"line\":\"checkpoint\",\"updates\":50}\n", 1);
    let text = text.replace("\"learning_rate\"", "\"gradient_norm\":1.5,\"learning_rate\"");
    let log = parse(text.as_bytes()).unwrap();
    assert_eq!((log.lines, log.skipped), (lines, 1));
}

fn check_error(text: &str, expect: &str) {
    assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), expect);
}

#[test]
fn damage_names_its_line() {
    let first = Line::Run(header()).to_text();
    let byte = first.len();
    let place = format!("run.jsonl: line 2 (byte {byte}) cannot be read");
    check_error(&format!("{first}{{}}\n"), &format!("{place}: it has no key `line`"));
    check_error(
        &format!("{first}\n{first}"),
        &format!("{place}: EOF while parsing a value at line 1 column 0"),
    );
    check_error(&format!("{first}{first}"), &format!("{place}: a second `run` line"));
    check_error(&format!("{first}{{\"line\":\"resumed\"}}\n"), &format!("{place}: missing field `updates`"));
    let place = "run.jsonl: line 1 (byte 0) cannot be read";
    check_error(&progress(1).to_text(), &format!("{place}: the first line is not `run`"));
    check_error("{\"line\":\"run\"}\n", &format!("{place}: it has no format number"));
    check_error("\0\0\0\0\n", &format!("{place}: expected value at line 1 column 1"));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let text = Line::Run(header()).to_text().replace("\"format\":1", "\"format\":2");
    check_error(&text, "run.jsonl has format 2; this version reads up to 1: use a newer sooner");
}

#[test]
fn folders_without_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let error = RunReader::open(folder.path()).unwrap_err();
    assert!(matches!(error, RecordError::NoRecord { file: PLAN_FILE, .. }), "{error}");
    drop(RunWriter::create(folder.path(), &plan(), &header()).unwrap());
    fs::write(folder.path().join(PLAN_FILE), "name = \"test\"\nsede = 1\n").unwrap();
    let error = RunReader::open(folder.path()).unwrap_err();
    let place = error.complaint().place;
    assert!(place.contains("plan.toml: line 2, column 1, `sede`"), "{place}");
    fs::write(folder.path().join(PLAN_FILE), b"\xff").unwrap();
    assert!(matches!(RunReader::open(folder.path()).unwrap_err(), RecordError::Read { .. }));
    fs::write(folder.path().join(PLAN_FILE), plan().to_toml()).unwrap();
    fs::remove_file(folder.path().join(LOG_FILE)).unwrap();
    let error = RunReader::open(folder.path()).unwrap_err();
    assert!(matches!(error, RecordError::NoRecord { file: LOG_FILE, .. }), "{error}");
}

proptest! {
    /// Damage anywhere is an error or is not noticed, but never a panic.
    #[test]
    fn no_damage_panics(at in 0usize..2000, byte in any::<u8>()) {
        let mut text = whole().1.into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let _ = parse(&text);
    }

    #[test]
    fn losses_round_trip(loss in any::<f64>()) {
        let Line::Progress(mut line) = progress(1) else { unreachable!() };
        line.loss = loss;
        let text = Line::Run(header()).to_text() + &Line::Progress(line).to_text();
        let log = parse(text.as_bytes()).unwrap();
        let Line::Progress(read) = &log.lines[0] else { unreachable!() };
        let same = if loss.is_finite() { read.loss == loss } else { read.loss.is_nan() };
        prop_assert!(same);
    }
}

/// How many examples of each batch were fresh, from the lines that say when it changed; resuming takes back what was
/// about later updates.
#[test]
fn schedules_of_fresh_examples() {
    let fresh = |updates, fresh| Line::Fresh(Fresh { updates: Updates(updates), fresh });
    let log = |lines: &[Line]| {
        let text = std::iter::once(&Line::Run(header())).chain(lines).map(Line::to_text).collect::<String>();
        parse(text.as_bytes()).unwrap()
    };
    let lines = [fresh(1, 32), fresh(2, 5), progress(4), fresh(5, 0), fresh(6, 7)];
    let whole = log(&lines);
    assert_eq!(whole.fresh(Updates(8)), Some(vec![32, 5, 5, 5, 0, 7, 7, 7]));
    assert_eq!(whole.fresh(Updates(3)), Some(vec![32, 5, 5]));
    assert_eq!(whole.fresh(Updates(0)), Some(vec![]));
    // The batch of update 6 was decided on and perhaps never used.
    assert_eq!(whole.last_update(), Some(Updates(4)));
    let again = log(&[&lines[..], &[resumed(4), fresh(5, 9), progress(6)]].concat());
    assert_eq!(again.fresh(Updates(6)), Some(vec![32, 5, 5, 5, 9, 9]));
    assert_eq!(log(&[progress(4)]).fresh(Updates(4)), None);
    assert_eq!(log(&[fresh(2, 5)]).fresh(Updates(4)), None, "the first batch is missing");
    assert_eq!(log(&[]).last_update(), None);
}
