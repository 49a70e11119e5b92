//! The stages that work on one example, compiled: what is done to its bytes one stage after another, then one fused write
//! from bytes to features, then covers. Crops and flips next to each other join the fused write; only stages that need
//! whole pixels in between (scaling, jitter) make it two.

use crate::Image;
use crate::pixels::{Placement, Table};
use crate::resample::{Area, Resampler, shorter_to};
use crate::stages::{Crop, Cutout, Flip, Jitter, RandomResizedCrop};
use sooner_base::Origin;
use sooner_plan::Draws;

/// A stage that moves pixels about.
#[derive(Debug, Clone)]
pub(crate) enum Geometry {
    Crop(Crop),
    Flip(Flip),
    /// The middle square of so many pixels.
    Centre(usize),
}

impl Geometry {
    fn draw(&self, origins: &[Origin], out: &mut Vec<[u32; 2]>) {
        match self {
            Geometry::Crop(crop) => crop.draw(origins, out),
            Geometry::Flip(flip) => flip.draw(origins, out),
            Geometry::Centre(_) => out.extend(origins.iter().map(|_| [0, 0])),
        }
    }

    fn place(&self, choice: [u32; 2], placement: &mut Placement) {
        match self {
            Geometry::Crop(crop) => crop.place(choice, placement),
            Geometry::Flip(flip) => flip.place(choice, placement),
            Geometry::Centre(size) => {
                for axis in [&mut placement.rows, &mut placement.cols] {
                    axis.cut((axis.len() - size) / 2, *size, 0, false);
                }
            }
        }
    }

    /// The choice that evaluation makes.
    fn still(&self) -> [u32; 2] {
        match self {
            Geometry::Crop(crop) => crop.centre(),
            Geometry::Flip(_) | Geometry::Centre(_) => [0, 0],
        }
    }

    fn is_random(&self) -> bool {
        !matches!(self, Geometry::Centre(_))
    }
}

/// A stage that makes bytes of bytes.
#[derive(Debug, Clone)]
pub(crate) enum ByteStage {
    Resize(usize),
    Scaled(RandomResizedCrop),
    Jitter(Jitter),
    Place(Geometry),
    Cover(Cutout),
}

impl ByteStage {
    fn is_random(&self) -> bool {
        match self {
            ByteStage::Resize(_) => false,
            ByteStage::Place(geometry) => geometry.is_random(),
            ByteStage::Scaled(_) | ByteStage::Jitter(_) | ByteStage::Cover(_) => true,
        }
    }
}

/// A stage, and on which side of the echo stage it stands: behind it, it draws afresh for every repeat.
#[derive(Debug, Clone)]
struct Sided<T> {
    stage: T,
    behind: bool,
}

impl<T> Sided<T> {
    /// The origin whose choices this stage makes for an example whose uses begin at `base`.
    fn origin(&self, origin: Origin, base: u32) -> Origin {
        if self.behind { origin } else { Origin { echo: base, ..origin } }
    }
}

/// What covers show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Byte 0, whatever feature that is.
    Black,
    /// Feature 0.
    Zero,
}

/// The compiled stages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    bytes: Vec<Sided<ByteStage>>,
    /// The first so many byte stages are done once for all repeats.
    shared: usize,
    geometry: Vec<Sided<Geometry>>,
    covers: Vec<(Sided<Cutout>, Fill)>,
    table: Table,
    black: Vec<f32>,
    zero: Vec<f32>,
    echoed: bool,
    normalized: bool,
    draws: Draws,
}

/// What one worker needs again and again.
#[derive(Debug, Default)]
pub(crate) struct ChainScratch {
    placement: Placement,
    choices: Vec<[u32; 2]>,
    resampler: Resampler,
    spare: Image,
    /// Origins as the stages before an echo stage see them.
    firsts: Vec<Origin>,
}

impl Chain {
    pub(crate) fn new(draws: Draws) -> Chain {
        Chain { draws, ..Chain::default() }
    }

    /// Adds a stage that joins the fused write. False if covered features stand in its way.
    pub(crate) fn push_geometry(&mut self, stage: Geometry) -> bool {
        if !self.covers.is_empty() && !self.flush() {
            return false;
        }
        self.geometry.push(Sided { stage, behind: self.echoed });
        true
    }

