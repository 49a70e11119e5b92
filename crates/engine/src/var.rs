//! Variables: named tensors that live from one run of a program to the next.

use crate::EngineError;
use sooner_base::Shape;

/// A variable, by its position in [`Vars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub(crate) u32);

impl VarId {
    /// The variable's position in [`Vars::all`] and in a [`crate::State`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a variable starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// One value everywhere.
    Constant(f64),
    /// First row 0, second row 1: the running mean and variance of normalisation.
    UnitStats,
    /// Uniform from `low` to `high`.
    Uniform {
        /// The least value.
        low: f64,
        /// What all values are below.
        high: f64,
    },
    /// Normal with variance 2 / fan-in (He et al., 2015).
    HeNormal,
    /// Uniform in +-sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio, 2010).
    GlorotUniform,
    /// Normal with variance 1 / fan-in (LeCun et al., 1998).
    LecunNormal,
    /// Uniform in +-1 / sqrt(fan-in): what PyTorch gives its layers unless told otherwise.
    TorchUniform,
    /// A random orthogonal matrix of inputs (taps and channels) by outputs, times a gain: rows or columns, whichever
    /// are fewer, are orthonormal (Saxe et al., 2014).
    Orthogonal {
        /// Multiplies the matrix.
        gain: f64,
    },
    /// A convolution that passes on what it gets: filter k is 1 at the middle tap of channel k. What filters beyond the
    /// channels there are start as.
    Dirac(Rest),
    /// Like another variable, which must be declared before.
    CopyOf(VarId),
}

/// What the filters of [`Init::Dirac`] that have no channel to pass on start as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Zeros, as in PyTorch's `dirac_`.
    Zero,
    /// [`Init::TorchUniform`].
    TorchUniform,
}

/// What a variable is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Trained: convolution and linear weights.
    Weight,
    /// Trained: biases of convolutions, linear layers and normalisation.
    Bias,
    /// Trained: scales of normalisation.
    Gain,
    /// Given before training and never changed: filters worked out from the data.
    Fixed,
    /// Kept by the program beside training: running statistics.
    Running,
    /// Kept by the optimiser: velocities and the like. Not part of a model's weights.
    Slot,
}

impl Role {
    /// Whether the optimiser updates variables of this role.
    pub fn is_trained(self) -> bool {
        matches!(self, Role::Weight | Role::Bias | Role::Gain)
    }
}

/// A named tensor that outlives a run of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Var {
    /// Unique and stable: the name in weight files, such as `block1.conv1.weight`.
    pub name: String,
    /// Its extents.
    pub shape: Shape,
    /// How it starts.
    pub init: Init,
    /// What it is for.
    pub role: Role,
}

/// All variables of a model and its optimiser; shared by every program that works on them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vars(Vec<Var>);

impl Vars {
    /// No variables yet.
    pub fn new() -> Vars {
        Vars::default()
    }

    /// All variables in order of declaration.
    pub fn all(&self) -> &[Var] {
        &self.0
    }

    /// One variable.
    pub fn get(&self, id: VarId) -> &Var {
        &self.0[id.index()]
    }

    /// Makes a variable start otherwise than it was declared to.
    pub fn set_init(&mut self, id: VarId, init: Init) {
        self.0[id.index()].init = init;
    }

    /// The variable of this name.
    pub fn find(&self, name: &str) -> Option<VarId> {
        self.0.iter().position(|v| v.name == name).map(|i| VarId(i as u32))
    }

    /// The ids of all variables.
    pub fn ids(&self) -> impl Iterator<Item = VarId> + use<> {
        (0..self.0.len() as u32).map(VarId)
    }

    /// Declares a variable, or returns the one of that name if it is declared alike already, so that a model built
    /// twice (for another batch size, say) works on the same variables.
    pub fn declare(&mut self, var: Var) -> Result<VarId, EngineError> {
        if let Some(id) = self.find(&var.name) {
            let known = self.get(id);
            if *known == var {
                return Ok(id);
            }
            return Err(EngineError::Redeclared {
                name: var.name,
                known: known.shape.clone(),
                new: var.shape,
            });
        }
        self.0.push(var);
        Ok(VarId((self.0.len() - 1) as u32))
    }

    /// The number of trained parameters.
    pub fn parameter_count(&self) -> usize {
        self.0.iter().filter(|v| v.role.is_trained()).map(|v| v.shape.len()).sum()
    }
}
