//! The two lanes of a pipeline over time, as papers on data echoing draw them: upstream makes items, downstream uses each
//! once or several times, and what is empty is a processor that waits.

use crate::html::{escape, number};
use std::fmt::Write;

/// One way to run, drawn as a pair of lanes.
#[derive(Debug, Clone, PartialEq)]
pub struct LanePair {
    /// What it is.
    pub heading: String,
    /// Seconds of one upstream item, with nothing else running.
    pub up: f64,
    /// Seconds of one downstream pass over it.
    pub down: f64,
    /// Passes over each item, on average.
    pub echo: f64,
    /// Seconds from one upstream item to the next while both run.
    pub seconds: f64,
}

impl LanePair {
    /// The share of time that downstream is idle.
    pub fn idle(&self) -> f64 {
        (1.0 - self.echo * self.down / self.seconds).clamp(0.0, 1.0)
    }
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 20.0;
const LANE: f64 = 30.0;
const GAP: f64 = 10.0;
const HEAD: f64 = 44.0;
const PAIR: f64 = HEAD + 2.0 * LANE + GAP + 16.0;
const TOP: f64 = 34.0;
const FOOT: f64 = 44.0;
/// Upstream items in a picture.
const ITEMS: f64 = 5.0;
const COLORS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

fn put(o: &mut String, arguments: std::fmt::Arguments<'_>) {
    o.write_fmt(arguments).expect("a string takes everything");
}

/// The picture, all pairs on one scale of time: an SVG document.
pub fn lanes_picture(title: &str, pairs: &[LanePair]) -> String {
    let whole = |pair: &&LanePair| {
        pair.seconds.is_finite() && pair.seconds > 0.0 && pair.up.is_finite() && pair.down.is_finite()
    };
    let pairs: Vec<&LanePair> = pairs.iter().filter(whole).collect();
    let span = ITEMS * pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
    let height = TOP + PAIR * pairs.len() as f64 + FOOT;
    let mut out = String::new();
    let o = &mut out;
    put(
        o,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             role=\"img\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n<rect width=\"{WIDTH}\" \
             height=\"{height}\" fill=\"#fff\"/>\n<title>{0}</title>\n<text x=\"16\" y=\"22\" font-size=\"15\" \
             font-weight=\"600\" fill=\"#1b1f24\">{0}</text>\n",
            escape(title)
        ),
    );
    for (k, pair) in pairs.iter().enumerate() {
        draw_pair(o, pair, TOP + PAIR * k as f64, span);
    }
    axis(o, TOP + PAIR * pairs.len() as f64, span);
    out.push_str("</svg>\n");
    out
}

/// Where a moment lies, inside the picture.
fn place(at: f64, span: f64) -> f64 {
    LEFT + (at / span).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn draw_pair(o: &mut String, pair: &LanePair, top: f64, span: f64) {
    // What shares cores makes both sides slower than each is alone.
    let alone = pair.up.max(pair.echo * pair.down);
    let slower = if alone > 0.0 { pair.seconds / alone } else { 1.0 };
    let (up, down) = (pair.up * slower, pair.down * slower);
    put(
        o,
        format_args!(
            "<text x=\"16\" y=\"{:.1}\" font-weight=\"600\" fill=\"#1b1f24\">{}</text>\n",
            top + 22.0,
            escape(&pair.heading)
        ),
    );
    let lanes = [("upstream", top + HEAD - 8.0), ("downstream", top + HEAD - 8.0 + LANE + GAP)];
    for (name, y) in lanes {
        put(
            o,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#57606a\">{name}</text>\n<rect x=\"{LEFT}\" \
                 y=\"{y:.1}\" width=\"{:.1}\" height=\"{LANE}\" fill=\"#f3f4f6\"/>\n",
                LEFT - 10.0,
                y + 20.0,
                WIDTH - LEFT - RIGHT
            ),
        );
    }
    let items = (span / pair.seconds).ceil() as usize + 1;
    // Too many to be seen apart are drawn as one.
    let drawn = items.min(400);
    for item in 0..drawn {
        let start = item as f64 * pair.seconds;
        let color = COLORS[item % COLORS.len()];
        bar(o, [start, start + up, span], (lanes[0].1, color, 1.0), &format!("item {}", item + 1));
        // The uses so far, so that fractions add up over items.
        let uses = |items: usize| (items as f64 * pair.echo + 1e-9).floor() as usize;
        let mut at = start + up;
        for pass in 0..uses(item + 1) - uses(item) {
            let strength = if pass == 0 { 1.0 } else { 0.45 };
            let what = if pass == 0 { "first use" } else { "repeat" };
            let title = format!("item {}, {what}", item + 1);
            bar(o, [at, at + down, span], (lanes[1].1, color, strength), &title);
            at += down;
        }
    }
}

