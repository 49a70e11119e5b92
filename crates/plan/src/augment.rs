//! Stages that resize, cut, cover, mix and colour images.

use serde::{Deserialize, Serialize};

/// A square cut of random area and shape, scaled to one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCropPlan {
    /// Height and width of the result in pixels.
    pub size: usize,
    /// The cut's share of the image's area, uniform between these.
    #[serde(default = "scale")]
    pub scale: [f64; 2],
    /// The cut's width over its height, log-uniform between these.
    #[serde(default = "ratio")]
    pub ratio: [f64; 2],
}

fn scale() -> [f64; 2] {
    [0.08, 1.0]
}

fn ratio() -> [f64; 2] {
    [0.75, 4.0 / 3.0]
}

/// How far colours are changed, each by a uniform draw; 0 leaves one alone. Applied in the order of the fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterPlan {
    /// Factor from 1 - this to 1 + this.
    #[serde(default)]
    pub brightness: f64,
    /// Factor from 1 - this to 1 + this, about the image's mean grey.
    #[serde(default)]
    pub contrast: f64,
    /// Factor from 1 - this to 1 + this, about each pixel's grey.
    #[serde(default)]
    pub saturation: f64,
    /// Turn of the colour circle, from minus this to this; 0.5 is half way round.
    #[serde(default)]
    pub hue: f64,
}
