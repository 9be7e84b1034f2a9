//! LoRA adapters: small matrices whose product is added to a model's own when a sequence asks for it.
//!
//! An adapter holds for some of the model's matrices W two thin ones, A `[rank, columns]` and B `[rows, rank]` (Hu et al. 2021,
//! arXiv:2106.09685). A row x of its sequences gets `W x + (alpha / rank) B (A x)`. W is never changed, so sequences with different
//! adapters, or none, share one product with it (the idea of S-LoRA and Punica).
//!
//! Files are those that llama.cpp's `convert_lora_to_gguf.py` writes. They are kept as 32-bit floats, with the factor in B: four
//! bytes for each number, whatever the file has. Products with them keep their order of summation (`tapri-kernels`), so a row's bits
//! depend on that row and its adapter alone.

mod error;
mod read;

use std::ops::Range;

use sha2::{Digest, Sha256};
use tapri_gguf::Gguf;
use tapri_kernels::{self as kernels, Activations, Compute, Keep, Weights};

use crate::model::Model;
use crate::scratch::sized;
use crate::{Architecture, ModelConfig};
pub use error::AdapterError;
use read::Contents;

/// Rows that go through an adapter together, so that a long chunk takes no more memory than it must.
const MOST_ROWS: usize = 256;

/// A loaded adapter. It fits the model that it was loaded for, and any of the same shape.
#[derive(Debug)]
pub struct Adapter {
    layers: Vec<LayerPairs>,
    head: Option<Pair>,
    shape: Shape,
    alpha: f32,
    rank: usize,
    digest: [u8; 32],
    fingerprint: [u8; 32],
}

impl Adapter {
    /// Reads an adapter's file for a model, and packs its matrices.
    ///
    /// # Errors
    /// When the file is no LoRA adapter, is one for another architecture or other shapes, or changes what can't be changed: the error
    /// names the key or the tensor.
    pub fn load(gguf: &Gguf, model: &Model, compute: &Compute) -> Result<Adapter, AdapterError> {
        let contents = Contents::of(gguf)?;
        let config = &model.config;
        contents.check_architecture(config.architecture.name())?;
        let mut layers: Vec<LayerPairs> = Vec::new();
        layers.resize_with(config.layers.len(), LayerPairs::default);
        let (mut head, mut rank) = (None, 0);
        for pair in contents.pairs() {
            let place = pair.place(config, model.weights.has_own_head())?;
            let (rows, columns) = match place {
                Place::Layer(_, target) => target.shape(config),
                Place::Head => (config.vocab_size, config.width),
            };
            let packed = pair.pack(compute, rows, columns, contents.alpha)?;
            rank = rank.max(packed.rank());
            match place {
                Place::Layer(layer, target) => layers[layer].0[target as usize] = Some(packed),
                Place::Head => head = Some(packed),
            }
        }
        let digest = contents.digest;
        let mut hash = Sha256::new();
        hash.update(b"tapri adapted model 1");
        hash.update(model.fingerprint());
        hash.update(digest);
        Ok(Adapter {
            layers,
            head,
            shape: Shape::of(config),
            alpha: contents.alpha,
            rank,
            digest,
            fingerprint: hash.finalize().into(),
        })
    }

    /// The digest of a file's adapter ([`Adapter::digest`]), without a model.
    ///
    /// # Errors
    /// When the file is no LoRA adapter.
    pub fn digest_of(gguf: &Gguf) -> Result<[u8; 32], AdapterError> {
        Ok(Contents::of(gguf)?.digest)
    }

    /// SHA-256 over everything in the file that the numbers depend on: the architecture, alpha, and the tensors with their names, by
    /// which they are sorted. Two files with one digest do the same; other weights have another.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Digest of the model and the adapter together, as [`Model::fingerprint`] is of a model.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The numerator of its factor.
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// The largest rank of its matrices.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many of the model's matrices it adds to.
    pub fn matrices(&self) -> usize {
        self.pairs().count()
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.pairs().map(|pair| pair.down.bytes() + pair.up.bytes()).sum()
    }

    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        let layers = self.layers.iter().flat_map(|layer| layer.0.iter().flatten());
        layers.chain(&self.head)
    }

    /// Whether every product with it has the sizes of this model.
    pub(crate) fn fits(&self, config: &ModelConfig) -> bool {
        self.shape == Shape::of(config)
    }

    /// What it adds to a matrix of a layer.
    pub(crate) fn pair(&self, layer: usize, target: Target) -> Option<&Pair> {
        self.layers.get(layer)?.0[target as usize].as_ref()
    }

    /// What it adds to the output head.
    pub(crate) fn head(&self) -> Option<&Pair> {
        self.head.as_ref()
    }
}

/// The sizes that a model's matrices follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    architecture: Architecture,
    layers: usize,
    width: usize,
    query_width: usize,
    kv_width: usize,
    ffn_width: usize,
    vocab_size: usize,
}

