//! Convolutions as correlations that need no im2col copy; groups of channels one after the other.

use crate::native::{
    Choice, Context, Correlation, Epilogue, Fast, FastGradWeight, Geometry, Gradient, Pass, Strides,
    WeightGradient, WeightRows, wins,
};
use crate::ops::pool::chosen::Chosen;
use crate::{Convolution, Window};
use sooner_base::Shape;

/// Whether the convolution is a product of `[N H W, C]` and `[C, K]`.
fn is_product(conv: &Convolution) -> bool {
    *conv == Window::valid(1, 1).into()
}

/// The channels of one group: of x (C / G from `c`) and of y (K / G from `k`).
#[derive(Debug, Clone, Copy)]
struct Group {
    c: usize,
    depth: usize,
    k: usize,
    width: usize,
}

/// The groups of a convolution of so many input and output channels.
fn groups(conv: &Convolution, [channels, filters]: [usize; 2]) -> impl Iterator<Item = Group> + use<> {
    let (depth, width) = (channels / conv.groups, filters / conv.groups);
    (0..conv.groups).map(move |g| Group { c: g * depth, depth, k: g * width, width })
}

/// One group of a convolution of x to K channels: x is read, and y written, between the channels of other groups.
fn geometry(window: &Window, x: &Shape, filters: usize, group: Group) -> Geometry {
    let output = window.output([x[1], x[2]]).expect("the graph has checked that the window fits");
    Geometry {
        images: x[0],
        source: [x[1], x[2]],
        depth: x[3],
        channels: [group.c, group.depth],
        taps: window.kernel,
        stride: window.stride,
        dilation: window.dilation,
        origin: window.pad_low.map(|pad| -(pad as isize)),
        output,
        width: group.width,
        target: Strides {
            offset: group.k,
            image: output[0] * output[1] * filters,
            row: output[1] * filters,
            column: filters,
        },
    }
}

fn most(parts: &[Correlation], values: impl Fn(&Correlation) -> usize) -> usize {
    parts.iter().map(values).max().unwrap_or(0)
}

/// A convolution: one correlation for each group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forward {
    /// Taken where it wins; there are no parts then.
    fast: Option<Fast>,
    parts: Vec<Correlation>,
    /// Filters of each group.
    width: usize,
    /// Values of y that are made in the workspace and then pooled.
    pooling: Option<(Chosen, usize)>,
}

impl Forward {
    /// x `[N, H, W, C]`, w `[KH, KW, C / G, K]` -> y `[N, H', W', K]`.
    pub(crate) fn new(conv: &Convolution, x: &Shape, w: &Shape, choice: Choice) -> Forward {
        let width = w[3] / conv.groups;
        let mut all = groups(conv, [x[3], w[3]]);
        let whole = all.next().map(|group| geometry(&conv.window, x, w[3], group));
        if let Some(whole) = whole.filter(|g| conv.groups == 1 && !choice.exact && wins(g, Pass::Forward)) {
            let fast = Some(Fast::new(whole, false, choice.isa));
            return Forward { fast, parts: vec![], width, pooling: None };
        }
        let part = |group: Group| {
            let weights = WeightRows { start: group.k, count: w[0] * w[1] * w[2], row: w[3], column: 1 };
            let geometry = geometry(&conv.window, x, w[3], group);
            let positions = geometry.images * geometry.output[0] * geometry.output[1];
            let geometry =
                if is_product(conv) { Geometry::product([positions, w[2], w[3]]) } else { geometry };
            Correlation::new(geometry, vec![weights], positions, choice.isa)
        };
        let parts = groups(conv, [x[3], w[3]]).map(part).collect();
        Forward { fast: None, parts, width, pooling: None }
    }

    /// The same, whose results are p and codes of a pooling of y, where y has so many values, and not y.
    pub(crate) fn pooling(mut self, chosen: Chosen, values: usize) -> Forward {
        if self.fast.as_mut().is_some_and(|fast| fast.pool(chosen)) {
            return self;
        }
        let own = match &mut self.parts[..] {
            [only] => only.pool(chosen),
            _ => false,
        };
        if !own {
            self.pooling = Some((chosen, values));
        }
        self
    }

