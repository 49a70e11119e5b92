//! The fast solution against a slow one that shares no formula with it, against sampling, and against known values.

use super::*;
use sooner_base::{Purpose, Seed};
use std::num::NonZeroUsize;

const RULES: [NqmOptimizer; 3] = [NqmOptimizer::Sgd, NqmOptimizer::Momentum, NqmOptimizer::Nesterov];
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Expected losses by carrying the whole second-moment matrix of (theta, velocity, held noise) from update to update.
fn naive_curve(spec: &NqmSpec, rate: f64, g: f64, fresh: usize) -> Vec<f64> {
    let mut curve = vec![0.0; fresh * spec.echo as usize];
    for i in 0..spec.dims {
        let h = 1.0 / (i + 1) as f64;
        let a = match spec.optimizer {
            NqmOptimizer::Nesterov => {
                [[1.0 - rate * (g * h + h), -rate * g * g, -rate * (g + 1.0)], [h, g, 1.0], [0.0, 0.0, 1.0]]
            }
            _ => [[1.0 - rate * h, -rate * g, -rate], [h, g, 1.0], [0.0, 0.0, 1.0]],
        };
        let mut m = [[0.0; 3]; 3];
        m[0][0] = 1.0;
        for (t, loss) in curve.iter_mut().enumerate() {
            if t % spec.echo as usize == 0 {
                // A fresh batch forgets the held noise, with all it was correlated with.
                for j in 0..3 {
                    (m[j][2], m[2][j]) = (0.0, 0.0);
                }
                m[2][2] = h / spec.batch as f64;
            }
            let mut next = [[0.0; 3]; 3];
            for r in 0..3 {
                for c in 0..3 {
                    for j in 0..3 {
                        for k in 0..3 {
                            next[r][c] += a[r][j] * m[j][k] * a[c][k];
                        }
                    }
                }
            }
            m = next;
            *loss += 0.5 * h * m[0][0];
        }
    }
    curve
}

fn close(fast: f64, slow: f64) -> bool {
    // Past the range of doubles the two may differ in when they turn infinite, and then NaN.
    let overflowed = |loss: f64| loss.is_nan() || loss >= 1e290;
    (overflowed(fast) && overflowed(slow)) || (fast - slow).abs() <= 1e-9 * slow
}

/// Rates from far too slow through every kind of oscillation to divergence.
const RATES: [f64; 9] = [1e-3, 0.02, 0.1, 0.5, 1.0, 1.7, 1.95, 2.3, 3.9];
const MOMENTA: [f64; 5] = [0.0, 0.3, 0.8, 0.95, 0.99];

#[test]
fn curves_equal_the_naive_twin() {
    for optimizer in RULES {
        for (dims, batch, echo) in [(1, 1, 1), (2, 3, 2), (7, 16, 3), (5, 100, 8)] {
            let spec = NqmSpec { dims, goal: 0.01, optimizer, batch, echo };
            for rate in RATES {
                for g in MOMENTA {
                    let fast = loss_curve(&spec, rate, g, 60).unwrap();
                    let slow = naive_curve(&spec, rate, g, 60);
                    for (t, (&f, &s)) in fast.iter().zip(&slow).enumerate() {
                        assert!(close(f, s), "{spec:?} rate {rate} g {g} update {t}: {f} {s}");
                    }
                }
            }
        }
    }
}

#[test]
fn crossings_equal_a_scan_of_the_naive_curve() {
    let mut reached = 0;
    for optimizer in RULES {
        for (dims, batch, echo) in [(1, 1, 1), (2, 30, 2), (9, 16, 3), (30, 100, 8), (30, 1000, 1), (3, 1, 4)]
        {
            for goal in [0.5, 0.1, 0.01] {
                let spec = NqmSpec { dims, goal, optimizer, batch, echo };
                for rate in RATES {
                    for g in MOMENTA {
                        let slow = naive_curve(&spec, rate, g, 700);
                        let below = |loss: &f64| *loss < goal * spec.initial_loss();
                        let at = slow.chunks(echo as usize).position(|batch| below(&batch[batch.len() - 1]));
                        let slow = at.map(|index| index as u64 + 1);
                        let fast = fresh_batches_to_goal(&spec, rate, g, 700).unwrap();
                        assert_eq!(fast, slow, "{spec:?} rate {rate} g {g}");
                        reached += u32::from(fast.is_some());
                    }
                }
            }
        }
    }
    assert!(reached > 500, "too few cells reach the goal ({reached}) for the comparison to mean much");
}