impl Shape {
    fn of(config: &ModelConfig) -> Shape {
        Shape {
            architecture: config.architecture,
            layers: config.layers.len(),
            width: config.width,
            query_width: config.query_width(),
            kv_width: config.kv_width(),
            ffn_width: config.ffn_width,
            vocab_size: config.vocab_size,
        }
    }
}

/// A matrix of the model that an adapter can add to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Layer(usize, Target),
    Head,
}

/// A matrix of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Query,
    Key,
    Value,
    AttentionOutput,
    Gate,
    Up,
    Down,
}

impl Target {
    pub(crate) const ALL: [Target; 7] = [
        Target::Query,
        Target::Key,
        Target::Value,
        Target::AttentionOutput,
        Target::Gate,
        Target::Up,
        Target::Down,
    ];

    /// Its name in a file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Target::Query => "attn_q",
            Target::Key => "attn_k",
            Target::Value => "attn_v",
            Target::AttentionOutput => "attn_output",
            Target::Gate => "ffn_gate",
            Target::Up => "ffn_up",
            Target::Down => "ffn_down",
        }
    }

    /// Its rows and columns: the lengths of what comes out of it and of what goes in.
    pub(crate) fn shape(self, config: &ModelConfig) -> (usize, usize) {
        match self {
            Target::Query => (config.query_width(), config.width),
            Target::Key | Target::Value => (config.kv_width(), config.width),
            Target::AttentionOutput => (config.width, config.query_width()),
            Target::Gate | Target::Up => (config.ffn_width, config.width),
            Target::Down => (config.width, config.ffn_width),
        }
    }
}

/// What an adapter adds to one layer, by [`Target`].
#[derive(Debug, Default)]
struct LayerPairs([Option<Pair>; Target::ALL.len()]);

/// What an adapter adds to one matrix.
#[derive(Debug)]
pub(crate) struct Pair {
    /// A, `[rank, columns]`.
    down: Weights,
    /// B times `alpha / rank`, `[rows, rank]`.
    up: Weights,
}

/// Memory that adapters' products are made in.
pub(crate) struct AdapterScratch {
    /// Ranges of rows that go together.
    together: Vec<Range<usize>>,
    /// Their inputs, one after another.
    rows: Vec<f32>,
    /// `[rows, rank]`.
    middle: Vec<f32>,
    /// `[rows, rows of the matrix]`.
    sums: Vec<f32>,
    activations: Activations,
}

impl Default for AdapterScratch {
    fn default() -> Self {
        AdapterScratch {
            together: Vec::new(),
            rows: Vec::new(),
            middle: Vec::new(),
            sums: Vec::new(),
            activations: Activations::keeping(Keep::Float),
        }
    }
}

impl Pair {
    fn rank(&self) -> usize {
        self.down.n()
    }

    /// Adds `(alpha / rank) B (A x)` to the rows of `output` in `ranges`, x being the same rows of `input`. The other rows are not
    /// looked at.
    pub(crate) fn add(
        &self,
        compute: &Compute,
        ranges: &[Range<usize>],
        input: &[f32],
        output: &mut [f32],
        scratch: &mut AdapterScratch,
    ) {
        let mut rows = 0;
        scratch.together.clear();
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + MOST_ROWS - rows);
                scratch.together.push(start..end);
                rows += end - start;
                start = end;
                if rows == MOST_ROWS {
                    self.add_together(compute, rows, input, output, scratch);
                    scratch.together.clear();
                    rows = 0;
                }
            }
        }
        if rows > 0 {
            self.add_together(compute, rows, input, output, scratch);
        }
    }

    fn add_together(
        &self,
        compute: &Compute,
        rows: usize,
        input: &[f32],
        output: &mut [f32],
        scratch: &mut AdapterScratch,
    ) {
        let (columns, rank, width) = (self.down.k(), self.rank(), self.up.n());
        let AdapterScratch { together, rows: gathered, middle, sums, activations } = scratch;
        match &together[..] {
            [one] => activations.load(
                compute,
                &input[one.start * columns..one.end * columns],
                rows,
                columns,
            ),
            several => {
                gathered.clear();
                for range in several {
                    gathered.extend_from_slice(&input[range.start * columns..range.end * columns]);
                }
                activations.load(compute, gathered, rows, columns);
            }
        }
        let middle = sized(middle, rows * rank);
        kernels::matmul(compute, &self.down, activations, middle);
        activations.load(compute, middle, rows, rank);
        let sums = sized(sums, rows * width);
        kernels::matmul(compute, &self.up, activations, sums);
        let mut at = 0;
        for range in &together[..] {
            let length = range.len() * width;
            let output = &mut output[range.start * width..][..length];
            kernels::add(compute, output, &sums[at..at + length]);
            at += length;
        }
    }
}
