//! Why a file could not be loaded as an adapter.

use tapri_gguf::{MetadataError, TensorError, TensorType};

/// Why [`Adapter::load`](crate::Adapter::load) refused a file. Every message names the key or the tensor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// A metadata key is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The file is a model, say.
    #[error("it is not a LoRA adapter: `{key}` is {found}, not {expected:?}")]
    NotAnAdapter {
        /// The key that says what the file is.
        key: &'static str,
        /// Its value.
        found: String,
        /// What an adapter has there.
        expected: &'static str,
    },
    /// The adapter was made for another kind of model.
    #[error(
        "it is for the architecture {found:?}, and the model's is {expected:?}: it was made for another model"
    )]
    Architecture {
        /// The adapter's.
        found: String,
        /// The model's.
        expected: &'static str,
    },
    /// `adapter.lora.alpha` makes no sense.
    #[error("`adapter.lora.alpha` is {alpha}, which is no factor")]
    Alpha {
        /// The value.
        alpha: f32,
    },
    /// The file asks for something that would change the results and that is not done here.
    #[error("metadata key `{key}` asks for {feature}, which is not supported")]
    UnsupportedFeature {
        /// The key.
        key: &'static str,
        /// What it asks for.
        feature: &'static str,
    },
    /// The file has no tensors.
    #[error("it has no tensors")]
    Empty,
    /// A tensor's type is unknown.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A tensor that this decoder can't apply: leaving it out would be a guess.
    #[error("tensor `{name}` can't be applied: {reason}")]
    UnexpectedTensor {
        /// The tensor's name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// One tensor of a pair is missing.
    #[error("tensor `{name}` is missing: its pair has the other half alone")]
    Half {
        /// The name of the one that isn't there.
        name: String,
    },
    /// A tensor's shape is not the one that the model calls for.
    #[error("tensor `{name}` has the shape {found:?}, but this model calls for {expected}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The shape in the file, fastest-running dimension first, as GGUF writes it.
        found: Vec<usize>,
        /// The shape that was expected, in the same order.
        expected: String,
    },
    /// A tensor is stored in a type that is not read here.
    #[error(
        "tensor `{name}` is stored as {kind}, which is not supported here (supported: F32, F16, BF16, Q8_0)"
    )]
    Kind {
        /// The tensor's name.
        name: String,
        /// The type in the file.
        kind: TensorType,
    },
    /// A tensor holds an infinity or something that is no number, or the factor makes it one.
    #[error("tensor `{name}` holds values that are not finite")]
    NotFinite {
        /// The tensor's name.
        name: String,
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
