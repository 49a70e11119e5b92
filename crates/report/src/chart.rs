//! Charts as SVG: axes on either scale, lines, marks with intervals, a legend. Values that are not finite are left out of
//! the axes; whoever draws a censored result puts it at the upper edge with [`Shape::Censored`].

use crate::html::{escape, number};
use std::fmt::Write;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito, 2008).
const COLORS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280", "#1b1f24"];
/// The colour of what is not measured: lines of perfect scaling, rules of thumb.
pub(crate) const GREY: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AxisScale {
    Linear,
    Log,
}

#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: AxisScale,
    /// Where to put ticks, such as at the batch sizes of a study; else round numbers.
    pub(crate) ticks: Vec<f64>,
}

impl Axis {
    pub(crate) fn new(label: &str, scale: AxisScale) -> Axis {
        Axis { label: label.to_string(), scale, ticks: Vec::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Line,
    Dashed,
    Dots,
    LineDots,
    Cross,
    Triangle,
    Star,
    /// At the upper edge: not reached.
    Censored,
}

#[derive(Debug, Clone)]
pub(crate) struct Datum {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The interval, drawn as a whisker.
    pub(crate) range: Option<(f64, f64)>,
    /// What a pointer sees.
    pub(crate) title: String,
}

impl Datum {
    pub(crate) fn new(x: f64, y: f64) -> Datum {
        Datum { x, y, range: None, title: String::new() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// In the legend; empty to stay out of it.
    pub(crate) name: String,
    pub(crate) color: usize,
    pub(crate) shape: Shape,
    pub(crate) data: Vec<Datum>,
}

#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) size: (f64, f64),
}

const LEFT: f64 = 74.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 16.0;
const LEGEND_LINE: f64 = 18.0;

/// Maps values to a stretch of the picture.
struct Map {
    scale: AxisScale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Map {
    /// Over these values with some room around; 0 to 1 of none.
    fn over(values: impl Iterator<Item = f64>, scale: AxisScale, from: f64, to: f64) -> Map {
        let fits = |v: &f64| v.is_finite() && (scale == AxisScale::Linear || *v > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter(fits) {
            let v = if scale == AxisScale::Log { v.ln() } else { v };
            (low, high) = (low.min(v), high.max(v));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let room = if high > low { 0.06 * (high - low) } else { 0.5 * low.abs().max(1.0) };
        let bottom = low - room;
        // Amounts are not below 0: an axis that would only hint at it does not.
        let low = if scale == AxisScale::Linear && low >= 0.0 { bottom.max(0.0) } else { bottom };
        Map { scale, low, high: high + room, from, to }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let v = match self.scale {
            AxisScale::Linear => value,
            AxisScale::Log if value > 0.0 => value.ln(),
            AxisScale::Log => return None,
        };
        v.is_finite().then(|| self.from + (v - self.low) / (self.high - self.low) * (self.to - self.from))
    }

    fn inside(&self, value: f64) -> bool {
        let v = if self.scale == AxisScale::Log { value.ln() } else { value };
        v >= self.low && v <= self.high
    }

    fn ticks(&self) -> Vec<f64> {
        let ticks = match self.scale {
            AxisScale::Linear => {
                let rough = (self.high - self.low) / 5.0;
                let power = 10f64.powf(rough.log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
                let step = steps.into_iter().find(|s| *s >= rough).unwrap_or(steps[3]);
                let first = (self.low / step).ceil() as i64;
                (first..first + 12).map(|k| k as f64 * step).collect::<Vec<_>>()
            }
            AxisScale::Log => {
                let decades = (self.high - self.low) / std::f64::consts::LN_10;
                let within: &[f64] = if decades > 3.0 {
                    &[1.0]
                } else if decades > 1.2 {
                    &[1.0, 3.0]
                } else {
                    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]
                };
                let exponents = (self.low / std::f64::consts::LN_10).floor() as i32
                    ..=(self.high / std::f64::consts::LN_10).ceil() as i32;
                exponents.flat_map(|e| within.iter().map(move |m| m * 10f64.powi(e))).collect()
            }
        };
        ticks.into_iter().filter(|t| self.inside(*t)).collect()
    }
}

/// A legend's entries in lines that fit the width.
fn legend_lines(series: &[Series], width: f64) -> Vec<Vec<(f64, &Series)>> {
    let mut lines: Vec<Vec<(f64, &Series)>> = Vec::new();
    let mut x = f64::INFINITY;
    for s in series.iter().filter(|s| !s.name.is_empty()) {
        let needs = 34.0 + 6.6 * s.name.chars().count() as f64;
        if x + needs > width {
            lines.push(Vec::new());
            x = 0.0;
        }
        lines.last_mut().expect("a line was begun").push((x, s));
        x += needs;
    }
    lines
}

impl Chart {
    /// The chart as an SVG document, fit to stand in a page or alone.
    pub(crate) fn svg(&self) -> String {
        let (width, plot_height) = self.size;
        let legend = legend_lines(&self.series, width - LEFT - RIGHT);
        let top = TOP + LEGEND_LINE * legend.len() as f64;
        let height = top + plot_height + BOTTOM;
        let drawn = |s: &&Series| s.shape != Shape::Censored;
        let all = || self.series.iter().flat_map(|s| &s.data);
        let xs = all().map(|d| d.x).chain(self.x.ticks.iter().copied());
        let x = Map::over(xs, self.x.scale, LEFT, width - RIGHT);
        let ys = self.series.iter().filter(drawn).flat_map(|s| &s.data).flat_map(|d| {
            let (low, high) = d.range.unwrap_or((d.y, d.y));
            [d.y, low, high]
        });
        let y = Map::over(ys, self.y.scale, top + plot_height, top);
        let mut out = String::new();
        let o = &mut out;
        put(
            o,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" \
             height=\"{height}\" fill=\"#fff\"/>\n<title>{0}</title>\n<text x=\"{LEFT}\" y=\"18\" font-size=\"14\" \
             font-weight=\"600\" fill=\"#1b1f24\">{0}</text>\n",
                escape(&self.title)
            ),
        );
        for (row, line) in legend.iter().enumerate() {
            for (at, series) in line {
                let (lx, ly) = (LEFT + at, TOP + LEGEND_LINE * row as f64);
                let sample = [Datum::new(lx, ly), Datum::new(lx + 20.0, ly)].map(|d| (d.x, d.y));
                draw_sample(o, series, sample);
                put(
                    o,
                    format_args!(
                        "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#1b1f24\">{}</text>\n",
                        lx + 26.0,
                        ly + 4.0,
                        escape(&series.name)
                    ),
                );
            }
        }
        self.axes(o, &x, &y);
        // Lines first: marks lie over them.
        for series in &self.series {
            draw_line(o, series, &x, &y);
        }
        for series in &self.series {
            draw_marks(o, series, &x, &y);
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, o: &mut String, x: &Map, y: &Map) {
        let ticks = if self.x.ticks.is_empty() { x.ticks() } else { self.x.ticks.clone() };
        let mut free = f64::NEG_INFINITY;
        for tick in ticks {
            let Some(at) = x.place(tick) else { continue };
            put(
                o,
                format_args!(
                    "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#eceff3\"/>\n",
                    y.from, y.to
                ),
            );
            let text = number(tick);
            let half = 3.6 * text.chars().count() as f64;
            // Labels that would run into each other are left out; their lines stay.
            if at - half > free {
                put(
                    o,
                    format_args!(
                        "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#57606a\">{text}</text>\n",
                        y.from + 17.0
                    ),
                );
                free = at + half + 4.0;
            }
        }
        for tick in y.ticks() {
            let Some(at) = y.place(tick) else { continue };
            put(
                o,
                format_args!(
                    "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#eceff3\"/>\n",
                    x.from, x.to
                ),
            );
            put(
                o,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#57606a\">{}</text>\n",
                    x.from - 7.0,
                    at + 4.0,
                    number(tick)
                ),
            );
        }
        put(
            o,
            format_args!(
                "<path d=\"M{0:.1} {1:.1}V{2:.1}H{3:.1}\" fill=\"none\" stroke=\"#9aa3ad\"/>\n",
                x.from, y.to, y.from, x.to
            ),
        );
        put(
            o,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#1b1f24\">{}</text>\n",
                0.5 * (x.from + x.to),
                y.from + 38.0,
                escape(&self.x.label)
            ),
        );
        let middle = 0.5 * (y.from + y.to);
        put(
            o,
            format_args!(
                "<text x=\"16\" y=\"{middle:.1}\" text-anchor=\"middle\" fill=\"#1b1f24\" transform=\"rotate(-90 16 {middle:.1})\">{}</text>\n",
                escape(&self.y.label)
            ),
        );
    }
}

fn put(o: &mut String, arguments: std::fmt::Arguments<'_>) {
    o.write_fmt(arguments).expect("a string takes everything");
}

fn color(series: &Series) -> &'static str {
    COLORS[series.color % COLORS.len()]
}

fn draw_sample(o: &mut String, series: &Series, [(x1, y), (x2, _)]: [(f64, f64); 2]) {
    let c = color(series);
    let dash = if series.shape == Shape::Dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    if matches!(series.shape, Shape::Line | Shape::Dashed | Shape::LineDots) {
        put(
            o,
            format_args!(
                "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{c}\" stroke-width=\"1.8\"{dash}/>\n"
            ),
        );
    }
    mark(o, series, 0.5 * (x1 + x2), y, "");
}

fn draw_line(o: &mut String, series: &Series, x: &Map, y: &Map) {
    if !matches!(series.shape, Shape::Line | Shape::Dashed | Shape::LineDots) {
        return;
    }
    let (mut path, mut pen_down) = (String::new(), false);
    for d in &series.data {
        match (x.place(d.x), y.place(d.y)) {
            (Some(px), Some(py)) if (x.inside(d.x), y.inside(d.y)) == (true, true) => {
                put(&mut path, format_args!("{}{px:.1} {py:.1}", if pen_down { "L" } else { "M" }));
                pen_down = true;
            }
            _ => pen_down = false,
        }
    }
    let dash = if series.shape == Shape::Dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    if !path.is_empty() {
        put(
            o,
            format_args!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{dash}/>\n",
                color(series)
            ),
        );
    }
}

fn draw_marks(o: &mut String, series: &Series, x: &Map, y: &Map) {
    if matches!(series.shape, Shape::Line | Shape::Dashed) {
        return;
    }
    let c = color(series);
    for d in &series.data {
        let Some(px) = x.place(d.x) else { continue };
        let at = if series.shape == Shape::Censored { Some(y.to + 6.0) } else { y.place(d.y) };
        let Some(py) = at else { continue };
        if let Some((low, high)) = d.range {
            let end = |v: f64| y.place(v).map(|p| p.clamp(y.to, y.from)).unwrap_or(y.to);
            let (a, b) = (end(low), end(high));
            put(
                o,
                format_args!(
                    "<path d=\"M{px:.1} {a:.1}V{b:.1}M{0:.1} {a:.1}h8M{0:.1} {b:.1}h8\" stroke=\"{c}\" stroke-width=\"1.2\"/>\n",
                    px - 4.0
                ),
            );
        }
        mark(o, series, px, py, &d.title);
    }
}

fn mark(o: &mut String, series: &Series, x: f64, y: f64, title: &str) {
    let c = color(series);
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
    match series.shape {
        Shape::Line | Shape::Dashed => {}
        Shape::Dots | Shape::LineDots => {
            put(
                o,
                format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.8\" fill=\"{c}\">{title}</circle>\n"),
            );
        }
        Shape::Cross => put(
            o,
            format_args!(
                "<path d=\"M{0:.1} {1:.1}l6 6m0 -6l-6 6\" stroke=\"{c}\" stroke-width=\"1.5\">{title}</path>\n",
                x - 3.0,
                y - 3.0
            ),
        ),
        Shape::Triangle => put(
            o,
            format_args!(
                "<path d=\"M{x:.1} {:.1}l4 7h-8z\" fill=\"none\" stroke=\"{c}\" stroke-width=\"1.4\">{title}</path>\n",
                y - 4.0
            ),
        ),
        Shape::Censored => put(
            o,
            format_args!(
                "<path d=\"M{x:.1} {:.1}l-5 9h10z\" fill=\"#fff\" stroke=\"{c}\" stroke-width=\"1.6\">{title}</path>\n",
                y - 5.0
            ),
        ),
        Shape::Star => {
            let corner = |k: usize| {
                let (angle, r) = (
                    std::f64::consts::PI * (k as f64 / 5.0 - 0.5),
                    if k.is_multiple_of(2) { 8.0 } else { 3.4 },
                );
                format!("{:.1},{:.1}", x + r * angle.cos(), y + r * angle.sin())
            };
            let corners: Vec<String> = (0..10).map(corner).collect();
            put(
                o,
                format_args!(
                    "<polygon points=\"{}\" fill=\"{c}\" stroke=\"#fff\" stroke-width=\"0.8\">{title}</polygon>\n",
                    corners.join(" ")
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(data: Vec<Datum>, scale: AxisScale) -> Chart {
        let series = Series { name: "a <b>".into(), color: 0, shape: Shape::LineDots, data };
        let title = "x & y".to_string();
        Chart {
            title,
            x: Axis::new("x", scale),
            y: Axis::new("\"y\"", scale),
            series: vec![series],
            size: (400.0, 200.0),
        }
    }

    #[test]
    fn values_that_are_not_finite_leave_the_axes_alone() {
        for scale in [AxisScale::Linear, AxisScale::Log] {
            for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
                let data = vec![Datum::new(1.0, 2.0), Datum::new(3.0, bad), Datum::new(10.0, 4.0)];
                let svg = chart(data, scale).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
            for few in [vec![], vec![Datum::new(1.0, 1.0)], vec![Datum::new(5.0, 5.0); 2]] {
                let svg = chart(few, scale).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn names_are_escaped() {
        let svg = chart(vec![Datum::new(1.0, 1.0)], AxisScale::Linear).svg();
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("x &amp; y") && svg.contains("&quot;y&quot;"));
        assert!(!svg.contains("<b>"));
    }

    #[test]
    fn larger_values_lie_higher_and_further_right() {
        let map = Map::over([1.0, 100.0].into_iter(), AxisScale::Log, 0.0, 100.0);
        let at = |v| map.place(v).unwrap();
        assert!(at(1.0) < at(10.0) && at(10.0) < at(100.0));
        assert!((at(10.0) - 50.0).abs() < 1e-9, "a decade's middle on a log axis");
        assert!(map.ticks().contains(&10.0));
    }
}
