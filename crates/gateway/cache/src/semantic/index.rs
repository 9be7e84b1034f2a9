//! The nearest of a scope's stored questions: an exact flat scan.
//!
//! Every vector is kept twice, as 8-bit integers for the scan and as f32 for the answer. A scan reads the integers of
//! every row (38 MB for 100,000 rows of 384), keeps the best few by them, and compares those by their f32 vectors. A
//! row takes `384 + 4 x 384 + 20` bytes at 384 dimensions, 1.94 kB.

use std::collections::HashMap;

use tapri_embed::vector;
use tapri_kernels::{Isa, SCAN_LANES, scan_i8};

/// Rows that are compared by their f32 vectors. The error of an 8-bit cosine is a few thousandths, so the nearest row
/// is among so many unless that many crowd within that distance; a test holds the index against the f32 scan.
const RESCORED: usize = 32;

/// Rows whose products are computed before the best of them are taken: their integers stay in the cache of the core.
const ROWS_AT_ONCE: usize = 256;

/// A stored row's name.
pub type RowId = u64;

/// A row that is near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// The row.
    pub id: RowId,
    /// Its cosine.
    pub similarity: f32,
}

/// Something that finds near rows.
pub trait Index: Send {
    /// Takes a row in. A row of the same name is replaced. A vector of another width than the first is refused.
    fn insert(&mut self, id: RowId, vector: &[f32]) -> bool;

    /// Takes a row out; whether it was there.
    fn remove(&mut self, id: RowId) -> bool;

    /// The nearest rows, nearest first, at most `count`.
    fn nearest(&self, query: &[f32], count: usize) -> Vec<Near>;

    /// Rows.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The flat index of one scope.
#[derive(Debug)]
pub struct FlatIndex {
    isa: Isa,
    /// Numbers in a vector; 0 until the first.
    width: usize,
    /// [rows, width rounded up to whole registers], each row scaled so that its largest number is 127.
    small: Vec<i8>,
    sums: Vec<i32>,
    scales: Vec<f32>,
    /// [rows, width]
    full: Vec<f32>,
    ids: Vec<RowId>,
    places: HashMap<RowId, usize>,
}

impl FlatIndex {
    /// An empty one, on the best path of this CPU.
    pub fn new() -> Self {
        FlatIndex::on(Isa::best())
    }

    /// An empty one on this path.
    pub fn on(isa: Isa) -> Self {
        FlatIndex {
            isa,
            width: 0,
            small: Vec::new(),
            sums: Vec::new(),
            scales: Vec::new(),
            full: Vec::new(),
            ids: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.small.capacity()
            + 4 * (self.sums.capacity() + self.scales.capacity() + self.full.capacity())
            + 8 * self.ids.capacity()
            + 24 * self.places.capacity()
    }

    fn padded(&self) -> usize {
        self.width.next_multiple_of(SCAN_LANES)
    }
}

impl Default for FlatIndex {
    fn default() -> Self {
        FlatIndex::new()
    }
}

impl Index for FlatIndex {
    fn insert(&mut self, id: RowId, vector: &[f32]) -> bool {
        if self.width == 0 {
            self.width = vector.len();
        }
        if vector.len() != self.width || vector.is_empty() || vector.iter().any(|x| !x.is_finite())
        {
            return false;
        }
        self.remove(id);
        let (small, scale) = quantise(vector, self.padded());
        self.sums.push(small.iter().map(|x| i32::from(*x)).sum());
        self.small.extend(small);
        self.scales.push(scale);
        self.full.extend_from_slice(vector);
        self.places.insert(id, self.ids.len());
        self.ids.push(id);
        true
    }

    fn remove(&mut self, id: RowId) -> bool {
        let Some(place) = self.places.remove(&id) else { return false };
        // The last row takes the place.
        let last = self.ids.len() - 1;
        let (width, padded) = (self.width, self.padded());
        self.small.copy_within(last * padded.., place * padded);
        self.small.truncate(last * padded);
        self.full.copy_within(last * width.., place * width);
        self.full.truncate(last * width);
        self.sums.swap_remove(place);
        self.scales.swap_remove(place);
        self.ids.swap_remove(place);
        if place < last {
            self.places.insert(self.ids[place], place);
        }
        true
    }

