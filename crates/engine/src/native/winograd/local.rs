//! The forward pass of a convolution of 5x5 windows: tiles of 2 x 2 results, which a pooling behind it may take from the core's
//! cache.

#![allow(unsafe_code)]

use super::tasks::{Input, Tasks};
use super::tiles::{GatherPairs, gather_pairs, spread_input};
use crate::native::context::Context;
use crate::native::correlate::Epilogue;
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::ops::pool::chosen::Chosen;

/// How the convolution is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Local {
    tasks: Tasks,
    /// What becomes of a task's results.
    pooling: Option<Chosen>,
}

impl Local {
    /// Plans a correlation of this geometry.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> Local {
        let output = geometry.output;
        Local { tasks: Tasks::new(geometry, output, isa), pooling: None }
    }

    /// Makes p and codes of a pooling of y the results, and not y.
    pub(crate) fn pool(&mut self, chosen: Chosen) {
        self.pooling = Some(chosen);
    }

    /// Values of workspace that [`Local::run`] takes: filters, transformed; zeros, and what is added to results.
    pub(crate) fn workspace(&self) -> usize {
        let Tasks { filters, geometry, .. } = &self.tasks;
        filters.points() + geometry.depth + geometry.width
    }

    /// Values of scratch that each thread needs: a task's, and results that are pooled.
    pub(crate) fn scratch(&self) -> usize {
        self.tasks.scratch() + self.unpooled()
    }

    fn unpooled(&self) -> usize {
        self.pooling.map_or(0, |chosen| self.tasks.most() * chosen.plain())
    }

    /// x: `[N, H, W, C]`, w: `[5, 5, C, K]` -> y: `[N, I, J, K]`, or p and codes.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        [x, w]: [&[f32]; 2],
        epilogue: Epilogue,
        out: &mut [f32],
        workspace: &mut [f32],
    ) {
        let tasks = &self.tasks;
        let g = &tasks.geometry;
        let plane = g.output[0] * g.output[1] * g.width;
        assert!(x.len() == g.images * g.source[0] * g.source[1] * g.depth);
        assert!(self.pooling.is_some() || out.len() == g.images * plane);
        let (u, rest) = workspace[..self.workspace()].split_at_mut(tasks.filters.points());
        let (zeros, bias) = rest.split_at_mut(g.depth);
        zeros.fill(0.0);
        match epilogue.bias {
            Some(values) => bias.copy_from_slice(values),
            None => bias.fill(0.0),
        }
        tasks.filters.spread(cx, w, u);
        let (isa, u, bias, out) = (cx.isa, &*u, &*bias, Disjoint::new(out));
        let input = Input { planes: x, origin: g.origin, zeros, spread: spread_input };
        cx.run(tasks.count(), &|task, scratch| {
            let [image, images] = tasks.images(task.index);
            let (scratch, unpooled) = scratch[..self.scratch()].split_at_mut(tasks.scratch());
            let planes = match self.pooling {
                Some(_) => &mut *unpooled,
                // SAFETY: tasks have images of their own.
                None => unsafe { out.range(image * plane, images * plane) },
            };
            let planes = Disjoint::new(planes);
            tasks.run(isa, task.index, (input, u), scratch, &|wave, found| {
                let to = GatherPairs {
                    wave,
                    points: found.points,
                    stride: found.stride,
                    row: found.row,
                    planes,
                    first: image,
                    depth: g.width,
                    bias,
                    relu: epilogue.relu,
                };
                // SAFETY: the products have written these tiles; the planes are this task's.
                unsafe { gather_pairs(isa, &to, 0..wave.count) };
            });
            if let Some(chosen) = self.pooling {
                // SAFETY: tasks have images of their own.
                unsafe { chosen.pool(isa, &unpooled[..images * plane], out, [image, g.images]) };
            }
        });
    }
}
