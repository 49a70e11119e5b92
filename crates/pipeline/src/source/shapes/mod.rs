//! `shapes`: ten classes of drawings, 32x32 in colour, made by code, so that a first run needs no file.
//!
//! One shape lies on a cluttered ground at a random place, in a random size, at any angle; its colour says nothing about
//! its class. Example i of a split is a pure function of (split, i): asking for more examples changes none, and no plan's
//! seed enters, so that two runs with different seeds see one data set. Only additions, multiplications, divisions and
//! square roots make pixels, which IEEE 754 defines to the bit, so that all machines draw the same bytes.

mod canvas;
mod forms;

use super::{Examples, Meter, timed};
use crate::{Dataset, DatasetInfo, PipelineError, Splits};
use canvas::{Canvas, unit};
use forms::{CLASSES, FORMS};
use sooner_base::{Permutation, Purpose, Rng, Seed};
use sooner_plan::{DataPlan, Split};
use std::sync::Arc;

/// Height and width.
const SIDE: usize = canvas::SIDE;
const BYTES: usize = SIDE * SIDE * 3;
/// The data set's own seed; another number is another data set.
const SEED: Seed = Seed(0x5348_4150_4553);
/// More is a mistake, not a wish: 3 GB.
const MOST: usize = 1_000_000;

/// Draws the splits that a plan asks for: 10,000 training and 2,000 test examples where it does not say.
pub(super) fn splits(plan: &DataPlan, threads: usize, mut meter: Meter) -> Result<Splits, PipelineError> {
    let mut dataset = |key, split, count: usize| {
        let least = usize::from(split != Split::Val);
        if !(least..=MOST).contains(&count) {
            return Err(PipelineError::Count {
                key,
                split,
                expected: format!("{least} to {MOST} drawings"),
                found: count.to_string(),
                hint: "leave the key out for the usual number".into(),
            });
        }
        let Examples { pixels, labels } =
            timed(meter.clock, &mut meter.decode.busy, || draw(split, count, threads));
        meter.decode.items += count as u64;
        let classes = CLASSES.iter().map(|name| name.to_string()).collect();
        let info = DatasetInfo { name: "shapes".into(), split, shape: [SIDE, SIDE, 3], classes };
        Dataset::new(info, pixels, labels).map(Arc::new)
    };
    let train = dataset("data.train", Split::Train, plan.train.unwrap_or(DataPlan::DRAWN.0))?;
    let val = dataset("data.validation", Split::Val, plan.validation)?;
    let test = dataset("data.test", Split::Test, plan.test.unwrap_or(DataPlan::DRAWN.1))?;
    let (notices, sources) = (Vec::new(), Vec::new());
    Ok(Splits { train, val, test, read: meter.read, decode: meter.decode, notices, sources })
}

/// The first `count` examples of a split, drawn by so many threads (0 counts as 1).
fn draw(split: Split, count: usize, threads: usize) -> Examples {
    let mut pixels = vec![0; count * BYTES];
    let mut labels = vec![0; count];
    let share = count.div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        for (k, (pixels, labels)) in
            pixels.chunks_mut(share * BYTES).zip(labels.chunks_mut(share)).enumerate()
        {
            scope.spawn(move || {
                let mut canvas = Canvas::new();
                for (i, (image, label)) in
                    pixels.as_chunks_mut::<BYTES>().0.iter_mut().zip(labels).enumerate()
                {
                    let index = k * share + i;
                    *label = class(split, index);
                    draw_example(split, index, *label as usize, &mut canvas);
                    canvas.write(image);
                }
            });
        }
    });
    Examples { pixels, labels }
}

/// Splits have nothing in common.
fn salt(split: Split) -> u64 {
    match split {
        Split::Train => 0,
        Split::Val => 1,
        Split::Test => 2,
    }
}

/// The class of one example: each block of ten examples has every class once, in an order of its own, so that any
/// first so many examples are balanced.
fn class(split: Split, index: usize) -> u32 {
    let key = SEED.key(Purpose::Synthesis, salt(split)).derive(1);
    let classes = CLASSES.len();
    Permutation::new(key, (index / classes) as u32, classes as u64).get((index % classes) as u64) as u32
}