    /// Values of workspace that [`Forward::run`] takes.
    pub(crate) fn workspace(&self) -> usize {
        let own = self.pooling.map_or(0, |(_, values)| values);
        own + self.fast.as_ref().map_or(most(&self.parts, Correlation::workspace), Fast::workspace)
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        self.fast.as_ref().map_or(most(&self.parts, Correlation::scratch), Fast::scratch)
    }

    /// Computes y, or p and codes.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        operands: [&[f32]; 2],
        epilogue: Epilogue,
        out: &mut [f32],
        workspace: &mut [f32],
    ) {
        let Some((chosen, values)) = self.pooling else {
            return self.plain(cx, operands, epilogue, out, workspace);
        };
        let (y, workspace) = workspace.split_at_mut(values);
        self.plain(cx, operands, Epilogue { relu: false, ..epilogue }, y, workspace);
        chosen.pool_all(cx, y, out);
    }

    fn plain(
        &self,
        cx: &mut Context,
        operands: [&[f32]; 2],
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        if let Some(fast) = &self.fast {
            let [x, w] = operands;
            fast.run(cx, (Gradient::Plain(x), w), epilogue, y, workspace);
        }
        for (g, part) in self.parts.iter().enumerate() {
            let bias = epilogue.bias.map(|bias| &bias[g * self.width..(g + 1) * self.width]);
            part.run(cx, operands, Epilogue { bias, ..epilogue }, y, workspace);
        }
    }
}

/// The gradient of a convolution by its weights: one sum for each group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GradWeight {
    /// Taken where it wins; there are no parts then.
    fast: Option<FastGradWeight>,
    parts: Vec<WeightGradient>,
    /// Rows of dw (its taps and input channels), and filters of each group.
    rows: usize,
    width: usize,
    /// Values of dy that are made in the workspace.
    pooling: Option<usize>,
}

impl GradWeight {
    /// x `[N, H, W, C]`, dy `[N, H', W', K]` -> dw `[KH, KW, C / G, K]`.
    pub(crate) fn new(conv: &Convolution, x: &Shape, dy: &Shape, choice: Choice) -> GradWeight {
        let positions = dy[0] * dy[1] * dy[2];
        let rows = conv.window.kernel[0] * conv.window.kernel[1] * x[3] / conv.groups;
        let width = dy[3] / conv.groups;
        let whole = groups(conv, [x[3], dy[3]]).next().map(|group| geometry(&conv.window, x, dy[3], group));
        if let Some(whole) = whole.filter(|g| conv.groups == 1 && !choice.exact && wins(g, Pass::ByWeights)) {
            let fast = Some(FastGradWeight::new(whole, choice.isa));
            return GradWeight { fast, parts: vec![], rows, width, pooling: None };
        }
        let part = |group: Group| {
            let geometry = if is_product(conv) {
                Geometry::product([positions, x[3], dy[3]])
            } else {
                geometry(&conv.window, x, dy[3], group)
            };
            WeightGradient::new(geometry, positions, choice.isa)
        };
        let parts = groups(conv, [x[3], dy[3]]).map(part).collect();
        GradWeight { fast: None, parts, rows, width, pooling: None }
    }

    /// The same, for a dy of so many values that is given as dp and codes of a pooling.
    pub(crate) fn pooling(mut self, chosen: Chosen, values: usize) -> GradWeight {
        if self.fast.as_mut().is_some_and(|fast| fast.unpool(chosen)) {
            return self;
        }
        let own = match &mut self.parts[..] {
            [only] => only.unpool(chosen),
            _ => false,
        };
        if !own {
            self.pooling = Some(values);
        }
        self
    }

    /// Values of workspace that [`GradWeight::run`] takes: a part's, and the result of a part if there are several.
    pub(crate) fn workspace(&self) -> usize {
        let spread = self.pooling.unwrap_or(0);
        if let Some(fast) = &self.fast {
            return spread + fast.workspace();
        }
        let own = if self.parts.len() > 1 { self.rows * self.width } else { 0 };
        spread + own + self.parts.iter().map(WeightGradient::workspace).max().unwrap_or(0)
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        let parts = || self.parts.iter().map(WeightGradient::scratch).max().unwrap_or(0);
        self.fast.as_ref().map_or_else(parts, FastGradWeight::scratch)
    }

