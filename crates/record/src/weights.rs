//! Weights as safetensors: f32, little-endian, tensors in order of their names. The file's bytes are a function of
//! what is in it, so that two runs can be compared with `cmp`: no time stamps, every order fixed.

use crate::{RecordError, replace_file};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use sooner_base::Shape;
use sooner_plan::{AverageKind, DataPlan, ModelPlan, PipelinePlan, Plan, StagePlan, Views};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The version of the metadata that this crate writes, and the newest that it reads.
pub const WEIGHTS_FORMAT: &str = "sooner-weights-1";

const FAMILY: &str = "sooner-weights-";

/// What a file of weights says about itself, in its metadata: enough to build the network and to feed it.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightsAbout {
    /// The name of the plan that trained them.
    pub workload: String,
    /// The network.
    pub model: ModelPlan,
    /// What it was trained on.
    pub data: DataPlan,
    /// How its input is made: the stages that give evaluation what training saw.
    pub pipeline: PipelinePlan,
    /// The layouts of the tensors, in words.
    pub layouts: String,
    /// What the tensors are running averages by, such as `ema`; none where they are the parameters themselves.
    pub average: Option<String>,
    /// How often the run's last evaluation saw each image.
    pub views: Views,
}

impl WeightsAbout {
    /// What a plan says of the weights that it trains.
    pub fn of(plan: &Plan, layouts: &str) -> WeightsAbout {
        let (workload, model, data) = (plan.name.clone(), plan.model.clone(), plan.data.clone());
        let pipeline = still(&plan.pipeline);
        // Under lookahead the parameters are what is evaluated, and at the end they are the averages.
        let beside = plan.optimizer.average.filter(|average| average.kind == AverageKind::Ema);
        let average = beside.map(|average| average.kind.name().to_string());
        let (layouts, views) = (layouts.to_string(), plan.run.views);
        WeightsAbout { workload, model, data, pipeline, layouts, average, views }
    }

    /// Sorted by key.
    fn to_metadata(&self) -> BTreeMap<&'static str, String> {
        let mut entries = BTreeMap::from([
            ("format", WEIGHTS_FORMAT.to_string()),
            ("workload", self.workload.clone()),
            ("model", self.model.to_toml()),
            ("pipeline", self.pipeline.to_toml()),
            ("data", self.data.to_toml()),
            ("layouts", self.layouts.clone()),
        ]);
        entries.extend(self.average.clone().map(|average| ("average", average)));
        entries.extend((!self.views.is_one()).then(|| ("views", self.views.name().to_string())));
        entries
    }

    fn from_metadata(
        entries: &BTreeMap<String, String>,
        path: &Path,
    ) -> Result<Option<WeightsAbout>, RecordError> {
        let Some(format) = entries.get("format").filter(|f| f.starts_with(FAMILY)) else {
            return Ok(None);
        };
        if format != WEIGHTS_FORMAT {
            return Err(RecordError::Newer {
                path: path.to_path_buf(),
                found: format.clone(),
                known: WEIGHTS_FORMAT.to_string(),
            });
        }
        let unusable = |expected: String, found: String| RecordError::Metadata {
            path: path.to_path_buf(),
            expected,
            found,
        };
        let entry = |key: &str| {
            entries.get(key).ok_or_else(|| unusable(format!("a key `{key}`"), "no such key".to_string()))
        };
        let place = |key: &str| format!("{}: metadata `{key}`", path.display());
        let wrong = |key: &str| {
            let place = place(key);
            move |e: sooner_plan::PlanError| RecordError::Plan { source: e.in_file(&place) }
        };
        Ok(Some(WeightsAbout {
            workload: entry("workload")?.clone(),
            model: ModelPlan::parse(entry("model")?).map_err(wrong("model"))?,
            data: DataPlan::parse(entry("data")?).map_err(wrong("data"))?,
            pipeline: PipelinePlan::parse(entry("pipeline")?).map_err(wrong("pipeline"))?,
            layouts: entry("layouts")?.clone(),
            average: entries.get("average").cloned(),
            views: match entries.get("views") {
                None => Views::One,
                Some(word) => Views::parse(word).ok_or_else(|| {
                    unusable("views = one, flips or flips-shifts".to_string(), format!("views = `{word}`"))
                })?,
            },
        }))
    }
}

/// The stages of a pipeline that decide what a network is given at evaluation. Threads and the budget decide no bits, so
/// they must not show in a file whose bytes are compared.
fn still(pipeline: &PipelinePlan) -> PipelinePlan {
    let decides = |stage: &&StagePlan| {
        matches!(
            stage,
            StagePlan::Resize(_)
                | StagePlan::CenterCrop(_)
                | StagePlan::RandomResizedCrop(_)
                | StagePlan::Crop(_)
                | StagePlan::Normalize(_)
                | StagePlan::Batch(_)
        )
    };
    let stages = pipeline.stages.iter().filter(decides).cloned().collect();
    PipelinePlan { stages, threads: 0, budget: "1GiB".to_string(), ..pipeline.clone() }
}

/// A named tensor to be written.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    /// Unique in the file.
    pub name: &'a str,
    /// Its extents.
    pub shape: &'a Shape,
    /// As many values as the shape has, row-major.
    pub values: &'a [f32],
}

