use crate::testing::plan;
use crate::{DataFacts, Plan, PlanError};
use expect_test::expect;

mod run;

fn cifar() -> DataFacts {
    plan().data.expected_facts()
}

/// What checking says after each of these changes of a plan that is right.
fn complaints(cases: &[&str]) -> String {
    let mut all = String::new();
    for case in cases {
        let mut plan = plan();
        for setting in case.split(" & ") {
            plan.set(setting).unwrap_or_else(|e| panic!("{setting}: {e}"));
        }
        let error = match plan.check_without_data() {
            Err(error) => error.to_string(),
            Ok(()) => "accepted".to_string(),
        };
        all += &format!("{case}\n    {}\n", error.replace('\n', "\n    "));
    }
    all
}

#[test]
fn the_plan_of_the_tests_is_right() {
    plan().check(&cifar()).unwrap();
    plan().check_without_data().unwrap();
}

#[test]
fn data() {
    expect![[r#"
        name=""
            name: value cannot be used: expected a name, found ""
        data.kind=shapes
            data.path: data drawn by code have no folder: expected no path with kind "shapes", found "data"
            hint: leave --data out, or choose a workload that reads files
        data.path=""
            data.path: value cannot be used: expected a folder, found an empty text
        data.train=0
            data.train: value cannot be used: expected at least 1 example, found 0
            hint: leave the key out to train on all
        data.validation=50000
            data.validation: validation leaves nothing to train on: expected fewer than the 50000 training examples of cifar10, found 50000
        data.validation=1000000
            data.validation: validation leaves nothing to train on: expected fewer than the 50000 training examples of cifar10, found 1000000
        data.train=45001
            data.train: the plan wants more examples than there are: expected at most the 45000 training examples that validation leaves of 50000, found 45001
        data.train=45000
            accepted
        data.test=10001
            data.test: the plan wants more examples than there are: expected at most the 10000 test examples of cifar10, found 10001
        data.kind=mnist & data.validation=59999 & data.train=1
            pipeline.stages.3.normalize.mean: constants do not fit the channels: expected 1, one for each channel of the data, found 3
    "#]].assert_eq(&complaints(&[
        "name=\"\"",
        "data.kind=shapes",
        "data.path=\"\"",
        "data.train=0",
        "data.validation=50000",
        "data.validation=1000000",
        "data.train=45001",
        "data.train=45000",
        "data.test=10001",
        "data.kind=mnist & data.validation=59999 & data.train=1",
    ]));
}

