use super::*;
use crate::nqm::{NqmOptimizer, NqmSpec, solve};
use sooner_base::{Purpose, Seed};

const BATCHES: [f64; 10] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0];

fn curve(least: f64, critical: f64) -> Vec<CurvePoint> {
    BATCHES.map(|batch| CurvePoint { batch, updates: least * (1.0 + critical / batch) }).to_vec()
}

fn near(value: f64, expected: f64, share: f64) -> bool {
    (value / expected - 1.0).abs() < share
}

#[test]
fn the_law_itself_is_recovered() {
    for least in [20.0, 3e4] {
        for critical in [0.05, 3.0, 700.0, 1e5, 1e7] {
            let fit = fit_scaling(&curve(least, critical)).unwrap();
            assert!(
                near(fit.critical_batch, critical, 1e-6) && near(fit.least_updates, least, 1e-6),
                "{fit:?}"
            );
            assert!(near(fit.least_examples, least * critical, 1e-6));
            assert!(fit.residuals.iter().all(|r| r.abs() < 1e-6));
            assert!(near(fit.updates(critical), 2.0 * least, 1e-6));
        }
    }
}

#[test]
fn one_unlucky_search_does_not_bend_the_curve() {
    // Noise of 5 % everywhere, and one point three times too high: the critical batch stays within 25 %, where least
    // squares would be off by more.
    for seed in 0..10 {
        for unlucky in 0..BATCHES.len() {
            let mut points = curve(100.0, 500.0);
            let mut rng = Seed(seed).key(Purpose::Study, 9).at(0, unlucky as u64, 0);
            points.iter_mut().for_each(|p| p.updates *= (0.05 * rng.normal()).exp());
            points[unlucky].updates *= 3.0;
            let fit = fit_scaling(&points).unwrap();
            assert!(
                near(fit.critical_batch, 500.0, 0.25),
                "seed {seed} point {unlucky}: {}",
                fit.critical_batch
            );
            let worst = (0..points.len()).max_by(|a, b| fit.residuals[*a].total_cmp(&fit.residuals[*b]));
            assert_eq!(worst, Some(unlucky));
        }
    }
}

#[test]
fn curves_without_a_bend_say_so() {
    let perfect: Vec<_> = BATCHES.map(|batch| CurvePoint { batch, updates: 1e7 / batch }).to_vec();
    let fit = fit_scaling(&perfect).unwrap();
    assert_eq!((fit.critical_batch, fit.least_updates), (f64::INFINITY, 0.0));
    assert!(near(fit.least_examples, 1e7, 1e-3) && near(fit.updates(64.0), 1e7 / 64.0, 1e-3));
    let flat: Vec<_> = BATCHES.map(|batch| CurvePoint { batch, updates: 50.0 }).to_vec();
    let fit = fit_scaling(&flat).unwrap();
    assert_eq!((fit.critical_batch, fit.least_examples), (0.0, 0.0));
    assert!(near(fit.updates(64.0), 50.0, 1e-3));
}

#[test]
fn too_few_points_are_refused() {
    let points = curve(10.0, 10.0);
    assert!(fit_scaling(&points[..2]).is_err());
    assert!(fit_scaling(&[points[0], points[0], points[1]]).is_err());
    assert!(fit_scaling(&[points[0], points[1], CurvePoint { batch: 9.0, updates: f64::INFINITY }]).is_err());
    assert!(fit_scaling(&points[..3]).is_ok());
    assert!(regimes(&[], 0.2).is_err());
}

#[test]
fn regimes_of_the_law_are_where_it_says() {
    // Dense points: S B / (S_1 B_1) = 1.2 at B = 1 + 0.2 (1 + B_crit), and S = 1.2 S_min at B = 5 B_crit.
    let critical = 100.0;
    let points: Vec<_> = (0..400)
        .map(|i| {
            let batch = 1.05f64.powi(i);
            CurvePoint { batch, updates: 30.0 * (1.0 + critical / batch) }
        })
        .collect();
    let found = regimes(&points, 0.2).unwrap();
    assert!(found.perfect_until.seen && near(found.perfect_until.batch, 21.2, 0.01), "{found:?}");
    assert!(found.flat_from.seen && near(found.flat_from.batch, 500.0, 0.06), "{found:?}");
    assert!(near(perfect_scaling(&points, 2.0).unwrap(), 0.5 * points[0].updates, 1e-12));
    let unseen = regimes(&points[..30], 0.2).unwrap();
    assert_eq!((unseen.perfect_until.seen, unseen.flat_from.seen), (false, false));
    assert_eq!(unseen.flat_from.batch, points[29].batch);
}

#[test]
fn intervals_cover_the_truth_and_shrink_with_trials() {
    // Searches whose trials need 1 to 2 times the law's updates, a third of them censored.
    let search = |trials: usize| -> Vec<(f64, Vec<f64>)> {
        let point = |(i, p): (usize, CurvePoint)| {
            let mut rng = Seed(4).key(Purpose::Study, 3).at(0, i as u64, 0);
            let mut draw = || if rng.f64() < 0.33 { f64::INFINITY } else { p.updates * (1.0 + rng.f64()) };
            (p.batch, (0..trials).map(|_| draw()).collect())
        };
        curve(100.0, 500.0).into_iter().enumerate().map(point).collect()
    };
    let bootstrap = Bootstrap { seed: Seed(8), resamples: 300, confidence: 0.95 };
    let [few, many] = [12, 100].map(|trials| scaling_intervals(&search(trials), &bootstrap).unwrap());
    for found in [few, many] {
        assert!(found.critical_batch.low < 500.0 && 500.0 < found.critical_batch.high, "{found:?}");
        assert_eq!(found.left_out, 0);
    }
    let width = |i: Interval| (i.high / i.low).ln();
    assert!(width(many.critical_batch) < 0.5 * width(few.critical_batch), "{few:?} {many:?}");
    let censored: Vec<_> = BATCHES.map(|batch| (batch, vec![f64::INFINITY; 5])).to_vec();
    assert!(scaling_intervals(&censored, &bootstrap).is_err());
    let mut mostly = censored.clone();
    for (_, amounts) in mostly.iter_mut().take(3) {
        amounts[0] = 10.0;
    }
    let found = scaling_intervals(&mostly, &bootstrap).unwrap();
    assert!(found.left_out > 100 && found.left_out < 300, "{}", found.left_out);
}

#[test]
fn momentum_bends_later_in_the_noisy_quadratic_model() {
    let critical = |optimizer| {
        let points = [1u64, 16, 64, 256, 1024, 8192, 65536].map(|batch| {
            let spec = NqmSpec { dims: 200, goal: 0.01, optimizer, batch, echo: 1 };
            let cell = solve(&spec, std::num::NonZeroUsize::MIN).unwrap().unwrap();
            CurvePoint { batch: batch as f64, updates: cell.updates as f64 }
        });
        (fit_scaling(&points).unwrap().critical_batch, regimes(&points, 0.2).unwrap())
    };
    let (sgd, sgd_regimes) = critical(NqmOptimizer::Sgd);
    let (momentum, momentum_regimes) = critical(NqmOptimizer::Momentum);
    assert!(momentum > 3.0 * sgd, "{momentum} {sgd}");
    assert!(momentum_regimes.perfect_until.batch > sgd_regimes.perfect_until.batch);
    assert!(sgd_regimes.flat_from.seen && momentum_regimes.flat_from.seen);
}
