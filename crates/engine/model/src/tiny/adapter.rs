//! Random LoRA adapters, written as GGUF files.

use tapri_gguf::{Gguf, TensorType, Writer};
use tapri_kernels::{Quant, dequantise};

use super::random::{self, Random};
use crate::ModelConfig;
use crate::adapter::Target;

/// The recipe of a random adapter. The fields may be changed before it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct TinyAdapter {
    /// The architecture that it says it is for.
    pub architecture: String,
    /// What it adds to: a matrix's name, its rows and its columns.
    pub matrices: Vec<(String, usize, usize)>,
    /// The rank of all of them.
    pub rank: usize,
    /// `adapter.lora.alpha`.
    pub alpha: f32,
    /// How its matrices are stored: F32, F16, BF16, or Q8_0 (where a row is no multiple of 32: F16).
    pub kind: TensorType,
    /// Picks the weights.
    pub seed: u64,
}

impl TinyAdapter {
    /// One of rank 8 for every matrix of a model's layers, strong enough to change every answer.
    pub fn of(config: &ModelConfig) -> TinyAdapter {
        let layers = 0..config.layers.len();
        let matrices = layers.flat_map(|layer| {
            Target::ALL.map(|target| {
                let (rows, columns) = target.shape(config);
                (format!("blk.{layer}.{}.weight", target.name()), rows, columns)
            })
        });
        TinyAdapter {
            architecture: config.architecture.name().to_owned(),
            matrices: matrices.collect(),
            rank: 8,
            alpha: 16.0,
            kind: TensorType::F32,
            seed: 1,
        }
    }

    /// The same with other weights.
    #[must_use]
    pub fn seed(self, seed: u64) -> TinyAdapter {
        TinyAdapter { seed, ..self }
    }

    /// The adapter as an open file.
    ///
    /// # Panics
    /// If a size does not suit the way that it is stored.
    #[expect(clippy::expect_used, reason = "the writer's own output is well-formed")]
    pub fn gguf(&self) -> Gguf {
        Gguf::from_bytes(self.writer().to_bytes())
            .expect("a file that was just written can be read")
    }

    /// The file before it is written: a test may add to it.
    ///
    /// # Panics
    /// If a size does not suit the way that it is stored.
    pub fn writer(&self) -> Writer {
        self.written(|half| (half.kind, half.data))
    }

    /// A file of the same numbers as 32-bit floats.
    ///
    /// # Panics
    /// If a size does not suit the way that it is stored.
    pub fn writer_of_floats(&self) -> Writer {
        self.written(|half| {
            let bytes = half.values().into_iter().flat_map(f32::to_le_bytes);
            (TensorType::F32, bytes.collect())
        })
    }

    #[expect(clippy::expect_used, reason = "documented on the functions that lead here")]
    fn written(&self, stored: impl Fn(Half) -> (TensorType, Vec<u8>)) -> Writer {
        let mut writer = Writer::new();
        writer.set("general.type", "adapter");
        writer.set("general.architecture", self.architecture.as_str());
        writer.set("general.name", format!("tiny adapter {}", self.seed).as_str());
        writer.set("adapter.type", "lora");
        writer.set("adapter.lora.alpha", self.alpha);
        for (name, rows, columns) in &self.matrices {
            let [a, b] = self.halves(name, *rows, *columns);
            for (suffix, half, dims) in
                [("lora_a", a, [*columns, self.rank]), ("lora_b", b, [self.rank, *rows])]
            {
                let (kind, data) = stored(half);
                let name = format!("{name}.{suffix}");
                writer.tensor(&name, &dims, kind, &data).expect("sizes suit the kind");
            }
        }
        writer
    }

    /// A, `[rank, columns]`, and B, `[rows, rank]`, of a matrix: the same however often they are asked for.
    fn halves(&self, name: &str, rows: usize, columns: usize) -> [Half; 2] {
        // FNV-1a: each matrix has random numbers of its own.
        let start = 0xcbf2_9ce4_8422_2325 ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = name
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut random = Random::new(seed);
        // The product with B and the factor has about half the spread of the matrix's own.
        let down = 1.0 / (columns as f32).sqrt();
        let up = 0.5 * (self.rank as f32).sqrt() / self.alpha;
        [
            Half::random(&mut random, self.kind, self.rank, columns, down),
            Half::random(&mut random, self.kind, rows, self.rank, up),
        ]
    }

    /// `(alpha / rank) B A` of a matrix, `[rows, columns]`; nothing where it isn't changed.
    pub(super) fn change(&self, name: &str) -> Option<Vec<f64>> {
        let (name, rows, columns) = self.matrices.iter().find(|(matrix, ..)| matrix == name)?;
        let [a, b] = self.halves(name, *rows, *columns).map(|half| half.values());
        let factor = f64::from(self.alpha) / self.rank as f64;
        let mut change = vec![0.0; rows * columns];
        for (row, b) in change.chunks_exact_mut(*columns).zip(b.chunks_exact(self.rank)) {
            for (b, a) in b.iter().zip(a.chunks_exact(*columns)) {
                for (sum, a) in row.iter_mut().zip(a) {
                    *sum += factor * f64::from(*b) * f64::from(*a);
                }
            }
        }
        Some(change)
    }
}

/// One of the two matrices of a pair, as it is stored.
struct Half {
    kind: TensorType,
    data: Vec<u8>,
}

impl Half {
    fn random(
        random: &mut Random,
        kind: TensorType,
        rows: usize,
        columns: usize,
        spread: f32,
    ) -> Half {
        let whole = columns.is_multiple_of(kind.block_len());
        let kind = if whole { kind } else { TensorType::F16 };
        let mut data = Vec::new();
        for _ in 0..rows * columns / kind.block_len() {
            match kind {
                TensorType::F16 => data.extend(random::half(spread * random.normal())),
                // The upper half of a float's bits.
                TensorType::Bf16 => {
                    data.extend_from_slice(&(spread * random.normal()).to_le_bytes()[2..]);
                }
                kind => random::block(random, kind, spread, &mut data),
            }
        }
        Half { kind, data }
    }

    fn values(&self) -> Vec<f32> {
        let quant = match self.kind {
            TensorType::F16 => Quant::F16,
            TensorType::Bf16 => Quant::Bf16,
            TensorType::Q8_0 => Quant::Q8_0,
            _ => Quant::F32,
        };
        let count = self.data.len() / self.kind.block_bytes() * self.kind.block_len();
        let mut values = vec![0.0; count];
        dequantise(quant, &self.data, &mut values);
        values
    }
}