#[test]
fn stages() {
    expect![[r#"
        pipeline.stages=[]
            pipeline.stages: there is no batch stage: expected a batch stage at the end, found no stages
            hint: add { batch = 64 }, or another number of examples
        pipeline.stages=[{shuffle="epoch"}]
            pipeline.stages: there is no batch stage: expected a batch stage at the end, found shuffle
            hint: add { batch = 64 }, or another number of examples
        pipeline.stages=[{batch=64},{batch=64}]
            pipeline.stages.1.batch: a second batch stage: expected examples to work on, found batches
            hint: leave one of them out
        pipeline.stages=[{batch=64},{flip="random"}]
            pipeline.stages.1.flip: stage comes after the batch stage: expected examples to work on, found batches
            hint: move it before the batch stage
        pipeline.stages=[{batch=64},{shuffle="epoch"}]
            pipeline.stages.1.shuffle: stage comes after the batch stage: expected examples to work on, found batches
            hint: move it before the batch stage
        pipeline.stages=[{shuffle="epoch"},{shuffle="epoch"},{batch=64}]
            pipeline.stages.1.shuffle: stage comes twice: expected one shuffle stage, found two
            hint: leave one of them out
        pipeline.stages=[{normalize={mean=[0,0,0],std=[1,1,1]}},{normalize={mean=[0,0,0],std=[1,1,1]}},{batch=1}]
            pipeline.stages.1.normalize: stage comes twice: expected one normalize stage, found two
            hint: leave one of them out
        pipeline.stages=[{flip="random"},{shuffle="epoch"},{flip="alternate"},{batch=1}]
            accepted
        pipeline.stages.batch=0
            pipeline.stages.4.batch: value cannot be used: expected at least 1 example, found 0
        pipeline.stages.batch=45001
            pipeline.stages.4.batch: batch is larger than the training split: expected at most 45000, found 45001
        pipeline.stages.batch=45000
            accepted
        pipeline.stages.crop.size=0
            pipeline.stages.1.crop.size: value cannot be used: expected at least 1 pixel, found 0
        pipeline.stages.crop.size=41
            pipeline.stages.1.crop.size: crop is larger than the padded image: expected at most 40 for images of 32x32 with 4 pixels on every side, found 41
            hint: crop less, or pad more
        pipeline.stages.crop.size=40
            accepted
        pipeline.stages.crop.pad=32
            pipeline.stages.1.crop.pad: there are too few pixels to mirror: expected less than 32 for images of 32x32, found 32
            hint: pad less, or with padding = "zero"
        pipeline.stages.crop.pad=31
            accepted
        pipeline.stages.crop={size=32,pad=32,padding="zero"}
            accepted
        pipeline.stages.crop={size=32,pad=9223372036854775807,padding="zero"}
            pipeline.stages.1.crop.pad: value cannot be used: expected at most 1048576 pixels, found 9223372036854775807
        pipeline.stages=[{crop={size=16,pad=0}},{crop={size=20,pad=1}},{batch=1}]
            pipeline.stages.1.crop.size: crop is larger than the padded image: expected at most 18 for images of 16x16 with 1 pixels on every side, found 20
            hint: crop less, or pad more
        pipeline.stages.normalize={mean=[0.5],std=[0.5]}
            pipeline.stages.3.normalize.mean: constants do not fit the channels: expected 3, one for each channel of the data, found 1
        pipeline.stages.normalize.std=[1,1]
            pipeline.stages.3.normalize.std: constants do not fit the channels: expected 3, one for each channel of the data, found 2
        pipeline.stages.normalize.std=[1,0,1]
            pipeline.stages.3.normalize.std.1: value cannot be used: expected a number above 0, found 0.0
        pipeline.stages.normalize.mean=[0,nan,0]
            pipeline.stages.3.normalize.mean.1: value cannot be used: expected a finite number, found NaN
        pipeline.threads=1025
            pipeline.threads: value cannot be used: expected 0 to 1024 threads, found 1025
        pipeline.threads=0
            accepted
        pipeline.tune=0
            pipeline.tune: value cannot be used: expected 1 to 1024 threads, found 0
        pipeline.tune=4
            accepted
        pipeline.last_batch=drop
            accepted
        pipeline.last_batch=drop & pipeline.stages=[{echo="auto"},{batch=64}]
            pipeline.last_batch: nothing to drop: expected "keep": with echo = "auto" every batch is full, found "drop"
            hint: leave it out
        pipeline.queue=0
            pipeline.queue: value cannot be used: expected 1 to 65536 batches, found 0
            hint: leave it out to have the usual number
        pipeline.queue=3
            accepted
        pipeline.budget=2GB
            pipeline.budget: value cannot be used: expected a whole number of bytes, alone or followed by KiB, MiB, GiB or TiB, found "2GB"
            hint: did you mean GiB (1024 MiB)?
        pipeline.budget=lots
            pipeline.budget: value cannot be used: expected a whole number of bytes, alone or followed by KiB, MiB, GiB or TiB, found "lots"
        pipeline.budget=-1GiB
            pipeline.budget: value cannot be used: expected a whole number of bytes, alone or followed by KiB, MiB, GiB or TiB, found "-1GiB"
        pipeline.budget=99999999999GiB
            pipeline.budget: value cannot be used: expected a whole number of bytes, alone or followed by KiB, MiB, GiB or TiB, found "99999999999GiB"
        pipeline.budget=0
            pipeline.budget: value cannot be used: expected more than 0 bytes, found 0
    "#]].assert_eq(&complaints(&[
        "pipeline.stages=[]",
        "pipeline.stages=[{shuffle=\"epoch\"}]",
        "pipeline.stages=[{batch=64},{batch=64}]",
        "pipeline.stages=[{batch=64},{flip=\"random\"}]",
        "pipeline.stages=[{batch=64},{shuffle=\"epoch\"}]",
        "pipeline.stages=[{shuffle=\"epoch\"},{shuffle=\"epoch\"},{batch=64}]",
        "pipeline.stages=[{normalize={mean=[0,0,0],std=[1,1,1]}},{normalize={mean=[0,0,0],std=[1,1,1]}},{batch=1}]",
        "pipeline.stages=[{flip=\"random\"},{shuffle=\"epoch\"},{flip=\"alternate\"},{batch=1}]",
        "pipeline.stages.batch=0",
        "pipeline.stages.batch=45001",
        "pipeline.stages.batch=45000",
        "pipeline.stages.crop.size=0",
        "pipeline.stages.crop.size=41",
        "pipeline.stages.crop.size=40",
        "pipeline.stages.crop.pad=32",
        "pipeline.stages.crop.pad=31",
        "pipeline.stages.crop={size=32,pad=32,padding=\"zero\"}",
        "pipeline.stages.crop={size=32,pad=9223372036854775807,padding=\"zero\"}",
        "pipeline.stages=[{crop={size=16,pad=0}},{crop={size=20,pad=1}},{batch=1}]",
        "pipeline.stages.normalize={mean=[0.5],std=[0.5]}",
        "pipeline.stages.normalize.std=[1,1]",
        "pipeline.stages.normalize.std=[1,0,1]",
        "pipeline.stages.normalize.mean=[0,nan,0]",
        "pipeline.threads=1025",
        "pipeline.threads=0",
        "pipeline.tune=0",
        "pipeline.tune=4",
        "pipeline.last_batch=drop",
        "pipeline.last_batch=drop & pipeline.stages=[{echo=\"auto\"},{batch=64}]",
        "pipeline.queue=0",
        "pipeline.queue=3",
        "pipeline.budget=2GB",
        "pipeline.budget=lots",
        "pipeline.budget=-1GiB",
        "pipeline.budget=99999999999GiB",
        "pipeline.budget=0",
    ]));
}

