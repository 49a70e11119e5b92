//! The ten forms, each as its signed distance in units of the form's radius: negative inside, x to the right, y down.
//! No form is another one turned, stretched or mirrored.

/// What the classes are called, in the order of the labels.
pub(super) const CLASSES: [&str; 10] =
    ["disc", "ring", "triangle", "square", "bar", "star", "cross", "crescent", "heart", "hourglass"];

/// Signed distances in the order of the labels.
pub(super) const FORMS: [fn(f32, f32) -> f32; 10] =
    [disc, ring, triangle, square, bar, star, cross, crescent, heart, hourglass];

fn disc(x: f32, y: f32) -> f32 {
    circle(x, y, [0.0, 0.0], 0.88)
}

fn ring(x: f32, y: f32) -> f32 {
    circle(x, y, [0.0, 0.0], 0.74).abs() - 0.22
}

fn triangle(x: f32, y: f32) -> f32 {
    polygon(x, y, &[[0.0, -1.0], [0.87, 0.5], [-0.87, 0.5]])
}

fn square(x: f32, y: f32) -> f32 {
    polygon(x, y, &[[-0.74, -0.74], [0.74, -0.74], [0.74, 0.74], [-0.74, 0.74]])
}

fn bar(x: f32, y: f32) -> f32 {
    polygon(x, y, &[[-1.0, -0.28], [1.0, -0.28], [1.0, 0.28], [-1.0, 0.28]])
}

fn star(x: f32, y: f32) -> f32 {
    // Five points at radius 1 and five notches at 0.42, every tenth of a turn.
    const POINTS: [[f32; 2]; 10] = [
        [0.0, -1.0],
        [0.247, -0.34],
        [0.951, -0.309],
        [0.399, 0.13],
        [0.588, 0.809],
        [0.0, 0.42],
        [-0.588, 0.809],
        [-0.399, 0.13],
        [-0.951, -0.309],
        [-0.247, -0.34],
    ];
    polygon(x, y, &POINTS)
}

fn cross(x: f32, y: f32) -> f32 {
    // Two bars; the nearer edge counts.
    let (x, y) = (x.abs(), y.abs());
    let arm = |along: f32, across: f32| {
        let (a, b) = (along - 0.96, across - 0.29);
        let outside = (a.max(0.0) * a.max(0.0) + b.max(0.0) * b.max(0.0)).sqrt();
        outside + a.max(b).min(0.0)
    };
    arm(x, y).min(arm(y, x))
}

fn crescent(x: f32, y: f32) -> f32 {
    circle(x, y, [0.0, 0.0], 0.98).max(-circle(x, y, [0.42, 0.0], 0.82))
}

fn heart(x: f32, y: f32) -> f32 {
    // Two discs and the tangents from both to the tip.
    let lobe = circle(x.abs(), y, [0.46, -0.27], 0.5);
    let tip = [[-0.834, 0.062], [-0.46, -0.27], [0.46, -0.27], [0.834, 0.062], [0.0, 1.0]];
    lobe.min(polygon(x, y, &tip))
}

fn hourglass(x: f32, y: f32) -> f32 {
    polygon(x, y, &[[-0.66, -0.8], [0.66, -0.8], [0.1, 0.0], [0.66, 0.8], [-0.66, 0.8], [-0.1, 0.0]])
}

fn circle(x: f32, y: f32, [cx, cy]: [f32; 2], radius: f32) -> f32 {
    ((x - cx) * (x - cx) + (y - cy) * (y - cy)).sqrt() - radius
}

/// The distance to the nearest edge, negative where a ray to the right crosses an odd number of edges.
fn polygon(x: f32, y: f32, points: &[[f32; 2]]) -> f32 {
    let mut nearest = f32::MAX;
    let mut inside = false;
    let mut a = points[points.len() - 1];
    for &b in points {
        let [ex, ey] = [b[0] - a[0], b[1] - a[1]];
        let [wx, wy] = [x - a[0], y - a[1]];
        let along = ((wx * ex + wy * ey) / (ex * ex + ey * ey)).clamp(0.0, 1.0);
        let [dx, dy] = [wx - along * ex, wy - along * ey];
        nearest = nearest.min(dx * dx + dy * dy);
        inside ^= (a[1] > y) != (b[1] > y) && (wx < wy * ex / ey);
        a = b;
    }
    if inside { -nearest.sqrt() } else { nearest.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_distances() {
        // No signed distance changes faster than the point moves, and every form has an inside and ends within reach.
        for (name, form) in CLASSES.iter().zip(FORMS) {
            let mut inside = 0;
            for i in -30..30 {
                for j in -30..30 {
                    let (x, y) = (i as f32 / 20.0 + 0.013, j as f32 / 20.0 - 0.007);
                    let here = form(x, y);
                    inside += usize::from(here < 0.0);
                    assert!(here > 0.0 || x * x + y * y < 1.05 * 1.05, "{name} at {x} {y}");
                    for (dx, dy) in [(0.01, 0.0), (0.0, 0.01)] {
                        assert!((form(x + dx, y + dy) - here).abs() <= 0.01 + 1e-5, "{name} at {x} {y}");
                    }
                }
            }
            // Of 400 grid points a unit square: every form covers a fair part of its disc.
            assert!((250..1100).contains(&inside), "{name} {inside}");
        }
    }

    #[test]
    fn known_points() {
        let check = |form: fn(f32, f32) -> f32, x, y, expect: f32| {
            assert!((form(x, y) - expect).abs() < 1e-6, "{} {expect}", form(x, y));
        };
        check(disc, 0.0, 0.0, -0.88);
        check(ring, 0.0, 0.0, 0.52);
        check(square, 0.0, 0.0, -0.74);
        check(square, 0.74, 0.74, 0.0);
        check(bar, 0.0, 0.5, 0.22);
        check(cross, 1.96, 0.0, 1.0);
        check(triangle, 0.0, -2.0, 1.0);
    }
}
