//! Programs that store values as bf16 between the way forward and the way back.

use super::kernel::Kernel;
use super::tests::{Left, distance, run, to_f64};
use super::{Kernels, Native, Pool, Storage};
use crate::testing::{Case, RANDOM_NETWORKS, random_network, residual_network};
use std::num::NonZeroUsize;
use std::sync::Arc;

fn compile(case: &Case, storage: Storage, threads: usize) -> Native {
    let pool = Arc::new(Pool::new(NonZeroUsize::new(threads).expect("not zero")));
    Native::compile_storing(&case.program, (Kernels::Auto, storage), pool).expect("available")
}

fn updated(case: &Case, storage: Storage, threads: usize) -> Left<f32> {
    run(case, &mut compile(case, storage, threads), 1)
}

#[test]
fn the_way_forward_keeps_its_bits_and_updates_stay_near() {
    let mut stored = 0;
    for case in (0..RANDOM_NETWORKS).map(random_network).chain([residual_network()]) {
        let [whole, halves] = [Storage::F32, Storage::Bf16].map(|storage| updated(&case, storage, 1));
        // Loss and correct answers are made on the way forward; gradients, where a program returns them, are not.
        assert!(whole.outputs[0][0] == halves.outputs[0][0], "{}: another loss", case.name);
        for (var, (a, b)) in halves.state.values.iter().zip(&whole.state.values).enumerate() {
            let off = distance(a, &to_f64(b));
            assert!(off < 0.05, "{}: variable {var} off by {off}", case.name);
        }
        assert!(updated(&case, Storage::Bf16, 3) == halves, "{}: other bits on 3 threads", case.name);
        let native = compile(&case, Storage::Bf16, 1);
        let count = |kernel: &Kernel| native.steps().filter(|k| *k == kernel).count();
        assert_eq!(count(&Kernel::Narrow), count(&Kernel::Widen), "{}", case.name);
        stored += count(&Kernel::Narrow);
    }
    assert!(stored > 40, "only {stored} values were stored at all");
}
