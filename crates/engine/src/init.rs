//! Initial values of variables, and states in other precisions.

use crate::real::Real;
use crate::{Init, Rest, State, Var, Vars};
use sooner_base::{Purpose, Rng, Seed, Shape};

impl State<f32> {
    /// Every variable's initial value. Each has a random stream of its own, keyed by the seed and the variable's name,
    /// so that adding, removing or reordering variables changes no other.
    ///
    /// Fans of a weight `[KH, KW, C, K]` are KH KW C in and KH KW K out, of `[I, O]` they are I and O. Panics if an
    /// initialiser that needs them is declared for fewer than two dimensions, where they do not exist.
    pub fn init(vars: &Vars, seed: Seed) -> State<f32> {
        let mut state = State { values: vars.all().iter().map(|var| initial(var, seed)).collect() };
        state.follow(vars);
        state
    }
}

impl<T: Real> State<T> {
    /// Gives every variable that starts like another what that one has now; for when the others were changed between
    /// [`State::init`] and the first update.
    pub fn follow(&mut self, vars: &Vars) {
        for id in vars.ids() {
            if let Init::CopyOf(of) = vars.get(id).init {
                self.values[id.index()] = self.values[of.index()].clone();
            }
        }
    }

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
        Init::CopyOf(_) => vec![0.0; len],
        Init::Orthogonal { gain } => orthogonal(var, gain, &mut rng),
        Init::Dirac(rest) => {
            let others = match rest {
                Rest::Zero => Init::Constant(0.0),
                Rest::TorchUniform => Init::TorchUniform,
            };
            dirac(&var.shape, initial(&Var { init: others, ..var.clone() }, seed))
        }
        Init::Uniform { low, high } => draw(&|rng| low + (high - low) * rng.f64()),
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

/// Normal values made orthonormal one vector after the other (modified Gram and Schmidt, twice, in f64); that this is
/// uniform over orthogonal matrices follows from normal vectors having no preferred direction.
fn orthogonal(var: &Var, gain: f64, rng: &mut Rng) -> Vec<f32> {
    let [inputs, _] = fans(var).map(|fan| fan as usize);
    let outputs = var.shape.last();
    let (count, length) = (inputs.min(outputs), inputs.max(outputs));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    while vectors.len() < count {
        let mut v: Vec<f64> = (0..length).map(|_| rng.normal()).collect();
        for _ in 0..2 {
            for u in &vectors {
                let share: f64 = u.iter().zip(&v).map(|(u, v)| u * v).sum();
                v.iter_mut().zip(u).for_each(|(v, u)| *v -= share * u);
            }
        }
        let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        v.iter_mut().for_each(|v| *v /= norm);
        vectors.push(v);
    }
    let at = |i: usize, o: usize| if inputs <= outputs { vectors[i][o] } else { vectors[o][i] };
    (0..inputs * outputs).map(|n| (gain * at(n / outputs, n % outputs)) as f32).collect()
}

/// w: `[KH, KW, C, K]`, the first min(C, K) filters replaced by ones that pass on a channel.
fn dirac(shape: &Shape, mut w: Vec<f32>) -> Vec<f32> {
    let &[kh, kw, channels, filters] = shape.dims() else {
        panic!("dirac of {shape}: only convolutions [KH, KW, C, K] can pass on channels");
    };
    for (n, w) in w.iter_mut().enumerate() {
        let [tap, c, k] = [n / filters / channels, n / filters % channels, n % filters];
        if k < channels {
            let middle = tap == kh / 2 * kw + kw / 2;
            *w = if middle && c == k { 1.0 } else { 0.0 };
        }
    }
    w
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use sooner_base::{Shape, mean};

    fn values(name: &str, shape: &[usize], init: Init, seed: u64) -> Vec<f32> {
        let mut vars = Vars::new();
        vars.declare(Var { name: name.into(), shape: Shape::new(shape), init, role: Role::Weight }).unwrap();
        State::init(&vars, Seed(seed)).values.remove(0)
    }

    #[test]
    fn constants() {
        assert_eq!(values("a", &[3], Init::Constant(0.5), 1), [0.5; 3]);
        assert_eq!(values("a", &[2, 3], Init::UnitStats, 1), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(values("a", &[0, 3], Init::HeNormal, 1), []);
    }

    #[test]
    fn uniform_between_its_bounds() {
        let values = values("w", &[3000], Init::Uniform { low: 0.5, high: 2.0 }, 7);
        assert!(values.iter().all(|v| (0.5..2.0).contains(v)));
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / 3000.0;
        // Five standard errors of a uniform over 1.5.
        assert!((mean - 1.25).abs() < 5.0 * 1.5 / (12.0 * 3000.0f64).sqrt(), "{mean}");
    }

    /// Mean 0 and this deviation, within five standard errors; and no value beyond the bound.
    fn check_moments(shape: &[usize], init: Init, deviation: f64, bound: f64) {
        let values: Vec<f64> = values("w", shape, init, 7).iter().map(|v| f64::from(*v)).collect();
        let n = values.len() as f64;
        let square = mean(&values.iter().map(|v| v * v).collect::<Vec<_>>()).unwrap();
        assert!(mean(&values).unwrap().abs() < 5.0 * deviation / n.sqrt(), "{init:?} {shape:?}");
        // Four moments of a normal, 3 sd^4, bound the error of the second from above for a uniform, too.
        assert!(
            (square / deviation.powi(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt(),
            "{init:?} {shape:?} {square}"
        );
        let largest = values.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
        assert!(largest <= bound * (1.0 + 1e-6) && largest > 0.8 * bound.min(3.0 * deviation), "{largest}");
    }

    #[test]
    fn deviations_follow_the_fans() {
        let uniform = |bound: f64| (bound / 3f64.sqrt(), bound);
        for (shape, fan_in, fan_out) in [([3, 5, 16, 32].as_slice(), 240.0, 480.0), (&[70, 100], 70.0, 100.0)]
        {
            check_moments(shape, Init::HeNormal, (2f64 / fan_in).sqrt(), f64::INFINITY);
            check_moments(shape, Init::LecunNormal, (1f64 / fan_in).sqrt(), f64::INFINITY);
            let (deviation, bound) = uniform((6f64 / (fan_in + fan_out)).sqrt());
            check_moments(shape, Init::GlorotUniform, deviation, bound);
            let (deviation, bound) = uniform(1.0 / fan_in.sqrt());
            check_moments(shape, Init::TorchUniform, deviation, bound);
        }
    }

    #[test]
    fn orthogonal_matrices_are() {
        for (shape, gain) in
            [(vec![3, 3, 4, 8], 1.0), (vec![7, 5], 2.0), (vec![5, 7], 0.5), (vec![1, 1], 1.0)]
        {
            let w = values("w", &shape, Init::Orthogonal { gain }, 3);
            let outputs = *shape.last().unwrap();
            let inputs = w.len() / outputs;
            let at = |i: usize, o: usize| f64::from(w[i * outputs + o]);
            let tall = inputs > outputs;
            let (count, length) = (inputs.min(outputs), inputs.max(outputs));
            for a in 0..count {
                for b in 0..count {
                    let dot: f64 = (0..length)
                        .map(|j| if tall { at(j, a) * at(j, b) } else { at(a, j) * at(b, j) })
                        .sum();
                    let expected = if a == b { gain * gain } else { 0.0 };
                    assert!((dot - expected).abs() < 1e-6, "{shape:?}: {a} {b} {dot}");
                }
            }
        }
        let alike = |seed| values("w", &[4, 4], Init::Orthogonal { gain: 1.0 }, seed);
        assert_ne!(alike(1), alike(2));
    }

    #[test]
    fn dirac_passes_channels_on() {
        // Two channels, three filters: the third has none to pass on.
        let w = values("w", &[3, 3, 2, 3], Init::Dirac(Rest::Zero), 1);
        let ones: Vec<usize> = (0..w.len()).filter(|i| w[*i] != 0.0).collect();
        let at = |tap: usize, c: usize, k: usize| (tap * 2 + c) * 3 + k;
        assert_eq!(ones, [at(4, 0, 0), at(4, 1, 1)]);
        let (mixed, plain) = (
            values("w", &[3, 3, 2, 3], Init::Dirac(Rest::TorchUniform), 1),
            values("w", &[3, 3, 2, 3], Init::TorchUniform, 1),
        );
        for i in 0..w.len() {
            assert_eq!(mixed[i], if i % 3 == 2 { plain[i] } else { w[i] });
        }
        // An even window has its middle after the half, as in PyTorch.
        let even = values("w", &[2, 2, 1, 1], Init::Dirac(Rest::Zero), 1);
        assert_eq!(even, [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn copies_follow() {
        let mut vars = Vars::new();
        let var =
            |name: &str, init| Var { name: name.into(), shape: [2, 2].into(), init, role: Role::Weight };
        let first = vars.declare(var("a", Init::HeNormal)).unwrap();
        vars.declare(var("b", Init::CopyOf(first))).unwrap();
        let mut state = State::init(&vars, Seed(1));
        assert_eq!(state.values[0], state.values[1]);
        state.values[0] = vec![1.0; 4];
        state.follow(&vars);
        assert_eq!(state.values[1], [1.0; 4]);
    }

    #[test]
    fn variables_do_not_disturb_each_other() {
        let var = |name: &str| Var {
            name: name.into(),
            shape: [4, 5].into(),
            init: Init::HeNormal,
            role: Role::Weight,
        };
        let state = |names: &[&str], seed| {
            let mut vars = Vars::new();
            for name in names {
                vars.declare(var(name)).unwrap();
            }
            State::init(&vars, Seed(seed)).values
        };
        let (alone, both, turned) = (state(&["a"], 1), state(&["b", "a"], 1), state(&["a", "b"], 1));
        assert_eq!(alone[0], both[1]);
        assert_eq!((&both[0], &both[1]), (&turned[1], &turned[0]));
        assert_ne!(both[0], both[1]);
        assert_ne!(alone, state(&["a"], 2));
        // Computed apart, by a Python program; may change only with a stated change of what seeds mean, since every
        // record's start depends on it.
        assert_eq!(alone[0][..3], GOLDEN);
    }
    const GOLDEN: [f32; 3] = [0.9914664, -0.38369656, 0.70162344];

    #[test]
    #[should_panic(expected = "HeNormal of `b` [3]: no fan-in below two dimensions")]
    fn no_fan_of_a_bias() {
        values("b", &[3], Init::HeNormal, 1);
    }

    #[test]
    fn conversion_keeps_values() {
        let state = State { values: vec![vec![1.5f32, -0.1], vec![]] };
        let wide: State<f64> = state.convert();
        assert_eq!(wide.values, vec![vec![1.5, f64::from(-0.1f32)], vec![]]);
        assert_eq!(wide.convert::<f32>(), state);
    }
}
