//! Normalize: (x / 255 - mean) / std for each channel.

use crate::pixels::Table;
use sooner_plan::NormalizePlan;

/// The features of a plan without this stage: x / 255.
pub(crate) fn unit_table(channels: usize) -> Table {
    Table::new(&vec![0.0; channels], &vec![1.0; channels])
}

/// The plan's features; or what was expected, what found, and what to do.
pub(crate) fn table(plan: &NormalizePlan, channels: usize) -> Result<Table, [String; 3]> {
    let lengths = [plan.mean.len(), plan.std.len()];
    if lengths != [channels; 2] {
        return Err([
            format!("mean and std of {channels} channels"),
            format!("{} and {} values", lengths[0], lengths[1]),
            "give one value for each channel".into(),
        ]);
    }
    if let Some(bad) = plan.mean.iter().find(|mean| !mean.is_finite()) {
        return Err(["finite means".into(), format!("{bad}"), "give means of pixels in [0, 1]".into()]);
    }
    if let Some(bad) = plan.std.iter().find(|&&std| !(std.is_finite() && std > 0.0)) {
        let hint = "give standard deviations of pixels in [0, 1]";
        return Err(["positive finite stds".into(), format!("{bad}"), hint.into()]);
    }
    Ok(Table::new(&plan.mean, &plan.std))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mean: &[f64], std: &[f64], expect: &str) {
        let plan = NormalizePlan { mean: mean.to_vec(), std: std.to_vec() };
        let got = match table(&plan, 2) {
            Ok(_) => "fine".to_string(),
            Err([expected, found, _]) => format!("expected {expected}, found {found}"),
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn constants_are_checked() {
        check(&[0.1, 0.2], &[0.3, 0.4], "fine");
        check(&[0.1], &[0.3, 0.4], "expected mean and std of 2 channels, found 1 and 2 values");
        check(&[0.1, f64::NAN], &[0.3, 0.4], "expected finite means, found NaN");
        check(&[0.1, 0.2], &[0.3, 0.0], "expected positive finite stds, found 0");
        check(&[0.1, 0.2], &[f64::INFINITY, 1.0], "expected positive finite stds, found inf");
        assert_eq!(unit_table(1), Table::new(&[0.0], &[1.0]));
    }
}
