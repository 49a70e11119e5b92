//! Averages that are evaluated and saved in place of the parameters.

use sooner_engine::{Init, Role, State, VarId, Vars};
use sooner_plan::{AverageKind, OptimizerPlan};

/// Which variables have an average that stands in for them; none where parameters themselves are evaluated.
#[derive(Debug)]
pub(crate) struct Averages {
    /// Each average and what it is an average of.
    pairs: Vec<(VarId, VarId)>,
}

impl Averages {
    /// The averages that this optimiser keeps beside the variables.
    pub(crate) fn new(vars: &Vars, optimizer: &OptimizerPlan) -> Averages {
        let kept = optimizer.average.is_some_and(|average| average.kind == AverageKind::Ema);
        let average_of = |id: VarId| match vars.get(id) {
            var if var.role != Role::Slot => None,
            var => match var.init {
                Init::CopyOf(of) => Some((id, of)),
                _ => None,
            },
        };
        let pairs = if kept { vars.ids().filter_map(average_of).collect() } else { Vec::new() };
        Averages { pairs }
    }

    /// Puts averages in the place of what they are averages of, and that in theirs; done twice it changes nothing.
    pub(crate) fn exchange(&self, state: &mut State) {
        for (average, of) in &self.pairs {
            state.values.swap(average.index(), of.index());
        }
    }
}
