use super::*;
use crate::NOISE_SCALE;
use sooner_record::{StoredTrial, TrialEvaluation, TrialState, Values};
use sooner_study::definition::{Confirms, PointPlan, StudyPlan, place_points};

const STUDY: &str = r#"
name = "<script>alert('x')"
about = "a & b"
workload = "mnist-cnn"
target = "val.error<0.1"
trials = 2
[axes]
optimizer = ["sgd", "\"<b>nesterov"]
batch = [8, 32, 128, 512]
[budget]
updates = 500
[[tune]]
name = "learning_rate"
range = { kind = "real", min = 0.001, max = 1.0, scale = "log" }
"#;

/// A trial that reaches an error of 0.05 after so many updates, if any.
fn trial(point: u64, number: u64, updates: Option<u64>) -> StoredTrial {
    let row = |updates: u64, error: f64| TrialEvaluation {
        updates,
        examples: updates * 8,
        fresh: updates * 8,
        epochs: None,
        seconds: Some(1.0),
        metrics: Values::from([("val.error".into(), error), ("val.loss".into(), f64::NAN)]),
    };
    StoredTrial {
        point,
        number,
        attempt: 1,
        state: if updates.is_some() { TrialState::Complete } else { TrialState::Censored },
        parameters: Values::from([("learning_rate".into(), 0.0011 * (1.0 + number as f64))]),
        note: String::new(),
        last_loss: None,
        worker: String::new(),
        lease_until: None,
        evaluations: vec![
            row(1, 0.9),
            row(updates.unwrap_or(500), if updates.is_some() { 0.05 } else { 0.4 }),
        ],
    }
}

fn view(trials: &dyn Fn(u64, &PointPlan) -> Vec<StoredTrial>) -> StudyView {
    let plan = StudyPlan::parse(STUDY).unwrap();
    let points = place_points(plan.points().unwrap(), &[]);
    let trials: Vec<StoredTrial> = points.iter().flat_map(|(id, point)| trials(*id, point)).collect();
    StudyView::new(&plan, &points, &trials).unwrap()
}

/// Tags that are opened and closed alike, in their order.
fn check_nesting(html: &str) {
    let empty = ["meta", "link", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let inside = tag.split('>').next().expect("a tag is closed");
        let name = inside.split([' ', '\n', '/']).find(|n| !n.is_empty()).expect("a tag has a name");
        if inside.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !inside.ends_with('/') && !empty.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} left open");
}

#[test]
fn a_page_is_whole_and_names_are_escaped() {
    let view = view(&|id, point| {
        let batch = point.value("batch").unwrap().number().unwrap();
        let updates = (30.0 * (1.0 + 64.0 / batch)) as u64;
        vec![
            trial(id, 0, Some(updates + id)),
            trial(id, 1, Some(2 * updates)),
            trial(id, 2, Some(3 * updates)),
        ]
    });
    let page = study_page(&view);
    assert!(!page.html.contains("<script") && !page.html.contains("<b>nesterov"), "names are text");
    assert!(page.html.contains("&lt;script&gt;") && page.html.contains("a &amp; b"));
    assert!(
        !page.html.contains("http://")
            || page.html.matches("http://").count()
                == page.html.matches("http://www.w3.org/2000/svg").count(),
        "nothing is fetched"
    );
    assert!(!page.html.contains("NaN"), "no chart has a place that is no number");
    check_nesting(&page.html);
    let names: Vec<&str> = page.assets.iter().map(|a| a.name.as_str()).collect();
    for expected in [
        "updates.svg",
        "updates.csv",
        "targets-1.svg",
        "rates.svg",
        "regions.csv",
        "budgets.csv",
        "compute.csv",
    ] {
        assert!(names.contains(&expected), "{expected} in {names:?}");
    }
    let csv = &page.assets.iter().find(|a| a.name == "updates.csv").unwrap().text;
    assert_eq!(csv.lines().count(), 9, "{csv}");
    assert!(csv.contains("\"optimizer \"\"<b>nesterov\""), "quoted as CSV wants it: {csv}");
    // The true law is S = 30 (1 + 64 / B).
    let (fit, intervals) = view.lines[0].fit.as_ref().unwrap();
    assert!((fit.critical_batch / 64.0 - 1.0).abs() < 0.2, "{fit:?}");
    assert!(intervals.unwrap().critical_batch.low <= fit.critical_batch);
    // The first trial's rate is the lowest of its range but for a tenth.
    assert!(page.html.contains("near an edge of its search space"));
}

