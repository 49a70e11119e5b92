//! What the machine can do at most: multiply-adds in registers, and bytes to and from memory. Ceilings, not averages:
//! the best of several bursts, on the threads that also run programs.

#![allow(unsafe_code)]

use crate::Pool;
#[cfg(target_arch = "x86_64")]
use crate::native::{Avx2, Avx512};
use crate::native::{Isa, PART, Portable, Simd, multiversion};
use sooner_base::{Clock, Seconds};
use std::hint::black_box;

/// Bursts of which the best counts.
const BURSTS: usize = 5;
/// The least length of a burst: shorter ones would catch turbo frequencies that no run can hold.
const BURST: Seconds = Seconds(0.05);
/// Most rounds of a burst, reached only if the clock stands still.
const MOST_ROUNDS: usize = 1 << 26;
/// Values of each of the triad's three arrays: 64 MiB, more than the caches of one core see again.
const TRIAD: usize = 16 * 1024 * 1024;

/// The measured peak of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Billions of f32 operations a second, a multiply-add being two; 0 if the clock stood still.
    pub gflops: f64,
    /// The widest instruction set here, which was used: `avx512`, `avx2`, `neon` or `portable`.
    pub isa: &'static str,
    /// Threads that computed.
    pub threads: usize,
}

/// Measures the peak of independent fused multiply-adds in registers, on all threads of the pool: the best of five
/// bursts of at least 50 ms.
pub fn measure_peak(pool: &Pool, clock: &dyn Clock) -> Peak {
    let isa = Isa::widest();
    let burst: unsafe fn(usize) = match isa {
        Isa::Portable => burst_portable,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => burst_avx2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => burst_avx512,
    };
    let mut rounds = 1 << 16;
    let mut best = 0.0f64;
    let mut bursts = 0;
    while bursts < BURSTS {
        let start = clock.now();
        // SAFETY: `widest` returns what this processor has.
        pool.run(pool.threads(), &|_| unsafe { burst(rounds) });
        let seconds = clock.now() - start;
        if seconds < BURST && rounds < MOST_ROUNDS {
            rounds *= 2;
            continue;
        }
        bursts += 1;
        let flops = 2.0 * (pool.threads() * rounds * accumulators(isa) * isa.lanes()) as f64;
        if seconds.0 > 0.0 {
            best = best.max(flops / seconds.0);
        }
    }
    Peak { gflops: best * 1e-9, isa: isa.name(), threads: pool.threads() }
}

/// Independent chains of multiply-adds: enough to hide their latency, few enough to stay in registers.
fn accumulators(isa: Isa) -> usize {
    match isa {
        Isa::Portable => CHAINS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => CHAINS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => 2 * CHAINS,
    }
}

const CHAINS: usize = 12;

#[inline(always)]
unsafe fn burst<S: Simd, const N: usize>(rounds: usize) {
    // SAFETY: callers are compiled for the instruction set; only registers and local arrays are used.
    unsafe {
        // Values that the compiler cannot know, near a fixed point so that nothing overflows or becomes subnormal.
        let (a, b) = (S::splat(black_box(0.75)), S::splat(black_box(0.25)));
        let mut acc = [S::splat(black_box(1.5)); N];
        for _ in 0..rounds {
            for v in &mut acc {
                *v = S::mul_add(*v, a, b);
            }
        }
        let mut out = [0f32; 16];
        for v in acc {
            S::store(out.as_mut_ptr(), v);
            black_box(&out);
        }
    }
}

unsafe fn burst_portable(rounds: usize) {
    // SAFETY: every processor has it.
    unsafe { burst::<Portable, CHAINS>(rounds) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn burst_avx2(rounds: usize) {
    // SAFETY: handed on to the caller.
    unsafe { burst::<Avx2, CHAINS>(rounds) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
unsafe fn burst_avx512(rounds: usize) {
    // SAFETY: handed on to the caller.
    unsafe { burst::<Avx512, { 2 * CHAINS }>(rounds) }
}

/// Measures memory bandwidth in bytes a second by a = b + s c over arrays of 64 MiB on all threads of the pool, reads
/// and writes as the program says (12 bytes an element): the best of five passes; 0 if the clock stood still.
pub fn measure_bandwidth(pool: &Pool, clock: &dyn Clock) -> f64 {
    let isa = Isa::widest();
    let (b, c) = (vec![black_box(1f32); TRIAD], vec![black_box(2f32); TRIAD]);
    let mut a = vec![black_box(0f32); TRIAD];
    let mut best = 0.0f64;
    for _ in 0..BURSTS {
        let start = clock.now();
        pool.parts(&mut a, PART, &|task, a| {
            let range = task.index * PART..task.index * PART + a.len();
            triad(isa, &b[range.clone()], &c[range], a);
        });
        let seconds = clock.now() - start;
        black_box(&a);
        if seconds.0 > 0.0 {
            best = best.max((3 * size_of::<f32>() * TRIAD) as f64 / seconds.0);
        }
    }
    best
}

multiversion! {
    fn triad(b: &[f32], c: &[f32], a: &mut [f32]) {
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = b + 3.0 * c;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::MonotonicClock;
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Advances by the same time at every look.
    struct Ticking(AtomicU32);

    impl Clock for Ticking {
        fn now(&self) -> Seconds {
            Seconds(f64::from(self.0.fetch_add(1, Ordering::Relaxed)) * 0.5)
        }
    }

    #[test]
    fn rates_are_work_over_time() {
        let pool = Pool::new(NonZeroUsize::MIN);
        let clock = Ticking(AtomicU32::new(0));
        // Every burst seems to take half a second, so the first number of rounds is enough.
        let isa = Isa::widest();
        let flops = 2.0 * (65536 * accumulators(isa) * isa.lanes()) as f64;
        let peak = measure_peak(&pool, &clock);
        assert!((peak.gflops - flops / 0.5 * 1e-9).abs() < 1e-9, "{peak:?}");
        assert_eq!((peak.isa, peak.threads), (isa.name(), 1));
        assert_eq!(measure_bandwidth(&pool, &clock), 3.0 * 4.0 * TRIAD as f64 / 0.5);
    }

    #[test]
    fn the_work_is_done() {
        // If the compiler removed the loop, the peak would be beyond anything that exists: 64 lanes, two units, 10 GHz.
        let pool = Pool::new(NonZeroUsize::MIN);
        let peak = measure_peak(&pool, &MonotonicClock::start());
        // Where a processor is emulated, it is slow.
        assert!(peak.gflops > 1e-3 && peak.gflops < 2.0 * 64.0 * 2.0 * 10.0, "{peak:?}");
    }
}
