//! From the values of variables to a file.

use sooner_engine::{Role, State, Vars};
use sooner_record::{RecordError, TensorRef, write_tensors};
use std::path::Path;

/// Writes the variables of a network that no plan describes, those of its optimiser left out, as safetensors. (A run of a
/// plan writes its own weights, and says what they are of.)
pub fn save_weights(path: &Path, vars: &Vars, state: &State) -> Result<(), RecordError> {
    let kept = vars.ids().map(|id| (vars.get(id), &state.values[id.index()]));
    let tensors: Vec<TensorRef> = kept
        .filter(|(var, _)| var.role != Role::Slot)
        .map(|(var, values)| TensorRef { name: &var.name, shape: &var.shape, values })
        .collect();
    write_tensors(path, &tensors)
}
