use super::*;
use sooner_record::{StoredTrial, TrialEvaluation, TrialState, Values};
use sooner_study::definition::{PointPlan, StudyPlan, place_points};

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
        vec![trial(id, 0, Some(updates + id)), trial(id, 1, Some(2 * updates))]
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
