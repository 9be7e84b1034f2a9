//! What an adapter's file says: keys, pairs of tensors, and the digest of both.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tapri_gguf::{Gguf, TensorInfo, TensorType};
use tapri_kernels::{Compute, Quant, Weights, dequantise};

use super::{AdapterError, Pair, Place, Target};
use crate::ModelConfig;

/// A file that is a LoRA adapter, before a model is asked whether it fits.
pub(super) struct Contents<'a> {
    architecture: &'a str,
    pub(super) alpha: f32,
    pub(super) digest: [u8; 32],
    pairs: Vec<FilePair<'a>>,
}

/// The two tensors of one matrix.
pub(super) struct FilePair<'a> {
    /// The matrix's name: `blk.0.attn_q.weight`.
    name: &'a str,
    a: TensorInfo<'a>,
    b: TensorInfo<'a>,
}

impl<'a> Contents<'a> {
    pub(super) fn of(gguf: &'a Gguf) -> Result<Contents<'a>, AdapterError> {
        let metadata = gguf.metadata();
        for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
            let found: Option<&str> = metadata.find(key)?;
            if found != Some(expected) {
                let found = found.map_or("missing".to_owned(), |found| format!("{found:?}"));
                return Err(AdapterError::NotAnAdapter { key, found, expected });
            }
        }
        let key = "adapter.alora.invocation_tokens";
        if metadata.contains(key) {
            let feature = "an adapter that begins at certain tokens (aLoRA)";
            return Err(AdapterError::UnsupportedFeature { key, feature });
        }
        let architecture = metadata.str("general.architecture")?;
        let alpha = metadata.f32("adapter.lora.alpha")?;
        // Readers don't agree on what 0 means: no effect, or a factor of 1.
        if !alpha.is_finite() || alpha == 0.0 {
            return Err(AdapterError::Alpha { alpha });
        }
        let mut tensors = gguf.tensors().collect::<Result<Vec<_>, _>>()?;
        // The order in the file says nothing.
        tensors.sort_by_key(|tensor| tensor.name);
        let digest = digest(architecture, alpha, &tensors);
        Ok(Contents { architecture, alpha, digest, pairs: pairs(tensors)? })
    }

    pub(super) fn check_architecture(&self, expected: &'static str) -> Result<(), AdapterError> {
        if self.architecture == expected {
            return Ok(());
        }
        Err(AdapterError::Architecture { found: self.architecture.to_owned(), expected })
    }

    pub(super) fn pairs(&self) -> &[FilePair<'a>] {
        &self.pairs
    }
}