#[test]
fn points_that_never_reach_are_shown() {
    let none = view(&|id, _| vec![trial(id, 0, None)]);
    let page = study_page(&none);
    check_nesting(&page.html);
    assert!(page.html.contains("no trial reached the target") && page.html.contains("not reached"));
    assert!(none.lines.iter().all(|line| line.fit.is_none()));
    let empty = study_page(&view(&|_, _| Vec::new()));
    check_nesting(&empty.html);
    assert!(!empty.html.contains("NaN"));
}

#[test]
fn echo_is_drawn_with_its_times() {
    let text = STUDY
        .replace("optimizer = [\"sgd\", \"\\\"<b>nesterov\"]", "echo = [1, 2, 4]")
        .replace("[8, 32, 128, 512]", "[8, 512]");
    let plan = StudyPlan::parse(&text).unwrap();
    let points = place_points(plan.points().unwrap(), &[]);
    let trials: Vec<StoredTrial> = points
        .iter()
        .flat_map(|(id, point)| {
            // At batch 512 repeats are as good as fresh examples, at batch 8 they are worthless.
            let at = |axis: &str| point.value(axis).unwrap().number().unwrap();
            let fresh = if at("batch") == 512.0 { 400.0 / at("echo") } else { 400.0 };
            let mut one = trial(*id, 0, Some(100));
            one.evaluations[1].fresh = fresh as u64;
            one.evaluations[0].fresh = 1;
            vec![one]
        })
        .collect();
    let page = study_page(&StudyView::new(&plan, &points, &trials).unwrap());
    check_nesting(&page.html);
    let csv = &page.assets.iter().find(|a| a.name == "echo.csv").unwrap().text;
    assert!(csv.contains("batch 8,2,1,1,1,") && csv.contains("batch 512,4,0.25,0.25,0.25,"), "{csv}");
    assert!(page.html.contains("Time with echo over time without"));
}

/// A run over seeds: reaches after so many updates and ends at an error, or diverges.
fn run(point: u64, number: u64, end: Option<(u64, f64)>) -> StoredTrial {
    let mut run = trial(point, number, end.map(|(updates, _)| updates));
    match end {
        None => run.state = TrialState::Diverged,
        Some((updates, error)) => {
            let mut last = run.evaluations[1].clone();
            last.updates = 2 * updates;
            last.metrics.insert("val.error".into(), error);
            run.evaluations.push(last);
            for (scale, row) in [10.0, 96.0, 800.0].into_iter().zip(&mut run.evaluations) {
                row.metrics.insert(NOISE_SCALE.into(), scale);
            }
        }
    }
    run
}

