//! The numbers that an update is fed, as pure functions of the plan and of how far the run is.

use crate::{AverageKind, Plan, Units};

/// Where in its course a run is when it makes an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The update's number, counted from 0.
    pub update: u64,
    /// The schedule's horizon in updates.
    pub horizon: u64,
    /// Updates of one epoch, the smaller last one included.
    pub epoch: u64,
    /// How far the schedule is and how long it is: in updates, or in fresh examples with `echo = "auto"`.
    pub schedule: (u64, u64),
}

impl Plan {
    /// Where the run is at the update of this number, counted from 0.
    pub fn moment(&self, train_examples: usize, update: u64) -> Moment {
        let horizon = self.horizon_updates(train_examples).0;
        let epoch = self.updates_per_epoch(train_examples).0;
        Moment { update, horizon, epoch, schedule: (update, horizon) }
    }

    /// The learning rate of this update of the mean loss, whatever units the plan has.
    pub fn learning_rate(&self, at: Moment) -> f64 {
        self.schedule.learning_rate(at.schedule.0, at.schedule.1) * self.rate_unit()
    }

    /// What the plan's learning rates are multiplied by to be those of one update of the mean loss.
    fn rate_unit(&self) -> f64 {
        match self.optimizer.units {
            Units::Update => 1.0,
            Units::Decoupled1024 => {
                self.batch_size() as f64 / (1024.0 * (1.0 + 1.0 / (1.0 - self.optimizer.momentum)))
            }
        }
    }

    /// The value of a scalar of update programs, by its name; none if no plan has a say in it.
    pub fn scalar(&self, name: &str, at: Moment) -> Option<f64> {
        let optimizer = &self.optimizer;
        Some(match name {
            "learning_rate" => self.learning_rate(at),
            "momentum" => optimizer.momentum,
            "weight_decay" => match optimizer.units {
                Units::Update => optimizer.weight_decay,
                Units::Decoupled1024 => optimizer.weight_decay / self.schedule.largest_rate(),
            },
            "label_smoothing" => optimizer.label_smoothing,
            "update" => (at.update + 1) as f64,
            "average_decay" => self.average(at)?.unwrap_or(1.0),
            "average_due" => f64::from(u8::from(self.average(at)?.is_some())),
            _ => {
                let index: usize = name.strip_prefix("groups.")?.strip_suffix(".active")?.parse().ok()?;
                let until = optimizer.groups.get(index)?.until?;
                f64::from(u8::from(at.update < (until * at.epoch as f64).round() as u64))
            }
        })
    }

    /// The share of the average that this update keeps; none inside if it leaves the average alone, none outside if
    /// there is none.
    fn average(&self, at: Moment) -> Option<Option<f64>> {
        let plan = self.optimizer.average?;
        let done = at.update + 1;
        Some(if done.is_multiple_of(plan.every) {
            // Past the horizon everything holds its last value.
            let share = (done as f64 / at.horizon.max(1) as f64).min(1.0);
            Some(plan.decay.powf(plan.every as f64) * share.powf(plan.power))
        } else if plan.kind == AverageKind::Lookahead && done == at.horizon {
            // At the end the parameters become the average as it is.
            Some(1.0)
        } else {
            None
        })
    }
}

