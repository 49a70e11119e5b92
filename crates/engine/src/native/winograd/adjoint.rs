//! The gradient by the input of a convolution of 5x5 windows, as the forward pass read backwards: tiles of the output gradient
//! go to the points, meet the transformed filters there, and come back as input tiles, which overlap and are added. The
//! convolution with the filters turned around would cut the padded gradient into more tiles, most of them partly zeros: 36
//! instead of 16 where 8 x 8 results come from 12 x 12 pixels.

#![allow(unsafe_code)]

use super::convolution::turn;
use super::tasks::{Input, Tasks};
use super::tiles::{Scatter, scatter, spread_pairs};
use crate::native::context::Context;
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;

/// How the gradient is computed: from dy to dx, by the convolution with the filters turned around.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adjoint {
    tasks: Tasks,
}

impl Adjoint {
    /// Plans the gradient by the input, given as a correlation with the filters turned around.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> Adjoint {
        let source = geometry.source;
        Adjoint { tasks: Tasks::new(geometry, source, isa) }
    }

    /// Values of workspace that [`Adjoint::run`] takes: filters with channels exchanged, transformed; zeros.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 3] {
        let Tasks { filters, geometry, .. } = &self.tasks;
        [filters.points(), filters.given(), geometry.depth]
    }

    /// Values of scratch that each thread needs: a task's.
    pub(crate) fn scratch(&self) -> usize {
        self.tasks.scratch()
    }

    /// dy: `[N, I, J, K]`, w: `[5, 5, C, K]` -> dx: `[N, H, W, C]`.
    pub(crate) fn run(&self, cx: &mut Context, [dy, w]: [&[f32]; 2], dx: &mut [f32], workspace: &mut [f32]) {
        let tasks = &self.tasks;
        let g = &tasks.geometry;
        let plane = g.output[0] * g.output[1] * g.width;
        assert!(dy.len() == g.images * g.source[0] * g.source[1] * g.depth);
        assert!(dx.len() == g.images * plane);
        let [u, exchanged, _] = self.parts();
        let (u, rest) = workspace[..self.workspace()].split_at_mut(u);
        let (exchanged, zeros) = rest.split_at_mut(exchanged);
        zeros.fill(0.0);
        turn(cx, w, [g.depth, g.width], false, exchanged);
        tasks.filters.spread(cx, exchanged, u);
        let (isa, u, dx) = (cx.isa, &*u, Disjoint::new(dx));
        let input = Input { planes: dy, first: 0, origin: [0, 0], zeros, spread: spread_pairs };
        // Where the input tile of a result lies: the turned convolution begins as many taps before its results.
        let origin = g.origin.map(|origin| -origin - (g.taps[0] as isize - 1));
        cx.run(tasks.count(), &|task, scratch| {
            let [image, images] = tasks.images(task.index);
            // SAFETY: tasks have images of their own.
            let planes = unsafe { dx.range(image * plane, images * plane) };
            planes.fill(0.0);
            let planes = Disjoint::new(planes);
            tasks.run(isa, task.index, (input, u), &mut scratch[..self.scratch()], &|wave, found| {
                let to = Scatter {
                    wave,
                    points: found.points,
                    stride: found.stride,
                    row: found.row,
                    planes,
                    first: image,
                    extent: g.output,
                    depth: g.width,
                    origin,
                };
                // SAFETY: the products have written these tiles; the planes are this task's.
                unsafe { scatter(isa, &to, 0..wave.count) };
            });
        });
    }
}
