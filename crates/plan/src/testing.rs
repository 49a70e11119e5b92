//! A plan for tests.

use crate::Plan;

pub(crate) const TEXT: &str = r#"name = "test"
seed = 1

[data]
kind = "cifar10"
path = "data"
validation = 5000

[model]
kind = "resnet8"
channels = [16, 32, 64]

[pipeline]
stages = [
  { shuffle = "epoch" },
  { crop = { size = 32, pad = 4, padding = "reflect" } },
  { flip = "random" },
  { normalize = { mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25] } },
  { batch = 64 },
]
threads = 1
budget = "256MiB"
on_bad = "fail"

[optimizer]
kind = "nesterov"
momentum = 0.9
weight_decay = 0.0
label_smoothing = 0.0

[schedule]
kind = "linear"
learning_rate = 0.05
end_factor = 0.2

[run]
epochs = 3.0
target = "val.error<0.40"
stop = "target"
evaluate = "auto"
guard = "finite"
"#;

pub(crate) fn plan() -> Plan {
    Plan::parse(TEXT).expect("the test plan is a plan")
}
