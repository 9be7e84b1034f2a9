//! Why a file could not be loaded as a model.

use tapri_gguf::{MetadataError, TensorError, TensorType};

/// Why [`Model::load`](crate::Model::load) refused a file. Every message names the key or the tensor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is for an architecture that this decoder does not know.
    #[error("architecture {name:?} is not supported (supported: {supported})", supported = crate::Architecture::SUPPORTED)]
    Architecture {
        /// The name under `general.architecture`.
        name: String,
    },
    /// A metadata key is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A metadata value lies outside what makes sense, or contradicts another.
    #[error("metadata key `{key}`: {reason}")]
    BadKey {
        /// The full key.
        key: String,
        /// What is wrong with it, with the value.
        reason: String,
    },
    /// The file asks for something that would change the results and that this decoder does not do.
    #[error("metadata key `{key}` asks for {feature}, which is not supported")]
    UnsupportedFeature {
        /// The full key.
        key: String,
        /// What the key asks for.
        feature: String,
    },
    /// A tensor is missing or has a type that is unknown.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A tensor's shape is not the one that the metadata calls for.
    #[error("tensor `{name}` has the shape {found:?}, but the metadata calls for {expected:?}")]
    TensorShape {
        /// The tensor's name.
        name: String,
        /// The shape in the file, fastest-running dimension first, as GGUF writes it.
        found: Vec<usize>,
        /// The shape that was expected, in the same order.
        expected: Vec<usize>,
    },
    /// A tensor is stored in a type that no kernel takes at this place.
    #[error(
        "tensor `{name}` is stored as {kind}, which is not supported here (supported: {supported})"
    )]
    TensorKind {
        /// The tensor's name.
        name: String,
        /// The type in the file.
        kind: TensorType,
        /// The types that would do.
        supported: &'static str,
    },
    /// The file has a tensor that this architecture does not use: leaving it out would be a guess.
    #[error("tensor `{name}` is not part of a {architecture} model as this decoder knows it")]
    UnexpectedTensor {
        /// The tensor's name.
        name: String,
        /// The architecture's name.
        architecture: &'static str,
    },
    /// A factor of RoPE's frequencies is not a positive number.
    #[error("tensor `{name}` holds {factor}, which is no factor of a frequency")]
    RopeFactor {
        /// The tensor's name.
        name: String,
        /// The number.
        factor: f32,
    },
    /// The kernels refused a tensor's data.
    #[error("tensor `{name}` could not be packed")]
    Pack {
        /// The tensor's name.
        name: String,
        /// The kernels' reason.
        source: tapri_kernels::PackError,
    },
}
