use super::*;
use proptest::prelude::*;

fn real(min: f64, max: f64, scale: Scale) -> Range {
    Range::Real { min, max, scale }
}

fn parameter(name: &str, range: Range) -> Parameter {
    Parameter { name: name.into(), range, floor: None, ceiling: None }
}

fn space(range: Range) -> Space {
    Space::new(vec![parameter("p", range)]).unwrap()
}

#[test]
fn values_follow_their_scale() {
    let at = |range: Range, unit: f64| space(range).values(&[unit])[0];
    let check = |range: Range, cases: &[(f64, f64)]| {
        for &(unit, expected) in cases {
            let value = at(range.clone(), unit);
            assert!(
                (value - expected).abs() <= 1e-12 * expected.abs(),
                "{range:?} at {unit}: {value}, not {expected}"
            );
        }
    };
    check(real(-1.0, 3.0, Scale::Linear), &[(0.0, -1.0), (0.25, 0.0), (1.0, 3.0)]);
    check(real(1e-4, 1.0, Scale::Log), &[(0.0, 1e-4), (0.5, 1e-2), (0.75, 0.1), (1.0, 1.0)]);
    check(
        real(0.9, 0.9999, Scale::OneMinusLog),
        &[(0.0, 0.9), (1.0 / 3.0, 0.99), (2.0 / 3.0, 0.999), (1.0, 0.9999)],
    );
    let whole = Range::Integer { min: 3, max: 5, scale: Scale::Linear };
    check(whole, &[(0.0, 3.0), (0.33, 3.0), (0.34, 4.0), (0.67, 5.0), (1.0, 5.0)]);
    let doubling = Range::Integer { min: 1, max: 7, scale: Scale::Log };
    check(doubling, &[(0.0, 1.0), (0.34, 2.0), (0.67, 4.0), (0.999, 7.0), (1.0, 7.0)]);
    check(Range::Discrete { values: vec![0.0, 0.01, 0.1] }, &[(0.0, 0.0), (0.34, 0.01), (1.0, 0.1)]);
}

proptest! {
    #[test]
    fn ends_are_never_overstepped(a in -8.0..8.0f64, width in 1e-9..8.0f64, unit in 0.0..=1.0f64, near in 0..3) {
        // Units within rounding of the ends are where exp and ln go astray.
        let unit = match near { 0 => unit, 1 => unit * 1e-16, _ => 1.0 - unit * 2e-16 };
        for scale in [Scale::Linear, Scale::Log, Scale::OneMinusLog] {
            let (min, max) = (scale.value(a), scale.value(a + width));
            let Ok(space) = Space::new(vec![parameter("p", real(min, max, scale))]) else { continue };
            let value = space.values(&[unit])[0];
            prop_assert!(min <= value && value <= max, "{:?} {} {} {}", scale, min, max, value);
            prop_assert_eq!(space.values(&[0.0, ])[0], min);
            prop_assert_eq!(space.values(&[1.0, ])[0], max);
            let back = space.place(&[value])[0].unwrap();
            // Near 1 a momentum is known to 1e-16, and so 1 - momentum only to 1e-11 of itself.
            prop_assert!((back - unit).abs() < 1e-10 / width, "{:?}: {} came back as {}", scale, unit, back);
        }
    }

    #[test]
    fn whole_numbers_stay_inside_and_all_occur(min in 1..40i64, extra in 1..20i64) {
        for scale in [Scale::Linear, Scale::Log] {
            let space = space(Range::Integer { min, max: min + extra, scale });
            let drawn: Vec<i64> = (0..=4000).map(|i| space.values(&[i as f64 / 4000.0])[0] as i64).collect();
            prop_assert!(drawn.is_sorted());
            let mut distinct = drawn.clone();
            distinct.dedup();
            prop_assert_eq!(distinct, (min..=min + extra).collect::<Vec<_>>());
        }
    }
}

