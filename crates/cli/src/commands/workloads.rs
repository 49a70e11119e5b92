//! `sooner workloads`: the built-in plans.

use crate::args::WorkloadsArgs;
use crate::settle::builtin;
use serde::Serialize;
use serde_json::json;
use sooner_models::{Model, Workload, workloads};
use sooner_plan::Plan;
use std::process::ExitCode;

/// One row of the list.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    /// The data set's name in plans.
    data: serde_json::Value,
    /// Trained parameters.
    parameters: usize,
    /// Of one example's update.
    flops_per_example: u64,
}

pub(crate) fn run(args: &WorkloadsArgs) -> anyhow::Result<ExitCode> {
    match &args.name {
        Some(name) => {
            let workload = builtin(name)?;
            if args.json {
                let plan = Plan::parse(workload.toml)?;
                println!("{}", json!({ "workload": workload.name, "about": workload.about, "plan": plan }));
            } else {
                print!("{}", workload.toml);
            }
        }
        None => {
            let rows = workloads().iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
            if args.json {
                println!("{}", json!({ "workloads": rows }));
            } else {
                print!("{}", table(&rows));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(workload: &Workload) -> anyhow::Result<Row> {
    let plan = Plan::parse(workload.toml)?;
    let facts = plan.data.expected_facts();
    let model = Model::new(&plan.model, plan.pipeline.image_shape(facts.image), facts.classes)?;
    Ok(Row {
        name: workload.name,
        about: workload.about,
        data: serde_json::to_value(plan.data.kind)?,
        parameters: model.vars().parameter_count(),
        flops_per_example: model.flops_per_example()?,
    })
}

/// Names, trained parameters in millions, GFLOP of one example's update, data, and a word on each.
fn table(rows: &[Row]) -> String {
    let head = ["WORKLOAD", "PARAMS", "GFLOP", "DATA", "WHAT"].map(str::to_string);
    let cells = |row: &Row| {
        let millions = format!("{:.2}M", row.parameters as f64 / 1e6);
        let gflop = format!("{:.4}", row.flops_per_example as f64 / 1e9);
        let data = row.data.as_str().unwrap_or_default().to_string();
        [row.name.to_string(), millions, gflop, data, row.about.to_string()]
    };
    let lines: Vec<[String; 5]> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let [name, params, gflop, data] = [0, 1, 2, 3].map(width);
    let line =
        |[a, b, c, d, e]: &[String; 5]| format!("{a:name$}  {b:>params$}  {c:>gflop$}  {d:data$}  {e}\n");
    let mut text: String = lines.iter().map(line).collect();
    text += "GFLOP are those of one example's update. `sooner workloads NAME` prints a plan as TOML.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_a_terminal() {
        let rows: Vec<Row> = workloads().iter().map(|w| row(w).unwrap()).collect();
        let text = table(&rows);
        let line = |name: &str| text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
        assert_eq!(
            line("cifar10-airbench94").split_whitespace().collect::<Vec<_>>()[1..4],
            ["1.97M", "0.7089", "cifar10"]
        );
        let widest = text.lines().max_by_key(|l| l.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
        assert_eq!(text.lines().count(), workloads().len() + 2);
    }
}
