//! The learning rate of each update, as a pure function of the update's number.

use crate::{CycleShape, SchedulePlan};

impl SchedulePlan {
    /// The learning rate of the update of this number, counted from 0, when the horizon is so many updates. The
    /// linear schedule is eta(t) = eta0 - (1 - alpha) eta0 t / T for t <= T and alpha eta0 after; the
    /// piecewise one holds its first value before its first point and its last value after its last. Every schedule
    /// holds its last value after the horizon.
    pub fn learning_rate(&self, update: u64, horizon_updates: u64) -> f64 {
        let rate = self.without_warmup(update, horizon_updates);
        let warm = self.warmup().map_or(0, |share| (share * horizon_updates as f64).round() as u64);
        if update < warm { rate * ((update + 1) as f64 / warm as f64) } else { rate }
    }

    fn without_warmup(&self, update: u64, horizon_updates: u64) -> f64 {
        // An empty horizon is over at once.
        let share = if horizon_updates == 0 { f64::INFINITY } else { update as f64 / horizon_updates as f64 };
        match self {
            SchedulePlan::Constant { learning_rate, .. } => *learning_rate,
            SchedulePlan::Linear { learning_rate, end_factor, decay_updates, .. } => {
                let decay = decay_updates.unwrap_or(horizon_updates);
                if update >= decay {
                    end_factor * learning_rate
                } else {
                    let share = update as f64 / decay as f64;
                    learning_rate - (1.0 - end_factor) * learning_rate * share
                }
            }
            SchedulePlan::Piecewise { points, .. } => interpolate(points, share),
            SchedulePlan::Cosine { learning_rate, end_factor, .. } => {
                bend([1.0, *end_factor].map(|f| f * learning_rate), share, CycleShape::Cosine)
            }
            SchedulePlan::OneCycle { learning_rate, start_factor, end_factor, peak, shape, .. } => {
                let [start, end] = [start_factor, end_factor].map(|factor| factor * learning_rate);
                if share < *peak {
                    bend([start, *learning_rate], share / peak, *shape)
                } else {
                    bend([*learning_rate, end], (share - peak) / (1.0 - peak), *shape)
                }
            }
            SchedulePlan::Step { learning_rate, factor, drops, .. } => {
                let passed = drops.iter().filter(|drop| share >= **drop).count();
                learning_rate * factor.powi(passed as i32)
            }
        }
    }

    /// The largest rate there is, warm-up aside.
    pub fn largest_rate(&self) -> f64 {
        match self {
            SchedulePlan::Constant { learning_rate, .. }
            | SchedulePlan::Linear { learning_rate, .. }
            | SchedulePlan::Cosine { learning_rate, .. }
            | SchedulePlan::OneCycle { learning_rate, .. } => *learning_rate,
            SchedulePlan::Piecewise { points, .. } => points.iter().map(|p| p[1]).fold(0.0, f64::max),
            SchedulePlan::Step { learning_rate, factor, drops, .. } => {
                learning_rate * factor.max(1.0).powi(drops.len() as i32)
            }
        }
    }

    /// The warm-up's share of the horizon.
    pub(crate) fn warmup(&self) -> Option<f64> {
        match self {
            SchedulePlan::Constant { warmup, .. }
            | SchedulePlan::Linear { warmup, .. }
            | SchedulePlan::Piecewise { warmup, .. }
            | SchedulePlan::Cosine { warmup, .. }
            | SchedulePlan::OneCycle { warmup, .. }
            | SchedulePlan::Step { warmup, .. } => *warmup,
        }
    }

    /// The schedule's length in epochs, where the plan states one.
    pub fn horizon(&self) -> Option<f64> {
        match self {
            SchedulePlan::Constant { horizon, .. }
            | SchedulePlan::Linear { horizon, .. }
            | SchedulePlan::Piecewise { horizon, .. }
            | SchedulePlan::Cosine { horizon, .. }
            | SchedulePlan::OneCycle { horizon, .. }
            | SchedulePlan::Step { horizon, .. } => *horizon,
        }
    }

    fn horizon_mut(&mut self) -> &mut Option<f64> {
        match self {
            SchedulePlan::Constant { horizon, .. }
            | SchedulePlan::Linear { horizon, .. }
            | SchedulePlan::Piecewise { horizon, .. }
            | SchedulePlan::Cosine { horizon, .. }
            | SchedulePlan::OneCycle { horizon, .. }
            | SchedulePlan::Step { horizon, .. } => horizon,
        }
    }

