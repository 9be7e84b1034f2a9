//! Random sequences, put into stores in many ways.

use tapri_kernels::{
    AttnScratch, Compute, KvLayout, KvStore, KvType, SeqRows, attention, write_kv,
};

/// A small, seeded generator: the same numbers on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Roughly normal, variance 1.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f32 = (0..6).map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32 - 0.5).sum();
        sum * std::f32::consts::SQRT_2
    }

    pub(crate) fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }
}

/// The shape of a model's attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) q_heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) window: Option<usize>,
    pub(crate) scale: f32,
    pub(crate) kv_type: KvType,
}

impl Shape {
    pub(crate) fn new(
        q_heads: usize,
        kv_heads: usize,
        head_dim: usize,
        window: Option<usize>,
    ) -> Self {
        // A few times the usual scale, so that the softmax is far from flat.
        let scale = 2.5 / (head_dim as f32).sqrt();
        Shape { q_heads, kv_heads, head_dim, window, scale, kv_type: KvType::Bf16 }
    }

    /// The same over keys and values that are stored otherwise.
    pub(crate) fn stored(self, kv_type: KvType) -> Self {
        Shape { kv_type, ..self }
    }
}

/// All tokens of one sequence: `[tokens, heads, head_dim]`.
#[derive(Clone)]
pub(crate) struct Sequence {
    pub(crate) tokens: usize,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
}

impl Sequence {
    pub(crate) fn random(shape: &Shape, tokens: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let kv = tokens * shape.kv_heads * shape.head_dim;
        Sequence {
            tokens,
            q: random.normals(tokens * shape.q_heads * shape.head_dim),
            k: random.normals(kv),
            v: random.normals(kv),
        }
    }
}

/// A store with a block table for each sequence.
pub(crate) struct Paged {
    pub(crate) store: KvStore,
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) shape: Shape,
}

/// Layers of a test's block; the middle one is used.
const LAYERS: usize = 3;
const LAYER: usize = 1;

impl Paged {
    /// `order` shuffles the physical blocks (0: ascending).
    pub(crate) fn new(shape: Shape, lengths: &[usize], block_tokens: usize, order: u64) -> Self {
        let layout = KvLayout {
            layers_per_block: LAYERS,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            block_tokens,
            kv_type: shape.kv_type,
        };
        let blocks: usize = lengths.iter().map(|l| l.div_ceil(block_tokens)).sum();
        let mut ids: Vec<u32> = (1..=blocks as u32).collect();
        if order != 0 {
            let mut random = Random::new(order);
            for i in (1..ids.len()).rev() {
                ids.swap(i, random.below(i + 1));
            }
        }
        let mut ids = ids.into_iter();
        let tables =
            lengths.iter().map(|l| ids.by_ref().take(l.div_ceil(block_tokens)).collect()).collect();
        Paged { store: KvStore::new(layout, blocks + 1).unwrap(), tables, shape }
    }

    /// One call: for each `(sequence, from, to)` of `parts` writes the tokens' keys and values, then attends. Returns
    /// `[tokens of the call, q_heads, head_dim]`.
    pub(crate) fn call(
        &mut self,
        compute: &Compute,
        scratch: &mut AttnScratch,
        sequences: &[Sequence],
        parts: &[(usize, usize, usize)],
    ) -> Vec<f32> {
        let s = self.shape;
        let (mut q, mut k, mut v) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = Vec::new();
        let mut first_row = 0;
        for &(index, from, to) in parts {
            let seq = &sequences[index];
            let (qw, kw) = (s.q_heads * s.head_dim, s.kv_heads * s.head_dim);
            q.extend_from_slice(&seq.q[from * qw..to * qw]);
            k.extend_from_slice(&seq.k[from * kw..to * kw]);
            v.extend_from_slice(&seq.v[from * kw..to * kw]);
            rows.push(SeqRows {
                first_row,
                rows: to - from,
                start: from,
                blocks: &self.tables[index],
            });
            first_row += to - from;
        }
        write_kv(compute, &mut self.store, LAYER, &rows, &k, &v);
        let mut out = vec![f32::NAN; q.len()];
        attention(
            compute,
            &self.store,
            LAYER,
            &rows,
            &q,
            s.q_heads,
            s.window,
            s.scale,
            scratch,
            &mut out,
        );
        out
    }

    /// Writes keys and values alone, of the tokens `from..to` of a sequence.
    pub(crate) fn fill(
        &mut self,
        compute: &Compute,
        sequences: &[Sequence],
        index: usize,
        from: usize,
        to: usize,
    ) {
        let width = self.shape.kv_heads * self.shape.head_dim;
        let seq = &sequences[index];
        let rows =
            SeqRows { first_row: 0, rows: to - from, start: from, blocks: &self.tables[index] };
        let (k, v) = (&seq.k[from * width..to * width], &seq.v[from * width..to * width]);
        write_kv(compute, &mut self.store, LAYER, &[rows], k, v);
    }

    /// A whole sequence in chunks of `chunk` tokens.
    pub(crate) fn chunked(
        &mut self,
        compute: &Compute,
        sequences: &[Sequence],
        index: usize,
        chunk: usize,
    ) -> Vec<f32> {
        let mut scratch = AttnScratch::new();
        let mut out = Vec::new();
        let tokens = sequences[index].tokens;
        for from in (0..tokens).step_by(chunk) {
            let part = (index, from, tokens.min(from + chunk));
            out.extend(self.call(compute, &mut scratch, sequences, &[part]));
        }
        out
    }
}

/// First element whose bits differ.
pub(crate) fn first_difference(a: &[f32], b: &[f32]) -> Option<usize> {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits())
}
