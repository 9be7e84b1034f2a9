//! Rotary position embedding.

use super::paths::paths;
use super::piece;
use crate::Compute;

/// Positions covered by the fine table; the coarse one has an entry for each multiple.
const FINE: usize = 256;

/// How a head's dimensions are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(i, i + dims / 2)`: Gemma, Qwen.
    Neox,
    /// `(2 i, 2 i + 1)`: Llama, as converters to GGUF lay its weights out.
    Interleaved,
}

/// What the angles depend on: pair `i` at position `p` turns by `p * frequency_scale * base^(-2 i / dims) / factors[i]`.
#[derive(Clone, Copy, Debug)]
pub struct RopeConfig<'a> {
    /// Dimensions that are turned; even. The rest of a head stays.
    pub dims: usize,
    /// Base of the frequencies.
    pub base: f64,
    /// 1 / factor for linear scaling, 1 for none.
    pub frequency_scale: f64,
    /// One divisor a pair (Llama 3's `rope_freqs`).
    pub factors: Option<&'a [f32]>,
    /// Number of positions, from 0 on.
    pub positions: usize,
}

/// Sines and cosines of all positions.
///
/// A position is a multiple of 256 plus a rest; only those have stored angles (in f64), joined by the addition theorem. So
/// 32,768 positions take 1 MB instead of 32, and a position's values do not depend on which others were asked for.
#[derive(Clone, Debug)]
pub struct RopeTable {
    pairs: usize,
    positions: usize,
    fine: Vec<Angle>,
    coarse: Vec<Angle>,
}

#[derive(Clone, Copy, Debug)]
struct Angle {
    cos: f64,
    sin: f64,
}

impl RopeTable {
    /// Computes the table.
    ///
    /// # Panics
    /// When `dims` is odd or 0, or there are not `dims / 2` factors.
    #[must_use]
    pub fn new(config: &RopeConfig<'_>) -> Self {
        assert!(
            config.dims > 0 && config.dims.is_multiple_of(2),
            "RoPE turns pairs, not {} dimensions",
            config.dims
        );
        let pairs = config.dims / 2;
        assert!(config.factors.is_none_or(|f| f.len() == pairs), "RoPE needs {pairs} factors");
        let mut frequencies = Vec::with_capacity(pairs);
        for pair in 0..pairs {
            let exponent = -2.0 * pair as f64 / config.dims as f64;
            let factor = config.factors.map_or(1.0, |f| f64::from(f[pair]));
            frequencies.push(config.base.powf(exponent) * config.frequency_scale / factor);
        }
        let angles = |count: usize, step: usize| {
            let mut all = Vec::with_capacity(count * pairs);
            for i in 0..count {
                all.extend(frequencies.iter().map(|f| {
                    let (sin, cos) = ((i * step) as f64 * f).sin_cos();
                    Angle { cos, sin }
                }));
            }
            all
        };
        RopeTable {
            pairs,
            positions: config.positions,
            fine: angles(FINE.min(config.positions), 1),
            coarse: angles(config.positions.div_ceil(FINE), FINE),
        }
    }

    /// Dimensions that are turned.
    #[must_use]
    pub fn dims(&self) -> usize {
        2 * self.pairs
    }

    /// Number of positions.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Fills in cosine and sine of each pair at a position below [`RopeTable::positions`].
    #[inline(always)]
    fn at(&self, position: usize, cos: &mut [f32], sin: &mut [f32]) {
        let fine = &self.fine[position % FINE * self.pairs..][..self.pairs];
        let coarse = &self.coarse[position / FINE * self.pairs..][..self.pairs];
        for (((a, b), cos), sin) in fine.iter().zip(coarse).zip(cos).zip(sin) {
            *cos = (a.cos * b.cos - a.sin * b.sin) as f32;
            *sin = (a.sin * b.cos + a.cos * b.sin) as f32;
        }
    }
}

/// Turns the first `rope_dims` dimensions of each head by its row's position, in place.
///
/// `x` is `[m, heads, head_dim]`, `positions` has one entry a row.
///
/// # Panics
/// When shapes disagree, `rope_dims` is not the table's or exceeds `head_dim`, or a position is outside the table.
pub fn rope(
    compute: &Compute,
    x: &mut [f32],
    m: usize,
    heads: usize,
    head_dim: usize,
    rope_dims: usize,
    positions: &[u32],
    table: &RopeTable,
    style: RopeStyle,
) {
    let width = heads * head_dim;
    assert!(width > 0 && x.len() == m * width, "x must be [{m}, {heads}, {head_dim}]");
    assert_eq!(positions.len(), m, "there must be a position for each of {m} rows");
    assert!(
        rope_dims == table.dims() && rope_dims <= head_dim,
        "a table for {} dimensions",
        table.dims()
    );
    for &position in positions {
        assert!(
            (position as usize) < table.positions,
            "position {position} of {}",
            table.positions
        );
    }
    let size = piece(compute, x.len(), width);
    compute.run_pieces(x, size, |index, x| {
        let first = index * size / width;
        let positions = &positions[first..first + x.len() / width];
        let mut angles = vec![0.0; rope_dims];
        rows_path(compute.isa(), x, positions, table, &mut angles, head_dim, style);
    });
}

paths!(
    fn rows_path(
        x: &mut [f32],
        positions: &[u32],
        table: &RopeTable,
        angles: &mut [f32],
        head_dim: usize,
        style: RopeStyle,
    ) = rows_body
);

#[inline(always)]
fn rows_body(
    x: &mut [f32],
    positions: &[u32],
    table: &RopeTable,
    angles: &mut [f32],
    head_dim: usize,
    style: RopeStyle,
) {
    let (cos, sin) = angles.split_at_mut(table.pairs);
    let width = x.len() / positions.len().max(1);
    for (row, &position) in x.chunks_exact_mut(width.max(1)).zip(positions) {
        table.at(position as usize, cos, sin);
        for head in row.chunks_exact_mut(head_dim) {
            let head = &mut head[..2 * table.pairs];
            match style {
                RopeStyle::Neox => turn_halves(head, cos, sin),
                RopeStyle::Interleaved => turn_neighbours(head, cos, sin),
            }
        }
    }
}

#[inline(always)]
fn turn_halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (a, b) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

#[inline(always)]
fn turn_neighbours(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    for ((pair, cos), sin) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cos - b * sin;
        pair[1] = a * sin + b * cos;
    }
}
