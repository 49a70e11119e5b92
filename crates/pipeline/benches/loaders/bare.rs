//! The same work without a pipeline: each thread reads, decodes, cuts, scales, flips and normalises its share of the
//! files, in their order, into one buffer that it uses again and again. No order is kept, nothing is handed over, and
//! nothing is counted but examples.

use crate::resample::Resampler;
use crate::resized::RandomResizedCrop;
use crate::{Arguments, CUT, NORMAL};
use sooner_base::{Clock, MonotonicClock, Origin, Purpose, Seed};
use sooner_pipeline::{Dataset, Image};
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// Examples a second of all threads together.
pub(crate) fn pace(arguments: &Arguments, data: &Dataset) -> Result<f64, Box<dyn Error>> {
    let threads = arguments.threads.max(1);
    let mut rate = 0.0;
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let loops: Vec<_> =
            (0..threads).map(|k| scope.spawn(move || run(arguments, data, (k, threads)))).collect();
        for thread in loops {
            rate += thread.join().map_err(|_| "a loop panicked")??;
        }
        Ok(())
    })?;
    Ok(rate)
}

fn run(
    arguments: &Arguments,
    data: &Dataset,
    (first, step): (usize, usize),
) -> Result<f64, sooner_pipeline::PipelineError> {
    let source = data.source().expect("files are read while training");
    let crop = RandomResizedCrop::new(CUT, Seed(1).key(Purpose::Augment, 0));
    let coin = Seed(1).key(Purpose::Augment, 1);
    let table: Vec<[f32; 256]> = (0..3)
        .map(|c| std::array::from_fn(|x| ((x as f64 / 255.0 - NORMAL.0[c]) / NORMAL.1[c]) as f32))
        .collect();
    let (side, never) = (CUT.size, AtomicBool::new(false));
    let mut buffer = vec![0f32; arguments.batch * side * side * 3];
    let (mut bytes, mut image, mut cut) = (Vec::new(), Image::default(), Image::default());
    let mut resampler = Resampler::default();
    let clock = MonotonicClock::start();
    let mut at = first;
    let mut some = |seconds: f64| {
        let (since, mut examples) = (clock.now().0, 0);
        while clock.now().0 - since < seconds {
            let index = (at % data.len()) as u64;
            let origin = Origin { epoch: (at / data.len()) as u32, index, echo: 0 };
            source.read(index, &mut bytes, &never)?;
            source.decode(index, &bytes, Some([crop.least_side(); 2]), &mut image)?;
            let [h, w, _] = image.shape;
            resampler.scale(&image, crop.draw(origin, [h, w]), [side; 2], &mut cut);
            let mirrored = coin.at(origin.epoch, index, 0).coin();
            let out = &mut buffer[(examples % arguments.batch) * side * side * 3..][..side * side * 3];
            for (out, row) in out.chunks_exact_mut(side * 3).zip(cut.pixels.chunks_exact(side * 3)) {
                let write = |(out, pixel): (&mut [f32], &[u8])| {
                    (0..3).for_each(|c| out[c] = table[c][usize::from(pixel[c])]);
                };
                match mirrored {
                    true => out.chunks_exact_mut(3).zip(row.chunks_exact(3).rev()).for_each(write),
                    false => out.chunks_exact_mut(3).zip(row.chunks_exact(3)).for_each(write),
                }
            }
            (at, examples) = (at + step, examples + 1);
        }
        black_box(&buffer);
        Ok(examples as f64 / (clock.now().0 - since))
    };
    some(0.25 * arguments.seconds)?;
    some(arguments.seconds)
}
