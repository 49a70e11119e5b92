//! Instruction sets: which ones exist, which one runs, and the few vector operations that the kernels are written in.

#![allow(unsafe_code)]

use crate::EngineError;

/// Which kernels to run. The exact ones compute every convolution by the direct sums; the others take a fast algorithm
/// where it wins by a rule on shapes, at some ten times the rounding error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernels {
    /// The widest that the machine can execute.
    Auto,
    /// Plain Rust for the compilation target.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
    /// The widest, exact.
    AutoExact,
    /// Plain Rust, exact.
    PortableExact,
    /// 256-bit vectors, exact.
    Avx2Exact,
    /// 512-bit vectors, exact.
    Avx512Exact,
}

impl Kernels {
    /// All choices.
    pub const ALL: [Kernels; 8] = [
        Kernels::Auto,
        Kernels::Portable,
        Kernels::Avx2,
        Kernels::Avx512,
        Kernels::AutoExact,
        Kernels::PortableExact,
        Kernels::Avx2Exact,
        Kernels::Avx512Exact,
    ];

    /// The name in records and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kernels::Auto => "auto",
            Kernels::Portable => "portable",
            Kernels::Avx2 => "avx2",
            Kernels::Avx512 => "avx512",
            Kernels::AutoExact => "auto-exact",
            Kernels::PortableExact => "portable-exact",
            Kernels::Avx2Exact => "avx2-exact",
            Kernels::Avx512Exact => "avx512-exact",
        }
    }

    /// The choice of this name.
    pub fn named(name: &str) -> Option<Kernels> {
        Kernels::ALL.into_iter().find(|kernels| kernels.name() == name)
    }

    /// Whether every convolution is computed by the direct sums.
    pub fn is_exact(self) -> bool {
        self != self.fast()
    }

    /// The same vectors without exactness.
    fn fast(self) -> Kernels {
        match self {
            Kernels::Auto | Kernels::AutoExact => Kernels::Auto,
            Kernels::Portable | Kernels::PortableExact => Kernels::Portable,
            Kernels::Avx2 | Kernels::Avx2Exact => Kernels::Avx2,
            Kernels::Avx512 | Kernels::Avx512Exact => Kernels::Avx512,
        }
    }

    /// The same vectors, exact.
    pub fn exact(self) -> Kernels {
        match self.fast() {
            Kernels::Portable => Kernels::PortableExact,
            Kernels::Avx2 => Kernels::Avx2Exact,
            Kernels::Avx512 => Kernels::Avx512Exact,
            _ => Kernels::AutoExact,
        }
    }

    /// What these kernels run as here. Fails if this machine cannot execute them.
    pub(crate) fn resolve(self) -> Result<Isa, EngineError> {
        let missing = EngineError::Kernels { wanted: self.name() };
        match self.fast() {
            Kernels::Portable => Ok(Isa::Portable),
            Kernels::Avx2 => Isa::avx2().ok_or(missing),
            Kernels::Avx512 => Isa::avx512().ok_or(missing),
            _ => Ok(Isa::widest()),
        }
    }

    /// Whether this machine can execute them.
    pub fn is_available(self) -> bool {
        self.resolve().is_ok()
    }

    /// What the choice comes to here, `Auto` being none of them; fails if this machine cannot execute it.
    pub fn settled(self) -> Result<Kernels, EngineError> {
        let fast = match self.resolve()? {
            Isa::Portable => Kernels::Portable,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Kernels::Avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Kernels::Avx512,
        };
        Ok(if self.is_exact() { fast.exact() } else { fast })
    }

    /// Every choice that this machine can execute, `Auto` and the exact ones left out; the widest is last.
    pub fn available() -> Vec<Kernels> {
        let all = [Kernels::Portable, Kernels::Avx2, Kernels::Avx512];
        all.into_iter().filter(|k| k.is_available()).collect()
    }
}

/// What decides which kernels a program is lowered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) isa: Isa,
    /// Direct convolutions only.
    pub(crate) exact: bool,
}

/// An instruction set that this machine can execute: only [`Kernels::resolve`] and [`Isa::widest`] make the x86 ones,
/// after asking the processor, so holding one is the proof that functions compiled for it may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    pub(crate) fn widest() -> Isa {
        Isa::avx512().or(Isa::avx2()).unwrap_or(Isa::Portable)
    }

    #[cfg(target_arch = "x86_64")]
    fn avx2() -> Option<Isa> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Isa::Avx2)
    }

    #[cfg(target_arch = "x86_64")]
    fn avx512() -> Option<Isa> {
        let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
        (wide && Isa::avx2().is_some()).then_some(Isa::Avx512)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx2() -> Option<Isa> {
        None
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx512() -> Option<Isa> {
        None
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable if cfg!(target_arch = "aarch64") => "neon",
            Isa::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }

    /// f32 values in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Isa::Portable => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::LANES,
        }
    }
}

