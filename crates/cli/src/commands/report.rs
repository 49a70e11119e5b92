//! `sooner report`: a page of one or more runs.

use crate::args::ReportArgs;
use crate::study::files;
use serde_json::json;
use sooner_record::RunReader;
use sooner_report::run_page;
use std::process::ExitCode;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let runs = args.runs.iter().map(|folder| RunReader::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let page = run_page(&runs);
    files::write(&args.out, &page.html)?;
    let written = if args.assets { files::assets(&args.out, &page.assets)? } else { Vec::new() };
    if args.json {
        println!("{}", json!({ "page": args.out.display().to_string(), "assets": written }));
    } else {
        println!("{}", args.out.display());
    }
    Ok(ExitCode::SUCCESS)
}