#[test]
fn training() {
    expect![[r#"
        model.channels=[16,0,64]
            model.channels.1: value cannot be used: expected a size from 1 to 1048576, found 0
        model.channels=[16,32,9223372036854775807]
            model.channels.2: value cannot be used: expected a size from 1 to 1048576, found 9223372036854775807
        model={kind="fully-connected",hidden=[]}
            model.hidden: value cannot be used: expected at least one hidden layer, found none
            hint: without one it is kind = "softmax"
        model={kind="fully-connected",hidden=[0]}
            model.hidden.0: value cannot be used: expected a size from 1 to 1048576, found 0
        model={kind="resnet9",channels=[1,1,1,1],logit_scale=0}
            model.logit_scale: value cannot be used: expected a number above 0, found 0.0
        optimizer.kind=sgd
            optimizer.momentum: plain descent has no momentum: expected 0 with kind "sgd", found 0.9
            hint: kinds with momentum are "heavy-ball" and "nesterov"
        optimizer.kind=sgd & optimizer.momentum=0
            accepted
        optimizer.momentum=1
            optimizer.momentum: value cannot be used: expected a number from 0 to below 1, found 1.0
        optimizer.momentum=-0.1
            optimizer.momentum: value cannot be used: expected a number from 0 to below 1, found -0.1
        optimizer.momentum=nan
            optimizer.momentum: value cannot be used: expected a number from 0 to below 1, found NaN
        optimizer.weight_decay=-1e-4
            optimizer.weight_decay: value cannot be used: expected a number, 0 or more, found -0.0001
        optimizer.weight_decay=inf
            optimizer.weight_decay: value cannot be used: expected a number, 0 or more, found inf
        optimizer.label_smoothing=1
            optimizer.label_smoothing: value cannot be used: expected a number from 0 to below 1, found 1.0
        optimizer.groups=[{parameters="biases",rate_scale=-1}]
            optimizer.groups.0.rate_scale: value cannot be used: expected a number, 0 or more, found -1.0
        optimizer.groups=[{parameters="biases"},{parameters="gains"},{parameters="biases"}]
            optimizer.groups.2: group comes twice: expected one group of biases, since the first that matches counts, found two
            hint: leave one of them out
        schedule.learning_rate=0
            schedule.learning_rate: value cannot be used: expected a number above 0, found 0.0
        schedule.learning_rate=-0.1
            schedule.learning_rate: value cannot be used: expected a number above 0, found -0.1
        schedule.learning_rate=nan
            schedule.learning_rate: value cannot be used: expected a number above 0, found NaN
        schedule.end_factor=1.5
            schedule.end_factor: value cannot be used: expected a share from 0 to 1, found 1.5
        schedule.decay_updates=0
            schedule.decay_updates: value cannot be used: expected at least 1 update, found 0
        schedule.decay_updates=100 & schedule.horizon=3
            schedule.decay_updates: the schedule's length is given twice: expected decay_updates (in updates) or horizon (in epochs), found both
            hint: leave one of them out
        schedule.horizon=0
            schedule.horizon: value cannot be used: expected a number above 0, found 0.0
        schedule.horizon=inf
            schedule.horizon: value cannot be used: expected a number above 0, found inf
        schedule.horizon=1e300
            schedule.horizon: value cannot be used: expected at most 1e9 epochs, found 1e300
        schedule={kind="constant",learning_rate=inf}
            schedule.learning_rate: value cannot be used: expected a number above 0, found inf
        schedule={kind="piecewise",points=[]}
            schedule.points: value cannot be used: expected at least 2 points, found 0
        schedule={kind="piecewise",points=[[0,1]]}
            schedule.points: value cannot be used: expected at least 2 points, found 1
        schedule={kind="piecewise",points=[[0,0],[0.5,1],[0.5,0]]}
            schedule.points.2.0: positions do not rise: expected more than the 0.5 of the point before it, found 0.5
        schedule={kind="piecewise",points=[[0,0],[0.5,1],[0.4,0]]}
            schedule.points.2.0: positions do not rise: expected more than the 0.5 of the point before it, found 0.4
        schedule={kind="piecewise",points=[[0,0],[1.5,1]]}
            schedule.points.1.0: value cannot be used: expected a share of the horizon, from 0 to 1, found 1.5
        schedule={kind="piecewise",points=[[0,0],[1,-1]]}
            schedule.points.1.1: value cannot be used: expected a learning rate, 0 or more, found -1.0
        schedule={kind="piecewise",points=[[0,0],[1,nan]]}
            schedule.points.1.1: value cannot be used: expected a learning rate, 0 or more, found NaN
        schedule={kind="piecewise",points=[[0,0],[1,0]]}
            schedule.points: value cannot be used: expected a learning rate above 0 somewhere, found only 0
    "#]].assert_eq(&complaints(&[
        "model.channels=[16,0,64]",
        "model.channels=[16,32,9223372036854775807]",
        "model={kind=\"fully-connected\",hidden=[]}",
        "model={kind=\"fully-connected\",hidden=[0]}",
        "model={kind=\"resnet9\",channels=[1,1,1,1],logit_scale=0}",
        "optimizer.kind=sgd",
        "optimizer.kind=sgd & optimizer.momentum=0",
        "optimizer.momentum=1",
        "optimizer.momentum=-0.1",
        "optimizer.momentum=nan",
        "optimizer.weight_decay=-1e-4",
        "optimizer.weight_decay=inf",
        "optimizer.label_smoothing=1",
        "optimizer.groups=[{parameters=\"biases\",rate_scale=-1}]",
        "optimizer.groups=[{parameters=\"biases\"},{parameters=\"gains\"},{parameters=\"biases\"}]",
        "schedule.learning_rate=0",
        "schedule.learning_rate=-0.1",
        "schedule.learning_rate=nan",
        "schedule.end_factor=1.5",
        "schedule.decay_updates=0",
        "schedule.decay_updates=100 & schedule.horizon=3",
        "schedule.horizon=0",
        "schedule.horizon=inf",
        "schedule.horizon=1e300",
        "schedule={kind=\"constant\",learning_rate=inf}",
        "schedule={kind=\"piecewise\",points=[]}",
        "schedule={kind=\"piecewise\",points=[[0,1]]}",
        "schedule={kind=\"piecewise\",points=[[0,0],[0.5,1],[0.5,0]]}",
        "schedule={kind=\"piecewise\",points=[[0,0],[0.5,1],[0.4,0]]}",
        "schedule={kind=\"piecewise\",points=[[0,0],[1.5,1]]}",
        "schedule={kind=\"piecewise\",points=[[0,0],[1,-1]]}",
        "schedule={kind=\"piecewise\",points=[[0,0],[1,nan]]}",
        "schedule={kind=\"piecewise\",points=[[0,0],[1,0]]}",
    ]));
}