/// Writes weights, replacing the file whole or not at all. The order of the tensors given does not matter. Panics if
/// two have one name, or values do not fill their shape.
pub fn write_weights(path: &Path, about: &WeightsAbout, tensors: &[TensorRef]) -> Result<(), RecordError> {
    write(path, Some(about), tensors)
}

/// Writes tensors that no plan describes, such as those of a network of the user's own: the same file without metadata.
pub fn write_tensors(path: &Path, tensors: &[TensorRef]) -> Result<(), RecordError> {
    write(path, None, tensors)
}

fn write(path: &Path, about: Option<&WeightsAbout>, tensors: &[TensorRef]) -> Result<(), RecordError> {
    let mut tensors = tensors.to_vec();
    tensors.sort_by_key(|t| t.name);
    let header = header(about, &tensors);
    replace_file(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        let mut chunk = Vec::with_capacity(4 * 4096);
        for values in tensors.iter().flat_map(|t| t.values.chunks(4096)) {
            chunk.clear();
            chunk.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            file.write_all(&chunk)?;
        }
        Ok(())
    })
}

/// The header of a safetensors file: one JSON object, padded with spaces to a multiple of 8 bytes. Written here since
/// the safetensors crate keeps metadata in a hash map, whose order differs from run to run.
fn header(about: Option<&WeightsAbout>, tensors: &[TensorRef]) -> Vec<u8> {
    let mut object = serde_json::Map::new();
    if let Some(about) = about {
        object.insert("__metadata__".into(), json!(about.to_metadata()));
    }
    let mut offset = 0;
    for tensor in tensors {
        assert_eq!(tensor.values.len(), tensor.shape.len(), "values of `{}`", tensor.name);
        let end = offset + 4 * tensor.values.len();
        let entry = json!({ "dtype": "F32", "shape": tensor.shape.dims(), "data_offsets": [offset, end] });
        let twin = object.insert(tensor.name.to_string(), entry);
        assert!(twin.is_none(), "two tensors are called `{}`", tensor.name);
        offset = end;
    }
    let mut bytes = Value::Object(object).to_string().into_bytes();
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    bytes
}

/// A tensor that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its extents.
    pub shape: Shape,
    /// Its values, row-major.
    pub values: Vec<f32>,
}

/// A file of weights, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// The file.
    pub path: PathBuf,
    /// CRC-32 of the whole file.
    pub crc32: u32,
    /// What it says about itself; none if another program wrote it.
    pub about: Option<WeightsAbout>,
    /// Its tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
}

impl Weights {
    /// Reads a file of weights, from here or from elsewhere; every tensor must be of F32.
    pub fn read(path: &Path) -> Result<Weights, RecordError> {
        let bytes = fs::read(path).map_err(RecordError::read(path))?;
        check_length(&bytes, path)?;
        let not_weights = |reason: String| RecordError::NotWeights { path: path.to_path_buf(), reason };
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| not_weights(e.to_string()))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|e| not_weights(e.to_string()))?;
        let entries = metadata.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        let about = WeightsAbout::from_metadata(&entries, path)?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                let found = view.dtype().to_string();
                return Err(RecordError::TensorType { path: path.to_path_buf(), name: name.into(), found });
            }
            let values = view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let shape = Shape::new(view.shape());
            tensors.insert(name.to_string(), Tensor { shape, values });
        }
        Ok(Weights { path: path.to_path_buf(), crc32: crc32fast::hash(&bytes), about, tensors })
    }

    /// The values of a tensor that must be there and have this shape.
    pub fn get(&self, name: &str, shape: &Shape) -> Result<&[f32], RecordError> {
        let Some(tensor) = self.tensors.get(name) else {
            let likeness = |known: &&String| (strsim::normalized_levenshtein(name, known) * 1e6) as u64;
            let nearest = self.tensors.keys().max_by_key(likeness).cloned();
            return Err(RecordError::NoTensor { path: self.path.clone(), name: name.to_string(), nearest });
        };
        if tensor.shape != *shape {
            return Err(RecordError::TensorShape {
                path: self.path.clone(),
                name: name.to_string(),
                expected: shape.clone(),
                found: tensor.shape.clone(),
            });
        }
        Ok(&tensor.values)
    }
}

/// Tells a file that is cut off from one that never was weights: the header says how long the file is.
fn check_length(bytes: &[u8], path: &Path) -> Result<(), RecordError> {
    let not_weights =
        |reason: &str| RecordError::NotWeights { path: path.to_path_buf(), reason: reason.to_string() };
    let cut = |expected: u64| {
        Err(RecordError::Length { path: path.to_path_buf(), expected, found: bytes.len() as u64 })
    };
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(not_weights("it is shorter than a header"));
    };
    let length = u64::from_le_bytes(*length);
    if rest.first().is_some_and(|b| *b != b'{') || length > 100_000_000 {
        return Err(not_weights("it does not begin with a header"));
    }
    let whole_header = 8 + length;
    let Some(header) = rest.get(..length as usize) else {
        return cut(whole_header);
    };
    let header: Value =
        serde_json::from_slice(header).map_err(|e| not_weights(&format!("its header is no JSON: {e}")))?;
    let ends =
        header.as_object().into_iter().flat_map(|o| o.values()).filter_map(|t| t["data_offsets"][1].as_u64());
    let expected = ends.max().unwrap_or(0).saturating_add(whole_header);
    if expected == bytes.len() as u64 { Ok(()) } else { cut(expected) }
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
