use super::*;
use crate::schema::{Key, STAGE};
use crate::testing::{TEXT, plan};
use crate::{
    ActivationPlan, BackboneHead, Downsampling, Extra, GainPlan, NormPlan, PoolPlace, Prep, StatisticsPlan,
    WhitenPlan,
};
use crate::{
    AverageKind, AveragePlan, CropPlan, CycleShape, DataKind, Decay, EvaluatePlan, FlipKind, Group,
    GroupMatch, GuardPlan, InitPlan, InitialKind, InitialPlan, Norms, OnBad, OptimizerKind, OptimizerPlan,
    Padding, SchedulePlan, ShuffleKind, StagePlan, Stop, Units,
};
use crate::{EchoFactor, EchoPlan, JitterPlan, RandomResizedCropPlan};
use expect_test::expect;
use proptest::prelude::*;
use sooner_base::Seed;

#[test]
fn reading_and_writing_are_inverse_to_the_byte() {
    assert_eq!(plan().to_toml(), TEXT);
}

#[test]
fn defaults_are_written_out() {
    let short = TEXT.replace("threads = 1\nbudget = \"256MiB\"\non_bad = \"fail\"\n", "");
    let short = short.replace("weight_decay = 0.0\nlabel_smoothing = 0.0\n", "");
    let short = short
        .replace("stop = \"target\"\nevaluate = \"auto\"\nguard = \"finite\"\n", "")
        .replace(", padding = \"reflect\"", "");
    let short = short.replace("epochs = 3.0", "epochs = 3  # a whole number will do");
    assert!(short.len() < TEXT.len() - 100);
    assert_eq!(Plan::parse(&short).unwrap().to_toml(), TEXT);
}