/// SHA-256 over what the numbers depend on. Every part has its length before it, so that no two files have one form.
fn digest(architecture: &str, alpha: f32, tensors: &[TensorInfo<'_>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(b"tapri adapter 1");
    part(architecture.as_bytes());
    part(&alpha.to_bits().to_le_bytes());
    for tensor in tensors {
        part(tensor.name.as_bytes());
        part(&tensor.kind.id().to_le_bytes());
        let dims: Vec<u8> =
            tensor.dims.iter().flat_map(|&dim| (dim as u64).to_le_bytes()).collect();
        part(&dims);
        part(tensor.data);
    }
    hash.finalize().into()
}

/// Finds each A its B.
fn pairs(tensors: Vec<TensorInfo<'_>>) -> Result<Vec<FilePair<'_>>, AdapterError> {
    let mut halves: BTreeMap<&str, [Option<TensorInfo<'_>>; 2]> = BTreeMap::new();
    for tensor in tensors {
        let half = |suffix| tensor.name.strip_suffix(suffix);
        let (name, index) = match (half(".lora_a"), half(".lora_b")) {
            (Some(name), _) => (name, 0),
            (_, Some(name)) => (name, 1),
            _ => {
                let reason = "its name ends neither in .lora_a nor in .lora_b".to_owned();
                return Err(AdapterError::UnexpectedTensor {
                    name: tensor.name.to_owned(),
                    reason,
                });
            }
        };
        halves.entry(name).or_default()[index] = Some(tensor);
    }
    if halves.is_empty() {
        return Err(AdapterError::Empty);
    }
    let whole = halves.into_iter().map(|(name, halves)| match halves {
        [Some(a), Some(b)] => Ok(FilePair { name, a, b }),
        [None, _] => Err(AdapterError::Half { name: format!("{name}.lora_a") }),
        [_, None] => Err(AdapterError::Half { name: format!("{name}.lora_b") }),
    });
    whole.collect()
}

impl FilePair<'_> {
    /// The matrix that it adds to.
    pub(super) fn place(
        &self,
        config: &ModelConfig,
        has_own_head: bool,
    ) -> Result<Place, AdapterError> {
        let refused = |reason: String| {
            Err(AdapterError::UnexpectedTensor { name: self.a.name.to_owned(), reason })
        };
        match self.name {
            "output.weight" if has_own_head => return Ok(Place::Head),
            "output.weight" => {
                return refused(
                    "the model reads its logits off the token embedding, and has no output.weight"
                        .to_owned(),
                );
            }
            "token_embd.weight" => {
                return refused("changes to the token embedding are not supported".to_owned());
            }
            _ => {}
        }
        let found = self.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let found = found.and_then(|(layer, part)| {
            let part = part.strip_suffix(".weight")?;
            let target = Target::ALL.into_iter().find(|target| target.name() == part)?;
            // As it is written by everyone, so that no two names mean one matrix.
            let number: usize = layer.parse().ok()?;
            (number.to_string() == layer).then_some((number, target))
        });
        match found {
            Some((layer, target)) if layer < config.layers.len() => Ok(Place::Layer(layer, target)),
            Some(_) => refused(format!("the model has {} layers", config.layers.len())),
            None => {
                let known: Vec<_> = Target::ALL.iter().map(|target| target.name()).collect();
                refused(format!(
                    "an adapter may change {} and output, and this is none of them",
                    known.join(", ")
                ))
            }
        }
    }

    /// Checks the shapes against a matrix of `rows` by `columns`, and packs both tensors with the factor in B.
    pub(super) fn pack(
        &self,
        compute: &Compute,
        rows: usize,
        columns: usize,
        alpha: f32,
    ) -> Result<Pair, AdapterError> {
        let (a, b) = (&self.a, &self.b);
        let shape = |tensor: &TensorInfo<'_>, expected: String| AdapterError::Shape {
            name: tensor.name.to_owned(),
            found: tensor.dims.to_vec(),
            expected,
        };
        let is_matrix = |tensor: &TensorInfo<'_>| tensor.dims.iter().skip(2).all(|&dim| dim == 1);
        let rank = a.rows();
        if a.columns() != columns || !is_matrix(a) {
            return Err(shape(a, format!("[{columns}, rank]")));
        }
        if b.columns() != rank || b.rows() != rows || !is_matrix(b) {
            return Err(shape(b, format!("[{rank}, {rows}], {rank} being the rank of its pair")));
        }
        let factor = alpha / rank as f32;
        Ok(Pair {
            down: packed(compute, a, rank, columns, 1.0)?,
            up: packed(compute, b, rows, rank, factor)?,
        })
    }
}

/// A tensor times a factor, as 32-bit floats.
fn packed(
    compute: &Compute,
    tensor: &TensorInfo<'_>,
    rows: usize,
    columns: usize,
    factor: f32,
) -> Result<Weights, AdapterError> {
    let name = || tensor.name.to_owned();
    let mut values = vec![0.0_f32; rows * columns];
    // Those that the script writes.
    let quant = match tensor.kind {
        TensorType::F32 => Quant::F32,
        TensorType::F16 => Quant::F16,
        TensorType::Bf16 => Quant::Bf16,
        TensorType::Q8_0 => Quant::Q8_0,
        kind => return Err(AdapterError::Kind { name: name(), kind }),
    };
    dequantise(quant, tensor.data, &mut values);
    let mut bytes = Vec::with_capacity(values.len() * 4);
    for value in values {
        let value = value * factor;
        if !value.is_finite() {
            return Err(AdapterError::NotFinite { name: name() });
        }
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Weights::pack(compute, Quant::F32, rows, columns, &bytes)
        .map_err(|source| AdapterError::Pack { name: name(), source })
}