fn bar(o: &mut String, [from, to, span]: [f64; 3], (y, color, strength): (f64, &str, f64), title: &str) {
    if from >= span {
        return;
    }
    let (a, b) = (place(from, span), place(to, span));
    // A white edge parts neighbours where there is room for it.
    let edge = if b - a > 4.0 { 1.0 } else { 0.0 };
    put(
        o,
        format_args!(
            "<rect x=\"{a:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{LANE}\" fill=\"{color}\" \
             fill-opacity=\"{strength}\"><title>{}</title></rect>\n",
            (b - a - edge).max(0.6),
            escape(title)
        ),
    );
}

fn axis(o: &mut String, top: f64, span: f64) {
    let (scale, unit) = match span {
        s if s < 1e-3 => (1e6, "microseconds"),
        s if s < 1.0 => (1e3, "milliseconds"),
        _ => (1.0, "seconds"),
    };
    put(
        o,
        format_args!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{top:.1}\" y2=\"{top:.1}\" stroke=\"#9aa3ad\"/>\n",
            WIDTH - RIGHT
        ),
    );
    if !(span.is_finite() && span > 0.0) {
        return;
    }
    let rough = span * scale / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
    let mut k = 0.0;
    while k * step <= span * scale * (1.0 + 1e-9) {
        let x = place(k * step / scale, span);
        put(
            o,
            format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\" stroke=\"#9aa3ad\"/>\n<text x=\"{x:.1}\" \
                 y=\"{:.1}\" text-anchor=\"middle\" fill=\"#57606a\">{}</text>\n",
                top + 5.0,
                top + 19.0,
                number(k * step)
            ),
        );
        k += 1.0;
    }
    put(
        o,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#57606a\">{unit}; colours tell items apart, pale \
             passes are repeats</text>\n",
            WIDTH - RIGHT,
            top + 37.0
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(echo: f64, seconds: f64) -> LanePair {
        LanePair { heading: "as <it> is".into(), up: 6.0, down: 1.0, echo, seconds }
    }

    /// Widths of the bars of a strength.
    fn widths(svg: &str, strength: &str) -> Vec<f64> {
        let of = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        svg.lines().filter(|l| l.contains(&format!("fill-opacity=\"{strength}\""))).filter_map(of).collect()
    }

    #[test]
    fn bars_are_to_scale() {
        let svg = lanes_picture("R & e", &[pair(1.0, 6.0), pair(3.0, 6.0)]);
        assert!(svg.contains("R &amp; e") && svg.contains("as &lt;it&gt; is") && !svg.contains("NaN"));
        let first = widths(&svg, "1");
        let (long, short) =
            (first.iter().copied().fold(0.0, f64::max), first.iter().copied().fold(1e9, f64::min));
        assert!((long + 1.0) / (short + 1.0) > 5.9 && (long + 1.0) / (short + 1.0) < 6.1, "{long} {short}");
        // Two repeats of each item that has been made within the picture.
        assert!((7..=10).contains(&widths(&svg, "0.45").len()), "{:?}", widths(&svg, "0.45"));
        assert_eq!((pair(1.0, 6.0).idle() * 6.0).round(), 5.0);
        assert_eq!(pair(9.0, 9.0).idle(), 0.0);
    }

    #[test]
    fn extremes_are_drawn_too() {
        for (up, down) in [(1e-9, 1.0), (1.0, 1e-9), (0.0, 0.5), (1e-7, 1e-7)] {
            let pair = LanePair { up, down, seconds: up.max(down), ..pair(1.0, 1.0) };
            let svg = lanes_picture("x", &[pair]);
            assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.len() < 400_000, "{}", svg.len());
        }
        let broken = LanePair { seconds: f64::NAN, ..pair(1.0, 1.0) };
        assert!(!lanes_picture("x", &[broken]).contains("NaN"));
        assert!(lanes_picture("nothing", &[]).starts_with("<svg"));
    }
}