#[test]
fn what_is_wrong_in_a_file_is_shown_there() {
    let mut all = String::new();
    for (from, to) in [
        ("seed = 1", "sede = 1"),
        ("seed = 1\n", ""),
        ("seed = 1", "seed = -1"),
        ("seed = 1", "seed = 1.0"),
        ("seed = 1", "seed = 9223372036854775808"),
        ("seed = 1", "seed = "),
        ("seed = 1", "seed = 1\nseed = 2"),
        ("name = \"test\"", "name = \"t\u{e9}st\"; x = 1"),
        ("[model]", "[modle]"),
        ("[model]", "[model"),
        ("kind = \"cifar10\"", "kind = \"cifar-10\""),
        ("kind = \"cifar10\"", "kind = \"mnist-fashion\""),
        ("kind = \"resnet8\"", "kind = \"resnet-8\""),
        ("kind = \"resnet8\"", "kind = \"resnet9\""),
        ("kind = \"resnet8\"", "kind = 8"),
        ("kind = \"resnet8\"", "depth = 8"),
        ("channels = [16, 32, 64]", "channels = [16, 32]"),
        ("channels = [16, 32, 64]", "channels = [16, -32, 64]"),
        ("channels = [16, 32, 64]", "chanels = [16, 32, 64]"),
        ("channels = [16, 32, 64]", "channels = [16, 32, 64]\nlogit_scale = 1"),
        ("flip = \"random\"", "flop = \"random\""),
        ("flip = \"random\"", "flip = \"randomly\""),
        ("flip = \"random\"", "flip = \"random\", batch = 3"),
        ("{ flip = \"random\" }", "{}"),
        ("{ flip = \"random\" }", "\"flip\""),
        ("pad = 4", "padd = 4"),
        ("pad = 4", "pad = \"four\""),
        ("pad = 4, ", ""),
        ("momentum = 0.9", "momentum = true"),
        ("momentum = 0.9", "momentun = 0.9"),
        ("momentum = 0.9", "learning_rate = 0.1"),
        ("kind = \"nesterov\"", "kind = \"adamm\""),
        ("kind = \"linear\"", "kind = \"constant\""),
        ("kind = \"linear\"", "kind = \"lineal\""),
        ("epochs = 3.0", "epochs = 3.0\nbatch_size = 3"),
        ("epochs = 3.0", "epochs = 3.0\nlr = 3"),
        ("epochs = 3.0", "epochs = \"three\""),
        ("target = \"val.error<0.40\"", "target = 0.4"),
        ("evaluate = \"auto\"", "evaluate = \"atuo\""),
        ("evaluate = \"auto\"", "evaluate = { update = 3 }"),
        ("evaluate = \"auto\"", "evaluate = 3"),
    ] {
        assert_eq!(TEXT.matches(from).count(), 1, "{from}");
        let text = TEXT.replace(from, to);
        let error = Plan::parse(&text).err().unwrap_or_else(|| panic!("{to} is accepted"));
        all += &format!("{to:?}\n    {}\n", error.to_string().replace('\n', "\n    "));
    }
    all += &format!("\"\"\n    {}\n", Plan::parse("").unwrap_err());
    expect![[r#"
        "sede = 1"
            line 2, column 1, `sede`: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `sede`
            hint: did you mean `seed`?
        ""
            line 1, column 1, top level: key is missing: expected a key `seed`, found none
        "seed = -1"
            line 2, column 8, `seed`: value of the wrong form: expected a whole number, 0 or more, found -1
        "seed = 1.0"
            line 2, column 8, `seed`: value of the wrong form: expected a whole number, 0 or more, found 1.0
        "seed = 9223372036854775808"
            line 2, column 8: not TOML, u64 value was too large: expected TOML, found `seed = 9223372036854775808`
        "seed = "
            line 2, column 8: not TOML, string values must be quoted: expected literal string, found `seed =`
        "seed = 1\nseed = 2"
            line 3, column 1: not TOML, duplicate key: expected TOML, found `seed = 2`
        "name = \"tést\"; x = 1"
            line 1, column 14: not TOML, unexpected key or value: expected newline, `#`, found `name = "tést"; x = 1`
        "[modle]"
            line 9, column 2, `modle`: unknown key: expected name, seed, data, model, pipeline, optimizer, schedule or run, found `modle`
            hint: did you mean `model`?
        "[model"
            line 9, column 7: not TOML, unclosed table: expected `]`, found `[model`
        "kind = \"cifar-10\""
            line 5, column 8, `data.kind`: unknown word: expected shapes, mnist, fashion-mnist, cifar10, image-folder or webdataset, found "cifar-10"
            hint: did you mean "cifar10"?
        "kind = \"mnist-fashion\""
            line 5, column 8, `data.kind`: unknown word: expected shapes, mnist, fashion-mnist, cifar10, image-folder or webdataset, found "mnist-fashion"
            hint: did you mean "mnist"?
        "kind = \"resnet-8\""
            line 10, column 8, `model.kind`: unknown word: expected softmax, fully-connected, simple-cnn, resnet8, resnet9, backbone, dawn-resnet18, resnet32, resnet50, vgg11 or airbench, found "resnet-8"
            hint: did you mean "resnet8"?
        "kind = \"resnet9\""
            line 11, column 12, `model.channels`: value of the wrong form: expected a list of 4, each of it a whole number, 0 or more, found [16, 32, 64]
        "kind = 8"
            line 10, column 8, `model.kind`: value of the wrong form: expected a text, found 8
        "depth = 8"
            line 9, column 2, `model`: key is missing: expected a key `kind`, found none
        "channels = [16, 32]"
            line 11, column 12, `model.channels`: value of the wrong form: expected a list of 3, each of it a whole number, 0 or more, found [16, 32]
        "channels = [16, -32, 64]"
            line 11, column 17, `model.channels.1`: value of the wrong form: expected a whole number, 0 or more, found -32
        "chanels = [16, 32, 64]"
            line 11, column 1, `model.chanels`: unknown key: expected kind or channels, found `chanels`
            hint: did you mean `channels`?
        "channels = [16, 32, 64]\nlogit_scale = 1"
            line 12, column 1, `model.logit_scale`: unknown key: expected kind or channels, found `logit_scale`
            hint: `logit_scale` belongs to kind "resnet9"
        "flop = \"random\""
            line 17, column 5, `pipeline.stages.2.flop`: unknown key: expected shuffle, echo, resize, center-crop, random-resized-crop, crop, flip, jitter, cutout, normalize, batch, mixup or cutmix, found `flop`
            hint: did you mean `flip`?
        "flip = \"randomly\""
            line 17, column 12, `pipeline.stages.2.flip`: unknown word: expected random or alternate, found "randomly"
            hint: did you mean "random"?
        "flip = \"random\", batch = 3"
            line 17, column 3, `pipeline.stages.2`: value of the wrong form: expected a table with one key, shuffle, echo, resize, center-crop, random-resized-crop, crop, flip, jitter, cutout, normalize, batch, mixup or cutmix, found { flip = "random", batch = 3 }
        "{}"
            line 17, column 3, `pipeline.stages.2`: value of the wrong form: expected a table with one key, shuffle, echo, resize, center-crop, random-resized-crop, crop, flip, jitter, cutout, normalize, batch, mixup or cutmix, found {}
        "\"flip\""
            line 17, column 3, `pipeline.stages.2`: value of the wrong form: expected a table with one key, shuffle, echo, resize, center-crop, random-resized-crop, crop, flip, jitter, cutout, normalize, batch, mixup or cutmix, found "flip"
        "padd = 4"
            line 16, column 25, `pipeline.stages.1.crop.padd`: unknown key: expected size, pad or padding, found `padd`
            hint: did you mean `pad`?
        "pad = \"four\""
            line 16, column 31, `pipeline.stages.1.crop.pad`: value of the wrong form: expected a whole number, 0 or more, found "four"
        ""
            line 16, column 5, `pipeline.stages.1.crop`: key is missing: expected a key `pad`, found none
        "momentum = true"
            line 27, column 12, `optimizer.momentum`: value of the wrong form: expected a number, found true
        "momentun = 0.9"
            line 27, column 1, `optimizer.momentun`: unknown key: expected kind, momentum, weight_decay, decay, units, second_momentum, eps, trust, rounds, norms, clip, average, label_smoothing or groups, found `momentun`
            hint: did you mean `momentum`?
        "learning_rate = 0.1"
            line 27, column 1, `optimizer.learning_rate`: unknown key: expected kind, momentum, weight_decay, decay, units, second_momentum, eps, trust, rounds, norms, clip, average, label_smoothing or groups, found `learning_rate`
            hint: did you mean `schedule.learning_rate`?
        "kind = \"adamm\""
            line 26, column 8, `optimizer.kind`: unknown word: expected sgd, heavy-ball, nesterov, adam, adamw, lars or muon, found "adamm"
            hint: did you mean "adam"?
        "kind = \"constant\""
            line 34, column 1, `schedule.end_factor`: unknown key: expected kind, learning_rate, warmup or horizon, found `end_factor`
            hint: `end_factor` belongs to kind "linear"
        "kind = \"lineal\""
            line 32, column 8, `schedule.kind`: unknown word: expected constant, linear, cosine, one-cycle, step or piecewise, found "lineal"
            hint: did you mean "linear"?
        "epochs = 3.0\nbatch_size = 3"
            line 38, column 1, `run.batch_size`: unknown key: expected epochs, target, stop, evaluate, views, guard, init, replay, initial, threads, convolutions, activations, replicas, accumulate, noise_scale or select, found `batch_size`
            hint: did you mean `pipeline.stages.batch`?
        "epochs = 3.0\nlr = 3"
            line 38, column 1, `run.lr`: unknown key: expected epochs, target, stop, evaluate, views, guard, init, replay, initial, threads, convolutions, activations, replicas, accumulate, noise_scale or select, found `lr`
            hint: did you mean `schedule.learning_rate`?
        "epochs = \"three\""
            line 37, column 10, `run.epochs`: value of the wrong form: expected a number, found "three"
        "target = 0.4"
            line 38, column 10, `run.target`: value of the wrong form: expected a text, found 0.4
        "evaluate = \"atuo\""
            line 40, column 12, `run.evaluate`: unknown word: expected auto, epoch or geometric, found "atuo"
            hint: did you mean "auto"?
        "evaluate = { update = 3 }"
            line 40, column 14, `run.evaluate.update`: unknown key: expected updates or growing, found `update`
            hint: did you mean `updates`?
        "evaluate = 3"
            line 40, column 12, `run.evaluate`: value of the wrong form: expected auto, epoch or geometric, or a table with one key, updates or growing, found 3
        ""
            line 1, column 1, top level: key is missing: expected a key `name`, found none
    "#]].assert_eq(&all);
}

#[test]
fn the_file_is_named_on_demand() {
    let error = Plan::parse("name = 1").unwrap_err().in_file("my.toml");
    expect!["my.toml: line 1, column 8, `name`: value of the wrong form: expected a text, found 1"]
        .assert_eq(&error.to_string());
}

/// The error's fields are what a program reads.
#[test]
fn unknown_keys_are_data() {
    let error = Plan::parse(&TEXT.replace("momentum", "momentun")).unwrap_err();
    let PlanError::UnknownKey { complaint, nearest, keys } = error else { panic!("{error}") };
    assert_eq!(nearest.as_deref(), Some("momentum"));
    assert_eq!(keys[..4], ["kind", "momentum", "weight_decay", "decay"]);
    assert_eq!(complaint.place, "line 27, column 1, `optimizer.momentun`");
}

/// Every kind of everything, with every optional key.
fn full_plans() -> Vec<Plan> {
    let stages = vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        StagePlan::Echo(EchoPlan { factor: EchoFactor::Fixed(2.5), buffer: 7 }),
        StagePlan::Echo(EchoPlan { factor: EchoFactor::Auto { max: 3 }, buffer: 0 }),
        StagePlan::Resize(9),
        StagePlan::CenterCrop(8),
        StagePlan::RandomResizedCrop(RandomResizedCropPlan {
            size: 5,
            scale: [0.25, 1.0],
            ratio: [0.5, 2.0],
        }),
        StagePlan::Crop(CropPlan { size: 1, pad: 2, padding: Padding::Zero }),
        StagePlan::Flip(FlipKind::Alternate),
        StagePlan::Jitter(JitterPlan { brightness: 0.1, contrast: 0.2, saturation: 0.3, hue: 0.4 }),
        StagePlan::Cutout(1),
        StagePlan::Normalize(crate::NormalizePlan { mean: vec![0.25], std: vec![1.0] }),
        StagePlan::Batch(3),
        StagePlan::Mixup(0.25),
        StagePlan::Cutmix(1.0),
    ];
    let group = |parameters| Group {
        parameters,
        prefix: "linear".into(),
        rate_scale: 2.0,
        decay_scale: 0.0,
        rule: Some(OptimizerKind::Muon),
        momentum: Some(0.5),
        until: Some(1.5),
    };
    let mut base = plan();
    base.data = DataPlan {
        kind: DataKind::Shapes,
        path: Some("a \"folder\" \\ \u{2122}".into()),
        classes: Some(5),
        rate: Some("3MiB".into()),
        train: Some(1),
        validation: 2,
        test: Some(3),
        images: Some(crate::ImagesPlan { size: Some(64), ..Default::default() }),
        shards: Some(crate::ShardsPlan::default()),
    };
    base.pipeline.stages = stages;
    base.pipeline.on_bad = OnBad::Skip;
    base.pipeline.last_batch = crate::LastBatch::Drop;
    (base.pipeline.queue, base.pipeline.tune) = (Some(5), Some(3));
    base.pipeline.timeout = Some(2.5);
    base.pipeline.keep = crate::Keep::Memory;
    base.pipeline.draws = crate::Draws::Single;
    base.pipeline.workers = crate::WorkerLife::Epoch;
    base.optimizer.kind = OptimizerKind::HeavyBall;
    let matches = [GroupMatch::Weights, GroupMatch::Biases, GroupMatch::Gains, GroupMatch::All];
    base.optimizer = OptimizerPlan {
        decay: Some(Decay::Decoupled),
        units: Units::Decoupled1024,
        second_momentum: Some(0.99),
        eps: Some(1e-6),
        trust: Some(0.01),
        rounds: Some(3),
        norms: Some(Norms::Kept),
        clip: Some(1.0),
        average: Some(AveragePlan { kind: AverageKind::Lookahead, decay: 0.95, every: 5, power: 3.0 }),
        groups: matches.map(group).to_vec(),
        ..base.optimizer
    };
    base.run.threads = Some(2);
    (base.run.convolutions, base.run.activations) = (crate::Convolutions::Direct, crate::Activations::Bf16);
    base.run.stop = Stop::End;
    base.run.views = crate::Views::Flips;
    base.run.replay = Some("runs/one".into());
    let kinds = [InitialKind::Orthogonal, InitialKind::Dirac, InitialKind::DiracUniform, InitialKind::Zero];
    base.run.initial = matches
        .into_iter()
        .zip(kinds)
        .map(|(parameters, kind)| InitialPlan { parameters, prefix: "stage1".into(), kind, gain: Some(2.0) })
        .collect();
    base.run.init = Some(InitPlan {
        weights: "w.safetensors".into(),
        except: vec!["head".into()],
        crc32: Some("0123abcd".into()),
    });
    (base.run.replicas, base.run.accumulate, base.run.noise_scale) = (2, 3, Some(5));
    base.run.select = Some(crate::SelectPlan { keep: 0.5, power: 2.0, from: 0.1, until: 0.9 });
    let models = full_models();
    let schedules = [
        SchedulePlan::Constant { learning_rate: 0.1, warmup: None, horizon: None },
        SchedulePlan::Linear {
            warmup: None,
            learning_rate: 0.1,
            end_factor: 0.5,
            decay_updates: Some(u64::MAX >> 1),
            horizon: Some(1.5),
        },
        SchedulePlan::Piecewise {
            points: vec![[0.0, 1e-300], [1.0, 0.1]],
            warmup: Some(0.05),
            horizon: Some(2.0),
        },
        SchedulePlan::Cosine { learning_rate: 0.1, end_factor: 0.0, warmup: Some(0.05), horizon: Some(2.0) },
        SchedulePlan::OneCycle {
            learning_rate: 0.1,
            start_factor: 0.2,
            end_factor: 0.07,
            peak: 0.23,
            shape: CycleShape::Cosine,
            warmup: Some(0.05),
            horizon: Some(2.0),
        },
        SchedulePlan::Step {
            learning_rate: 0.1,
            factor: 0.1,
            drops: vec![0.5, 0.75],
            warmup: Some(0.05),
            horizon: Some(2.0),
        },
    ];
    let evaluations = [
        EvaluatePlan::Auto,
        EvaluatePlan::Epoch,
        EvaluatePlan::Updates(7),
        EvaluatePlan::Geometric,
        EvaluatePlan::Growing { by: 1.25, from: 0.1 },
    ];
    let kinds = [
        DataKind::Shapes,
        DataKind::Mnist,
        DataKind::Webdataset,
        DataKind::FashionMnist,
        DataKind::ImageFolder,
    ];
    let rules = [
        OptimizerKind::Sgd,
        OptimizerKind::HeavyBall,
        OptimizerKind::Nesterov,
        OptimizerKind::Adam,
        OptimizerKind::Adamw,
        OptimizerKind::Lars,
        OptimizerKind::Muon,
    ];
    let most = models.len().max(schedules.len()).max(rules.len());
    (0..most)
        .map(|i| {
            let mut plan = base.clone();
            plan.model = models[i % models.len()].clone();
            plan.schedule = schedules[i % schedules.len()].clone();
            plan.run.evaluate = evaluations[i % evaluations.len()];
            plan.run.guard = [GuardPlan::Finite, GuardPlan::Off, GuardPlan::Loss(1e4)][i % 3];
            plan.data.kind = kinds[i % kinds.len()];
            plan.optimizer.kind = rules[i % rules.len()];
            plan
        })
        .collect()
}

/// Every family, with every optional key.
fn full_models() -> Vec<ModelPlan> {
    let norm =
        NormPlan { statistics: StatisticsPlan::Ghost(32), gain: GainPlan::Fixed(1.0), rate: 0.4, eps: 1e-12 };
    let uniform = NormPlan { gain: GainPlan::Uniform, ..NormPlan::default() };
    let whiten = WhitenPlan { patch: 3, images: 100, eps: 0.01 };
    vec![
        ModelPlan::Softmax {},
        ModelPlan::FullyConnected { hidden: vec![3, 4], activation: ActivationPlan::Tanh, dropout: 0.5 },
        ModelPlan::SimpleCnn { channels: [1, 2], activation: ActivationPlan::Celu(0.3), dropout: 0.25 },
        ModelPlan::Resnet8 { channels: [1, 2, 3] },
        ModelPlan::Resnet9 {
            channels: [1, 2, 3, 4],
            logit_scale: 0.125,
            pool: PoolPlace::BeforeNorm,
            activation: ActivationPlan::Silu,
            norm,
            whiten: Some(whiten),
        },
        ModelPlan::Backbone {
            channels: [1, 2, 3, 4],
            downsampling: Downsampling::Stride1x1,
            extras: [Extra::None, Extra::Convolution, Extra::Residual],
            head: BackboneHead::AverageMax,
            logit_scale: 1.0,
            norm: uniform,
        },
        ModelPlan::DawnResnet18 { channels: [1, 2, 3, 4], prep: Prep::NormRelu, norm },
        ModelPlan::Resnet32 { channels: [1, 2, 3], blocks: 2, norm },
        ModelPlan::Resnet50 { channels: [1, 2, 3, 4], blocks: [1, 1, 2, 1], norm },
        ModelPlan::Vgg11 { channels: [1; 8], hidden: vec![5, 6], dropout: 0.5, norm: Some(norm) },
        ModelPlan::Airbench {
            channels: [1, 2, 3],
            convolutions: 3,
            logit_scale: 0.1,
            whiten,
            norm,
            activation: ActivationPlan::Relu,
        },
    ]
}

#[test]
fn full_plans_round_trip() {
    for plan in full_plans() {
        let text = plan.to_toml();
        assert_eq!(Plan::parse(&text).unwrap(), plan, "{text}");
        assert_eq!(ModelPlan::parse(&plan.model.to_toml()).unwrap(), plan.model);
        assert_eq!(DataPlan::parse(&plan.data.to_toml()).unwrap(), plan.data);
    }
}

/// The schema and the types say the same: every key of the schema is written by some full plan, leaving out a key
/// that the schema calls optional is fine to serde, and leaving out a required one is not. (That the types know no
/// key beyond the schema's follows from full plans being readable.)
#[test]
fn schema_and_types_agree() {
    let mut seen = std::collections::BTreeSet::new();
    for plan in full_plans() {
        let value = Value::Table(to_table(&plan));
        try_without(&value, &value, &PLAN, &mut Vec::new(), &mut seen);
    }
    let mut missing = Vec::new();
    let mut expect =
        |keys: &[Key]| missing.extend(keys.iter().map(|k| k.name).filter(|k| !seen.contains(*k)));
    let Form::Table(sections) = PLAN else { unreachable!() };
    for key in sections {
        match key.form {
            Form::Table(keys) => expect(keys),
            Form::Kinds(kinds) => kinds.iter().for_each(|(_, keys)| expect(keys)),
            _ => expect(&[*key]),
        }
    }
    let Form::OneOf(stages) = STAGE else { unreachable!() };
    expect(stages);
    assert_eq!(missing, Vec::<&str>::new(), "keys that no type writes");
}

/// Takes each key of `part` away in turn, and compares what schema and serde make of it.
fn try_without(
    root: &Value,
    part: &Value,
    form: &Form,
    path: &mut Vec<String>,
    seen: &mut std::collections::BTreeSet<String>,
) {
    let keys: &[Key] = match (form, part) {
        (
            Form::Table(keys) | Form::OneOf(keys) | Form::WordOr(_, keys) | Form::NumberOr(_, keys),
            Value::Table(_),
        ) => keys,
        (Form::Kinds(kinds), Value::Table(t)) => {
            kinds.iter().find(|k| Some(k.0) == t["kind"].as_str()).expect("a known kind").1
        }
        (Form::List(of, _), Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                path.push(i.to_string());
                try_without(root, item, of, path, seen);
                path.pop();
            }
            return;
        }
        _ => return,
    };
    for key in keys {
        let Some(inner) = part.get(key.name) else { continue };
        seen.insert(key.name.to_string());
        path.push(key.name.to_string());
        let mut without = root.clone();
        remove(&mut without, path);
        let by_serde: Result<Plan, _> = without.clone().try_into();
        let by_schema = PLAN.check(&without, &mut Vec::new());
        assert_eq!(by_serde.is_ok(), by_schema.is_ok(), "without {path:?}: {by_serde:?}, {by_schema:?}");
        // A stage or an evaluation rule is its one key; it cannot go alone.
        let alone = matches!(form, Form::OneOf(_) | Form::WordOr(..));
        assert_eq!(by_schema.is_err(), key.required || alone, "without {path:?}");
        try_without(root, inner, &key.form, path, seen);
        path.pop();
    }
}