#[test]
fn impossible_ranges_are_refused() {
    let refuse = |range: Range, words: &str| {
        let error = Space::new(vec![parameter("lr", range.clone())]).unwrap_err();
        assert_eq!(error.fault().place, "lr");
        assert!(error.to_string().contains(words), "{range:?}: {error}");
    };
    refuse(real(2.0, 1.0, Scale::Linear), "min below max");
    refuse(real(1.0, 1.0, Scale::Log), "discrete");
    refuse(real(0.0, 1.0, Scale::Log), "above 0");
    refuse(real(-1.0, 1.0, Scale::Log), "above 0");
    refuse(real(0.9, 1.0, Scale::OneMinusLog), "below 1");
    refuse(real(f64::NAN, 1.0, Scale::Linear), "finite");
    refuse(real(0.0, f64::INFINITY, Scale::Linear), "finite");
    refuse(real(-f64::MAX, f64::MAX, Scale::Linear), "min below max");
    refuse(Range::Integer { min: 0, max: 5, scale: Scale::Log }, "from 1");
    refuse(Range::Integer { min: 5, max: 5, scale: Scale::Linear }, "min below max");
    refuse(Range::Integer { min: 1, max: 5, scale: Scale::OneMinusLog }, "linear or log");
    refuse(Range::Integer { min: 1, max: i64::MAX, scale: Scale::Log }, "2^53");
    refuse(Range::Discrete { values: vec![] }, "at least one");
    refuse(Range::Discrete { values: vec![0.1, 0.2, 0.1] }, "0.1 twice");
    refuse(Range::Discrete { values: vec![f64::NAN] }, "finite");
    let twice = parameter("a", Range::Discrete { values: vec![1.0] });
    assert!(Space::new(vec![twice.clone(), twice]).unwrap_err().to_string().contains("two of this name"));
    assert!(Space::new(vec![parameter("", real(0.0, 1.0, Scale::Linear))]).is_err());
    let mut floored = parameter("m", real(0.1, 0.9, Scale::Linear));
    floored.floor = Some(0.2);
    assert!(Space::new(vec![floored.clone()]).unwrap_err().to_string().contains("no value below 0.2"));
    (floored.floor, floored.ceiling) = (None, Some(0.5));
    assert!(Space::new(vec![floored]).unwrap_err().to_string().contains("no value above 0.5"));
}

#[test]
fn values_near_an_edge_are_flagged_and_widened() {
    let mut smoothing = parameter("smoothing", real(0.0, 0.4, Scale::Linear));
    smoothing.floor = Some(0.0);
    let space = Space::new(vec![
        parameter("rate", real(1e-4, 1.0, Scale::Log)),
        parameter("momentum", real(0.9, 0.9999, Scale::OneMinusLog)),
        smoothing,
        parameter("decay", Range::Integer { min: 100, max: 200, scale: Scale::Linear }),
        parameter("kind", Range::Discrete { values: vec![0.0, 1.0] }),
    ])
    .unwrap();
    let found = |values: [f64; 5]| -> Vec<(String, Side, bool)> {
        space.edges(&values, 0.05).into_iter().map(|e| (e.name, e.side, e.can_widen)).collect()
    };
    assert_eq!(found([0.01, 0.99, 0.2, 150.0, 0.0]), []);
    assert_eq!(found([0.9, 0.99, 0.2, 150.0, 1.0]), [("rate".into(), Side::High, true)]);
    assert_eq!(
        found([1.1e-4, 0.99988, 0.001, 100.0, 0.0]),
        [
            ("rate".into(), Side::Low, true),
            ("momentum".into(), Side::High, true),
            ("smoothing".into(), Side::Low, false),
            ("decay".into(), Side::Low, true),
        ]
    );
    let edges = space.edges(&[1.1e-4, 0.99988, 0.001, 100.0, 0.0], 0.05);
    let wider = space.widen(&edges, 0.5);
    let ends: Vec<(f64, f64)> = wider.parameters().iter().map(|p| p.range.ends()).collect();
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(close(ends[0].0, 1e-6) && ends[0].1 == 1.0);
    assert!(ends[1].0 == 0.9 && close(1.0 - ends[1].1, 1e-4 / 1000f64.sqrt()));
    assert_eq!(&ends[2..], [(0.0, 0.4), (50.0, 200.0), (0.0, 1.0)]);
    // The old trials keep their place in the wider space, and the flagged value is no longer at its edge.
    assert!(wider.edges(&[1.1e-4, 0.99988, 0.001, 100.0, 0.0], 0.05).iter().all(|e| !e.can_widen));
    // A value left behind by an earlier space lies beyond an edge.
    assert!(space.edges(&[2.0, 0.99, 0.2, 150.0, 0.0], 0.05)[0].distance < 0.0);
}

#[test]
fn whole_numbers_widen_up_to_their_limits() {
    let mut decay = parameter("decay", Range::Integer { min: 2, max: 8, scale: Scale::Log });
    decay.ceiling = Some(10.5);
    let space = Space::new(vec![decay]).unwrap();
    let low = space.widen(&space.edges(&[2.0], 0.05), 2.0);
    assert_eq!(low.parameters()[0].range, Range::Integer { min: 1, max: 8, scale: Scale::Log });
    let high = space.widen(&space.edges(&[8.0], 0.05), 2.0);
    assert_eq!(high.parameters()[0].range, Range::Integer { min: 2, max: 10, scale: Scale::Log });
    assert!(!high.edges(&[10.0], 0.05)[0].can_widen);
}