    /// Computes dw.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, dy): (&[f32], Gradient),
        dw: &mut [f32],
        workspace: &mut [f32],
    ) {
        let (spread, workspace) = workspace.split_at_mut(self.pooling.unwrap_or(0));
        let dy = match (dy, self.pooling) {
            (Gradient::Pooled(chosen, parts), Some(_)) => {
                chosen.spread_all(cx, parts, spread);
                Gradient::Plain(spread)
            }
            (dy, _) => dy,
        };
        if let Some(fast) = &self.fast {
            return fast.run(cx, (x, dy), dw, workspace);
        }
        if let [only] = &self.parts[..] {
            return only.run(cx, (x, dy), dw, workspace);
        }
        let (own, workspace) = workspace.split_at_mut(self.rows * self.width);
        let filters = self.width * self.parts.len();
        for (g, part) in self.parts.iter().enumerate() {
            part.run(cx, (x, dy), own, workspace);
            if own.is_empty() {
                continue;
            }
            for (dw, own) in dw.chunks_exact_mut(filters).zip(own.chunks_exact(self.width)) {
                dw[g * self.width..(g + 1) * self.width].copy_from_slice(own);
            }
        }
    }
}

/// The gradient of a convolution by its input. Pixels of dx whose coordinates leave the same remainders when divided
/// by the strides form a phase: each phase of each group is a correlation of dy with the taps that reach it, in reverse
/// order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GradInput {
    /// Taken where it wins; there are no phases then.
    fast: Option<Fast>,
    phases: Vec<Correlation>,
    /// Some pixels of x are seen by no window.
    gaps: bool,
}

/// One phase along one dimension.
#[derive(Debug, Clone, Copy)]
struct Phase {
    /// The first coordinate in dx.
    first: usize,
    /// Coordinates in dx.
    count: usize,
    /// The first tap that reaches it, the taps that do, and the distance between two of them.
    tap: usize,
    taps: usize,
    apart: usize,
    /// The coordinate in dy that the last tap of the first coordinate sees, and how far apart two taps see.
    origin: isize,
    dilation: usize,
}