    /// Adds a stage that needs whole pixels. False after normalisation: there are none any more.
    pub(crate) fn push_bytes(&mut self, stage: ByteStage) -> bool {
        if self.normalized || !self.flush() {
            return false;
        }
        self.bytes.push(Sided { stage, behind: self.echoed });
        true
    }

    /// Adds a cover, black or, after normalisation, of feature 0.
    pub(crate) fn push_cover(&mut self, stage: Cutout) {
        let fill = if self.normalized { Fill::Zero } else { Fill::Black };
        self.covers.push((Sided { stage, behind: self.echoed }, fill));
    }

    /// From here on features are normalised by this table.
    pub(crate) fn normalize(&mut self, table: Table) {
        (self.table, self.normalized) = (table, true);
    }

    /// What follows stands behind the echo stage. Stages of the fused write before it are still done in the one write
    /// for each repeat, with the first use's choices: a copy of their result would cost as much.
    pub(crate) fn echo(&mut self) {
        (self.shared, self.echoed) = (self.bytes.len(), true);
    }

    /// The stages are complete; `table` serves where nothing normalises.
    pub(crate) fn finish(&mut self, table: Table) {
        if !self.normalized {
            self.table = table;
        }
        self.black = self.table.black();
        self.zero = vec![0.0; self.black.len()];
        if !self.echoed {
            self.shared = self.bytes.len();
        }
    }

    /// The same stages where nothing is repeated.
    pub(crate) fn whole(&self) -> Chain {
        Chain { shared: self.bytes.len(), ..self.clone() }
    }

    /// Turns what the fused write would do into byte stages. False if covered features cannot become bytes.
    fn flush(&mut self) -> bool {
        if self.covers.iter().any(|(_, fill)| *fill == Fill::Zero)
            || self.normalized && !self.covers.is_empty()
        {
            return false;
        }
        let places =
            self.geometry.drain(..).map(|g| Sided { stage: ByteStage::Place(g.stage), behind: g.behind });
        self.bytes.extend(places);
        let covers = self.covers.drain(..);
        self.bytes.extend(covers.map(|(c, _)| Sided { stage: ByteStage::Cover(c.stage), behind: c.behind }));
        true
    }

