//! Known numbers through the real command: public DAWNBench entries, and the noisy quadratic model's table.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use support::{folder, run};

fn oracle(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../study/tests/data").join(name)
}

const ENTRIES: [(&str, &str); 7] = [
    ("basenet.tsv", "340.6"),
    ("davidcpage_resnet9_1v100-ec2_pytorch.tsv", "74.0"),
    ("kakaobrain_custom-resnet9_4v100-braincloud_pytorch.tsv", "28.0"),
    ("apple_resnet9_8v100_pytorch.tsv", "9.4"),
    ("ajay_resnet9_4v100_pytorch.tsv", "10.7"),
    ("fastai_pytorch_single_volta.tsv", "404.1"),
    ("diux_cifar_g3.tsv", "11929.0"),
];

#[test]
fn dawnbench_entries_give_their_published_times() {
    let files: Vec<String> =
        ENTRIES.iter().map(|(name, _)| oracle("dawnbench").join(name).display().to_string()).collect();
    let words: Vec<&str> = ["dawnbench"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let done = run(Path::new("."), &[&words[..], &["--goal", "0.94"]].concat());
    let expected: String = ENTRIES.iter().map(|(name, time)| format!("{name}\t{time}\n")).collect();
    assert_eq!((done.code, done.stdout, done.stderr), (Some(0), expected, String::new()));

    let json = run(Path::new("."), &[&words[..], &["--goal", "0.94", "--json"]].concat()).json();
    for ((_, time), entry) in ENTRIES.iter().zip(json["entries"].as_array().expect("entries")) {
        assert_eq!(format!("{:.1}", entry["seconds"].as_f64().expect("seconds")), *time, "{entry}");
    }

    let done = run(Path::new("."), &["dawnbench", &files[0], "--goal", "0.99"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "basenet.tsv\tnot reached\n"));
    let json = run(Path::new("."), &["dawnbench", &files[0], "--goal", "0.99", "--json"]).json();
    assert_eq!(json["entries"][0]["seconds"], Value::Null);
    // Two files of one name are told apart by their folders.
    let twice = run(Path::new("."), &["dawnbench", &files[0], &files[0]]).stdout;
    assert_eq!(twice, format!("{0}\t340.6\n{0}\t340.6\n", files[0]));
}

#[test]
fn malformed_tables_are_errors_with_their_line() {
    let here = folder();
    let good = "\u{feff}epoch\thours\ttop1Accuracy\r\n0.5\t0.1\t93.5\r\n1.5\t0.25\t94.0\r\n";
    std::fs::write(here.path().join("good.tsv"), good).expect("written");
    let done = run(here.path(), &["dawnbench", "good.tsv", "--goal", "0.94"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "good.tsv\t900.0\n"));
    for (row, line) in [("2\t0.3", 4), ("2\tsoon\t95", 4), ("2\t0.3\t950", 4), ("2\t0.1\t95", 4)] {
        std::fs::write(here.path().join("bad.tsv"), format!("{good}{row}\r\n")).expect("written");
        let done = run(here.path(), &["dawnbench", "good.tsv", "bad.tsv"]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{row}");
        let error = run(here.path(), &["dawnbench", "good.tsv", "bad.tsv", "--json"]).error();
        assert_eq!(error["where"], format!("bad.tsv line {line}"), "{row}");
    }
    std::fs::write(here.path().join("bad.tsv"), b"epoch\thours\ttop1Accuracy\n\xff\n").expect("written");
    assert_eq!(run(here.path(), &["dawnbench", "bad.tsv", "--json"]).error()["where"], "bad.tsv");
}

/// Every row of the reference table, asked for as lists of batch sizes and echo factors.
#[test]
fn the_quadratic_model_equals_its_reference_table() {
    let table = std::fs::read_to_string(oracle("nqm.csv")).expect("the table");
    let mut rows: BTreeMap<(&str, &str), Vec<[&str; 6]>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let row = [fields[2], fields[3], fields[4], fields[5], fields[6], fields[7]];
        rows.entry((fields[0], fields[1])).or_default().push(row);
    }
    let mut compared = 0;
    for ((optimizer, goal), rows) in rows {
        let distinct = |k: usize| {
            let mut values: Vec<&str> = Vec::new();
            rows.iter().map(|row| row[k]).for_each(|v| {
                if !values.contains(&v) {
                    values.push(v)
                }
            });
            values.join(",")
        };
        let (batches, echoes) = (distinct(0), distinct(1));
        let words = [
            "nqm",
            "--dims",
            "200",
            "--goal",
            goal,
            "--optimizer",
            optimizer,
            "--batch",
            &batches,
            "--echo",
            &echoes,
            "--threads",
            "2",
            "--json",
        ];
        let done = run(Path::new("."), &words);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
        let json = done.json();
        let cells = json["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), rows.len(), "{optimizer} {goal}");
        for row in &rows {
            let is = |cell: &Value, key: &str, text: &str| text == format!("{}", cell[key]);
            let found = cells.iter().find(|cell| is(cell, "batch", row[0]) && is(cell, "echo", row[1]));
            let cell = found.expect("the cell");
            assert_eq!(cell["fresh_batches"].to_string(), row[2], "{optimizer} {goal} {row:?}");
            assert_eq!(cell["updates"].to_string(), row[3], "{optimizer} {goal} {row:?}");
            let number = |value: &Value| value.as_f64().expect("a number");
            let rate: f64 = row[4].parse().expect("a rate");
            assert!((number(&cell["learning_rate"]) / rate - 1.0).abs() < 1e-5, "{optimizer} {goal} {row:?}");
            assert_eq!(number(&cell["momentum"]), row[5].parse::<f64>().expect("a momentum"));
            compared += 1;
        }
    }
    assert_eq!(compared, 308);
}

#[test]
fn the_quadratic_model_has_a_table_for_people() {
    let words =
        ["nqm", "--optimizer", "sgd", "--batch", "1,256", "--echo", "1,4", "--dims", "200", "--goal", "0.01"];
    let done = run(Path::new("."), &words);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let lines: Vec<Vec<&str>> = done.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[2], ["1", "1", "19322", "19322", "0.015625", "0", "1.000"]);
    assert_eq!(lines[3][..4], ["1", "4", "19292", "77168"]);
    assert_eq!(lines.len(), 6);
    // A goal below what noise leaves is not reached, and that is a result.
    let words = ["nqm", "--optimizer", "sgd", "--batch", "1", "--dims", "50", "--goal", "1e-5", "--json"];
    let done = run(Path::new("."), &words);
    assert_eq!(done.code, Some(0));
    assert_eq!(done.json()["cells"][0]["fresh_batches"], Value::Null);
}