#[test]
fn optimizers() {
    expect![[r#"
        optimizer.kind=adam & optimizer.second_momentum=0.99 & optimizer.eps=1e-6
            accepted
        optimizer.second_momentum=0.99
            optimizer.second_momentum: key of another rule: expected none, since no rule here is "adam", found one
            hint: leave it out
        optimizer.kind=adamw & optimizer.second_momentum=1
            optimizer.second_momentum: value cannot be used: expected a number from 0 to below 1, found 1.0
        optimizer.kind=adam & optimizer.eps=0
            optimizer.eps: value cannot be used: expected a number above 0, found 0.0
        optimizer.trust=0.01
            optimizer.trust: key of another rule: expected none, since no rule here is "lars", found one
            hint: leave it out
        optimizer.kind=lars & optimizer.trust=nan
            optimizer.trust: value cannot be used: expected a number above 0, found NaN
        optimizer.kind=adamw & optimizer.decay=coupled
            optimizer.decay: decay would not be what the plan says: expected "decoupled" or no such key with kind "adamw", whose decay always is, found "coupled"
            hint: kind "adam" has coupled decay
        optimizer.kind=adamw & optimizer.decay=decoupled
            accepted
        optimizer.kind=adamw & optimizer.decay=coupled & optimizer.groups=[{parameters='biases',rule='nesterov'}]
            accepted
        optimizer.kind=muon & optimizer.rounds=3 & optimizer.norms=kept
            accepted
        optimizer.kind=muon & optimizer.rounds=0
            optimizer.rounds: value cannot be used: expected 1 to 100 rounds, found 0
        optimizer.norms=kept
            optimizer.norms: key of another rule: expected none, since no rule here is "muon", found one
            hint: leave it out
        optimizer.groups=[{parameters='weights',rule='muon'}] & optimizer.norms=kept
            accepted
        optimizer.clip=0
            optimizer.clip: value cannot be used: expected a number above 0, found 0.0
        optimizer.clip=1
            accepted
        optimizer.average={kind='ema',decay=1.5}
            optimizer.average.decay: value cannot be used: expected a share from 0 to 1, found 1.5
        optimizer.average={kind='ema',decay=0.9,every=0}
            optimizer.average.every: value cannot be used: expected at least 1 update, found 0
        optimizer.average={kind='lookahead',decay=0.9,power=-1}
            optimizer.average.power: value cannot be used: expected a number, 0 or more, found -1.0
        optimizer.average={kind='lookahead',decay=0.9,power=3,every=5}
            accepted
        optimizer.average={kind='ema',decay=0.9} & schedule.decay_updates=100 & schedule.horizon=3
            accepted
        optimizer.units=decoupled-1024
            accepted
        optimizer.groups=[{parameters='biases',momentum=1}]
            optimizer.groups.0.momentum: value cannot be used: expected a number from 0 to below 1, found 1.0
        optimizer.groups=[{parameters='biases',until=-1}]
            optimizer.groups.0.until: value cannot be used: expected a number of epochs, 0 or more, found -1.0
        optimizer.groups=[{parameters='all'},{parameters='biases',prefix='linear'}]
            optimizer.groups.1: group holds nothing: expected parameters that no group before it holds, since the first that matches counts, found only those of optimizer.groups.0
            hint: put the narrower group first
        optimizer.groups=[{parameters='biases',prefix='linear'},{parameters='biases'},{parameters='all'}]
            accepted
        optimizer.groups=[{parameters='weights',rule='sgd',momentum=0.9}]
            optimizer.groups.0.momentum: plain descent has no momentum: expected none with rule "sgd", found 0.9
            hint: rules with momentum are "heavy-ball" and "nesterov"
        optimizer.groups=[{parameters='weights',rule='sgd'}]
            accepted
        run.initial=[{parameters='weights',kind='orthogonal',gain=2}]
            accepted
        run.initial=[{parameters='weights',kind='orthogonal',gain=0}]
            run.initial.0.gain: value cannot be used: expected a number above 0, found 0.0
        run.initial=[{parameters='weights',kind='dirac',gain=2}]
            run.initial.0.gain: key of another kind: expected none but with kind "orthogonal", found 2
            hint: leave it out
    "#]].assert_eq(&complaints(&[
        "optimizer.kind=adam & optimizer.second_momentum=0.99 & optimizer.eps=1e-6",
        "optimizer.second_momentum=0.99",
        "optimizer.kind=adamw & optimizer.second_momentum=1",
        "optimizer.kind=adam & optimizer.eps=0",
        "optimizer.trust=0.01",
        "optimizer.kind=lars & optimizer.trust=nan",
        "optimizer.kind=adamw & optimizer.decay=coupled",
        "optimizer.kind=adamw & optimizer.decay=decoupled",
        "optimizer.kind=adamw & optimizer.decay=coupled & optimizer.groups=[{parameters='biases',rule='nesterov'}]",
        "optimizer.kind=muon & optimizer.rounds=3 & optimizer.norms=kept",
        "optimizer.kind=muon & optimizer.rounds=0",
        "optimizer.norms=kept",
        "optimizer.groups=[{parameters='weights',rule='muon'}] & optimizer.norms=kept",
        "optimizer.clip=0",
        "optimizer.clip=1",
        "optimizer.average={kind='ema',decay=1.5}",
        "optimizer.average={kind='ema',decay=0.9,every=0}",
        "optimizer.average={kind='lookahead',decay=0.9,power=-1}",
        "optimizer.average={kind='lookahead',decay=0.9,power=3,every=5}",
        "optimizer.average={kind='ema',decay=0.9} & schedule.decay_updates=100 & schedule.horizon=3",
        "optimizer.units=decoupled-1024",
        "optimizer.groups=[{parameters='biases',momentum=1}]",
        "optimizer.groups=[{parameters='biases',until=-1}]",
        "optimizer.groups=[{parameters='all'},{parameters='biases',prefix='linear'}]",
        "optimizer.groups=[{parameters='biases',prefix='linear'},{parameters='biases'},{parameters='all'}]",
        "optimizer.groups=[{parameters='weights',rule='sgd',momentum=0.9}]",
        "optimizer.groups=[{parameters='weights',rule='sgd'}]",
        "run.initial=[{parameters='weights',kind='orthogonal',gain=2}]",
        "run.initial=[{parameters='weights',kind='orthogonal',gain=0}]",
        "run.initial=[{parameters='weights',kind='dirac',gain=2}]",
    ]));
}

