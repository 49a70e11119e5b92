use super::*;
use crate::writer::tests::plan;
use sooner_base::{Epochs, Examples, FreshExamples, NoisePair, Updates};
use sooner_plan::Split;
use std::path::PathBuf;

pub(crate) fn about() -> CheckpointAbout {
    let position = Position {
        updates: Updates(40),
        epochs: Epochs(0.1 + 0.2),
        fresh_examples: FreshExamples(2560),
        examples: Examples(2560),
        training_seconds: Seconds(1.0 / 3.0),
        wall_seconds: Seconds(0.7),
    };
    let metrics = Metrics::from_sums(Split::Val, f64::NAN, 1, 3);
    let mut noise = NoiseScale::new(0.99);
    noise.push(NoisePair { signal: 0.1, noise: 1.0 / 3.0 });
    CheckpointAbout {
        sooner: "0.1.0".into(),
        plan: plan(),
        threads: 2,
        kernels: "avx2".into(),
        position,
        next: (1, 17),
        time: TimeSplit { train: Seconds(0.1), ..Default::default() },
        preprocess: Seconds(1e-9),
        stages: BTreeMap::from([("augment".to_string(), Seconds(0.3))]),
        duplicates: Examples(3),
        evaluated: true,
        best: Some(Metrics { loss: 0.1, ..metrics }),
        last: Some(Metrics { loss: 1e-300, ..metrics }),
        reached_at: Some(position),
        last_finite: Some(LossAt { updates: Updates(39), loss: 2.25 }),
        noise: Some(noise),
    }
}

/// Values that are hard to keep: NaN with a payload, both zeros, subnormals; an empty tensor, a scalar.
fn tensors() -> Vec<(&'static str, Shape, Vec<f32>)> {
    let odd = vec![f32::from_bits(0x7fc0_1234), -0.0, 0.0, f32::from_bits(1), f32::INFINITY, 0.1];
    vec![
        ("b.weight", Shape::from([2, 3]), odd),
        ("a.scale", Shape::scalar(), vec![3.0]),
        ("c.empty", Shape::from([0, 4]), vec![]),
        ("b.weight.velocity", Shape::from([CHUNK + 1]), (0..=CHUNK).map(|i| i as f32).collect()),
    ]
}

fn write(path: &Path, tensors: &[(&'static str, Shape, Vec<f32>)]) {
    let refs: Vec<TensorRef> =
        tensors.iter().map(|(name, shape, values)| TensorRef { name, shape, values }).collect();
    write_checkpoint(path, &about(), &refs).unwrap();
}

fn written(count: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(CHECKPOINT_FILE);
    write(&path, &tensors()[..count]);
    let bytes = fs::read(&path).unwrap();
    (folder, path, bytes)
}

#[test]
fn reads_what_it_writes() {
    let (folder, _path, _) = written(4);
    let read = Checkpoint::find(folder.path()).unwrap().unwrap();
    assert_eq!(read.about, about());
    assert_eq!(read.tensors.len(), 4);
    for (name, shape, values) in tensors() {
        let tensor = &read.tensors[name];
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!((&tensor.shape, bits(&tensor.values)), (&shape, bits(&values)), "{name}");
    }
}

#[test]
fn no_checkpoint_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Checkpoint::find(folder.path()).unwrap(), None);
}

#[test]
fn cut_at_any_byte_it_is_refused() {
    let (_folder, path, bytes) = written(2);
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let error = Checkpoint::read(&path).unwrap_err();
        assert!(matches!(error, RecordError::Damaged { .. }), "cut at {cut}: {error}");
    }
    fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
    assert!(matches!(Checkpoint::read(&path), Err(RecordError::Damaged { .. })));
}

#[test]
fn any_flipped_bit_is_noticed() {
    let (_folder, path, bytes) = written(2);
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        let error = Checkpoint::read(&path).unwrap_err();
        let in_format = bit / 8 <= CHECKPOINT_FORMAT.len();
        let known = match error {
            RecordError::Damaged { .. } => true,
            RecordError::NotCheckpoint { .. } | RecordError::Newer { .. } => in_format,
            _ => false,
        };
        assert!(known, "bit {bit}: {error}");
    }
}

#[test]
fn other_files_and_versions_are_named() {
    let (_folder, path, bytes) = written(1);
    let check = |content: &[u8], expect: &str| {
        fs::write(&path, content).unwrap();
        let error = Checkpoint::read(&path).unwrap_err().to_string();
        assert_eq!(error.replace(&path.display().to_string(), "FILE"), expect);
    };
    let later = bytes.iter().copied().map(|b| if b == b'1' { b'2' } else { b }).collect::<Vec<_>>();
    check(
        &later,
        "FILE has format sooner-checkpoint-2; this version reads up to sooner-checkpoint-1: use a newer sooner",
    );
    check(b"", "FILE is cut off or damaged: its checksum does not hold");
    check(b"sooner-check", "FILE is cut off or damaged: its checksum does not hold");
    check(&[0; 100], "FILE is no checkpoint: it does not begin with `sooner-checkpoint-1`");
}

#[test]
fn a_write_that_fails_leaves_the_one_before() {
    let (folder, path, bytes) = written(2);
    // A folder in the temporary file's place refuses it, as a full disk would.
    let temporary = folder.path().join(".checkpoint.tmp");
    fs::create_dir(&temporary).unwrap();
    let refs = [];
    assert!(matches!(write_checkpoint(&path, &about(), &refs), Err(RecordError::Write { .. })));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::remove_dir(&temporary).unwrap();
    // What a kill in the middle of writing leaves behind is never read, and is replaced by the next.
    fs::write(&temporary, &bytes[..bytes.len() / 2]).unwrap();
    assert!(Checkpoint::find(folder.path()).unwrap().is_some());
    write(&path, &tensors()[..1]);
    assert!(!temporary.exists() && Checkpoint::read(&path).unwrap().tensors.len() == 1);
}
