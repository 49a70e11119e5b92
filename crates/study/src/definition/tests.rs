use super::*;
use crate::space::{Range, Scale};

const STUDY: &str = r#"
name = "small"
workload = "mnist-cnn"
target = "val.error<0.02"
trials = 4

[axes]
batch = [32, 512]
"optimizer.kind" = ["sgd", "nesterov"]

[budget]
updates = 500

[[tune]]
name = "learning_rate"
range = { kind = "real", min = 0.001, max = 1.0, scale = "log" }

[[at]]
axes = { batch = 512 }
budget = { epochs = 3.0 }
tune = [{ name = "learning_rate", range = { kind = "real", min = 0.01, max = 4.0, scale = "log" } }]
"#;

#[test]
fn points_are_all_combinations_with_their_own_spaces() {
    let plan = StudyPlan::parse(STUDY).unwrap();
    let points = plan.points().unwrap();
    let labels: Vec<String> = points.iter().map(PointPlan::label).collect();
    assert_eq!(labels[0], "batch 32, optimizer.kind sgd");
    assert_eq!(labels[3], "batch 512, optimizer.kind nesterov");
    assert_eq!((points[0].budget.updates, points[0].budget.epochs), (Some(500), None));
    assert_eq!((points[2].budget.updates, points[2].budget.epochs), (None, Some(3.0)));
    let wide = Range::Real { min: 0.01, max: 4.0, scale: Scale::Log };
    assert_eq!(points[3].tune[0].range, wide);
    assert_eq!(PointPlan::parse(&points[3].to_text()).unwrap(), points[3]);
    assert_eq!(StudyPlan::parse(&plan.to_toml()).unwrap(), plan);
}

#[test]
fn points_that_would_train_the_same_are_left_out() {
    let skip = "\n[[at]]\naxes = { batch = 512, \"optimizer.kind\" = \"sgd\" }\nskip = true\n";
    let plan = StudyPlan::parse(&format!("{STUDY}{skip}")).unwrap();
    let labels: Vec<String> = plan.points().unwrap().iter().map(PointPlan::label).collect();
    assert_eq!(
        labels,
        [
            "batch 32, optimizer.kind sgd",
            "batch 32, optimizer.kind nesterov",
            "batch 512, optimizer.kind nesterov"
        ]
    );
    assert_eq!(StudyPlan::parse(&plan.to_toml()).unwrap(), plan);
    let all = "\n[[at]]\naxes = { batch = [32, 512] }\nskip = true\n";
    let error = StudyPlan::parse(&format!("{STUDY}{all}")).unwrap_err().to_string();
    assert!(error.contains("not left out"), "{error}");
}

#[test]
fn draws_depend_on_seed_and_number_alone() {
    let plan = StudyPlan::parse(STUDY).unwrap();
    let points = plan.points().unwrap();
    let at = |plan: &StudyPlan, n| plan.draw(&points[0], n).unwrap()["learning_rate"];
    assert_eq!(at(&plan, 3), at(&plan.clone(), 3));
    assert_ne!(at(&plan, 3), at(&plan, 4));
    let other = StudyPlan { seed: Seed(2), ..plan.clone() };
    assert_ne!(at(&plan, 3), at(&other, 3));
    let seeds: std::collections::BTreeSet<u64> =
        (0..4).flat_map(|p| (0..50).map(move |n| (p, n))).map(|(p, n)| plan.trial_seed(p, n).0).collect();
    assert_eq!(seeds.len(), 200, "no two trials share a seed");
}