/// Phases of one dimension of this extent in x.
fn phases(window: &Window, d: usize, extent: usize) -> Vec<Phase> {
    let [stride, pad, kernel] = [window.stride[d], window.pad_low[d], window.kernel[d]];
    let dilation = window.dilation[d];
    // Taps that reach the same phase are this far apart.
    let apart = stride / gcd(stride, dilation);
    let phase = |first: usize| {
        // dx at h gets dy at (h + pad - tap dilation) / stride for the taps that leave no remainder.
        let reaches = |tap: usize| (tap * dilation) % stride == (first + pad) % stride;
        let tap = (0..kernel.min(apart)).find(|&tap| reaches(tap));
        let taps = tap.map_or(0, |tap| (kernel - tap).div_ceil(apart));
        let tap = tap.unwrap_or(0);
        let last = ((tap + taps.saturating_sub(1) * apart) * dilation) as isize;
        let origin = ((first + pad) as isize - last).div_euclid(stride as isize);
        let count = (extent - first).div_ceil(stride);
        Phase { first, count, tap, taps, apart, origin, dilation: apart * dilation / stride }
    };
    (0..stride.min(extent)).map(phase).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl GradInput {
    /// dy `[N, H', W', K]`, w `[KH, KW, C / G, K]` -> dx `[N, H, W, C]`, whose shape is `input`.
    pub(crate) fn new(conv: &Convolution, dy: &Shape, w: &Shape, input: &Shape, choice: Choice) -> GradInput {
        let window = &conv.window;
        let isa = choice.isa;
        let mut found = GradInput { fast: None, phases: vec![], gaps: false };
        if let Some(turned) = turned(conv, dy, input).filter(|g| !choice.exact && wins(g, Pass::ByInput)) {
            found.fast = Some(Fast::new(turned, true, isa));
            return found;
        }
        for group in groups(conv, [input[3], w[3]]) {
            let tap = |a: usize, b: usize| WeightRows {
                start: (a * w[1] + b) * w[2] * w[3] + group.k,
                count: group.width,
                row: 1,
                column: w[3],
            };
            if is_product(conv) {
                let positions = dy[0] * dy[1] * dy[2];
                let geometry = Geometry::product([positions, w[3], w[2]]);
                found.phases.push(Correlation::new(geometry, vec![tap(0, 0)], positions, isa));
                continue;
            }
            for v in phases(window, 0, input[1]) {
                for h in phases(window, 1, input[2]) {
                    if v.taps * h.taps == 0 {
                        found.gaps = true;
                        continue;
                    }
                    let reversed = |p: Phase| (0..p.taps).rev().map(move |t| p.tap + t * p.apart);
                    let weights = reversed(v).flat_map(|a| reversed(h).map(move |b| tap(a, b))).collect();
                    let positions = input[0] * v.count * h.count;
                    let geometry = phase_geometry(window, [v, h], [dy, input], group);
                    found.phases.push(Correlation::new(geometry, weights, positions, isa));
                }
            }
        }
        found
    }

    /// Takes dy as dp and codes of a pooling, if it can make it in parts: no part of it for several tasks.
    pub(crate) fn unpool(&mut self, chosen: Chosen) -> bool {
        if let Some(fast) = &mut self.fast {
            return fast.pool(chosen);
        }
        match &mut self.phases[..] {
            [only] => !self.gaps && only.unpool(chosen),
            _ => false,
        }
    }

    /// Values of workspace that [`GradInput::run`] takes.
    pub(crate) fn workspace(&self) -> usize {
        self.fast.as_ref().map_or(most(&self.phases, Correlation::workspace), Fast::workspace)
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        self.fast.as_ref().map_or(most(&self.phases, Correlation::scratch), Fast::scratch)
    }

    /// Computes dx.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (dy, w): (Gradient, &[f32]),
        dx: &mut [f32],
        workspace: &mut [f32],
    ) {
        if let Some(fast) = &self.fast {
            fast.run(cx, (dy, w), Epilogue::default(), dx, workspace);
        }
        if self.gaps {
            cx.pool.parts(dx, 1 << 14, &|_, part| part.fill(0.0));
        }
        for phase in &self.phases {
            phase.run_from(cx, (dy, w), Epilogue::default(), dx, workspace);
        }
    }
}

/// The gradient by the input as one correlation of dy with all taps in reverse order, if stride, dilation and groups are
/// 1.
fn turned(conv: &Convolution, dy: &Shape, input: &Shape) -> Option<Geometry> {
    let window = &conv.window;
    if conv.groups != 1 || window.stride != [1, 1] || window.dilation != [1, 1] {
        return None;
    }
    let [filters, channels] = [dy[3], input[3]];
    Some(Geometry {
        images: input[0],
        source: [dy[1], dy[2]],
        depth: filters,
        channels: [0, filters],
        taps: window.kernel,
        stride: [1, 1],
        dilation: [1, 1],
        origin: [0, 1].map(|d| window.pad_low[d] as isize - (window.kernel[d] as isize - 1)),
        output: [input[1], input[2]],
        width: channels,
        target: Strides {
            offset: 0,
            image: input[1] * input[2] * channels,
            row: input[2] * channels,
            column: channels,
        },
    })
}

/// One phase of one group: dy is read, and dx written, between the channels of other groups.
fn phase_geometry(window: &Window, [v, h]: [Phase; 2], [dy, input]: [&Shape; 2], group: Group) -> Geometry {
    let channels = input[3];
    Geometry {
        images: input[0],
        source: [dy[1], dy[2]],
        depth: dy[3],
        channels: [group.k, group.width],
        taps: [v.taps, h.taps],
        stride: [1, 1],
        dilation: [v.dilation, h.dilation],
        origin: [v.origin, h.origin],
        output: [v.count, h.count],
        width: group.depth,
        target: Strides {
            offset: (v.first * input[2] + h.first) * channels + group.c,
            image: input[1] * input[2] * channels,
            row: window.stride[0] * input[2] * channels,
            column: window.stride[1] * channels,
        },
    }
}