#[test]
fn the_best_trials_over_seeds_are_shown_beside_their_search() {
    let text = STUDY
        .replace("optimizer = [\"sgd\", \"\\\"<b>nesterov\"]", "echo = [1, 4]")
        .replace("[axes]", "[confirm]\nruns = 4\nto_the_end = true\n[axes]");
    let plan = StudyPlan::parse(&text).unwrap();
    let mut points = place_points(plan.points().unwrap(), &[]);
    let mut trials = Vec::new();
    for (id, point) in &points {
        let batch = point.value("batch").unwrap().number().unwrap();
        let updates = (30.0 * (1.0 + 64.0 / batch)) as u64;
        trials.extend([2, 0, 1].iter().zip(0..).map(|(more, n)| trial(*id, n, Some(updates + more))));
    }
    for id in 0..8u64 {
        let again = |trial| {
            let confirms = Some(Confirms { trial, values: Values::from([("learning_rate".into(), 0.002)]) });
            PointPlan { confirms, ..points[id as usize].1.clone() }
        };
        // Trial 0 was the best one once; what its runs came to is no more of interest.
        let (old, new) = ((8 + 2 * id, again(0)), (9 + 2 * id, again(1)));
        let error = if id < 4 { 0.04 } else { 0.03 };
        trials.push(run(old.0, 0, Some((7, 0.01))));
        let wobble = |n: u64| error + 0.001 * n as f64;
        trials.push(run(new.0, 0, Some((50, wobble(0)))));
        trials.push(run(new.0, 1, if id == 3 { None } else { Some((40, wobble(1))) }));
        trials.push(run(new.0, 2, Some((60, wobble(2)))));
        trials.push(run(new.0, 3, Some((70, wobble(3)))));
        // One too many, made because another diverged.
        trials.push(run(new.0, 4, Some((10, wobble(4)))));
        points.extend([old, new]);
    }
    let view = StudyView::new(&plan, &points, &trials).unwrap();
    assert_eq!(view.points().count(), 8, "runs over seeds are no points of their own");
    let repeats = |id: u64| view.points().find(|p| p.id == id).unwrap().repeats.clone().unwrap();
    assert_eq!((repeats(0).trial, repeats(0).updates), (1, vec![40.0, 50.0, 60.0, 70.0]));
    assert_eq!((repeats(3).reach.reached, repeats(3).reach.of), (3, 4));
    assert_eq!(repeats(3).best[1], f64::INFINITY, "what diverged has no quality");
    let page = study_page(&view);
    check_nesting(&page.html);
    let row = |start: &str, what: &str| {
        let found = page.html.lines().any(|l| l.contains(start) && l.contains(what));
        assert!(found, "{start} .. {what} in {}", page.html);
    };
    row("<td>echo 1, batch 512</td>", "<td>3 of 4</td>");
    row(
        "<td>echo 1, batch 8</td><td>1</td><td>4 of 4</td><td>0.398 to 1</td><td>270</td><td>55</td><td>40 to 70</td>",
        "",
    );
    // At the evaluation that met the target, not at the last one; the law's critical batch is 64.
    row("<td>echo 1, batch 8</td><td>96</td><td>96 to 96</td><td>5</td>", "");
    // 0.03 against 0.04, over the same four seeds each.
    row("<td>echo 4, batch 8</td><td>0.0315 (n = 4)</td><td>0.0415 (n = 4)</td><td>-0.01</td>", "");
    assert!(
        !page.html.contains("<td>echo 4, batch 512</td><td>0.0315"),
        "one of its seeds diverged without echo"
    );
    // Batch 8 is 8 times below 64, 512 as far above.
    row("<td>echo 1, batch 8</td>", "times below the critical size: grow the batch");
    row("<td>echo 1, batch 512</td>", "times above the critical size: echo");
    let short = StudyPlan::parse(&text.replace("to_the_end = true\n", "")).unwrap();
    let page = study_page(&StudyView::new(&short, &points, &trials).unwrap());
    assert!(!page.html.contains("Final quality"), "runs that end at the target have no final quality");
}

#[test]
fn echo_without_repeats_has_no_place() {
    let text = STUDY.replace(
        "optimizer = [\"sgd\", \"\\\"<b>nesterov\"]",
        "echo = [1, 2]\necho_place = [\"before-augment\", \"after-batch\"]",
    ) + "[[at]]\naxes = { echo = 1, echo_place = \"after-batch\" }\nskip = true\n";
    let plan = StudyPlan::parse(&text).unwrap();
    let points = place_points(plan.points().unwrap(), &[]);
    let trials: Vec<StoredTrial> = points
        .iter()
        .flat_map(|(id, point)| {
            let echo = point.value("echo").unwrap().number().unwrap();
            let batch = point.value("batch").unwrap().number().unwrap();
            let updates = (30.0 * (1.0 + 64.0 / batch)) as u64;
            (0..3).map(move |n| {
                let mut one = trial(*id, n, Some(updates));
                one.evaluations[1].fresh =
                    (8.0 * updates as f64 / if batch > 64.0 { echo } else { 1.0 }) as u64;
                one.evaluations[0].fresh = 1;
                one
            })
        })
        .collect();
    let page = study_page(&StudyView::new(&plan, &points, &trials).unwrap());
    check_nesting(&page.html);
    let csv = &page.assets.iter().find(|a| a.name == "echo.csv").unwrap().text;
    assert_eq!(csv.lines().count(), 1 + 2 * 4, "both places are compared with the one without echo: {csv}");
    let verdict = |place: &str, batch: u64, words: &str| {
        let label = format!("<td>echo 2, echo_place {place}, batch {batch}</td>");
        assert!(
            page.html.lines().any(|l| l.starts_with(&format!("<tr>{label}")) && l.contains(words)),
            "{label} {words}"
        );
    };
    verdict("after-batch", 512, "repeats save fresh examples");
    verdict("before-augment", 512, "repeats save fresh examples");
    verdict("after-batch", 8, "not settled");
}
