//! Convolutions as correlations that need no im2col copy.

use crate::Window;
use crate::native::{Context, Correlation, Epilogue, Geometry, Isa, Strides, WeightGradient, WeightRows};
use sooner_base::Shape;

/// A convolution: x `[N, H, W, C]`, w `[KH, KW, C, K]` -> y `[N, H', W', K]`.
pub(crate) fn forward(window: &Window, x: &Shape, w: &Shape, isa: Isa) -> Correlation {
    let weights = WeightRows { start: 0, count: w[0] * w[1] * w[2], row: w[3], column: 1 };
    let geometry = geometry(window, x, w[3]);
    let positions = geometry.images * geometry.output[0] * geometry.output[1];
    if is_product(window) {
        return Correlation::new(Geometry::product([positions, w[2], w[3]]), vec![weights], positions, isa);
    }
    Correlation::new(geometry, vec![weights], positions, isa)
}

/// Its gradient by the weights: x `[N, H, W, C]`, dy `[N, H', W', K]` -> dw `[KH, KW, C, K]`.
pub(crate) fn grad_weight(window: &Window, x: &Shape, dy: &Shape, isa: Isa) -> WeightGradient {
    let positions = dy[0] * dy[1] * dy[2];
    if is_product(window) {
        return WeightGradient::new(Geometry::product([positions, x[3], dy[3]]), positions, isa);
    }
    WeightGradient::new(geometry(window, x, dy[3]), positions, isa)
}

/// Whether the convolution is a product of `[N H W, C]` and `[C, K]`.
fn is_product(window: &Window) -> bool {
    *window == Window::valid(1, 1)
}

fn geometry(window: &Window, x: &Shape, width: usize) -> Geometry {
    let output = window.output([x[1], x[2]]).expect("the graph has checked that the window fits");
    Geometry {
        images: x[0],
        source: [x[1], x[2]],
        depth: x[3],
        taps: window.kernel,
        stride: window.stride,
        origin: window.pad_low.map(|pad| -(pad as isize)),
        output,
        width,
        target: Strides {
            offset: 0,
            image: output[0] * output[1] * width,
            row: output[1] * width,
            column: width,
        },
    }
}

/// The gradient of a convolution by its input. Pixels of dx whose coordinates leave the same remainders when divided
/// by the strides form a phase: each phase is a correlation of dy with the taps that reach it, in reverse order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GradInput {
    phases: Vec<Correlation>,
    /// Some pixels of x are seen by no window.
    gaps: bool,
}

/// One phase along one dimension.
struct Phase {
    /// The first coordinate in dx.
    first: usize,
    /// Coordinates in dx.
    count: usize,
    /// The first tap that reaches it; others follow a stride apart.
    tap: usize,
    taps: usize,
    /// The coordinate in dy that the last tap of the first coordinate sees.
    origin: isize,
}

/// Phases of one dimension of this extent in x.
fn phases(window: &Window, d: usize, extent: usize) -> Vec<Phase> {
    let [stride, pad, kernel] = [window.stride[d], window.pad_low[d], window.kernel[d]];
    let phase = |first: usize| {
        // dx at h gets dy at (h + pad - tap) / stride for the taps that leave no remainder.
        let tap = (first + pad) % stride;
        let taps = kernel.saturating_sub(tap).div_ceil(stride);
        let origin = ((first + pad) / stride) as isize - (taps as isize - 1);
        Phase { first, count: (extent - first).div_ceil(stride), tap, taps, origin }
    };
    (0..stride.min(extent)).map(phase).collect()
}

impl GradInput {
    /// dy `[N, H', W', K]`, w `[KH, KW, C, K]` -> dx `[N, H, W, C]`, whose shape is `input`.
    pub(crate) fn new(window: &Window, dy: &Shape, w: &Shape, input: &Shape, isa: Isa) -> GradInput {
        let [kw, depth, width] = [w[1], w[2], w[3]];
        let positions = dy[0] * dy[1] * dy[2];
        let tap = |a: usize, b: usize| WeightRows {
            start: (a * kw + b) * depth * width,
            count: width,
            row: 1,
            column: width,
        };
        if is_product(window) {
            let geometry = Geometry::product([positions, width, depth]);
            return GradInput {
                phases: vec![Correlation::new(geometry, vec![tap(0, 0)], positions, isa)],
                gaps: false,
            };
        }
        let mut found = GradInput { phases: vec![], gaps: false };
        for vertical in phases(window, 0, input[1]) {
            for horizontal in phases(window, 1, input[2]) {
                let (v, h) = (&vertical, &horizontal);
                if v.taps * h.taps == 0 {
                    found.gaps = true;
                    continue;
                }
                let geometry = Geometry {
                    images: input[0],
                    source: [dy[1], dy[2]],
                    depth: width,
                    taps: [v.taps, h.taps],
                    stride: [1, 1],
                    origin: [v.origin, h.origin],
                    output: [v.count, h.count],
                    width: depth,
                    target: Strides {
                        offset: (v.first * input[2] + h.first) * depth,
                        image: input[1] * input[2] * depth,
                        row: window.stride[0] * input[2] * depth,
                        column: window.stride[1] * depth,
                    },
                };
                let reversed = |p: &Phase, d: usize| -> Vec<usize> {
                    (0..p.taps).rev().map(|t| p.tap + t * window.stride[d]).collect()
                };
                let columns = reversed(h, 1);
                let pairs = reversed(v, 0).into_iter().flat_map(|a| columns.iter().map(move |&b| (a, b)));
                let weights = pairs.map(|(a, b)| tap(a, b)).collect();
                let positions = input[0] * v.count * h.count;
                found.phases.push(Correlation::new(geometry, weights, positions, isa));
            }
        }
        found
    }

    /// Values of workspace that [`GradInput::run`] takes.
    pub(crate) fn workspace(&self) -> usize {
        self.phases.iter().map(Correlation::workspace).max().unwrap_or(0)
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        self.phases.iter().map(Correlation::scratch).max().unwrap_or(0)
    }

    /// Computes dx.
    pub(crate) fn run(&self, cx: &mut Context, operands: [&[f32]; 2], dx: &mut [f32], workspace: &mut [f32]) {
        if self.gaps {
            cx.pool.parts(dx, 1 << 14, &|_, part| part.fill(0.0));
        }
        for phase in &self.phases {
            phase.run(cx, operands, Epilogue::default(), dx, workspace);
        }
    }
}
