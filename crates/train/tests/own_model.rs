//! The example `own_model`: a stranger's network learns, and its weights are a file that other programs read.

#[path = "../../../examples/own_model.rs"]
#[allow(dead_code, unreachable_pub)]
mod own_model;

use sooner_record::Weights;

#[test]
fn a_network_of_ones_own_is_trained_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let accuracy = own_model::run(folder.path()).unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
    let weights = Weights::read(&folder.path().join("weights.safetensors")).unwrap();
    assert_eq!(weights.about, None, "no plan describes them");
    let names: Vec<&str> = weights.tensors.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["conv.weight", "head.bias", "head.weight", "norm.bias", "norm.gain", "norm.running"],
        "nothing of the optimiser's"
    );
    let seen = Weights::read(&folder.path().join("held_out.safetensors")).unwrap();
    assert_eq!(seen.tensors["examples"].shape.dims(), [200, 12, 10, 1]);
    assert_eq!(seen.tensors["logits"].shape.dims(), [200, 2]);
}
