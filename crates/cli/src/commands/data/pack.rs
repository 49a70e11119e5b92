//! `sooner data pack`: any data set as tar shards.

use super::stat::{data_plan, splits};
use crate::args::PackArgs;
use serde_json::json;
use sooner_base::{Bytes, Seed};
use sooner_pipeline::{PackOptions, pack};
use std::process::ExitCode;

pub(crate) fn run(args: &PackArgs) -> anyhow::Result<ExitCode> {
    let plan = data_plan(&args.data)?;
    let splits = splits(&plan)?;
    let options = PackOptions {
        shard: Bytes(args.shard_bytes),
        gzip: args.gzip,
        shuffle: (!args.in_order).then_some(Seed(args.seed)),
    };
    let data = [splits.train.clone(), splits.val.clone(), splits.test.clone()];
    let shards = pack(&data, &args.out, options)?;
    splits.notices.iter().for_each(|notice| eprintln!("warning: {notice}"));
    let (examples, bytes) = shards
        .iter()
        .fold((0, 0), |(examples, bytes), shard| (examples + shard.examples, bytes + shard.bytes.0));
    if args.data.json {
        let list: Vec<_> = shards
            .iter()
            .map(|shard| json!({ "name": shard.name, "examples": shard.examples, "bytes": shard.bytes }))
            .collect();
        let folder = args.out.display().to_string();
        println!("{}", json!({ "folder": folder, "examples": examples, "bytes": bytes, "shards": list }));
    } else {
        println!("{examples} examples in {} shards of {bytes} bytes in {}", shards.len(), args.out.display());
    }
    Ok(ExitCode::SUCCESS)
}
