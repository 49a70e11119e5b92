//! From files to the values of variables: given weights, or a checkpoint.

use sooner_base::Shape;
use sooner_engine::{Role, State, Var, Vars};
use sooner_plan::Complaint;
use sooner_record::{Tensor, Weights};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Tensors of a file that are not those of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// The file.
    pub path: PathBuf,
    /// Variables of the network that the file does not have.
    pub missing: Vec<String>,
    /// Tensors of the file that the network does not have.
    pub extra: Vec<String>,
    /// Tensors of another shape: name, the network's shape, the file's shape.
    pub shapes: Vec<(String, Shape, Shape)>,
    /// Beginnings of names to leave out that no variable of the network has.
    pub unmatched: Vec<String>,
}

impl Misfit {
    /// The error in the five fields that every error of the project can be told in.
    pub fn complaint(&self) -> Complaint {
        let shapes: Vec<String> = self
            .shapes
            .iter()
            .map(|(name, expected, found)| format!("`{name}` {found} instead of {expected}"))
            .collect();
        let faults: Vec<String> = [
            ("missing", quoted(&self.missing)),
            ("not in the network:", quoted(&self.extra)),
            ("of another shape:", shapes),
            ("no variable begins with", quoted(&self.unmatched)),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", some_of(&names)))
        .collect();
        let hint = match (self.unmatched.is_empty(), self.missing.len() + self.shapes.len()) {
            (false, _) => "leave out beginnings of variables' names, such as `linear`",
            (true, n) if n > 0 && n <= SHOWN => {
                "if these are to keep the network's own initial values: --init-except with the beginning of their names"
            }
            _ => "are these weights of this network and these sizes?",
        };
        Complaint {
            what: "tensors do not fit the network".to_string(),
            place: self.path.display().to_string(),
            expected: "the network's variables and no others".to_string(),
            found: faults.join("; "),
            hint: hint.to_string(),
        }
    }
}

/// Names shown of a longer list.
const SHOWN: usize = 6;

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}

fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(SHOWN)].join(", ");
    let rest = names.len().saturating_sub(SHOWN);
    if rest == 0 { shown } else { format!("{shown} and {rest} more") }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.complaint().fmt(f)
    }
}

impl std::error::Error for Misfit {}

/// Replaces the network's initial values by those of a file of weights, but for variables whose names begin like one
/// of `except`. What the optimiser keeps stays at its initial values.
pub fn start_from(
    vars: &Vars,
    state: &mut State,
    weights: &Weights,
    except: &[String],
) -> Result<(), Misfit> {
    let kept = |name: &str| except.iter().any(|prefix| name.starts_with(prefix.as_str()));
    let wanted = |var: &Var| var.role != Role::Slot && !kept(&var.name);
    let mut misfit = fit(vars, state, &weights.tensors, &wanted, &weights.path);
    misfit.extra.retain(|name| !kept(name));
    let begins = |prefix: &String| vars.all().iter().any(|var| var.name.starts_with(prefix.as_str()));
    misfit.unmatched = except.iter().filter(|prefix| !begins(prefix)).cloned().collect();
    misfit.into_result()
}

/// Replaces every variable's value by that of a checkpoint.
pub(crate) fn restore(
    vars: &Vars,
    state: &mut State,
    tensors: &BTreeMap<String, Tensor>,
    path: &Path,
) -> Result<(), Misfit> {
    fit(vars, state, tensors, &|_| true, path).into_result()
}

impl Misfit {
    fn into_result(self) -> Result<(), Misfit> {
        let Misfit { missing, extra, shapes, unmatched, .. } = &self;
        let fits = missing.is_empty() && extra.is_empty() && shapes.is_empty() && unmatched.is_empty();
        if fits { Ok(()) } else { Err(self) }
    }
}

