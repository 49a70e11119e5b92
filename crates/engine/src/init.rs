//! Initial values of variables, and states in other precisions.

use crate::real::Real;
use crate::{Init, State, Var, Vars};
use sooner_base::{Purpose, Rng, Seed};

impl State<f32> {
    /// Every variable's initial value. Each has a random stream of its own, keyed by the seed and the variable's name,
    /// so that adding, removing or reordering variables changes no other.
    ///
    /// Fans of a weight `[KH, KW, C, K]` are KH KW C in and KH KW K out, of `[I, O]` they are I and O. Panics if an
    /// initialiser that needs them is declared for fewer than two dimensions, where they do not exist.
    pub fn init(vars: &Vars, seed: Seed) -> State<f32> {
        State { values: vars.all().iter().map(|var| initial(var, seed)).collect() }
    }
}

impl<T: Real> State<T> {
    /// The same values in another precision.
    pub fn convert<U: Real>(&self) -> State<U> {
        let convert = |values: &Vec<T>| values.iter().map(|v| U::from_f64(v.to_f64())).collect();
        State { values: self.values.iter().map(convert).collect() }
    }
}

fn initial(var: &Var, seed: Seed) -> Vec<f32> {
    let len = var.shape.len();
    let mut rng = seed.key(Purpose::Init, name_hash(&var.name)).at(0, 0, 0);
    let mut draw = |one: &dyn Fn(&mut Rng) -> f64| (0..len).map(|_| one(&mut rng) as f32).collect();
    match var.init {
        Init::Constant(value) => vec![value as f32; len],
        Init::UnitStats => (0..len).map(|i| if i < len / 2 { 0.0 } else { 1.0 }).collect(),
        Init::HeNormal => {
            let deviation = (2.0 / fans(var)[0]).sqrt();
            draw(&|rng| deviation * rng.normal())
        }
        Init::LecunNormal => {
            let deviation = (1.0 / fans(var)[0]).sqrt();
            draw(&|rng| deviation * rng.normal())
        }
        Init::GlorotUniform => {
            let [fan_in, fan_out] = fans(var);
            let bound = (6.0 / (fan_in + fan_out)).sqrt();
            draw(&|rng| bound * (2.0 * rng.f64() - 1.0))
        }
        Init::TorchUniform => {
            let bound = 1.0 / fans(var)[0].sqrt();
            draw(&|rng| bound * (2.0 * rng.f64() - 1.0))
        }
    }
}

/// Fan-in and fan-out: inputs of one output, and outputs of one input.
fn fans(var: &Var) -> [f64; 2] {
    let Var { name, shape, init, .. } = var;
    assert!(shape.rank() >= 2, "{init:?} of `{name}` {shape}: no fan-in below two dimensions");
    let (window, channels) = shape.dims().split_at(shape.rank() - 2);
    let taps = window.iter().product::<usize>();
    [(taps * channels[0]) as f64, (taps * channels[1]) as f64]
}

/// FNV-1a over the name's bytes: fixed for ever, since every seed's meaning depends on it.
fn name_hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