#[test]
fn sampled_runs_average_to_the_curve() {
    let spec = NqmSpec { dims: 3, goal: 0.1, optimizer: NqmOptimizer::Nesterov, batch: 2, echo: 3 };
    let (rate, g, samples, fresh) = (0.3, 0.5, 20_000, 5);
    let mut sums = [0.0; 15];
    for sample in 0..samples {
        let mut rng = Seed(7).key(Purpose::Study, 0).at(0, sample, 0);
        for i in 0..spec.dims {
            let h = spec.curvature(i);
            let (mut theta, mut v, mut noise) = (1.0, 0.0, 0.0);
            for t in 0..15 {
                if t % 3 == 0 {
                    noise = rng.normal() * (h / spec.batch as f64).sqrt();
                }
                let gradient = h * theta + noise;
                v = g * v + gradient;
                theta -= rate * (g * v + gradient);
                sums[t] += 0.5 * h * theta * theta / samples as f64;
            }
        }
    }
    for (t, &loss) in loss_curve(&spec, rate, g, fresh).unwrap().iter().enumerate() {
        assert!((sums[t] / loss - 1.0).abs() < 0.04, "update {t}: sampled {} exact {loss}", sums[t]);
    }
}

#[test]
fn echoed_sgd_equals_its_closed_form() {
    let spec = NqmSpec { dims: 200, goal: 0.01, optimizer: NqmOptimizer::Sgd, batch: 64, echo: 4 };
    let rate = 0.2;
    let curve = loss_curve(&spec, rate, 0.0, 90).unwrap();
    for fresh in [1, 7, 90] {
        let expected: f64 = (0..200)
            .map(|i| {
                let h = spec.curvature(i);
                let rho = 1.0 - rate * h;
                let left = rho.powi(8 * fresh);
                let once = rho.powi(4);
                left * 0.5 * h + (1.0 - left) * (h / 64.0) / (2.0 * h) * (1.0 - once) / (1.0 + once)
            })
            .sum();
        assert!(close(curve[4 * fresh as usize - 1], expected), "after {fresh} fresh batches");
    }
}

/// Every row of the reference table, with its learning rate (six digits there) and momentum.
#[test]
fn equals_every_row_of_the_reference_table() {
    let table = include_str!("../../tests/data/nqm.csv");
    let mut rows = 0;
    for line in table.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let number = |i: usize| -> f64 { f[i].parse().unwrap() };
        let spec = NqmSpec {
            dims: 200,
            goal: number(1),
            optimizer: f[0].parse().unwrap(),
            batch: f[2].parse().unwrap(),
            echo: f[3].parse().unwrap(),
        };
        let cell = solve(&spec, TWO).unwrap().expect("the goal is within reach");
        assert_eq!([cell.fresh_batches.to_string(), cell.updates.to_string()], [f[4], f[5]], "{line}");
        assert!((cell.learning_rate / number(6) - 1.0).abs() < 1e-5 && cell.momentum == number(7), "{line}");
        rows += 1;
    }
    assert_eq!(rows, 308);
}

#[test]
fn threads_do_not_change_the_answer() {
    for (optimizer, batch) in
        [(NqmOptimizer::Momentum, 2048), (NqmOptimizer::Nesterov, 128), (NqmOptimizer::Sgd, 512)]
    {
        let spec = NqmSpec { dims: 50, goal: 0.02, optimizer, batch, echo: 2 };
        let one = solve(&spec, NonZeroUsize::MIN).unwrap();
        assert!(one.is_some());
        for threads in [2, 3, 7] {
            assert_eq!(solve(&spec, NonZeroUsize::new(threads).unwrap()).unwrap(), one);
        }
    }
}

#[test]
fn a_goal_below_the_noise_of_every_cell_is_not_reached() {
    // The slowest rate's stationary loss at batch 1 is rate/2 * dims / 2 = 0.0061; the goal is far below.
    let spec = NqmSpec { dims: 50, goal: 1e-5, optimizer: NqmOptimizer::Sgd, batch: 1, echo: 1 };
    assert_eq!(solve(&spec, TWO).unwrap(), None);
    assert_eq!(fresh_batches_to_goal(&spec, 0.1, 0.0, u64::MAX).unwrap(), None);
    // Without noise to speak of, any goal is reached in the end.
    let spec = NqmSpec { batch: 1 << 60, goal: 1e-12, ..spec };
    assert!(fresh_batches_to_goal(&spec, 1e-4, 0.0, u64::MAX).unwrap().unwrap() > 1_000_000);
}

#[test]
fn senseless_questions_are_refused() {
    let spec = NqmSpec { dims: 200, goal: 0.01, optimizer: NqmOptimizer::Sgd, batch: 1, echo: 1 };
    let place = |spec: NqmSpec| spec.check().unwrap_err().fault().place.clone();
    assert_eq!(spec.check(), Ok(()));
    assert_eq!(place(NqmSpec { dims: 0, ..spec }), "dims");
    for goal in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY] {
        assert_eq!(place(NqmSpec { goal, ..spec }), "goal");
    }
    assert_eq!(place(NqmSpec { batch: 0, ..spec }), "batch");
    assert_eq!(place(NqmSpec { echo: 0, ..spec }), "echo");
    assert!("adam".parse::<NqmOptimizer>().is_err());
}