    /// Whether an example's bytes go straight into the fused write.
    pub(crate) fn is_direct(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether something is done once for all repeats, so that its result is worth holding.
    pub(crate) fn shares_work(&self) -> bool {
        self.shared > 0
    }

    /// Byte stages at the front that no chance decides.
    pub(crate) fn steady(&self) -> usize {
        self.bytes.iter().take_while(|stage| !stage.stage.is_random()).count().min(self.shared)
    }

    /// Byte stages that all repeats share.
    pub(crate) fn shared(&self) -> usize {
        self.shared
    }

    /// How many byte stages there are.
    pub(crate) fn byte_stages(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a stage behind the echo stage draws, so that repeats differ.
    pub(crate) fn varies_behind_echo(&self) -> bool {
        self.bytes.iter().any(|s| s.behind && s.stage.is_random())
            || self.geometry.iter().any(|s| s.behind && s.stage.is_random())
            || self.covers.iter().any(|(s, _)| s.behind)
    }

    /// Whether a stage before the echo stage draws, so that repeats share its choices.
    pub(crate) fn varies_before_echo(&self) -> bool {
        self.bytes.iter().any(|s| !s.behind && s.stage.is_random())
            || self.geometry.iter().any(|s| !s.behind && s.stage.is_random())
            || self.covers.iter().any(|(s, _)| !s.behind)
    }

    /// The least height and width that decoding must give, where the first stage scales anyway.
    pub(crate) fn least(&self) -> Option<[usize; 2]> {
        match &self.bytes.first()?.stage {
            ByteStage::Resize(size) => Some([*size; 2]),
            ByteStage::Scaled(crop) => Some([crop.least_side(); 2]),
            _ => None,
        }
    }

    /// Does the byte stages of a range to an image in place. `origin` decides their choices; none makes evaluation's.
    pub(crate) fn run(
        &self,
        range: std::ops::Range<usize>,
        origin: Option<(Origin, u32)>,
        image: &mut Image,
        scratch: &mut ChainScratch,
    ) {
        let ChainScratch { placement, choices, resampler, spare, .. } = scratch;
        for sided in &self.bytes[range] {
            let at = origin.map(|(origin, base)| sided.origin(origin, base));
            let [h, w, c] = image.shape;
            match (&sided.stage, at) {
                (ByteStage::Resize(size), _) => {
                    resampler.scale(image, whole([h, w]), shorter_to([h, w], *size), spare);
                    std::mem::swap(image, spare);
                }
                (ByteStage::Scaled(crop), at) => {
                    let area = at.map_or_else(|| crop.still([h, w]), |at| crop.draw(at, [h, w]));
                    resampler.scale(image, area, [crop.size(); 2], spare);
                    std::mem::swap(image, spare);
                }
                (ByteStage::Jitter(jitter), Some(at)) => jitter.apply(at, image),
                (ByteStage::Place(geometry), at) => {
                    placement.rows.reset(h);
                    placement.cols.reset(w);
                    choices.clear();
                    match at {
                        Some(at) => geometry.draw(&[at], choices),
                        None => choices.push(geometry.still()),
                    }
                    geometry.place(choices[0], placement);
                    spare.shape = placement.copy(&image.pixels, w, c, &mut spare.pixels);
                    std::mem::swap(image, spare);
                }
                (ByteStage::Cover(cutout), Some(at)) => {
                    choices.clear();
                    cutout.draw(&[at], choices);
                    cutout.cover(choices[0], w, &vec![0; c], &mut image.pixels);
                }
                (ByteStage::Jitter(_) | ByteStage::Cover(_), None) => {}
            }
        }
    }

    /// How training draws choices.
    pub(crate) fn mode(&self) -> Mode {
        match self.draws {
            Draws::Bulk => Mode::Bulk,
            Draws::Single => Mode::Single,
        }
    }

    /// Draws the choices of the fused write for a slice of examples, stage by stage, before a pixel is touched.
    /// `bases` are the numbers of each example's first use.
    pub(crate) fn draw(&self, mode: Mode, origins: &[Origin], bases: &[u32], scratch: &mut ChainScratch) {
        let ChainScratch { choices, firsts, .. } = scratch;
        choices.clear();
        match mode {
            Mode::Still => {
                self.geometry.iter().for_each(|s| choices.extend(origins.iter().map(|_| s.stage.still())));
            }
            Mode::Bulk => {
                if self.echoed {
                    firsts.clear();
                    firsts
                        .extend(origins.iter().zip(bases).map(|(&origin, &echo)| Origin { echo, ..origin }));
                }
                let of = |behind: bool| if behind || !self.echoed { origins } else { &firsts[..] };
                self.geometry.iter().for_each(|s| s.stage.draw(of(s.behind), choices));
                self.covers.iter().for_each(|(s, _)| s.stage.draw(of(s.behind), choices));
            }
            // Each example draws its own when it is written.
            Mode::Single => {}
        }
    }

    /// Writes the features of example k of a slice of n that `draw` was called for. image: [h, w, C] bytes.
    pub(crate) fn write(
        &self,
        (mode, k, n): (Mode, usize, usize),
        (origin, base): (Origin, u32),
        (image, [h, w]): (&[u8], [usize; 2]),
        out: &mut [f32],
        scratch: &mut ChainScratch,
    ) {
        let ChainScratch { placement, choices, .. } = scratch;
        let (mut k, mut n) = (k, n);
        if mode == Mode::Single {
            choices.clear();
            self.geometry.iter().for_each(|s| s.stage.draw(&[s.origin(origin, base)], choices));
            self.covers.iter().for_each(|(s, _)| s.stage.draw(&[s.origin(origin, base)], choices));
            (k, n) = (0, 1);
        }
        placement.rows.reset(h);
        placement.cols.reset(w);
        for (s, sided) in self.geometry.iter().enumerate() {
            sided.stage.place(choices[s * n + k], placement);
        }
        placement.write(image, w, &self.table, out);
        if mode == Mode::Still {
            return;
        }
        let width = placement.cols.len();
        for (s, (sided, fill)) in self.covers.iter().enumerate() {
            let at = choices[(self.geometry.len() + s) * n + k];
            let fill = if *fill == Fill::Black { &self.black } else { &self.zero };
            sided.stage.cover(at, width, fill, out);
        }
    }
}

/// Who makes the choices of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Evaluation: no chance.
    Still,
    /// Chance, for a slice of examples at once.
    Bulk,
    /// The same chance, for one example at a time.
    Single,
}

fn whole([height, width]: [usize; 2]) -> Area {
    Area { top: 0, left: 0, height, width }
}