impl crate::Group {
    /// The name of the scalar that says whether the group of this index is still trained.
    pub fn active_name(index: usize) -> String {
        format!("groups.{index}.active")
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::plan;
    use crate::{Moment, Plan};

    fn with(settings: &[&str]) -> Plan {
        let mut plan = plan();
        settings.iter().for_each(|s| plan.set(s).unwrap());
        plan
    }

    fn at(update: u64) -> Moment {
        Moment { update, horizon: 100, epoch: 10, schedule: (update, 100) }
    }

    fn check(plan: &Plan, name: &str, expected: &[(u64, f64)]) {
        for (update, expected) in expected {
            let found = plan.scalar(name, at(*update)).unwrap();
            assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{name} at {update}: {found}");
        }
    }

    #[test]
    fn units_of_an_update_are_taken_as_they_are() {
        let plan = with(&["schedule={kind='constant',learning_rate=0.5}", "optimizer.weight_decay=0.01"]);
        check(&plan, "learning_rate", &[(0, 0.5), (99, 0.5)]);
        check(&plan, "weight_decay", &[(0, 0.01)]);
        check(&plan, "update", &[(0, 1.0), (99, 100.0)]);
        check(&plan, "momentum", &[(0, 0.9)]);
        assert_eq!(plan.scalar("average_due", at(0)), None);
        assert_eq!(plan.scalar("groups.0.active", at(0)), None);
        assert_eq!(plan.scalar("temperature", at(0)), None);
    }

    /// Those of airbench94, whose script feeds PyTorch's SGD with rates of the summed loss: lr / K and decay
    /// wd B / K / (lr / K), K = 1024 (1 + 1 / (1 - m)); of the mean loss that is B lr / K and wd / lr.
    #[test]
    fn decoupled_units_are_airbenchs() {
        let plan = with(&[
            "pipeline.stages.batch=512",
            "optimizer.momentum=0.85",
            "optimizer.weight_decay=0.0153",
            "optimizer.units=decoupled-1024",
            "schedule={kind='one-cycle',learning_rate=11.5,start_factor=0.2,end_factor=0.07,peak=0.23}",
        ]);
        let kilo = 1024.0 * (1.0 + 1.0 / 0.15);
        check(&plan, "learning_rate", &[(0, 0.2 * 11.5 * 512.0 / kilo), (23, 11.5 * 512.0 / kilo)]);
        check(&plan, "learning_rate", &[(100, 0.07 * 11.5 * 512.0 / kilo)]);
        check(&plan, "weight_decay", &[(0, 0.0153 / 11.5), (50, 0.0153 / 11.5)]);
    }

    #[test]
    fn averages_are_due_now_and_then() {
        let plan = with(&["optimizer.average={kind='ema',decay=0.99,every=5}"]);
        check(&plan, "average_due", &[(0, 0.0), (3, 0.0), (4, 1.0), (5, 0.0), (9, 1.0), (99, 1.0)]);
        check(&plan, "average_decay", &[(4, 0.99f64.powi(5)), (99, 0.99f64.powi(5))]);
        let plan = with(&["optimizer.average={kind='ema',decay=0.9}"]);
        check(&plan, "average_due", &[(0, 1.0), (1, 1.0)]);
        check(&plan, "average_decay", &[(0, 0.9)]);
    }

    #[test]
    fn lookahead_ends_with_the_average() {
        let plan = with(&["optimizer.average={kind='lookahead',decay=0.95,every=7,power=3}"]);
        let decay = |t: f64| 0.95f64.powi(7) * (t / 100.0).powi(3);
        check(&plan, "average_decay", &[(6, decay(7.0)), (97, decay(98.0)), (99, 1.0), (104, decay(100.0))]);
        check(&plan, "average_due", &[(6, 1.0), (98, 0.0), (99, 1.0), (100, 0.0), (104, 1.0)]);
        // Where the last update is one of those it is mixed in as usual.
        let plan = with(&["optimizer.average={kind='lookahead',decay=0.95,every=5}"]);
        check(&plan, "average_decay", &[(99, 0.95f64.powi(5))]);
    }

    #[test]
    fn groups_end() {
        let plan = with(&["optimizer.groups=[{parameters='gains'},{parameters='biases',until=2.55}]"]);
        check(&plan, "groups.1.active", &[(0, 1.0), (25, 1.0), (26, 0.0), (99, 0.0)]);
        assert_eq!(plan.scalar("groups.0.active", at(0)), None);
        assert_eq!(crate::Group::active_name(1), "groups.1.active");
    }

    #[test]
    fn moments_are_the_runs() {
        let plan = plan();
        let moment = plan.moment(45_000, 7);
        assert_eq!(moment.horizon, plan.total_updates(45_000).0);
        assert_eq!((moment.update, moment.horizon), (7, 3 * moment.epoch));
    }
}
