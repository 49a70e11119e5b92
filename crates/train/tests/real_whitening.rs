//! Whitening filters of the authors' CIFAR-10. `SOONER_DATA` names a folder that holds `cifar-10-batches-bin/`; without
//! it this skips, loudly.

use sooner_base::MonotonicClock;
use sooner_engine::native::Pool;
use sooner_pipeline::Evaluation;
use sooner_plan::Plan;
use sooner_train::{Patches, whitening_filters};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Past the test harness's capture.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\n{line}");
}

/// Second moments of the filters' answers to patches with these second moments, from `W^T S W`.
fn answers(filters: &[f32], moments: &[f64], length: usize) -> Vec<f64> {
    let w = |i: usize, k: usize| f64::from(filters[i * length + k]);
    let mut out = vec![0.0; length * length];
    for (at, out) in out.iter_mut().enumerate() {
        let (k, l) = (at / length, at % length);
        for i in 0..length {
            *out += (0..length).map(|j| w(i, k) * moments[i * length + j] * w(j, l)).sum::<f64>();
        }
    }
    out
}

#[test]
fn whitened_patches_of_cifar10_have_the_identity_for_their_covariance() {
    let root = std::env::var_os("SOONER_DATA").map(PathBuf::from);
    let Some(folder) = root.map(|r| r.join("cifar-10-batches-bin")).filter(|f| f.is_dir()) else {
        return say("SKIPPED whitening: set SOONER_DATA to a folder that holds cifar-10-batches-bin");
    };
    for name in ["cifar10-airbench94", "cifar10-page-whiten"] {
        let toml = sooner_models::workload(name).expect("built in").toml;
        let mut plan = Plan::parse(toml).expect("valid");
        plan.data.path = Some(folder.display().to_string());
        let threads = NonZeroUsize::new(2).expect("not 0");
        let splits = sooner_pipeline::load(&plan.data, 2, &MonotonicClock::start()).expect("the data");
        let pool = Pool::new(threads);
        let mut whitening = plan.model.whitening().expect("it whitens");
        let (side, images) = (whitening.plan.patch, whitening.plan.images);
        // As they are used, eps keeps the smallest directions below 1; without it all are 1.
        whitening.negatives = false;
        let evaluation = || Evaluation::new(&plan.pipeline, splits.train.clone(), 250).expect("stages");
        let used = whitening_filters(evaluation(), whitening, &pool).expect("readable");
        whitening.plan.eps = 1e-12;
        let filters = whitening_filters(evaluation(), whitening, &pool).expect("readable");

        let (mut patches, mut seen, mut all) = (Patches::new(side, 3), 0, evaluation());
        while seen < images {
            let batch = all.next_batch().expect("readable").expect("enough");
            patches.add(&pool, &batch.features, [32, 32]);
            seen += batch.len();
        }
        let length = side * side * 3;
        let moments = patches.moments();
        let identity = |at: usize| f64::from(u8::from(at.is_multiple_of(length + 1)));
        let covariance = answers(&filters, &moments, length);
        let worst = (0..length * length).map(|at| (covariance[at] - identity(at)).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-3, "{name}: {worst}");
        let damped = answers(&used, &moments, length);
        for at in 0..length * length {
            let found = damped[at];
            let good = if identity(at) == 1.0 { found > 0.0 && found < 1.0 } else { found.abs() < 1e-4 };
            assert!(good, "{name} {at}: {found}");
        }
        let shares: Vec<f64> = (0..length).map(|k| damped[k * (length + 1)]).collect();
        say(&format!(
            "REAL DATA whitening {name}: {seen} images, farthest from the identity {worst:.1e}, with eps variances {:.3} to {:.3}",
            shares[length - 1],
            shares[0]
        ));
    }
}
