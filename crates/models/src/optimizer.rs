//! From the plan's optimiser section to the engine's optimiser.

use crate::ModelError;
use sooner_engine::{Averaging, Group, OptimizerSpec, Role, Rule, Vars};
use sooner_plan::{AverageKind, Decay, Group as GroupPlan, GroupMatch, Norms, OptimizerKind, OptimizerPlan};

/// Defaults of the keys that a plan may leave out.
const SECOND_MOMENTUM: f64 = 0.999;
const EPS: f64 = 1e-8;
const TRUST: f64 = 0.001;
const ROUNDS: u64 = 5;

/// The engine's optimiser for these variables. A group that names variables which do not exist is an error.
pub fn optimizer_spec(plan: &OptimizerPlan, vars: &Vars) -> Result<OptimizerSpec, ModelError> {
    let groups: Vec<Group> = plan.groups.iter().enumerate().map(|(i, g)| group(plan, i, g)).collect();
    for (index, group) in groups.iter().enumerate() {
        let trained = vars.all().iter().filter(|var| var.role.is_trained());
        // Roles alone are for any network, also one that has none of them.
        if !group.prefix.is_empty() && !trained.clone().any(|var| group.holds(var)) {
            let names = trained.map(|var| var.name.clone()).collect();
            return Err(ModelError::Group { index, prefix: group.prefix.clone(), names });
        }
    }
    Ok(OptimizerSpec {
        rule: rule(plan, plan.kind),
        groups,
        decoupled: decoupled(plan, plan.kind),
        clip: plan.clip,
        averaging: plan.average.map(|average| match average.kind {
            AverageKind::Ema => Averaging::Beside,
            AverageKind::Lookahead => Averaging::Back,
        }),
    })
}

fn rule(plan: &OptimizerPlan, kind: OptimizerKind) -> Rule {
    match kind {
        OptimizerKind::Sgd => Rule::Sgd,
        OptimizerKind::HeavyBall => Rule::HeavyBall,
        OptimizerKind::Nesterov => Rule::Nesterov,
        OptimizerKind::Adam | OptimizerKind::Adamw => Rule::Adam {
            second_momentum: plan.second_momentum.unwrap_or(SECOND_MOMENTUM),
            eps: plan.eps.unwrap_or(EPS),
        },
        OptimizerKind::Lars => Rule::Lars { trust: plan.trust.unwrap_or(TRUST) },
        OptimizerKind::Muon => Rule::Muon {
            rounds: plan.rounds.unwrap_or(ROUNDS) as usize,
            renormalize: plan.norms == Some(Norms::Kept),
        },
    }
}

fn decoupled(plan: &OptimizerPlan, kind: OptimizerKind) -> bool {
    plan.decay == Some(Decay::Decoupled) || kind == OptimizerKind::Adamw
}

fn group(plan: &OptimizerPlan, index: usize, group: &GroupPlan) -> Group {
    Group {
        rate_scale: group.rate_scale,
        decay_scale: group.decay_scale,
        rule: group.rule.map(|kind| rule(plan, kind)),
        decoupled: group.rule.map(|kind| decoupled(plan, kind)),
        momentum: group.momentum,
        active: group.until.map(|_| GroupPlan::active_name(index)),
        ..Group::of(roles(group.parameters), &group.prefix)
    }
}

/// The roles of a choice of variables; none for all of them.
pub(crate) fn roles(parameters: GroupMatch) -> &'static [Role] {
    match parameters {
        GroupMatch::Weights => &[Role::Weight],
        GroupMatch::Biases => &[Role::Bias],
        GroupMatch::Gains => &[Role::Gain],
        GroupMatch::All => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use sooner_engine::Update;
    use sooner_plan::ModelPlan;

    fn plan(text: &str) -> OptimizerPlan {
        let whole = crate::workload("mnist-cnn").expect("built in").toml;
        let mut plan = sooner_plan::Plan::parse(whole).expect("valid");
        plan.set(&format!("optimizer={text}")).unwrap_or_else(|e| panic!("{text}: {e}"));
        plan.optimizer
    }

    fn model() -> Model {
        let plan = ModelPlan::parse("kind = \"fully-connected\"\nhidden = [6]").expect("valid");
        Model::new(&plan, [2, 2, 1], 3).expect("it fits")
    }

    #[test]
    fn every_key_arrives() {
        let (model, check) = (model(), |text: &str| optimizer_spec(&plan(text), model().vars()).unwrap());
        assert_eq!(check("{kind='sgd'}"), OptimizerSpec::new(Rule::Sgd));
        let adam = check("{kind='adamw',momentum=0.9,eps=1e-6,clip=2.0}");
        assert_eq!(adam.rule, Rule::Adam { second_momentum: 0.999, eps: 1e-6 });
        assert!(adam.decoupled && adam.clip == Some(2.0));
        assert_eq!(check("{kind='lars',trust=0.02}").rule, Rule::Lars { trust: 0.02 });
        let muon = check("{kind='muon',rounds=3,norms='kept',average={kind='lookahead',decay=0.9}}");
        assert_eq!(muon.rule, Rule::Muon { rounds: 3, renormalize: true });
        assert_eq!(muon.averaging, Some(Averaging::Back));
        let name = &model.vars().all()[0].name;
        let text = format!(
            "{{kind='muon',groups=[{{parameters='all',prefix='{name}',rule='adamw',momentum=0.5,until=2.0}}]}}"
        );
        let group = &check(&text).groups[0];
        assert_eq!(group.rule, Some(Rule::Adam { second_momentum: 0.999, eps: 1e-8 }));
        assert_eq!((group.decoupled, group.momentum), (Some(true), Some(0.5)));
        assert_eq!(group.active.as_deref(), Some("groups.0.active"));
    }

    #[test]
    fn a_group_of_nothing_says_so() {
        let plan = plan("{kind='sgd',groups=[{parameters='weights',prefix='head'}]}");
        let error = model().update_program(2, &plan).unwrap_err();
        assert!(error.to_string().contains("`head`"), "{error}");
        let none = "{kind='sgd',groups=[{parameters='gains',rate_scale=2.0}]}";
        assert!(optimizer_spec(&self::plan(none), model().vars()).is_ok());
    }

    /// Whoever feeds the program must be able to feed all of it.
    #[test]
    fn every_scalar_has_a_value() {
        let whole = crate::workload("mnist-cnn").expect("built in").toml;
        let mut whole = sooner_plan::Plan::parse(whole).expect("valid");
        for kind in ["sgd", "heavy-ball", "nesterov", "adam", "adamw", "lars", "muon"] {
            for average in ["ema", "lookahead"] {
                let text = format!(
                    "{{kind='{kind}',clip=1.0,average={{kind='{average}',decay=0.9}},\
                     groups=[{{parameters='biases',until=1.0}}]}}"
                );
                whole.set(&format!("optimizer={text}")).unwrap();
                let program = model().update_program(2, &whole.optimizer).unwrap();
                let at = whole.moment(100, 3);
                assert!(
                    program.graph.scalars().iter().all(|name| whole.scalar(name, at).is_some()),
                    "{text}"
                );
                let averages = program.updates.iter().filter(|u| matches!(u, Update::Average(_))).count();
                assert_eq!(averages, 4, "{text}");
            }
        }
    }
}