/// Draws one example. All choices but the form itself are made before the class is looked at, so that nothing else
/// can tell it.
fn draw_example(split: Split, index: usize, class: usize, canvas: &mut Canvas) {
    let mut rng = SEED.key(Purpose::Synthesis, salt(split)).at(0, index as u64, 0);
    let rng = &mut rng;
    let ground = colour(rng);
    let tint = nudge(rng, ground, 0.16);
    let form_colour = contrasting(rng, ground);
    let shade = nudge(rng, form_colour, 0.12);
    let radius = rng.range(7.0, 12.0);
    // The form may touch the edge but not leave it by more than a pixel.
    let [x, y] = [0, 1].map(|_| rng.range(radius - 1.0, SIDE as f32 - radius + 1.0));
    let turn = unit(rng.f32());

    canvas.gradient(ground, tint, unit(rng.f32()));
    for _ in 0..2 + rng.below(5) {
        clutter(rng, ground, form_colour, canvas);
    }
    let light = unit(rng.f32());
    let [cos, sin] = turn;
    let distance = FORMS[class];
    canvas.paint([x, y], radius * 1.05, |dx, dy| {
        let [u, v] = [(cos * dx + sin * dy) / radius, (cos * dy - sin * dx) / radius];
        let lit = 0.5 + 0.5 * (light[0] * dx + light[1] * dy) / radius;
        let colour = [0, 1, 2].map(|c| form_colour[c] + lit * (shade[c] - form_colour[c]));
        (distance(u, v) * radius, colour)
    });
    let noise = rng.range(0.01, 0.05);
    canvas.noise(rng, noise);
}

/// One stroke or blob behind the form, in a colour near the ground's or, less often, the form's own, so that colour
/// alone does not find the form.
fn clutter(rng: &mut Rng, ground: [f32; 3], form: [f32; 3], canvas: &mut Canvas) {
    let base = if rng.below(3) == 0 { form } else { ground };
    let colour = nudge(rng, base, 0.3);
    let centre = [0, 1].map(|_| rng.range(0.0, SIDE as f32));
    if rng.coin() {
        let ([cos, sin], half, width) = (unit(rng.f32()), rng.range(2.0, 9.0), rng.range(0.4, 0.9));
        canvas.paint(centre, half + width, |dx, dy| {
            let along = (cos * dx + sin * dy).clamp(-half, half);
            let [ex, ey] = [dx - along * cos, dy - along * sin];
            ((ex * ex + ey * ey).sqrt() - width, colour)
        });
    } else {
        let radius = rng.range(0.8, 2.4);
        canvas.paint(centre, radius, |dx, dy| ((dx * dx + dy * dy).sqrt() - radius, colour));
    }
}

/// A random colour, neither black nor white.
fn colour(rng: &mut Rng) -> [f32; 3] {
    let (hue, saturation, value) = (rng.range(0.0, 6.0), rng.range(0.1, 0.8), rng.range(0.2, 0.95));
    // Each channel is a trapezoid over the six sectors of the hue circle.
    [0.0, 4.0, 2.0].map(|shift| {
        let sector = (hue + shift) % 6.0;
        let level = ((sector - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        value * (1.0 - saturation * (1.0 - level))
    })
}

/// A colour near another.
fn nudge(rng: &mut Rng, colour: [f32; 3], by: f32) -> [f32; 3] {
    colour.map(|c| (c + rng.range(-by, by)).clamp(0.0, 1.0))
}

/// How light a colour looks (Rec. 601 weights).
fn luma([r, g, b]: [f32; 3]) -> f32 {
    0.299 * r + 0.587 * g + 0.114 * b
}

/// A random colour that is lighter or darker than the ground by at least a quarter of the range.
fn contrasting(rng: &mut Rng, ground: [f32; 3]) -> [f32; 3] {
    for _ in 0..16 {
        let colour = colour(rng);
        if (luma(colour) - luma(ground)).abs() >= 0.25 {
            return colour;
        }
    }
    // All sixteen were too near, which is rare: take the far end, so that no ground makes this go on for ever.
    if luma(ground) < 0.5 { [0.95; 3] } else { [0.05; 3] }
}

#[cfg(test)]
mod tests;
