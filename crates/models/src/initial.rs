//! Other initial values than those of a network's family.

use crate::ModelError;
use crate::optimizer::roles;
use sooner_engine::{Group, Init, Rest, Vars};
use sooner_plan::{InitialKind, InitialPlan};

/// Makes variables start as the plan says. Fails where a rule names variables that do not exist, or that cannot start
/// like that.
pub fn start_as(vars: &mut Vars, rules: &[InitialPlan]) -> Result<(), ModelError> {
    let groups: Vec<Group> = rules.iter().map(|r| Group::of(roles(r.parameters), &r.prefix)).collect();
    let mut held = vec![false; rules.len()];
    for id in vars.ids().collect::<Vec<_>>() {
        let var = vars.get(id);
        let found = groups.iter().position(|group| var.role.is_trained() && group.holds(var));
        let Some(index) = found else { continue };
        held[index] = true;
        let init = init(&rules[index]);
        let least = match init {
            Init::Constant(_) => 0,
            Init::Dirac(_) => 4,
            _ => 2,
        };
        // Dirac filters are for convolutions alone; the others need inputs and outputs.
        if var.shape.rank() < least {
            let found = format!("`{}` {}", var.name, var.shape);
            return Err(ModelError::Initial { index, needs: least, found });
        }
        vars.set_init(id, init);
    }
    match held.iter().zip(&groups).position(|(held, group)| !held && !group.prefix.is_empty()) {
        Some(index) => {
            let trained = vars.all().iter().filter(|var| var.role.is_trained());
            let names: Vec<String> = trained.map(|var| var.name.clone()).collect();
            let found = format!("{} only", names.join(", "));
            Err(ModelError::Initial { index, needs: 0, found })
        }
        None => Ok(()),
    }
}

fn init(rule: &InitialPlan) -> Init {
    match rule.kind {
        InitialKind::HeNormal => Init::HeNormal,
        InitialKind::LecunNormal => Init::LecunNormal,
        InitialKind::TorchUniform => Init::TorchUniform,
        InitialKind::Orthogonal => Init::Orthogonal { gain: rule.gain.unwrap_or(1.0) },
        InitialKind::Dirac => Init::Dirac(Rest::Zero),
        InitialKind::DiracUniform => Init::Dirac(Rest::TorchUniform),
        InitialKind::Zero => Init::Constant(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use sooner_base::Seed;
    use sooner_engine::{Role, State};
    use sooner_plan::{GroupMatch, ModelPlan};

    fn rule(parameters: GroupMatch, prefix: &str, kind: InitialKind) -> InitialPlan {
        InitialPlan { parameters, prefix: prefix.to_string(), kind, gain: None }
    }

    fn vars() -> Vars {
        let plan = ModelPlan::parse("kind = \"simple-cnn\"\nchannels = [4, 6]").expect("valid");
        Model::new(&plan, [28, 28, 1], 10).expect("it fits").vars().clone()
    }

    #[test]
    fn rules_choose_how_variables_start() {
        let mut vars = vars();
        let convolutions: Vec<String> =
            vars.all().iter().filter(|v| v.shape.rank() == 4).map(|v| v.name.clone()).collect();
        let rules = [
            rule(GroupMatch::Weights, &convolutions[0], InitialKind::Dirac),
            rule(GroupMatch::Weights, &convolutions[1], InitialKind::Zero),
            InitialPlan { gain: Some(2.0), ..rule(GroupMatch::Weights, "", InitialKind::Orthogonal) },
        ];
        start_as(&mut vars, &rules).unwrap();
        let state = State::init(&vars, Seed(1));
        let values = |name: &str| {
            let id = vars.ids().find(|id| vars.get(*id).name == name).expect("declared");
            &state.values[id.index()]
        };
        assert_eq!(values(&convolutions[0]).iter().filter(|v| **v != 0.0).collect::<Vec<_>>(), [&1.0]);
        assert!(values(&convolutions[1]).iter().all(|v| *v == 0.0));
        let linear =
            vars.all().iter().find(|v| v.role == Role::Weight && v.shape.rank() == 2).expect("a head");
        let squares: f32 = values(&linear.name).iter().map(|v| v * v).sum();
        assert!((squares - 4.0 * 10.0).abs() < 1e-3, "ten columns of norm 2: {squares}");
    }

    #[test]
    fn rules_that_do_not_fit_say_so() {
        let check = |rule: InitialPlan| start_as(&mut vars(), &[rule]).unwrap_err().to_string();
        let text = check(rule(GroupMatch::All, "head", InitialKind::Zero));
        assert!(text.contains("run.initial.0"), "{text}");
        let text = check(rule(GroupMatch::Biases, "", InitialKind::Orthogonal));
        assert!(text.contains("2 dimensions"), "{text}");
        let text = check(rule(GroupMatch::Weights, "", InitialKind::Dirac));
        assert!(text.contains("4 dimensions"), "{text}");
        assert!(start_as(&mut vars(), &[rule(GroupMatch::Gains, "", InitialKind::Zero)]).is_ok());
    }
}