fn remove(root: &mut Value, path: &[String]) {
    let (last, above) = path.split_last().expect("a key");
    let mut at = root;
    for segment in above {
        at = match at {
            Value::Table(t) => &mut t[segment.as_str()],
            Value::Array(items) => &mut items[segment.parse::<usize>().expect("an index")],
            _ => unreachable!(),
        };
    }
    at.as_table_mut().expect("a table").remove(last);
}

proptest! {
    #[test]
    fn any_values_round_trip(
        name in ".{1,12}", seed in 0u64..=i64::MAX as u64, rate in any::<f64>(), sizes in any::<[u32; 3]>(),
        pad in 0usize..9999, path in prop::option::of(".*"), epochs in 1e-9f64..1e9,
    ) {
        let mut plan = plan();
        plan.name = name;
        plan.seed = Seed(seed);
        plan.data.path = path;
        plan.run.epochs = epochs;
        plan.model = ModelPlan::Resnet8 { channels: sizes.map(|n| n as usize) };
        plan.schedule = SchedulePlan::Constant {
            learning_rate: if rate.is_nan() { 0.5 } else { rate },
            warmup: None,
            horizon: None,
        };
        plan.pipeline.stages.push(StagePlan::Crop(CropPlan { size: 3, pad, padding: Padding::Zero }));
        let text = plan.to_toml();
        let read = Plan::parse(&text).unwrap();
        prop_assert_eq!(&read, &plan);
        prop_assert_eq!(read.to_toml(), text);
    }

    /// Damage anywhere is an error or another plan, never a panic.
    #[test]
    fn no_damage_panics(at in any::<prop::sample::Index>(), with in ".{0,3}", length in 0usize..6) {
        let from = at.index(TEXT.len());
        let to = (from + length).min(TEXT.len());
        let text = format!("{}{with}{}", &TEXT[..from], &TEXT[to..]);
        if let Ok(plan) = Plan::parse(&text) {
            let _ = plan.check_without_data();
        }
    }
}
