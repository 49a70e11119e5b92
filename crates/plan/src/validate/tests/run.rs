//! More that plans may not say: networks that cannot be, parts of batches, schedules to follow.

use super::complaints;
use expect_test::expect;

#[test]
fn parts_of_batches() {
    let ghost =
        "model={kind=\"resnet9\", channels=[1, 2, 3, 4], logit_scale=0.5, norm={statistics={ghost=16}}}";
    expect![[r#"
        run.replicas=2
            accepted
        run.replicas=0
            run.replicas: value cannot be used: expected 1 to 1024 replicas, found 0
        run.replicas=99999
            run.replicas: value cannot be used: expected 1 to 1024 replicas, found 99999
        run.accumulate=0
            run.accumulate: value cannot be used: expected at least 1 part, found 0
        run.accumulate=2 & run.noise_scale=10
            accepted
        run.noise_scale=10
            run.noise_scale: value cannot be used: expected batches that are cut into at least two parts, found one part
            hint: set run.replicas or run.accumulate to 2 or more: the estimate compares parts with the whole
        run.replicas=2 & run.noise_scale=0
            run.noise_scale: value cannot be used: expected at least 1 update between estimates, found 0
        run.replicas=4 & run.accumulate=40
            run.accumulate: value cannot be used: expected replicas times accumulate to be at most the 64 examples of a batch, found 160
            hint: make the batch larger, or cut it into fewer parts
        model={kind="resnet9", channels=[1, 2, 3, 4], logit_scale=0.5, norm={statistics={ghost=16}}} & pipeline.stages.batch=64 & run.replicas=2 & run.accumulate=2
            accepted
        model={kind="resnet9", channels=[1, 2, 3, 4], logit_scale=0.5, norm={statistics={ghost=16}}} & pipeline.stages.batch=64 & run.replicas=5
            run.replicas: value cannot be used: expected replicas times accumulate to be at most the 4 groups of 16 examples that normalisation keeps together, found 5
            hint: make the groups smaller, or cut the batch into fewer parts
    "#]].assert_eq(&complaints(&[
        "run.replicas=2",
        "run.replicas=0",
        "run.replicas=99999",
        "run.accumulate=0",
        "run.accumulate=2 & run.noise_scale=10",
        "run.noise_scale=10",
        "run.replicas=2 & run.noise_scale=0",
        "run.replicas=4 & run.accumulate=40",
        &format!("{ghost} & pipeline.stages.batch=64 & run.replicas=2 & run.accumulate=2"),
        &format!("{ghost} & pipeline.stages.batch=64 & run.replicas=5"),
    ]));
}

/// With `echo = "auto"` lengths are of fresh examples, and only then is there a schedule to follow.
#[test]
fn auto_and_what_it_forbids() {
    let check = |settings: &[&str]| {
        let mut plan = crate::testing::plan();
        settings.iter().for_each(|setting| plan.set(setting).unwrap());
        plan.check_without_data().map_err(|error| error.to_string())
    };
    let auto = "pipeline.stages=[{shuffle=\"epoch\"},{echo=\"auto\"},{batch=100}]";
    assert_eq!(check(&[auto]), Ok(()));
    assert_eq!(check(&[auto, "run.replay=runs/one"]), Ok(()));
    let error = check(&["run.replay=runs/one"]).unwrap_err();
    assert!(error.contains("there is no schedule to follow"), "{error}");
    let error = check(&[auto, "schedule.decay_updates=9"]).unwrap_err();
    assert!(error.contains("number is not known beforehand"), "{error}");
    let error = check(&["pipeline.stages=[{shuffle={buffer=0}},{batch=100}]"]).unwrap_err();
    assert!(error.contains("a buffer of at least 1 example"), "{error}");
    let mut plan = crate::testing::plan();
    plan.set("pipeline.stages=[{shuffle={buffer=500}},{batch=100}]").unwrap();
    assert_eq!(crate::Plan::parse(&plan.to_toml()).unwrap(), plan);
    assert!(plan.to_toml().contains("{ buffer = 500 }"), "{}", plan.to_toml());
}

