use super::*;

const EVEN: [Sequence; 2] = [Sequence::Halton, Sequence::Sobol];

fn points(sequence: &Sequence, seed: u64, dims: usize, n: u64) -> Vec<Vec<f64>> {
    let points = Points::new(sequence, Seed(seed), dims).unwrap();
    (0..n).map(|trial| points.point(trial).unwrap()).collect()
}

/// Pearson's correlation of two coordinates.
fn correlation(points: &[Vec<f64>], a: usize, b: usize) -> f64 {
    let n = points.len() as f64;
    let [ma, mb] = [a, b].map(|d| points.iter().map(|p| p[d]).sum::<f64>() / n);
    let sum = |f: &dyn Fn(&[f64]) -> f64| points.iter().map(|p| f(p)).sum::<f64>();
    let covariance = sum(&|p| (p[a] - ma) * (p[b] - mb));
    covariance / (sum(&|p| (p[a] - ma).powi(2)) * sum(&|p| (p[b] - mb).powi(2))).sqrt()
}

/// Of every pair of coordinates.
fn correlations(points: &[Vec<f64>]) -> Vec<f64> {
    let pairs = (0..points[0].len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.map(|(a, b)| correlation(points, a, b)).collect()
}

/// Independent uniform points correlate with a standard deviation of 1 / sqrt(n - 1), so a pair is called visibly
/// correlated beyond 4.5 of those: by chance one pair in 150,000 would be, and 15,200 are looked at. The root mean square
/// over the pairs of a study shows what single pairs hide; independent points would give 1 with a standard deviation of
/// 0.05.
#[test]
fn no_pair_of_twenty_dimensions_is_visibly_correlated() {
    for sequence in EVEN {
        for n in [50u64, 100, 200, 500, 1000] {
            let scale = ((n - 1) as f64).sqrt();
            for seed in 0..8 {
                let points = points(&sequence, seed, 20, n);
                let all = correlations(&points);
                let strongest = all.iter().fold(0.0, |a: f64, r| a.max(r.abs())) * scale;
                let rms = (all.iter().map(|r| r * r).sum::<f64>() / all.len() as f64).sqrt() * scale;
                assert!(
                    strongest < 4.5,
                    "{sequence:?} n {n} seed {seed}: a pair correlates by {strongest} sd"
                );
                assert!(rms < 1.1, "{sequence:?} n {n} seed {seed}: the pairs correlate by {rms} sd");
            }
        }
    }
}

#[test]
fn plain_halton_is_visibly_correlated() {
    // The fault that scrambling is for; it also shows that the test above can fail.
    let halton = Halton::new(20);
    let plain: Vec<Vec<f64>> =
        (0..100).map(|i| (0..20).map(|d| halton.coordinate(d, i, None)).collect()).collect();
    assert!(correlations(&plain).iter().any(|r| r.abs() > 0.8));
}

#[test]
fn every_dimension_is_stratified() {
    // Base b puts one of each b^k neighbours, from a multiple of b^k on, into each of b^k equal intervals.
    for seed in 0..3 {
        for (sequence, bases) in [(Sequence::Halton, [2u64, 3, 5, 7, 11, 13]), (Sequence::Sobol, [2; 6])] {
            let points = points(&sequence, seed, 6, 400);
            for (dim, base) in bases.into_iter().enumerate() {
                for power in 1..8 {
                    let strata = base.pow(power) as usize;
                    for block in points.chunks_exact(strata) {
                        let mut seen = vec![false; strata];
                        for p in block {
                            let stratum = (p[dim] * strata as f64) as usize;
                            assert!(
                                !std::mem::replace(&mut seen[stratum], true),
                                "{sequence:?} dim {dim} base {base}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn points_depend_on_seed_and_trial_alone() {
    for sequence in [Sequence::Halton, Sequence::Sobol, Sequence::Random] {
        let (few, many) = (points(&sequence, 3, 5, 10), points(&sequence, 3, 5, 40));
        assert_eq!(few, many[..10], "more trials move earlier points");
        let fewer_dims = points(&sequence, 3, 2, 10);
        assert!(
            fewer_dims.iter().zip(&few).all(|(a, b)| a[..] == b[..2]),
            "more dimensions move earlier ones"
        );
        assert_ne!(points(&sequence, 4, 5, 10), few);
        let all = Points::new(&sequence, Seed(3), 5).unwrap();
        assert_eq!(all.point(39).as_ref(), Some(&many[39]), "drawn alone, a point differs");
        assert!(many.iter().flatten().all(|x| (0.0..1.0).contains(x)));
        let mut distinct: Vec<u64> = many.iter().flatten().map(|x| x.to_bits()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 200, "{sequence:?} repeats a coordinate");
    }
}

#[test]
fn high_trial_numbers_stay_inside() {
    for sequence in [Sequence::Halton, Sequence::Sobol, Sequence::Random] {
        let points = Points::new(&sequence, Seed(1), 20).unwrap();
        for trial in [u64::from(u32::MAX), 1 << 40, (1 << 53) - 1, u64::MAX] {
            assert!(points.point(trial).unwrap().iter().all(|x| (0.0..1.0).contains(x)));
        }
    }
}

#[test]
fn grid_runs_through_every_combination_once() {
    let points = points(&Sequence::Grid(vec![2, 1, 3]), 9, 3, 6);
    let expected: Vec<Vec<f64>> = [(0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (1.0, 0.0), (1.0, 0.5), (1.0, 1.0)]
        .map(|(a, c)| vec![a, 0.5, c])
        .into();
    assert_eq!(points, expected);
    assert_eq!(Points::new(&Sequence::Grid(vec![2, 1, 3]), Seed(9), 3).unwrap().point(6), None);
}

#[test]
fn impossible_sequences_are_refused() {
    let place = |sequence: Sequence, dims| match Points::new(&sequence, Seed(0), dims) {
        Err(StudyError::Points(fault)) => fault.place,
        _ => panic!("{sequence:?} in {dims} dimensions was accepted"),
    };
    assert_eq!(place(Sequence::Sobol, 33), "metaparameters");
    assert_eq!(place(Sequence::Halton, 257), "metaparameters");
    assert_eq!(place(Sequence::Grid(vec![2, 2]), 3), "grid");
    assert_eq!(place(Sequence::Grid(vec![2, 0]), 2), "grid");
    assert_eq!(place(Sequence::Grid(vec![u32::MAX; 3]), 3), "grid");
}

#[test]
fn golden_points() {
    // May change only with a stated change of the sequences: every stored study depends on them.
    let round = |sequence| -> Vec<Vec<f64>> {
        let drawn = points(&sequence, 1, 3, 2);
        drawn.iter().map(|p| p.iter().map(|x| (x * 1e6).floor() / 1e6).collect()).collect()
    };
    expect_test::expect![[r#"
        [[0.022923, 0.223387, 0.769191], [0.836147, 0.667649, 0.204408]]
        [[0.022923, 0.015602, 0.63499], [0.836147, 0.562458, 0.034383]]
        [[0.312516, 0.273913, 0.363371], [0.239854, 0.278642, 0.382466]]"#]]
    .assert_eq(&format!(
        "{:?}\n{:?}\n{:?}",
        round(Sequence::Halton),
        round(Sequence::Sobol),
        round(Sequence::Random)
    ));
}
