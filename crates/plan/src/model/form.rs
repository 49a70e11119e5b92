//! The form of the model section: the keys of each kind.

use crate::schema::{Form, Key, may, need};

const ACTIVATION: Form =
    Form::WordOr(&["relu", "gelu", "silu", "tanh", "sigmoid"], &[may("celu", Form::Number)]);

const NORM: Form = Form::Table(&[
    may("statistics", Form::WordOr(&["local", "synchronised"], &[may("ghost", Form::Whole)])),
    may("gain", Form::WordOr(&["one", "uniform"], &[may("fixed", Form::Number)])),
    may("rate", Form::Number),
    may("eps", Form::Number),
]);

const WHITEN: Form =
    Form::Table(&[need("patch", Form::Whole), need("images", Form::Whole), need("eps", Form::Number)]);

const fn sizes(count: usize) -> Form {
    Form::List(&Form::Whole, Some(count))
}

const UNITS: Form = Form::List(&Form::Whole, None);

const RESNET9: &[Key] = &[
    need("channels", sizes(4)),
    need("logit_scale", Form::Number),
    may("pool", Form::Word(&["after-activation", "before-activation", "before-norm"])),
    may("activation", ACTIVATION),
    may("norm", NORM),
    may("whiten", WHITEN),
];

const BACKBONE: &[Key] = &[
    need("channels", sizes(4)),
    need("downsampling", Form::Word(&["stride-1x1", "stride-3x3", "pool"])),
    need("extras", Form::List(&Form::Word(&["none", "convolution", "residual"]), Some(3))),
    need("head", Form::Word(&["average-max", "max"])),
    need("logit_scale", Form::Number),
    may("norm", NORM),
];

const AIRBENCH: &[Key] = &[
    need("channels", sizes(3)),
    need("convolutions", Form::Whole),
    need("logit_scale", Form::Number),
    need("whiten", WHITEN),
    may("norm", NORM),
    may("activation", ACTIVATION),
];

pub(crate) const MODEL: Form = Form::Kinds(&[
    ("softmax", &[]),
    (
        "fully-connected",
        &[need("hidden", UNITS), may("activation", ACTIVATION), may("dropout", Form::Number)],
    ),
    (
        "simple-cnn",
        &[need("channels", sizes(2)), may("activation", ACTIVATION), may("dropout", Form::Number)],
    ),
    ("resnet8", &[need("channels", sizes(3))]),
    ("resnet9", RESNET9),
    ("backbone", BACKBONE),
    (
        "dawn-resnet18",
        &[need("channels", sizes(4)), need("prep", Form::Word(&["plain", "norm-relu"])), may("norm", NORM)],
    ),
    ("resnet32", &[need("channels", sizes(3)), may("blocks", Form::Whole), may("norm", NORM)]),
    ("resnet50", &[may("channels", sizes(4)), may("blocks", sizes(4)), may("norm", NORM)]),
    (
        "vgg11",
        &[need("channels", sizes(8)), need("hidden", UNITS), may("dropout", Form::Number), may("norm", NORM)],
    ),
    ("airbench", AIRBENCH),
]);
