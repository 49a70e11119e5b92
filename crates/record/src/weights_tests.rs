use super::*;
use crate::writer::tests::plan;
use expect_test::expect;
use proptest::prelude::*;

fn about() -> WeightsAbout {
    WeightsAbout::of(&plan(), "linear weight [I, O]")
}

/// Names out of order, an empty tensor, a scalar, and values that are hard to print.
fn sample() -> Vec<(&'static str, Shape, Vec<f32>)> {
    vec![
        ("head.weight", Shape::from([2, 3]), vec![1.0, -2.5, 0.1, f32::MIN_POSITIVE, f32::MAX, -0.0]),
        ("body.scale", Shape::scalar(), vec![3.0]),
        ("head.bias", Shape::from([0]), vec![]),
        ("body.weight", Shape::from([5000]), (0..5000).map(|i| i as f32 / 7.0).collect()),
    ]
}

fn write(path: &Path, tensors: &[(&'static str, Shape, Vec<f32>)]) {
    let refs: Vec<TensorRef> =
        tensors.iter().map(|(name, shape, values)| TensorRef { name, shape, values }).collect();
    write_weights(path, &about(), &refs).unwrap();
}

fn written() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    write(&path, &sample());
    (folder, path)
}

#[test]
fn reads_what_it_writes() {
    let (_folder, path) = written();
    let weights = Weights::read(&path).unwrap();
    assert_eq!(weights.about, Some(about()));
    assert_eq!(weights.tensors.len(), 4);
    for (name, shape, values) in sample() {
        let read = weights.get(name, &shape).unwrap();
        assert!(
            read.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()) && read.len() == values.len()
        );
    }
}

#[test]
fn the_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    write(&path, &sample()[..2]);
    let bytes = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    assert_eq!((length % 8, bytes.len()), (0, 8 + length + 4 * 7));
    expect![[r#"{"__metadata__":{"data":"kind = \"shapes\"\nvalidation = 2000\n","format":"sooner-weights-1","layouts":"linear weight [I, O]","model":"kind = \"softmax\"\n","pipeline":"stages = [\n  { normalize = { mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25] } },\n  { batch = 64 },\n]\nthreads = 0\nbudget = \"1GiB\"\non_bad = \"fail\"\n","workload":"test"},"body.scale":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"head.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]}}"#]].assert_eq(std::str::from_utf8(&bytes[8..8 + length]).unwrap().trim_end());
}

#[test]
fn bytes_do_not_depend_on_the_order_given() {
    let (folder, path) = written();
    let bytes = fs::read(&path).unwrap();
    let mut tensors = sample();
    for turn in 0..4 {
        tensors.rotate_left(turn % 2 + 1);
        let other = folder.path().join("other.safetensors");
        write(&other, &tensors);
        assert_eq!(fs::read(&other).unwrap(), bytes);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    write(&path, &sample()[..2]);
    let bytes = fs::read(&path).unwrap();
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        match Weights::read(&path).unwrap_err() {
            RecordError::NotWeights { .. } if cut < 8 => {}
            RecordError::Length { found, expected, .. } if cut >= 8 => {
                assert!(found == cut as u64 && expected > found && expected <= bytes.len() as u64);
            }
            other => panic!("cut at {cut}: {other}"),
        }
    }
    fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    assert!(matches!(Weights::read(&path), Err(RecordError::Length { .. })));
}

#[test]
fn weights_know_how_their_input_is_made() {
    let mut plan = plan();
    let stages = "[{shuffle=\"epoch\"},{crop={size=40,pad=4}},{flip=\"random\"},{batch=64}]";
    plan.set(&format!("pipeline.stages={stages}")).unwrap();
    let about = WeightsAbout::of(&plan, "");
    plan.set("pipeline.threads=3").unwrap();
    assert_eq!(WeightsAbout::of(&plan, ""), about, "threads decide no bits");
    let kept: Vec<_> = [1, 3].map(|i| plan.pipeline.stages[i].clone()).to_vec();
    assert_eq!(about.pipeline.stages, kept);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    write_weights(&path, &about, &[]).unwrap();
    assert_eq!(Weights::read(&path).unwrap().about, Some(about));
}

#[test]
fn tensors_alone_are_the_same_file_without_metadata() {
    let (folder, path) = written();
    let other = folder.path().join("other.safetensors");
    let sample = sample();
    let tensors: Vec<TensorRef> =
        sample.iter().map(|(name, shape, values)| TensorRef { name, shape, values }).collect();
    write_tensors(&other, &tensors).unwrap();
    let (with, without) = (Weights::read(&path).unwrap(), Weights::read(&other).unwrap());
    assert_eq!((without.about, without.tensors), (None, with.tensors));
}

#[test]
fn metadata_that_cannot_be_used_is_no_other_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let mut plan = plan();
    plan.set("run.views=flips").unwrap();
    write_weights(&path, &WeightsAbout::of(&plan, ""), &[]).unwrap();
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|w| w == b"flips").unwrap();
    let mut other = bytes;
    other[at..at + 5].copy_from_slice(b"turns");
    fs::write(&path, other).unwrap();
    let error = Weights::read(&path).unwrap_err();
    assert!(matches!(error, RecordError::Metadata { .. }), "{error}");
    let complaint = error.complaint();
    let told = (&*complaint.expected, &*complaint.found);
    assert_eq!(told, ("views = one, flips or flips-shifts", "views = `turns`"));
    assert!(complaint.hint.contains("a newer sooner"), "{complaint}");
}

