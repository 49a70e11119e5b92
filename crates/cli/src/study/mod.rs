//! `sooner study`: the driver of trials. What a study is and means lives in the study crate, what it keeps in the record
//! crate; here trials are started, watched and stored.

pub(crate) mod args;

mod folder;
mod presets;

mod cost;
mod create;
mod drive;
mod exec;
mod native;
mod workers;

mod exchange;
pub(crate) mod files;
mod report;
mod status;

use args::StudyCommand;
use std::process::ExitCode;

pub(crate) fn run(command: &StudyCommand) -> anyhow::Result<ExitCode> {
    match command {
        StudyCommand::New(args) => create::run(args),
        StudyCommand::Run(args) => drive::run(args),
        StudyCommand::Status(args) => status::run(args),
        StudyCommand::Report(args) => report::run(args),
        StudyCommand::Export(args) => exchange::export(args),
        StudyCommand::Import(args) => exchange::import(args),
    }
}
