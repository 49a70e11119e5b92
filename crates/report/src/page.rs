//! A study's page.

use crate::figures::{Figure, figures};
use crate::html::{document, escape};
use crate::view::StudyView;
use crate::{echo, repeats, tables};

/// A file beside a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// The file's name.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// A page, and its figures as files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The whole document.
    pub html: String,
    /// Every chart as SVG and every figure's numbers as CSV.
    pub assets: Vec<Asset>,
}

/// Charts with their notes, and the files of them.
pub(crate) fn render(figures: &[Figure], body: &mut String) -> Vec<Asset> {
    let mut assets = Vec::new();
    for figure in figures {
        let charts = figure.charts.iter().map(crate::chart::Chart::svg);
        let svgs: Vec<String> = charts.chain(figure.drawn.iter().cloned()).collect();
        body.push_str(&format!(
            "<h2 id=\"{0}\">{1}</h2>\n<p class=\"note\">{2}</p>\n<figure class=\"row\">\n{3}</figure>\n",
            escape(&figure.key),
            escape(&figure.heading),
            escape(&figure.note),
            svgs.concat()
        ));
        for (i, svg) in svgs.iter().enumerate() {
            let name = if svgs.len() == 1 {
                format!("{}.svg", figure.key)
            } else {
                format!("{}-{}.svg", figure.key, i + 1)
            };
            assets.push(Asset { name, text: svg.clone() });
        }
        assets.push(Asset { name: format!("{}.csv", figure.key), text: figure.csv.clone() });
    }
    assets
}

/// The page of a study.
pub fn study_page(view: &StudyView) -> Page {
    let points = view.points().count();
    let trials: usize = view.points().map(|p| p.trials.len()).sum();
    let mut body = format!(
        "<h1>{}</h1>\n<p>{}</p>\n<p class=\"note\">{} to {}; {points} points, {trials} trials in all, {} feasible ones \
         wanted at each point.</p>\n",
        escape(&view.name),
        escape(&view.about),
        escape(&view.workload),
        escape(&view.target.to_string()),
        view.wanted
    );
    let unfinished = view.points().filter(|p| !p.is_complete(view.wanted)).count();
    if unfinished > 0 {
        body.push_str(&format!(
            "<p class=\"warn\"><b>Not finished</b>: {unfinished} of {points} points have fewer trials than are wanted, and what \
             follows may change.</p>\n"
        ));
    }
    body.push_str(&tables::edges(view));
    let all = figures(view);
    let (first, rest) = all.split_at(all.len().min(usize::from(view.batches().len() >= 2)));
    let mut assets = render(first, &mut body);
    if view.batches().len() >= 2 {
        body.push_str(&tables::laws(view));
        body.push_str(&tables::advice(view));
    }
    body.push_str("<h2 id=\"points\">All points</h2>\n");
    body.push_str(&tables::points(view));
    body.push_str(&repeats::over_seeds(view));
    body.push_str(&repeats::noise_scales(view));
    assets.extend(render(rest, &mut body));
    body.push_str(&echo::echo_worth(view));
    body.push_str(&echo::echo_times(view));
    body.push_str(&repeats::final_quality(view));
    Page { html: document(&view.name, &body), assets }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