#[test]
fn schedules() {
    expect![[r#"
        schedule={kind='constant',learning_rate=0.1,warmup=0.1}
            accepted
        schedule={kind='constant',learning_rate=0.1,warmup=1.1}
            schedule.warmup: value cannot be used: expected a share from 0 to 1, found 1.1
        schedule={kind='cosine',learning_rate=0.1,end_factor=2}
            schedule.end_factor: value cannot be used: expected a share from 0 to 1, found 2.0
        schedule={kind='cosine',learning_rate=0,end_factor=0}
            schedule.learning_rate: value cannot be used: expected a number above 0, found 0.0
        schedule={kind='one-cycle',learning_rate=1,start_factor=0.1,end_factor=0,peak=1}
            schedule.peak: value cannot be used: expected a share from 0 to below 1, found 1.0
        schedule={kind='one-cycle',learning_rate=1,start_factor=-0.1,end_factor=0,peak=0.5}
            schedule.start_factor: value cannot be used: expected a share from 0 to 1, found -0.1
        schedule={kind='one-cycle',learning_rate=1,start_factor=0,end_factor=0,peak=0}
            accepted
        schedule={kind='step',learning_rate=1,factor=0.1,drops=[0.5,0.5]}
            schedule.drops.1: value cannot be used: expected a share above the one before and below 1, found 0.5
        schedule={kind='step',learning_rate=1,factor=0.1,drops=[1]}
            schedule.drops.0: value cannot be used: expected a share above the one before and below 1, found 1.0
        schedule={kind='step',learning_rate=1,factor=0,drops=[0.5]}
            schedule.factor: value cannot be used: expected a number above 0, found 0.0
        schedule={kind='step',learning_rate=1,factor=0.1,drops=[0.5,0.75]}
            accepted
    "#]].assert_eq(&complaints(&[
        "schedule={kind='constant',learning_rate=0.1,warmup=0.1}",
        "schedule={kind='constant',learning_rate=0.1,warmup=1.1}",
        "schedule={kind='cosine',learning_rate=0.1,end_factor=2}",
        "schedule={kind='cosine',learning_rate=0,end_factor=0}",
        "schedule={kind='one-cycle',learning_rate=1,start_factor=0.1,end_factor=0,peak=1}",
        "schedule={kind='one-cycle',learning_rate=1,start_factor=-0.1,end_factor=0,peak=0.5}",
        "schedule={kind='one-cycle',learning_rate=1,start_factor=0,end_factor=0,peak=0}",
        "schedule={kind='step',learning_rate=1,factor=0.1,drops=[0.5,0.5]}",
        "schedule={kind='step',learning_rate=1,factor=0.1,drops=[1]}",
        "schedule={kind='step',learning_rate=1,factor=0,drops=[0.5]}",
        "schedule={kind='step',learning_rate=1,factor=0.1,drops=[0.5,0.75]}",
    ]));
}

