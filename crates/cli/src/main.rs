//! The command `sooner`. `run` is the table of contents: parse, do, report.

#[macro_use]
mod out;

mod args;
mod closing;
mod commands;
mod fail;
mod machine;
mod progress;
mod ready;
mod settle;
mod shelf;
mod shorten;
mod study;
mod tune;
mod version;

use args::{Cli, Command, DataCommand};
use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: sooner_engine::LargePages = sooner_engine::LargePages;

fn main() -> ExitCode {
    let code = command();
    match out::lost() {
        Some(error) => fail::lost(&error, code),
        None => code,
    }
}

fn command() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return fail::usage(&error, words.iter().any(|w| w == "--json")),
    };
    let json = cli.command.json();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => fail::report(&error, json),
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Train(args) => commands::train::run(&args),
        Command::Rerun(args) => commands::rerun::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Ceiling(args) => commands::ceiling::run(&args),
        Command::Profile(args) => commands::profile::run(&args),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Workloads(args) => commands::workloads::run(&args),
        Command::Data(args) => match args.command {
            DataCommand::List(args) => commands::data::list(&args),
            DataCommand::Check(args) => commands::data::check(&args),
            DataCommand::Get(args) => commands::data::get(&args),
            DataCommand::Stat(args) => commands::data::stat(&args),
            DataCommand::Pack(args) => commands::data::pack(&args),
        },
        Command::Dawnbench(args) => commands::dawnbench::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Submit(args) => commands::submit::run(&args),
        Command::Study(args) => study::run(&args.command),
        Command::Nqm(args) => commands::nqm::run(&args),
    }
}