    fn nearest(&self, query: &[f32], count: usize) -> Vec<Near> {
        if query.len() != self.width || self.ids.is_empty() || count == 0 {
            return Vec::new();
        }
        let padded = self.padded();
        let (small, _) = quantise(query, padded);
        let wanted = RESCORED.max(count);
        let mut best = Best::new(wanted);
        let mut products = [0_i32; ROWS_AT_ONCE];
        for first in (0..self.ids.len()).step_by(ROWS_AT_ONCE) {
            let rows = ROWS_AT_ONCE.min(self.ids.len() - first);
            let range = first * padded..(first + rows) * padded;
            let out = &mut products[..rows];
            scan_i8(self.isa, &small, &self.small[range], &self.sums[first..first + rows], out);
            for (at, product) in out.iter().enumerate() {
                best.offer(*product as f32 * self.scales[first + at], first + at);
            }
        }
        let mut near: Vec<Near> = best
            .rows
            .iter()
            .map(|(_, place)| Near {
                id: self.ids[*place],
                similarity: vector::dot(
                    query,
                    &self.full[place * self.width..(place + 1) * self.width],
                ),
            })
            .collect();
        near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.id.cmp(&b.id)));
        near.truncate(count);
        near
    }

    fn len(&self) -> usize {
        self.ids.len()
    }
}

/// Integers, [padded], and what one of them is worth.
fn quantise(vector: &[f32], padded: usize) -> (Vec<i8>, f32) {
    let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = largest / 127.0;
    let mut small = vec![0; padded];
    if scale > 0.0 {
        for (small, x) in small.iter_mut().zip(vector) {
            *small = (x / scale).round() as i8;
        }
    }
    (small, scale)
}

/// The best few rows so far.
struct Best {
    rows: Vec<(f32, usize)>,
    wanted: usize,
    /// What a row must exceed to be among them.
    least: f32,
}

impl Best {
    fn new(wanted: usize) -> Self {
        Best { rows: Vec::with_capacity(2 * wanted), wanted, least: f32::NEG_INFINITY }
    }

    fn offer(&mut self, score: f32, place: usize) {
        if score <= self.least {
            return;
        }
        self.rows.push((score, place));
        if self.rows.len() == 2 * self.wanted {
            self.rows.select_nth_unstable_by(self.wanted - 1, |a, b| b.0.total_cmp(&a.0));
            self.rows.truncate(self.wanted);
            self.least = self.rows.iter().fold(f32::INFINITY, |least, row| least.min(row.0));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference: every cosine in f32.
    #[derive(Default)]
    struct Plain(Vec<(RowId, Vec<f32>)>);

    impl Index for Plain {
        fn insert(&mut self, id: RowId, vector: &[f32]) -> bool {
            self.remove(id);
            self.0.push((id, vector.to_vec()));
            true
        }

        fn remove(&mut self, id: RowId) -> bool {
            let before = self.0.len();
            self.0.retain(|(other, _)| *other != id);
            before != self.0.len()
        }

        fn nearest(&self, query: &[f32], count: usize) -> Vec<Near> {
            let near =
                self.0.iter().map(|(id, v)| Near { id: *id, similarity: vector::dot(query, v) });
            let mut near: Vec<Near> = near.collect();
            near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.id.cmp(&b.id)));
            near.truncate(count);
            near
        }

        fn len(&self) -> usize {
            self.0.len()
        }
    }

    fn random(seed: &mut u64, width: usize) -> Vec<f32> {
        let mut v: Vec<f32> = (0..width)
            .map(|_| {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (*seed >> 40) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        vector::normalise(&mut v);
        v
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn it_finds_what_the_f32_scan_finds(
            seed: u64, rows in 1_usize..400, width in 3_usize..150,
            removed in proptest::collection::vec(0_u64..400, 0..60),
        ) {
            let mut seed = seed;
            let (mut plain, mut flat) = (Plain::default(), FlatIndex::new());
            for id in 0..rows as u64 {
                let v = random(&mut seed, width);
                prop_assert!(flat.insert(id, &v));
                plain.insert(id, &v);
            }
            for id in removed {
                prop_assert_eq!(flat.remove(id), plain.remove(id));
            }
            prop_assert_eq!(flat.len(), plain.len());
            for _ in 0..5 {
                let query = random(&mut seed, width);
                let (found, expected) = (flat.nearest(&query, 1), plain.nearest(&query, 1));
                prop_assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    // The same row, or one that is as near but for rounding.
                    prop_assert!(found.similarity >= expected.similarity - 1e-6);
                }
            }
        }
    }

    #[test]
    fn replaced_refused_and_empty() {
        let mut index = FlatIndex::new();
        assert!(index.nearest(&[1.0, 0.0], 3).is_empty());
        assert!(index.insert(7, &[1.0, 0.0]) && index.insert(7, &[0.0, 1.0]));
        assert!(!index.insert(8, &[1.0, 0.0, 0.0]) && !index.insert(8, &[f32::NAN, 0.0]));
        let near = index.nearest(&[0.0, 1.0], 3);
        assert_eq!(near, [Near { id: 7, similarity: 1.0 }]);
        assert!(index.nearest(&[1.0], 3).is_empty());
        assert!(index.remove(7) && !index.remove(7) && index.is_empty());
    }
}