#[test]
fn points_keep_their_numbers_when_a_study_grows() {
    let plan = StudyPlan::parse(STUDY).unwrap();
    let old = place_points(plan.points().unwrap(), &[]);
    assert_eq!(old.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let grown = StudyPlan::parse(&STUDY.replace("[32, 512]", "[8, 32, 512]")).unwrap();
    let new = place_points(grown.points().unwrap(), &old);
    let labels: Vec<(u64, String)> = new.iter().map(|(id, p)| (*id, p.label())).collect();
    assert_eq!(labels[0], (0, "batch 32, optimizer.kind sgd".into()));
    assert_eq!(labels[4], (4, "batch 8, optimizer.kind sgd".into()));
    assert_eq!(labels.len(), 6);
}

#[test]
fn points_that_confirm_repeat_one_trial() {
    let confirm = "\n[confirm]\nruns = 5\nto_the_end = true\n";
    let plan = StudyPlan::parse(&STUDY.replace("\n[axes]", &format!("{confirm}\n[axes]"))).unwrap();
    assert_eq!(StudyPlan::parse(&plan.to_toml()).unwrap(), plan);
    let mut points = place_points(plan.points().unwrap(), &[]);
    let values = plan.draw(&points[2].1, 3).unwrap();
    let confirms = Some(Confirms { trial: 3, values: values.clone() });
    points.push((4, PointPlan { confirms, ..points[2].1.clone() }));
    let repeats = &points[4].1;
    assert_eq!(repeats.label(), "batch 512, optimizer.kind sgd, trial 3 over seeds");
    assert_eq!(
        [0, 1, 9].map(|n| plan.draw(repeats, n).unwrap()),
        [&values, &values, &values].map(Clone::clone)
    );
    assert_ne!(plan.trial_seed(4, 0), plan.trial_seed(2, 3), "with seeds of their own");
    assert_eq!((plan.wanted(repeats), plan.wanted(&points[0].1)), ((5, 5), (4, 40)));
    assert_eq!(PointPlan::parse(&repeats.to_text()).unwrap(), *repeats);
    // A study that grows keeps them beside the point that they repeat.
    let grown = StudyPlan::parse(&STUDY.replace("[32, 512]", "[8, 32, 512]")).unwrap();
    let placed = place_points(grown.points().unwrap(), &points);
    assert_eq!(placed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    assert!(placed[4].1.is(repeats) && placed[2].1.is(&points[2].1) && !placed[2].1.is(repeats));
    assert_eq!(grown.wanted(repeats), (0, 0), "nobody asks for them there");
}

#[test]
fn workloads_may_be_an_axis() {
    let axis = "[axes]\nworkload = [\"mnist-fc-64x3\", \"mnist-fc-256x3\"]";
    let text = STUDY.replace("workload = \"mnist-cnn\"\n", "").replace("[axes]", axis);
    let plan = StudyPlan::parse(&text).unwrap();
    let points = plan.points().unwrap();
    assert_eq!(plan.workload_at(&points[0]), Some("mnist-fc-64x3"));
    assert_eq!(plan.workload_at(&points[7]), Some("mnist-fc-256x3"));
    let refuse = |text: &str, words: &str| {
        let error = StudyPlan::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refuse(&STUDY.replace("[axes]", axis), "one, or an axis of them");
    refuse(&text.replace("\"mnist-fc-64x3\"", "3"), "names of workloads");
}

#[test]
fn impossible_studies_are_refused() {
    let refuse = |from: &str, to: &str, words: &str| {
        assert!(STUDY.contains(from), "{from}");
        let error = StudyPlan::parse(&STUDY.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(words), "{to}: {error}");
    };
    refuse("trials = 4", "trials = 0", "at least 1");
    refuse("trials = 4", "trails = 4", "line 5");
    refuse("val.error<0.02", "val.error", "SPLIT.METRIC");
    refuse("[32, 512]", "[32, 32]", "32 twice");
    refuse("[32, 512]", "[]", "at least one");
    refuse("[32, 512]", "32", "a list");
    refuse("workload = \"mnist-cnn\"", "", "a workload or [exec]");
    refuse("updates = 500", "updates = 0", "above 0");
    refuse("updates = 500", "", "none at batch 32");
    refuse("max = 1.0", "max = 0.001", "min below max");
    refuse("name = \"small\"", "name = \"a/b\"", "folder");
    refuse("batch = 512 }", "batch = 64 }", "some point");
    refuse("batch = 512 }", "width = 512 }", "an axis of the study");
    refuse("name = \"learning_rate\"", "name = \"batch\"", "each name once");
    refuse("trials = 4", "trials = 4\nbeyond_best = 0.5", "at least 1");
}

const EXEC: &str = r#"
name = "script"
target = "val.loss<1"
trials = 2
[axes]
batch = [4]
[exec]
command = ["python3", "x.py", "--lr={lr}", "{{{batch}}}"]
env = { SEED = "{seed}" }
[[tune]]
name = "lr"
range = { kind = "discrete", values = [0.5] }
"#;

#[test]
fn placeholders_are_known_or_refused() {
    let exec = StudyPlan::parse(EXEC).unwrap().exec.unwrap();
    let value = |name: &str| Some(format!("<{name}>"));
    let filled: Vec<String> = exec.command.iter().map(|t| fill(t, &value).unwrap()).collect();
    assert_eq!(filled[2..], ["--lr=<lr>", "{<batch>}"]);
    for bad in ["{rate}", "{lr", "lr}"] {
        let error = StudyPlan::parse(&EXEC.replace("{lr}", bad)).unwrap_err().to_string();
        assert!(error.contains("placeholder"), "{bad}: {error}");
    }
}

#[test]
fn the_documented_file_is_a_study() {
    let page = include_str!("../../../../docs/study.md");
    let file = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file");
    let plan = StudyPlan::parse(file).unwrap();
    assert_eq!(plan.points().unwrap().len(), 4);
    let tuned: Vec<usize> = plan.points().unwrap().iter().map(|p| p.tune.len()).collect();
    assert_eq!(tuned, [1, 1, 2, 2]);
}
