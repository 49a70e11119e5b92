//! The forward pass of a convolution of 5x5 windows, or of 3x3 windows with few channels, whose gradient by the input it is too.
//! A pooling behind it may take the results from the core's cache, or a gradient may be made there of that of a pooling.

#![allow(unsafe_code)]

use super::convolution::turn;
use super::tasks::{Input, Tasks};
use super::tiles::{Gather, GatherPairs, gather, gather_pairs, spread_input};
use crate::native::context::Context;
use crate::native::correlate::Epilogue;
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::weight_gradient::Gradient;
use crate::ops::pool::chosen::Chosen;

/// How the convolution is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Local {
    tasks: Tasks,
    /// Whether w is given with channels exchanged and taken in reverse order, as the gradient by the input takes it.
    turned: bool,
    /// What becomes of a task's results, or if turned, of what its input is made.
    pooling: Option<Chosen>,
}

impl Local {
    /// Plans a correlation of this geometry; see [`Local::run`] for `turned`.
    pub(crate) fn new(geometry: Geometry, turned: bool, isa: Isa) -> Local {
        let output = geometry.output;
        Local { tasks: Tasks::new(geometry, output, isa), turned, pooling: None }
    }

    /// Makes p and codes of a pooling of y the results, and not y. Or if turned, takes dp and codes instead of dy.
    pub(crate) fn pool(&mut self, chosen: Chosen) {
        let g = &self.tasks.geometry;
        let ([rows, columns], channels) = if self.turned { (g.source, g.depth) } else { (g.output, g.width) };
        assert!(rows * columns * channels == chosen.plain(), "a pooling of these planes");
        self.pooling = Some(chosen);
    }

    /// Values of workspace that [`Local::run`] takes: filters transformed, and turned around; zeros, and what is
    /// added to results.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 4] {
        let Tasks { filters, geometry, .. } = &self.tasks;
        let turned = if self.turned { filters.given() } else { 0 };
        [filters.points(), turned, geometry.depth, geometry.width]
    }

    /// Values of scratch that each thread needs: a task's, and its planes that are pooled, or made of others.
    pub(crate) fn scratch(&self) -> usize {
        self.tasks.scratch() + self.whole()
    }

    fn whole(&self) -> usize {
        self.pooling.map_or(0, |chosen| self.tasks.most() * chosen.plain())
    }

    /// x: `[N, H, W, C]`, w: `[T, T, C, K]` -> y: `[N, I, J, K]`, or p and codes. If turned: x may be dp and codes; w:
    /// `[T, T, K, C]`, whose taps are taken in reverse order.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, w): (Gradient, &[f32]),
        epilogue: Epilogue,
        out: &mut [f32],
        workspace: &mut [f32],
    ) {
        let tasks = &self.tasks;
        let g = &tasks.geometry;
        let plane = g.output[0] * g.output[1] * g.width;
        if let Gradient::Plain(x) = x {
            assert!(x.len() == g.images * g.source[0] * g.source[1] * g.depth);
        }
        let pooled = self.pooling.filter(|_| !self.turned);
        assert!(pooled.is_some() || out.len() == g.images * plane);
        let [u, turned, zeros, _] = self.parts();
        let (u, rest) = workspace[..self.workspace()].split_at_mut(u);
        let (turned, rest) = rest.split_at_mut(turned);
        let (zeros, bias) = rest.split_at_mut(zeros);
        zeros.fill(0.0);
        match epilogue.bias {
            Some(values) => bias.copy_from_slice(values),
            None => bias.fill(0.0),
        }
        let w = if self.turned {
            turn(cx, w, [g.depth, g.width], true, turned);
            &*turned
        } else {
            w
        };
        tasks.filters.spread(cx, w, u);
        let (isa, u, zeros, bias, out) = (cx.isa, &*u, &*zeros, &*bias, Disjoint::new(out));
        cx.run(tasks.count(), &|task, scratch| {
            let [image, images] = tasks.images(task.index);
            let (scratch, whole) = scratch[..self.scratch()].split_at_mut(tasks.scratch());
            let input =
                |planes, first| Input { planes, first, origin: g.origin, zeros, spread: spread_input };
            if let Some(chosen) = pooled {
                let Gradient::Plain(x) = x else { unreachable!("only a gradient is made of others") };
                let results = &mut whole[..images * plane];
                self.task(isa, task.index, (input(x, 0), u), scratch, (bias, epilogue.relu, &mut *results));
                // SAFETY: tasks have images of their own.
                return unsafe { chosen.pool(isa, results, out, [image, g.images]) };
            }
            let input = match x {
                Gradient::Plain(x) => input(x, 0),
                Gradient::Pooled(chosen, parts) => {
                    let dy = &mut whole[..images * chosen.plain()];
                    chosen.spread(isa, parts, image, dy);
                    input(dy, image)
                }
            };
            // SAFETY: tasks have images of their own.
            let results = unsafe { out.range(image * plane, images * plane) };
            self.task(isa, task.index, (input, u), scratch, (bias, epilogue.relu, results));
        });
    }

    /// One task, whose results become these planes.
    fn task(
        &self,
        isa: Isa,
        task: usize,
        operands: (Input, &[f32]),
        scratch: &mut [f32],
        (bias, relu, planes): (&[f32], bool, &mut [f32]),
    ) {
        let tasks = &self.tasks;
        let g = &tasks.geometry;
        let [image, _] = tasks.images(task);
        let planes = Disjoint::new(planes);
        tasks.run(isa, task, operands, scratch, &|wave, found| {
            let wave = wave.since_plane(image);
            let (points, stride, row, depth) = (found.points, found.stride, found.row, g.width);
            // SAFETY: the products have written these tiles; the planes are this task's.
            unsafe {
                if g.taps == [3, 3] {
                    let bias = Some(bias);
                    gather(
                        isa,
                        &Gather { wave, points, stride, row, planes, depth, bias, relu },
                        0..wave.count,
                    );
                } else {
                    let to = GatherPairs { wave, points, stride, row, planes, first: 0, depth, bias, relu };
                    gather_pairs(isa, &to, 0..wave.count);
                }
            }
        });
    }
}
