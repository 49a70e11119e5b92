use super::*;
use crate::testing::plan;
use crate::{EvaluatePlan, ModelPlan, SchedulePlan, StagePlan};
use expect_test::expect;
use proptest::prelude::*;

/// The lines of the plan that a few settings change.
fn changes(settings: &[&str]) -> String {
    let before = plan().to_toml();
    let mut changed = plan();
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
    changed.apply(&settings).unwrap_or_else(|e| panic!("{e}"));
    let after = changed.to_toml();
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let gone = before.iter().filter(|l| !after.contains(l)).map(|l| format!("- {}\n", l.trim()));
    let new = after.iter().filter(|l| !before.contains(l)).map(|l| format!("+ {}\n", l.trim()));
    gone.chain(new).collect()
}

#[test]
fn values_by_key() {
    let mut all = String::new();
    for settings in [
        &["optimizer.momentum=0.95"][..],
        &["pipeline.stages.batch=128"],
        &["pipeline.stages.4.batch=128"],
        &["pipeline.stages.crop.pad=2"],
        &["pipeline.stages.2 = {flip='alternate'}"],
        &["pipeline.stages.flip=none"],
        &["pipeline.stages.flip=none", "pipeline.stages.0=none", "pipeline.stages.batch=1"],
        &["pipeline.stages=[{batch=10_000}]"],
        &["pipeline.budget=2GiB"],
        &["pipeline.budget=1000000"],
        &["data.validation=0"],
        &["data.path=2024-01-01"],
        &["data.path=\"with = and spaces\""],
        &["data.path=none"],
        &["data.kind=shapes", "data.path=none"],
        &["name=12"],
        &["model.channels=[8, 16, 32]"],
        &["model.channels.1=8"],
        &["model.kind=softmax"],
        &["model.kind='resnet9'", "model.channels=[1,2,3,4]", "model.logit_scale=1"],
        &["schedule.kind=constant"],
        &["schedule.points=[[0,0.1],[1,0]]", "schedule.kind=piecewise"],
        &["schedule.decay_updates=100"],
        &["run.epochs=2"],
        &["run.epochs=.5"],
        &["run.target=none"],
        &["run.target=test.accuracy >= 0.94"],
        &["run.target='test.accuracy>=0.94'"],
        &["run.evaluate=geometric"],
        &["run.evaluate.updates=100"],
        &["run.evaluate={updates=100}"],
        &["run.threads=2"],
        &["optimizer.groups=[{parameters='biases', rate_scale=64}]"],
    ] {
        all += &format!("{}\n{}", settings.join("  "), changes(settings).replace('\n', "\n    "));
        all.truncate(all.trim_end().len());
        all += "\n";
    }
    expect![[r#"
        optimizer.momentum=0.95
        - momentum = 0.9
            + momentum = 0.95
        pipeline.stages.batch=128
        - { batch = 64 },
            + { batch = 128 },
        pipeline.stages.4.batch=128
        - { batch = 64 },
            + { batch = 128 },
        pipeline.stages.crop.pad=2
        - { crop = { size = 32, pad = 4, padding = "reflect" } },
            + { crop = { size = 32, pad = 2, padding = "reflect" } },
        pipeline.stages.2 = {flip='alternate'}
        - { flip = "random" },
            + { flip = "alternate" },
        pipeline.stages.flip=none
        - { flip = "random" },
        pipeline.stages.flip=none  pipeline.stages.0=none  pipeline.stages.batch=1
        - { shuffle = "epoch" },
            - { flip = "random" },
            - { batch = 64 },
            + { batch = 1 },
        pipeline.stages=[{batch=10_000}]
        - { shuffle = "epoch" },
            - { crop = { size = 32, pad = 4, padding = "reflect" } },
            - { flip = "random" },
            - { normalize = { mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25] } },
            - { batch = 64 },
            + { batch = 10000 },
        pipeline.budget=2GiB
        - budget = "256MiB"
            + budget = "2GiB"
        pipeline.budget=1000000
        - budget = "256MiB"
            + budget = "1000000"
        data.validation=0
        - validation = 5000
            + validation = 0
        data.path=2024-01-01
        - path = "data"
            + path = "2024-01-01"
        data.path="with = and spaces"
        - path = "data"
            + path = "with = and spaces"
        data.path=none
        - path = "data"
        data.kind=shapes  data.path=none
        - kind = "cifar10"
            - path = "data"
            + kind = "shapes"
        name=12
        - name = "test"
            + name = "12"
        model.channels=[8, 16, 32]
        - channels = [16, 32, 64]
            + channels = [8, 16, 32]
        model.channels.1=8
        - channels = [16, 32, 64]
            + channels = [16, 8, 64]
        model.kind=softmax
        - kind = "resnet8"
            - channels = [16, 32, 64]
            + kind = "softmax"
        model.kind='resnet9'  model.channels=[1,2,3,4]  model.logit_scale=1
        - kind = "resnet8"
            - channels = [16, 32, 64]
            + kind = "resnet9"
            + channels = [1, 2, 3, 4]
            + logit_scale = 1.0
        schedule.kind=constant
        - kind = "linear"
            - end_factor = 0.2
            + kind = "constant"
        schedule.points=[[0,0.1],[1,0]]  schedule.kind=piecewise
        - kind = "linear"
            - learning_rate = 0.05
            - end_factor = 0.2
            + kind = "piecewise"
            + points = [[0.0, 0.1], [1.0, 0.0]]
        schedule.decay_updates=100
        + decay_updates = 100
        run.epochs=2
        - epochs = 3.0
            + epochs = 2.0
        run.epochs=.5
        - epochs = 3.0
            + epochs = 0.5
        run.target=none
        - target = "val.error<0.40"
        run.target=test.accuracy >= 0.94
        - target = "val.error<0.40"
            + target = "test.accuracy >= 0.94"
        run.target='test.accuracy>=0.94'
        - target = "val.error<0.40"
            + target = "test.accuracy>=0.94"
        run.evaluate=geometric
        - evaluate = "auto"
            + evaluate = "geometric"
        run.evaluate.updates=100
        - evaluate = "auto"
            + evaluate = { updates = 100 }
        run.evaluate={updates=100}
        - evaluate = "auto"
            + evaluate = { updates = 100 }
        run.threads=2
        + threads = 2
        optimizer.groups=[{parameters='biases', rate_scale=64}]
        + groups = [
            + { parameters = "biases", rate_scale = 64.0, decay_scale = 1.0 },
    "#]]
    .assert_eq(&all);
}

#[test]
fn refusals() {
    let mut all = String::new();
    for settings in [
        &["momentum=0.95"][..],
        &["optimizer.momentun=0.95"],
        &["lr=0.1"],
        &["schedule.lr=0.1"],
        &["optimizer.lr=0.1"],
        &["batch_size=3"],
        &["batch=3"],
        &["epochs=3"],
        &["run.thread=3"],
        &["data.tets=3"],
        &["zzz=3"],
        &["pipeline.stages.crop.padd=2"],
        &["pipeline.stages.cutout=2"],
        &["pipeline.stages.7.batch=2"],
        &["pipeline.stages.0.batch=2"],
        &["model.channels.3=2"],
        &["model.channels.x=2"],
        &["model.logit_scale=2"],
        &["model.kind=resnet-9"],
        &["model.kind=resnet9"],
        &["model.kind=none"],
        &["schedule.points=[[0,0]]"],
        &["schedule.kind=piecewise"],
        &["optimizer.momentum.x=2"],
        &["optimizer.momentum=fast"],
        &["optimizer.kind=adamm"],
        &["optimizer.groups.0.rate_scale=64"],
        &["pipeline.stages=[{crop={size=32}},{batch=1}]"],
        &["pipeline.stages=[{batch=1}"],
        &["data.validation=-1"],
        &["data.validation=1.5"],
        &["data.validation=none"],
        &["data.validation=1\nseed=2"],
        &["seed=18446744073709551615"],
        &["run.evaluate=sometimes"],
        &["seed=1", "seed=1"],
        &["pipeline.stages.batch=1", "pipeline.stages.4.batch=1"],
        &["pipeline.stages.crop.pad=1", "pipeline.stages.crop={size=32,pad=4}"],
        &["pipeline.stages.flip=none", "pipeline.stages.flip=random"],
        &["pipeline.stages=[{batch=1}]", "pipeline.stages.batch=1"],
    ] {
        let before = plan();
        let mut after = plan();
        let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
        let error = after.apply(&settings).err().unwrap_or_else(|| panic!("{settings:?} is accepted"));
        assert_eq!(after, before, "a refused change changes nothing");
        all += &format!("{error}\n");
    }
    expect![[r#"
        --set momentum=0.95: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `momentum`
        hint: did you mean `optimizer.momentum`?
        --set optimizer.momentun=0.95: unknown key: expected kind, momentum, weight_decay, decay, units, second_momentum, eps, trust, rounds, norms, clip, average, label_smoothing or groups, found `optimizer.momentun`
        hint: did you mean `optimizer.momentum`?
        --set lr=0.1: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `lr`
        hint: did you mean `schedule.learning_rate`?
        --set schedule.lr=0.1: unknown key: expected kind, learning_rate, end_factor, decay_updates, warmup or horizon, found `schedule.lr`
        hint: did you mean `schedule.learning_rate`?
        --set optimizer.lr=0.1: unknown key: expected kind, momentum, weight_decay, decay, units, second_momentum, eps, trust, rounds, norms, clip, average, label_smoothing or groups, found `optimizer.lr`
        hint: did you mean `schedule.learning_rate`?
        --set batch_size=3: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `batch_size`
        hint: did you mean `pipeline.stages.batch`?
        --set batch=3: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `batch`
        hint: did you mean `pipeline.stages.batch`?
        --set epochs=3: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `epochs`
        hint: did you mean `run.epochs`?
        --set run.thread=3: unknown key: expected epochs, target, stop, evaluate, views, guard, init, replay, initial, threads, convolutions, activations, replicas, accumulate, noise_scale or select, found `run.thread`
        hint: did you mean `run.threads`?
        --set data.tets=3: unknown key: expected kind, path, classes, rate, train, validation, test, images or shards, found `data.tets`
        hint: did you mean `data.test`?
        --set zzz=3: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `zzz`
        hint: did you mean `data.images.size`?
        --set pipeline.stages.crop.padd=2: unknown key: expected size, pad or padding, found `pipeline.stages.crop.padd`
        hint: did you mean `pipeline.stages.crop.pad`?
        --set pipeline.stages.cutout=2: the plan has no such stage: expected shuffle, crop, flip, normalize or batch, found `cutout`
        hint: a new stage needs its place: set pipeline.stages to the whole list
        --set pipeline.stages.7.batch=2: no such item in the list: expected an index from 0 to 4, found `7`
        hint: set the whole list
        --set pipeline.stages.0.batch=2, `pipeline.stages.0`: value of the wrong form: expected a table with one key, shuffle, echo, resize, center-crop, random-resized-crop, crop, flip, jitter, cutout, normalize, batch, mixup or cutmix, found { shuffle = "epoch", batch = 2 }
        --set model.channels.3=2: no such item in the list: expected an index from 0 to 2, found `3`
        hint: set the whole list
        --set model.channels.x=2: no such item in the list: expected an index from 0 to 2, found `x`
        hint: set the whole list
        --set model.logit_scale=2: unknown key: expected kind or channels, found `model.logit_scale`
        hint: it belongs to model.kind="resnet9"
        --set model.kind=resnet-9: unknown word: expected softmax, fully-connected, simple-cnn, resnet8, resnet9, backbone, dawn-resnet18, resnet32, resnet50, vgg11 or airbench, found "resnet-9"
        hint: did you mean "resnet9"?
        --set model.kind=resnet9, `model.channels`: value of the wrong form: expected a list of 4, each of it a whole number, 0 or more, found [16, 32, 64]
        --set model.kind=none: unknown word: expected softmax, fully-connected, simple-cnn, resnet8, resnet9, backbone, dawn-resnet18, resnet32, resnet50, vgg11 or airbench, found "none"
        --set schedule.points=[[0,0]]: unknown key: expected kind, learning_rate, end_factor, decay_updates, warmup or horizon, found `schedule.points`
        hint: it belongs to schedule.kind="piecewise"
        --set schedule.kind=piecewise, `schedule`: key is missing: expected a key `points`, found none
        --set optimizer.momentum.x=2: unknown key: expected a key of the plan, found `optimizer.momentum.x`
        hint: did you mean `optimizer.momentum`?
        --set optimizer.momentum=fast: value of the wrong form: expected a number, found "fast"
        --set optimizer.kind=adamm: unknown word: expected sgd, heavy-ball, nesterov, adam, adamw, lars or muon, found "adamm"
        hint: did you mean "adam"?
        --set optimizer.groups.0.rate_scale=64: no such item in the list: expected a list that has items, found `0`
        hint: set the whole list
        --set pipeline.stages=[{crop={size=32}},{batch=1}], `pipeline.stages.0.crop`: key is missing: expected a key `pad`, found none
        --set pipeline.stages=[{batch=1}: value is not TOML: expected a list, each of it a table with one key, shuffle, echo, resize, center-crop, random-resized-crop, crop, flip, jitter, cutout, normalize, batch, mixup or cutmix, found `[{batch=1}`
        hint: the shell may have eaten quotes: put the whole KEY=VALUE between single ones
        --set data.validation=-1: value of the wrong form: expected a whole number, 0 or more, found -1
        --set data.validation=1.5: value of the wrong form: expected a whole number, 0 or more, found 1.5
        --set data.validation=none: value of the wrong form: expected a whole number, 0 or more, found "none"
        --set data.validation=1
        seed=2: value of the wrong form: expected a whole number, 0 or more, found "1\nseed=2"
        --set seed=18446744073709551615: value cannot be used: expected a whole number below 2^63, found `18446744073709551615`
        --set run.evaluate=sometimes: unknown word: expected auto, epoch or geometric, found "sometimes"
        hint: did you mean "geometric"?
        --set seed=1: key is set twice: expected each key to be set once, found also `--set seed=1`
        hint: leave one of them out
        --set pipeline.stages.4.batch=1: settings overlap: expected each key to be set once, found also `--set pipeline.stages.batch=1`
        hint: leave one of them out
        --set pipeline.stages.crop={size=32,pad=4}: settings overlap: expected each key to be set once, found also `--set pipeline.stages.crop.pad=1`
        hint: leave one of them out
        --set pipeline.stages.flip=random: key is set twice: expected each key to be set once, found also `--set pipeline.stages.flip=none`
        hint: leave one of them out
        --set pipeline.stages.batch=1: settings overlap: expected each key to be set once, found also `--set pipeline.stages=[{batch=1}]`
        hint: leave one of them out
    "#]].assert_eq(&all);
}

#[test]
fn settings_that_cannot_be_read() {
    for text in ["", "seed", "=1", " = 1", "seed=", "seed= "] {
        let error = Setting::parse(text).unwrap_err();
        assert_eq!(error.complaint().what, "setting cannot be read", "{text}");
    }
}

#[test]
fn stages_that_come_twice_need_an_index() {
    let mut plan = plan();
    plan.set("pipeline.stages=[{flip='random'},{flip='random'},{batch=1}]").unwrap();
    let error = plan.set("pipeline.stages.flip=alternate").unwrap_err();
    assert!(error.complaint().hint.contains("pipeline.stages.0 and pipeline.stages.1"), "{error}");
    plan.set("pipeline.stages.1.flip=alternate").unwrap();
    assert_eq!(plan.pipeline.stages[1], StagePlan::Flip(crate::FlipKind::Alternate));
    plan.set("pipeline.stages.0=none").unwrap();
    assert_eq!(plan.pipeline.stages.len(), 2);
}

#[test]
fn a_stage_that_is_not_there_has_no_place() {
    let mut plan = plan();
    plan.set("pipeline.stages.flip=none").unwrap();
    let error = plan.set("pipeline.stages.flip=random").unwrap_err();
    expect![[r#"
        --set pipeline.stages.flip=random: the plan has no such stage: expected shuffle, crop, normalize or batch, found `flip`
        hint: a new stage needs its place: set pipeline.stages to the whole list"#]].assert_eq(&error.to_string());
}

#[test]
fn options_overlap_with_settings_too() {
    let mut plan = plan();
    let both = [Setting::option("--seed", "seed", "3"), Setting::parse("seed=4").unwrap()];
    expect![[r#"
        --set seed=4: key is set twice: expected each key to be set once, found also `--seed 3`
        hint: leave one of them out"#]]
    .assert_eq(&plan.apply(&both).unwrap_err().to_string());
    plan.apply(&both[..1]).unwrap();
    assert_eq!(plan.seed.0, 3);
}

#[test]
fn kinds_change_whole_sections() {
    let mut plan = plan();
    plan.set("model.kind=softmax").unwrap();
    plan.set("schedule.kind=constant").unwrap();
    plan.set("run.evaluate.updates=5").unwrap();
    assert_eq!(plan.model, ModelPlan::Softmax {});
    assert_eq!(plan.schedule, SchedulePlan::Constant { learning_rate: 0.05, warmup: None, horizon: None });
    plan.set("optimizer.average={kind='ema',decay=0.9}").unwrap();
    plan.set("optimizer.average.every=5").unwrap();
    assert_eq!(plan.optimizer.average.map(|average| average.every), Some(5));
    plan.set("optimizer.average=none").unwrap();
    assert_eq!(plan.optimizer.average, None);
    assert_eq!(plan.run.evaluate, EvaluatePlan::Updates(5));
    plan.set("run.evaluate=epoch").unwrap();
    assert_eq!(plan.run.evaluate, EvaluatePlan::Epoch);
}

/// Every legal key, typed with one letter wrong, is found again.
#[test]
fn every_key_is_the_nearest_to_its_misspelling() {
    let value = Value::Table(to_table(&plan()));
    for key in all_keys(&value) {
        let (start, last) = key.rsplit_once('.').map_or(("", key.as_str()), |(a, b)| (a, b));
        let mut wrong: Vec<char> = last.chars().collect();
        let middle = wrong.len() / 2;
        wrong.insert(middle, 'q');
        let wrong: String = wrong.into_iter().collect();
        let typed = if start.is_empty() { wrong } else { format!("{start}.{wrong}") };
        assert_eq!(nearest_key(&typed, &value).1.as_deref(), Some(key.as_str()), "{typed}");
    }
}

proptest! {
    #[test]
    fn numbers_arrive_exactly(rate in 0.0f64..1e300, seed in 0..=i64::MAX) {
        let mut plan = plan();
        plan.apply(&[
            Setting::parse(&format!("schedule.learning_rate={rate:?}")).unwrap(),
            Setting::parse(&format!("seed={seed}")).unwrap(),
        ]).unwrap();
        prop_assert_eq!(plan.schedule.learning_rate(0, 10), rate);
        prop_assert_eq!(plan.seed.0, seed as u64);
    }

    /// Whatever is typed is an answer, never a panic.
    #[test]
    fn nothing_typed_panics(
        key in prop::sample::select(vec![
            "pipeline.stages.0.", "pipeline.stages.", "model.", "run.evaluate.", "schedule.points.0.", ""
        ]),
        rest in "[a-z0-9.]{0,12}", value in ".{1,12}",
    ) {
        if let Ok(setting) = Setting::parse(&format!("{key}{rest}={value}")) {
            let _ = plan().apply(&[setting]);
        }
    }
}
