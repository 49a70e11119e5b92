//! DAWNBench's tables of training runs: tab-separated `epoch`, `hours` and `top1Accuracy` in percent, one row for each
//! evaluation. The result of a run is the time of its first row at or over the goal.

use crate::error::{Fault, StudyError};
use serde::Serialize;
use sooner_base::{Epochs, Seconds};

/// One evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DawnBenchRow {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Passes over the training split; fractions are legal.
    pub epoch: Epochs,
    /// The training clock.
    pub time: Seconds,
    /// Test accuracy as a fraction: exactly the double nearest to the file's decimal number over 100.
    pub accuracy: f64,
}

const COLUMNS: [&str; 3] = ["epoch", "hours", "top1Accuracy"];

/// Reads a table. A byte-order mark, CRLF line ends, further columns and empty lines at the end are legal. Err names the
/// line (with `name`, the file's) of whatever else is not as it should be: a header without the three columns, a row with
/// another number of fields, numbers that are not numbers, times that fall, accuracies outside 0 to 100.
pub fn parse_dawnbench(name: &str, text: &str) -> Result<Vec<DawnBenchRow>, StudyError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end();
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let header: Vec<&str> = lines.next().map_or(Vec::new(), |(_, line)| fields(line));
    let place = |line: usize| format!("{name} line {line}");
    let mut columns = [0; 3];
    for (column, wanted) in columns.iter_mut().zip(COLUMNS) {
        *column = header.iter().position(|field| *field == wanted).ok_or_else(|| {
            let found = if text.is_empty() { "nothing".into() } else { format!("{:?}", header.join(" ")) };
            let expected = format!("a header with the columns {}, separated by tabs", COLUMNS.join(", "));
            StudyError::DawnBench(Fault::new(place(1), expected, found))
        })?;
    }
    let mut rows: Vec<DawnBenchRow> = Vec::new();
    for (line, content) in lines {
        let row = row(&fields(content), header.len(), columns).map_err(|(expected, found)| {
            StudyError::DawnBench(Fault::new(place(line), expected, format!("{found:?}")))
        })?;
        let row = DawnBenchRow { line, ..row };
        if let Some(before) = rows.last().filter(|before| row.time < before.time) {
            let expected = format!("hours not below those of line {}", before.line);
            return Err(StudyError::DawnBench(Fault::new(
                place(line),
                expected,
                fields(content)[columns[1]],
            )));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn fields(line: &str) -> Vec<&str> {
    line.split('\t').map(str::trim).collect()
}

/// A row, or what was expected and what was found.
fn row(fields: &[&str], width: usize, columns: [usize; 3]) -> Result<DawnBenchRow, (String, String)> {
    if fields.len() != width {
        return Err((format!("{width} fields separated by tabs"), fields.join("\t")));
    }
    let number = |text: &str, most: f64, expected: &str| {
        let value = text.parse::<f64>().ok().filter(|v| (0.0..=most).contains(v));
        value.ok_or_else(|| (expected.to_owned(), text.to_owned()))
    };
    let [epoch, hours, percent] = columns.map(|column| fields[column]);
    let value = number(percent, 100.0, "an accuracy from 0 to 100 percent")?;
    // Shifting the decimal point in the text rounds once: 93.7 is then at or over a goal of 0.937.
    let accuracy = format!("{percent}e-2").parse().unwrap_or(value / 100.0);
    Ok(DawnBenchRow {
        line: 0,
        epoch: Epochs(number(epoch, f64::MAX, "an epoch, a number from 0")?),
        time: Seconds(3600.0 * number(hours, f64::MAX / 3600.0, "hours, a number from 0")?),
        accuracy,
    })
}

/// The first row at or over a goal given as a fraction, such as 0.94; `None` if it is not reached.
pub fn first_at_goal(rows: &[DawnBenchRow], goal: f64) -> Option<&DawnBenchRow> {
    rows.iter().find(|row| row.accuracy >= goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str, goal: f64) -> Option<f64> {
        first_at_goal(&parse_dawnbench("run.tsv", text).unwrap(), goal).map(|row| row.time.0)
    }

    macro_rules! entry {
        ($file:literal) => {
            include_str!(concat!("../tests/data/dawnbench/", $file))
        };
    }

    #[test]
    fn public_entries_give_their_published_times() {
        let time = |text: &str| format!("{:.1}", seconds(text, 0.94).unwrap());
        for (text, expected) in [
            (entry!("basenet.tsv"), "340.6"),
            (entry!("davidcpage_resnet9_1v100-ec2_pytorch.tsv"), "74.0"),
            (entry!("kakaobrain_custom-resnet9_4v100-braincloud_pytorch.tsv"), "28.0"),
            (entry!("apple_resnet9_8v100_pytorch.tsv"), "9.4"),
            (entry!("ajay_resnet9_4v100_pytorch.tsv"), "10.7"),
            (entry!("fastai_pytorch_single_volta.tsv"), "404.1"),
            (entry!("diux_cifar_g3.tsv"), "11929.0"),
        ] {
            assert_eq!(time(text), expected);
        }
        assert_eq!(seconds(entry!("basenet.tsv"), 0.99), None);
    }

    #[test]
    fn rows_are_counted_from_the_first_at_or_over_the_goal() {
        let table = "epoch\thours\ttop1Accuracy\n0.5\t0.1\t93.7\n1\t0.2\t94\n1.5\t0.3\t93\n2\t0.4\t95\n";
        assert_eq!(seconds(table, 0.937), Some(360.0));
        assert_eq!(seconds(table, 0.94), Some(720.0));
        assert_eq!(seconds(table, 0.9401), Some(1440.0));
        assert_eq!(seconds(table, 0.951), None);
        // No goal of up to two decimals of a percent is missed by rounding.
        for hundredths in 0..=10_000u32 {
            let percent = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            let goal: f64 = format!("{}.{:04}", hundredths / 10_000, hundredths % 10_000).parse().unwrap();
            let table = format!("epoch\thours\ttop1Accuracy\n1\t1\t{percent}\n");
            assert!(seconds(&table, goal).is_some(), "{percent} against {goal}");
        }
    }

    #[test]
    fn marks_and_line_ends_of_other_systems_are_legal() {
        let plain = "epoch\thours\ttop1Accuracy\n1\t0.5\t94.1\n2.25\t1e0\t9.5e1";
        let rows = parse_dawnbench("x", plain).unwrap();
        assert_eq!(
            rows.iter().map(|r| (r.line, r.epoch.0, r.accuracy)).collect::<Vec<_>>(),
            [(2, 1.0, 0.941), (3, 2.25, 0.95)]
        );
        let crlf = format!("\u{feff}{}\r\n\r\n", plain.replace('\n', "\r\n"));
        assert_eq!(parse_dawnbench("x", &crlf).unwrap(), rows);
        let reordered = "note\ttop1Accuracy\tepoch\thours\na\t94.1\t1\t0.5\nb\t95\t2.25\t1\n";
        assert_eq!(parse_dawnbench("x", reordered).unwrap(), rows);
        assert_eq!(parse_dawnbench("x", "epoch\thours\ttop1Accuracy\n").unwrap(), []);
    }

    #[test]
    fn malformed_rows_name_their_line() {
        let place = |rows: &str| {
            let text = format!("epoch\thours\ttop1Accuracy\n1\t0.1\t50\n{rows}");
            parse_dawnbench("a.tsv", &text).unwrap_err().fault().place.clone()
        };
        for bad in [
            "2\t0.2",
            "2\t0.2\t60\t7",
            "x\t0.2\t60",
            "2\t-0.2\t60",
            "2\tnan\t60",
            "2\tinf\t60",
            "2\t0.2\t",
            "2\t0.2\t101",
            "2\t0.2\t-1",
            "2\t0.2\t60%",
            "2 0.2 60",
            "2\t0.05\t60",
            "\n2\t0.2\t60",
            "2,0.2,60",
        ] {
            assert_eq!(place(bad), "a.tsv line 3", "{bad:?}");
        }
        assert_eq!(place("2\t0.2\t60\n3\t0.3\tsixty\n4\t0.4\t70"), "a.tsv line 4");
        for bad in
            ["", "\n", "epoch hours top1Accuracy\n", "1\t0.1\t50\n", "epoch\thours\ttop5Accuracy\n1\t1\t94\n"]
        {
            assert_eq!(parse_dawnbench("a.tsv", bad).unwrap_err().fault().place, "a.tsv line 1", "{bad:?}");
        }
        let error = parse_dawnbench("a.tsv", "epoch\thours\ttop1Accuracy\n1\t0.1\t0.5x\n").unwrap_err();
        expect_test::expect![[r#"malformed DAWNBench table: a.tsv line 2: expected an accuracy from 0 to 100 percent, found "0.5x""#]]
            .assert_eq(&error.to_string());
    }
}