#[test]
fn run() {
    expect![[r#"
        run.epochs=0
            run.epochs: value cannot be used: expected a number above 0, found 0.0
        run.epochs=-1
            run.epochs: value cannot be used: expected a number above 0, found -1.0
        run.epochs=nan
            run.epochs: value cannot be used: expected a number above 0, found NaN
        run.epochs=inf
            run.epochs: value cannot be used: expected a number above 0, found inf
        run.epochs=1e12
            run.epochs: value cannot be used: expected at most 1e9 epochs, found 1000000000000.0
        run.epochs=1e-6
            run.epochs: value cannot be used: expected at least one of the 45000 training examples, found 0.000001
        run.threads=0
            run.threads: value cannot be used: expected 1 to 1024 threads, found 0
        run.threads=1025
            run.threads: value cannot be used: expected 1 to 1024 threads, found 1025
        run.evaluate.updates=0
            run.evaluate.updates: value cannot be used: expected at least 1 update, found 0
        run.target=val.acuracy>=0.9
            run.target: target names an unknown metric: expected loss, error or accuracy, found `val.acuracy>=0.9`
            hint: did you mean `accuracy`?
        run.target=test.accuracy>=94
            run.target: target's value is not a fraction: expected a number from 0 to 1, found `test.accuracy>=94`
            hint: errors and accuracies are fractions here, never percent; did you mean 0.94?
        data.validation=0
            run.target: there is nothing to evaluate on: expected a split that has examples, found `val.error<0.40`, with no val examples
            hint: hold examples out with data.validation, or name test in the target
        data.validation=0 & run.target=test.accuracy>=0.94
            accepted
        data.validation=0 & run.target=none
            accepted
        data.test=0
            accepted
        data.test=0 & run.target=test.error<0.3
            run.target: there is nothing to evaluate on: expected a split that has examples, found `test.error<0.3`, with no test examples
            hint: name another split in the target
        data.test=0 & data.validation=0 & run.target=none
            data.validation: there is nothing to evaluate on: expected a split that has examples, found no val and no test examples
            hint: hold examples out with data.validation
        run.target=none & run.stop=end
            accepted
        guard=off
            accepted
        guard.loss=0
            run.guard.loss: value cannot be used: expected a number above 0, found 0.0
        run.guard.loss=nan
            run.guard.loss: value cannot be used: expected a number above 0, found NaN
        run.init.weights=""
            run.init.weights: value cannot be used: expected a file of weights, found an empty text
        run.init={ weights = "w", except = ["head", ""] }
            run.init.except: value cannot be used: expected beginnings of variables' names, found an empty text
            hint: leave `init` out to start from the model's own values
    "#]].assert_eq(&complaints(&[
        "run.epochs=0",
        "run.epochs=-1",
        "run.epochs=nan",
        "run.epochs=inf",
        "run.epochs=1e12",
        "run.epochs=1e-6",
        "run.threads=0",
        "run.threads=1025",
        "run.evaluate.updates=0",
        "run.target=val.acuracy>=0.9",
        "run.target=test.accuracy>=94",
        "data.validation=0",
        "data.validation=0 & run.target=test.accuracy>=0.94",
        "data.validation=0 & run.target=none",
        "data.test=0",
        "data.test=0 & run.target=test.error<0.3",
        "data.test=0 & data.validation=0 & run.target=none",
        "run.target=none & run.stop=end",
        "guard=off",
        "guard.loss=0",
        "run.guard.loss=nan",
        "run.init.weights=\"\"",
        "run.init={ weights = \"w\", except = [\"head\", \"\"] }",
    ]));
}