#[test]
fn models() {
    expect![[r#"
        model={kind="fully-connected",hidden=[3],dropout=1.0}
            model.dropout: value cannot be used: expected a share from 0 to below 1, found 1.0
        model={kind="fully-connected",hidden=[3],dropout=0.5,activation="tanh"}
            accepted
        model={kind="simple-cnn",channels=[3,4],activation={celu=0}}
            model.activation.celu: value cannot be used: expected a number above 0, found 0.0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,pool="before-activation"}
            accepted
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,pool="before-activation",activation="gelu"}
            model.pool: pooling before an activation that falls gives other values: expected "after-activation" or "before-norm", or an activation that rises throughout, found "before-activation"
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,norm={statistics={ghost=0}}}
            model.norm.statistics.ghost: value cannot be used: expected 1 to 1048576, found 0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,norm={gain={fixed=0}}}
            model.norm.gain.fixed: value cannot be used: expected a number above 0, found 0.0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,norm={rate=0}}
            model.norm.rate: value cannot be used: expected a share above 0, at most 1, found 0.0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,norm={eps=0}}
            model.norm.eps: value cannot be used: expected a number above 0, found 0.0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,whiten={patch=9,images=1,eps=0}}
            model.whiten.patch: value cannot be used: expected 1 to 8, found 9
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,whiten={patch=3,images=0,eps=0}}
            model.whiten.images: value cannot be used: expected 1 to 1073741824, found 0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=1,whiten={patch=3,images=1,eps=-1}}
            model.whiten.eps: value cannot be used: expected a number, 0 or more, found -1.0
        model={kind="resnet32",channels=[1,1,1],blocks=0}
            model.blocks: value cannot be used: expected 1 to 1000, found 0
        model={kind="resnet50",blocks=[1,0,1,1]}
            model.blocks.1: value cannot be used: expected 1 to 1000, found 0
        model={kind="resnet50"}
            accepted
        model={kind="vgg11",channels=[1,1,1,1,1,1,1,1],hidden=[]}
            accepted
        model={kind="airbench",channels=[1,1,1],convolutions=4,logit_scale=1,whiten={patch=2,images=1,eps=0}}
            model.convolutions: value cannot be used: expected 2 to 3, found 4
        model.kind=resnet32 & model.blocks=3 & model.norm.statistics.ghost=32 & model.norm.rate=0.5
            accepted
    "#]].assert_eq(&complaints(&[
        "model={kind=\"fully-connected\",hidden=[3],dropout=1.0}",
        "model={kind=\"fully-connected\",hidden=[3],dropout=0.5,activation=\"tanh\"}",
        "model={kind=\"simple-cnn\",channels=[3,4],activation={celu=0}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,pool=\"before-activation\"}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,pool=\"before-activation\",activation=\"gelu\"}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,norm={statistics={ghost=0}}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,norm={gain={fixed=0}}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,norm={rate=0}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,norm={eps=0}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,whiten={patch=9,images=1,eps=0}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,whiten={patch=3,images=0,eps=0}}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=1,whiten={patch=3,images=1,eps=-1}}",
        "model={kind=\"resnet32\",channels=[1,1,1],blocks=0}",
        "model={kind=\"resnet50\",blocks=[1,0,1,1]}",
        "model={kind=\"resnet50\"}",
        "model={kind=\"vgg11\",channels=[1,1,1,1,1,1,1,1],hidden=[]}",
        "model={kind=\"airbench\",channels=[1,1,1],convolutions=4,logit_scale=1,whiten={patch=2,images=1,eps=0}}",
        "model.kind=resnet32 & model.blocks=3 & model.norm.statistics.ghost=32 & model.norm.rate=0.5",
    ]));
}