/// Copies what fits and says what does not.
fn fit(
    vars: &Vars,
    state: &mut State,
    tensors: &BTreeMap<String, Tensor>,
    wanted: &dyn Fn(&Var) -> bool,
    path: &Path,
) -> Misfit {
    let mut misfit = Misfit {
        path: path.to_path_buf(),
        missing: Vec::new(),
        extra: Vec::new(),
        shapes: Vec::new(),
        unmatched: Vec::new(),
    };
    let mut taken = Vec::new();
    for id in vars.ids() {
        let var = vars.get(id);
        if !wanted(var) {
            continue;
        }
        taken.push(var.name.as_str());
        match tensors.get(&var.name) {
            Some(tensor) if tensor.shape == var.shape => {
                state.values[id.index()].copy_from_slice(&tensor.values);
            }
            Some(tensor) => {
                misfit.shapes.push((var.name.clone(), var.shape.clone(), tensor.shape.clone()));
            }
            None => misfit.missing.push(var.name.clone()),
        }
    }
    misfit.extra = tensors.keys().filter(|name| !taken.contains(&name.as_str())).cloned().collect();
    misfit
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::Seed;
    use sooner_engine::Init;

    fn vars() -> Vars {
        let mut vars = Vars::new();
        for (name, shape, role) in [
            ("body.weight", vec![2, 2], Role::Weight),
            ("body.norm.running", vec![2, 2], Role::Running),
            ("linear.weight", vec![2, 3], Role::Weight),
            ("linear.bias", vec![3], Role::Bias),
            ("body.weight.velocity", vec![2, 2], Role::Slot),
        ] {
            let var = Var { name: name.into(), shape: Shape::new(shape), init: Init::Constant(0.0), role };
            vars.declare(var).unwrap();
        }
        vars
    }

    /// A file with these tensors, all values 1.
    fn weights(tensors: &[(&str, &[usize])]) -> Weights {
        let tensor = |(name, shape): &(&str, &[usize])| {
            let shape = Shape::new(*shape);
            (name.to_string(), Tensor { values: vec![1.0; shape.len()], shape })
        };
        Weights {
            path: PathBuf::from("w.safetensors"),
            crc32: 0,
            about: None,
            tensors: tensors.iter().map(tensor).collect(),
        }
    }

    const WHOLE: [(&str, &[usize]); 4] = [
        ("body.weight", &[2, 2]),
        ("body.norm.running", &[2, 2]),
        ("linear.weight", &[2, 3]),
        ("linear.bias", &[3]),
    ];

    fn check(tensors: &[(&str, &[usize])], except: &[&str], expect: &str) {
        let vars = vars();
        let mut state = State::init(&vars, Seed(0));
        let except: Vec<String> = except.iter().map(|s| s.to_string()).collect();
        let got = match start_from(&vars, &mut state, &weights(tensors), &except) {
            Ok(()) => state.values.iter().map(|v| format!("{}", v[0])).collect::<Vec<_>>().join(" "),
            Err(misfit) => misfit.complaint().found,
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn weights_that_fit_and_that_do_not() {
        check(&WHOLE, &[], "1 1 1 1 0");
        check(&WHOLE, &["linear."], "1 1 0 0 0");
        check(&WHOLE[..3], &["linear.b"], "1 1 1 0 0");
        check(&WHOLE[..2], &[], "missing `linear.weight`, `linear.bias`");
        check(&WHOLE, &["head"], "no variable begins with `head`");
        let mut other = WHOLE.to_vec();
        other[2] = ("linear.weight", &[2, 5]);
        other[3] = ("head.bias", &[5]);
        check(
            &other,
            &[],
            "missing `linear.bias`; not in the network: `head.bias`; \
             of another shape: `linear.weight` [2, 5] instead of [2, 3]",
        );
        check(&other, &["linear"], "not in the network: `head.bias`");
        check(&[WHOLE[0], WHOLE[1], ("linear.weight", &[7]), ("linear.old", &[1])], &["linear"], "1 1 0 0 0");
    }

    #[test]
    fn checkpoints_need_everything() {
        let vars = vars();
        let mut state = State::init(&vars, Seed(0));
        let mut all = WHOLE.to_vec();
        let path = Path::new("checkpoint");
        let misfit = restore(&vars, &mut state, &weights(&all).tensors, path).unwrap_err();
        assert_eq!(misfit.missing, ["body.weight.velocity"]);
        all.push(("body.weight.velocity", &[2, 2]));
        restore(&vars, &mut state, &weights(&all).tensors, path).unwrap();
        assert!(state.values.iter().flatten().all(|v| *v == 1.0));
    }
}