    /// Whether anything in the schedule is a share of a horizon in epochs.
    fn has_horizon(&self) -> bool {
        !matches!(
            self,
            SchedulePlan::Constant { warmup: None, .. }
                | SchedulePlan::Linear { decay_updates: Some(_), warmup: None, .. }
        )
    }

    /// Writes the length down, where something is a share of it: in the schedule, or in what else the plan says.
    pub(crate) fn fill_horizon(&mut self, epochs: f64, needed: bool) {
        if needed || self.has_horizon() {
            self.horizon_mut().get_or_insert(epochs);
        }
    }

    /// Makes the schedule last so many epochs instead of the run's old length. A length in updates is stretched in
    /// proportion, so that the curve keeps its shape.
    pub(crate) fn stretch(&mut self, epochs: f64, old_epochs: f64) {
        if let SchedulePlan::Linear { decay_updates: Some(updates), .. } = self {
            *updates = ((*updates as f64 * (epochs / old_epochs)).round() as u64).max(1);
        }
        if self.has_horizon() || self.horizon().is_some() {
            *self.horizon_mut() = Some(epochs);
        }
    }
}

/// From one value to another as x goes from 0 to 1; the last one after.
fn bend([from, to]: [f64; 2], x: f64, shape: CycleShape) -> f64 {
    if x >= 1.0 {
        return to;
    }
    let done = match shape {
        CycleShape::Linear => x,
        CycleShape::Cosine => (1.0 - (std::f64::consts::PI * x).cos()) / 2.0,
    };
    from + (to - from) * done
}