/// The vector operations of one instruction set. Every method must be inlined into a function compiled for that set
/// (`#[target_feature]`), which is also what makes calling it safe; pointers must be valid for `LANES` values.
pub(crate) trait Simd: Copy {
    type V: Copy;
    const LANES: usize;
    unsafe fn splat(value: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, value: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// a b + c, rounded once where the machine can.
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// max(a, 0) where NaN stays NaN.
    unsafe fn relu(a: Self::V) -> Self::V;
}

/// Asks for values that will be needed soon, as far as they are in one line of the cache. A wish: nothing depends on it but
/// time, and the address need not be valid.
#[inline(always)]
pub(crate) fn prefetch(values: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(values.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// Four lanes that the compiler maps to whatever the target has (SSE2, NEON).
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        // SAFETY: the caller's pointer is valid for LANES values; unaligned reads are allowed for.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: [f32; 4]) {
        // SAFETY: the caller's pointer is valid for LANES values; unaligned writes are allowed for.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul_add(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        // Without a fused instruction, `mul_add` would be a library call for every lane.
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
        } else {
            std::array::from_fn(|i| a[i] * b[i] + c[i])
        }
    }
    #[inline(always)]
    unsafe fn relu(a: [f32; 4]) -> [f32; 4] {
        a.map(|v| if v <= 0.0 { 0.0 } else { v })
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    macro_rules! x86_simd {
        ($(#[$doc:meta])* $name:ident, $vector:ty, $lanes:literal, $splat:ident $load:ident $store:ident
         $add:ident $sub:ident $mul_add:ident $max:ident) => {
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(crate) struct $name;

            impl Simd for $name {
                type V = $vector;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn splat(value: f32) -> $vector {
                    // SAFETY: callers are compiled for this instruction set.
                    unsafe { $splat(value) }
                }
                #[inline(always)]
                unsafe fn load(from: *const f32) -> $vector {
                    // SAFETY: as above, and the caller's pointer is valid for LANES values.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn store(to: *mut f32, value: $vector) {
                    // SAFETY: as above, and the caller's pointer is valid for LANES values.
                    unsafe { $store(to, value) }
                }
                #[inline(always)]
                unsafe fn add(a: $vector, b: $vector) -> $vector {
                    // SAFETY: callers are compiled for this instruction set.
                    unsafe { $add(a, b) }
                }
                #[inline(always)]
                unsafe fn sub(a: $vector, b: $vector) -> $vector {
                    // SAFETY: callers are compiled for this instruction set.
                    unsafe { $sub(a, b) }
                }
                #[inline(always)]
                unsafe fn mul_add(a: $vector, b: $vector, c: $vector) -> $vector {
                    // SAFETY: callers are compiled for this instruction set.
                    unsafe { $mul_add(a, b, c) }
                }
                #[inline(always)]
                unsafe fn relu(a: $vector) -> $vector {
                    // The instruction returns its second operand if either is NaN.
                    // SAFETY: callers are compiled for this instruction set.
                    unsafe { $max($splat(0.0), a) }
                }
            }
        };
    }

    x86_simd!(
        /// Eight lanes, with fused multiply-add.
        Avx2, __m256, 8, _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_add_ps _mm256_sub_ps
        _mm256_fmadd_ps _mm256_max_ps
    );
    x86_simd!(
        /// Sixteen lanes.
        Avx512, __m512, 16, _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_add_ps _mm512_sub_ps
        _mm512_fmadd_ps _mm512_max_ps
    );
}

/// Compiles a function over plain slices once for every instruction set and calls the one asked for: the body is
/// ordinary code that the compiler vectorises. Arithmetic is not reordered or fused by that, so a body whose lanes are
/// independent gives the same bits everywhere; unless it hands on `FUSED`, which says whether the set has a fused
/// multiply-add.
macro_rules! multiversion {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[allow(unsafe_code)]
        $vis fn $name(isa: $crate::native::Isa, $($arg: $type),*) {
            #[inline(always)]
            fn portable($($arg: $type),*) {
                #[allow(dead_code)]
                const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
                $body
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn fused($($arg: $type),*) {
                #[allow(dead_code)]
                const FUSED: bool = true;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) {
                fused($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
            fn avx512($($arg: $type),*) {
                fused($($arg),*)
            }
            match isa {
                $crate::native::Isa::Portable => portable($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: an `Isa` of this kind exists only where the processor has it.
                $crate::native::Isa::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: an `Isa` of this kind exists only where the processor has it.
                $crate::native::Isa::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    )*};
}
pub(crate) use multiversion;