#[test]
fn sizes_that_only_the_data_tell() {
    let check = |train_examples, val_examples| {
        let facts = DataFacts { train_examples, val_examples, ..cifar() };
        plan().check(&facts).map_err(|e| e.complaint().what.clone())
    };
    assert_eq!(check(64, 1), Ok(()));
    assert_eq!(check(63, 1), Err("batch is larger than the training split".to_string()));
    assert_eq!(check(64, 0), Err("there is nothing to evaluate on".to_string()));
    let facts = DataFacts { image: [28, 28, 1], ..cifar() };
    assert!(matches!(plan().check(&facts), Err(PlanError::Impossible(_))));
}

#[test]
fn seeds_that_cannot_be_written() {
    let mut plan: Plan = plan();
    plan.seed.0 = u64::MAX;
    assert!(plan.check(&cifar()).is_err());
    plan.seed.0 = i64::MAX as u64;
    plan.check(&cifar()).unwrap();
    assert_eq!(Plan::parse(&plan.to_toml()).unwrap(), plan);
}

#[test]
fn folders() {
    let mut plan = plan();
    assert_eq!(plan.data.folder().unwrap(), Some("data"));
    plan.data.path = None;
    plan.check_without_data().unwrap();
    expect![[r#"
        data.path: no folder to read the data from: expected the folder of the cifar10 files, found no path
        hint: give it with --data DIR; `sooner data get cifar10 DIR` fetches the files"#]]
    .assert_eq(&plan.data.folder().unwrap_err().to_string());
    plan.data.kind = crate::DataKind::Shapes;
    assert_eq!(plan.data.folder().unwrap(), None);
}