/// The value at `x` of straight lines between (x, y) points that rise in x; constant outside.
fn interpolate(points: &[[f64; 2]], x: f64) -> f64 {
    let after = points.partition_point(|p| p[0] <= x);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (Some([x0, y0]), Some([x1, y1])) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some([_, y]), None) => y,
        (None, Some([_, y])) => *y,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linear(decay_updates: Option<u64>) -> SchedulePlan {
        SchedulePlan::Linear {
            learning_rate: 0.4,
            end_factor: 0.1,
            decay_updates,
            warmup: None,
            horizon: None,
        }
    }

    #[test]
    fn constant_is_constant() {
        let plan = SchedulePlan::Constant { learning_rate: 0.1, warmup: None, horizon: None };
        assert!([0, 1, 99, 100, 101].iter().all(|t| plan.learning_rate(*t, 100) == 0.1));
    }

    #[test]
    fn linear_follows_the_formula_and_holds_its_end() {
        let close = |plan: &SchedulePlan, t, value: f64| {
            let rate = plan.learning_rate(t, 100);
            assert!((rate - value).abs() < 1e-15, "{rate} at {t}, not {value}");
        };
        for (t, value) in [(0, 0.4), (50, 0.4 - 0.9 * 0.4 * 0.5), (100, 0.04), (101, 0.04), (100_000, 0.04)] {
            close(&linear(None), t, value);
        }
        // T shorter than the run.
        for (t, value) in [(0, 0.4), (10, 0.4 - 0.9 * 0.4 * 0.25), (40, 0.04), (41, 0.04), (99, 0.04)] {
            close(&linear(Some(40)), t, value);
        }
        // T longer than the run.
        close(&linear(Some(200)), 100, 0.4 - 0.9 * 0.4 * 0.5);
        // No decay to do.
        close(&linear(None), 0, 0.4);
        assert_eq!(linear(None).learning_rate(0, 0), 0.1 * 0.4);
    }

    #[test]
    fn piecewise_goes_through_its_points() {
        // Page's schedule: 0 to 0.4 over 5 of 24 epochs, then to 0.
        let points = vec![[0.0, 0.0], [5.0 / 24.0, 0.4], [1.0, 0.0]];
        let plan = SchedulePlan::Piecewise { points, warmup: None, horizon: None };
        let updates = 24 * 98;
        assert_eq!(plan.learning_rate(0, updates), 0.0);
        assert!((plan.learning_rate(5 * 98, updates) - 0.4).abs() < 1e-15);
        assert!((plan.learning_rate(5 * 49, updates) - 0.2).abs() < 1e-15);
        assert_eq!(plan.learning_rate(updates, updates), 0.0);
        assert_eq!(plan.learning_rate(updates + 5, updates), 0.0);
        let plan =
            SchedulePlan::Piecewise { points: vec![[0.25, 1.0], [0.5, 2.0]], warmup: None, horizon: None };
        assert_eq!((plan.learning_rate(0, 100), plan.learning_rate(99, 100)), (1.0, 2.0));
    }

    fn check(text: &str, expected: &[(u64, f64)]) {
        let plan: SchedulePlan = toml::from_str(text).unwrap();
        for (t, rate) in expected {
            let found = plan.learning_rate(*t, 100);
            assert!((found - rate).abs() < 1e-12, "{text}: {found} at {t}, expected {rate}");
        }
    }

    #[test]
    fn cosine_one_cycle_and_steps() {
        let cosine = "kind = \"cosine\"\nlearning_rate = 0.4\nend_factor = 0.1";
        check(cosine, &[(0, 0.4), (50, 0.22), (100, 0.04), (500, 0.04)]);
        let quarter = 0.04 + 0.36 * (1.0 + std::f64::consts::FRAC_1_SQRT_2) / 2.0;
        check(cosine, &[(25, quarter)]);
        // airbench: 0.2 to 1 over 23 %, then to 0.07.
        let cycle =
            "kind = \"one-cycle\"\nlearning_rate = 11.5\nstart_factor = 0.2\nend_factor = 0.07\npeak = 0.25";
        check(cycle, &[(0, 2.3), (5, 2.3 + 9.2 * 0.2), (25, 11.5), (62, 11.5 - 11.5 * 0.93 * 37.0 / 75.0)]);
        check(cycle, &[(100, 0.805), (101, 0.805)]);
        let smooth = format!("{cycle}\nshape = \"cosine\"");
        check(&smooth, &[(0, 2.3), (25, 11.5), (100, 0.805)]);
        check(&smooth, &[(10, 2.3 + 9.2 * (1.0 - (0.4 * std::f64::consts::PI).cos()) / 2.0)]);
        let step = "kind = \"step\"\nlearning_rate = 0.1\nfactor = 0.1\ndrops = [0.5, 0.75]";
        check(step, &[(0, 0.1), (49, 0.1), (50, 0.01), (74, 0.01), (75, 0.001), (1000, 0.001)]);
    }

    #[test]
    fn warm_up_leads_into_any_schedule() {
        check(
            "kind = \"constant\"\nlearning_rate = 0.5\nwarmup = 0.1",
            &[(0, 0.05), (4, 0.25), (9, 0.5), (50, 0.5)],
        );
        let linear = "kind = \"linear\"\nlearning_rate = 1.0\nend_factor = 0.0\nwarmup = 0.1";
        check(linear, &[(0, 0.1), (4, 0.5 * 0.96), (9, 0.91), (10, 0.9), (100, 0.0)]);
        // Less than half an update is none.
        check("kind = \"constant\"\nlearning_rate = 0.5\nwarmup = 0.004", &[(0, 0.5)]);
    }

    #[test]
    fn the_largest_rate_is_reached() {
        for text in [
            "kind = \"constant\"\nlearning_rate = 0.5",
            "kind = \"linear\"\nlearning_rate = 0.5\nend_factor = 0.1",
            "kind = \"piecewise\"\npoints = [[0.0, 0.0], [0.25, 0.5], [1.0, 0.1]]",
            "kind = \"cosine\"\nlearning_rate = 0.5\nend_factor = 0.1",
            "kind = \"one-cycle\"\nlearning_rate = 0.5\nstart_factor = 0.2\nend_factor = 0.07\npeak = 0.25",
            "kind = \"step\"\nlearning_rate = 0.5\nfactor = 0.1\ndrops = [0.5]",
        ] {
            let plan: SchedulePlan = toml::from_str(text).unwrap();
            let largest = (0..=100).map(|t| plan.learning_rate(t, 100)).fold(0.0, f64::max);
            assert_eq!((largest, plan.largest_rate()), (0.5, 0.5), "{text}");
        }
    }

    proptest! {
        #[test]
        fn linear_never_rises_nor_leaves_its_range(t in 0u64..300, decay in 1u64..200) {
            let plan = linear(Some(decay));
            let (now, next) = (plan.learning_rate(t, 100), plan.learning_rate(t + 1, 100));
            prop_assert!(next <= now && (0.1 * 0.4..=0.4).contains(&now), "{now} then {next}");
        }
    }
}