#[test]
fn what_does_not_match() {
    let (folder, path) = written();
    let weights = Weights::read(&path).unwrap();
    let mut all = String::new();
    let mut tell = |error: RecordError| {
        all += &error.to_string().replace(&folder.path().display().to_string(), "DIR");
        all += "\n";
    };
    tell(weights.get("head.weigth", &Shape::from([2, 3])).unwrap_err());
    tell(weights.get("head.weight", &Shape::from([3, 2])).unwrap_err());
    let bytes = fs::read(&path).unwrap();
    let mut damage = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        let mut damaged = bytes.clone();
        damaged[at..at + from.len()].copy_from_slice(to.as_bytes());
        fs::write(&path, damaged).unwrap();
        tell(Weights::read(&path).unwrap_err());
    };
    damage("F32", "I32");
    damage("sooner-weights-1", "sooner-weights-2");
    damage("softmax", "softman");
    damage("\"layouts\"", "\"layoutz\"");
    damage("{\"__meta", "{\"__meta"[..8].replace('{', "#").as_str());
    damage("\"__metadata__\":{", "\"__metadata__\":[");
    damage("[2,3]", "[2,4]");
    fs::write(&path, "").unwrap();
    tell(Weights::read(&path).unwrap_err());
    fs::write(&path, vec![b'x'; 1000]).unwrap();
    tell(Weights::read(&path).unwrap_err());
    fs::remove_file(&path).unwrap();
    tell(Weights::read(&path).unwrap_err());
    expect![[r#"
        DIR/weights.safetensors has no tensor `head.weigth`; the nearest is `head.weight`
        DIR/weights.safetensors: tensor `head.weight` should have shape [3, 2] and has [2, 3]
        DIR/weights.safetensors: tensor `body.scale` should hold F32 and holds I32
        DIR/weights.safetensors has format sooner-weights-2; this version reads up to sooner-weights-1: use a newer sooner
        DIR/weights.safetensors: metadata `model`: line 1, column 8, `kind`: unknown word: expected softmax, fully-connected, simple-cnn, resnet8, resnet9, backbone, dawn-resnet18, resnet32, resnet50, vgg11 or airbench, found "softman"
        hint: did you mean "softmax"?
        DIR/weights.safetensors: its metadata should have a key `layouts`, and has no such key
        DIR/weights.safetensors is no safetensors file: it does not begin with a header
        DIR/weights.safetensors is no safetensors file: its header is no JSON: expected `,` or `]` at line 1 column 24
        DIR/weights.safetensors is no safetensors file: invalid shape, data type, or offset for tensor
        DIR/weights.safetensors is no safetensors file: it is shorter than a header
        DIR/weights.safetensors is no safetensors file: it does not begin with a header
        cannot read DIR/weights.safetensors: No such file or directory (os error 2)
    "#]].assert_eq(&all);
}

#[test]
fn weights_of_other_programs_have_no_plan() {
    let (folder, _) = written();
    let path = folder.path().join("foreign.safetensors");
    let values: Vec<u8> = [1.5f32, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(Dtype::F32, vec![2], &values).unwrap();
    fs::write(&path, safetensors::serialize([("w", view)], None).unwrap()).unwrap();
    let weights = Weights::read(&path).unwrap();
    assert_eq!(
        (weights.about.clone(), weights.get("w", &Shape::from([2])).unwrap()),
        (None, &[1.5f32, 2.5][..])
    );
}

proptest! {
    #[test]
    fn no_damage_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        write(&path, &sample()[..2]);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fs::write(&path, bytes).unwrap();
        let _ = Weights::read(&path);
    }
}
