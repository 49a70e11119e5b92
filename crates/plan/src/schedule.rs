//! The learning rate of each update, as a pure function of the update's number.

use crate::SchedulePlan;

impl SchedulePlan {
    /// The learning rate of the update of this number, counted from 0, when the horizon is so many updates. The
    /// linear schedule is eta(t) = eta0 - (1 - alpha) eta0 t / T for t <= T and alpha eta0 after (FACTS B2); the
    /// piecewise one holds its first value before its first point and its last value after its last.
    pub fn learning_rate(&self, update: u64, horizon_updates: u64) -> f64 {
        match self {
            SchedulePlan::Constant { learning_rate } => *learning_rate,
            SchedulePlan::Linear { learning_rate, end_factor, decay_updates, .. } => {
                let decay = decay_updates.unwrap_or(horizon_updates);
                if update >= decay {
                    end_factor * learning_rate
                } else {
                    let share = update as f64 / decay as f64;
                    learning_rate - (1.0 - end_factor) * learning_rate * share
                }
            }
            SchedulePlan::Piecewise { points, .. } => {
                // An empty horizon is over at once.
                let position =
                    if horizon_updates == 0 { f64::INFINITY } else { update as f64 / horizon_updates as f64 };
                interpolate(points, position)
            }
        }
    }

    /// The schedule's length in epochs, where the plan states one.
    pub fn horizon(&self) -> Option<f64> {
        match self {
            SchedulePlan::Constant { .. } => None,
            SchedulePlan::Linear { horizon, .. } | SchedulePlan::Piecewise { horizon, .. } => *horizon,
        }
    }

    /// Writes the length down, where the schedule has one that is not given in updates.
    pub(crate) fn fill_horizon(&mut self, epochs: f64) {
        match self {
            SchedulePlan::Constant { .. } | SchedulePlan::Linear { decay_updates: Some(_), .. } => {}
            SchedulePlan::Linear { horizon, .. } | SchedulePlan::Piecewise { horizon, .. } => {
                horizon.get_or_insert(epochs);
            }
        }
    }

    /// Makes the schedule last so many epochs instead of the run's old length. A length in updates is stretched in
    /// proportion, so that the curve keeps its shape.
    pub(crate) fn stretch(&mut self, epochs: f64, old_epochs: f64) {
        match self {
            SchedulePlan::Constant { .. } => {}
            SchedulePlan::Linear { decay_updates: Some(updates), .. } => {
                *updates = ((*updates as f64 * (epochs / old_epochs)).round() as u64).max(1);
            }
            SchedulePlan::Linear { horizon, .. } | SchedulePlan::Piecewise { horizon, .. } => {
                *horizon = Some(epochs);
            }
        }
    }
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
        SchedulePlan::Linear { learning_rate: 0.4, end_factor: 0.1, decay_updates, horizon: None }
    }

    #[test]
    fn constant_is_constant() {
        let plan = SchedulePlan::Constant { learning_rate: 0.1 };
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
        let plan = SchedulePlan::Piecewise { points, horizon: None };
        let updates = 24 * 98;
        assert_eq!(plan.learning_rate(0, updates), 0.0);
        assert!((plan.learning_rate(5 * 98, updates) - 0.4).abs() < 1e-15);
        assert!((plan.learning_rate(5 * 49, updates) - 0.2).abs() < 1e-15);
        assert_eq!(plan.learning_rate(updates, updates), 0.0);
        assert_eq!(plan.learning_rate(updates + 5, updates), 0.0);
        let plan = SchedulePlan::Piecewise { points: vec![[0.25, 1.0], [0.5, 2.0]], horizon: None };
        assert_eq!((plan.learning_rate(0, 100), plan.learning_rate(99, 100)), (1.0, 2.0));
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
