//! One architecture's metadata keys, with bounds.

use tapri_gguf::{Array, FromValue, Gguf, MetadataError, Value};

use crate::LoadError;

/// A file's metadata seen from one architecture: keys are given without the architecture's name in front.
pub(crate) struct Metadata<'a> {
    gguf: &'a Gguf,
    prefix: &'static str,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(gguf: &'a Gguf, prefix: &'static str) -> Metadata<'a> {
        Metadata { gguf, prefix }
    }

    /// The full name of a key.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    /// An error about a key.
    pub(super) fn bad(&self, key: &str, reason: String) -> LoadError {
        LoadError::BadKey { key: self.key(key), reason }
    }

    /// An error about a key that asks for something that is not there.
    pub(super) fn unsupported(&self, key: &str, feature: String) -> LoadError {
        LoadError::UnsupportedFeature { key: self.key(key), feature }
    }

    fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, LoadError> {
        Ok(self.gguf.metadata().find(&self.key(key))?)
    }

    fn get<T: FromValue<'a>>(&self, key: &str) -> Result<T, LoadError> {
        Ok(self.gguf.metadata().get(&self.key(key))?)
    }

    /// A size from 1 to `most`, if it is there.
    pub(super) fn optional_size(&self, key: &str, most: usize) -> Result<Option<usize>, LoadError> {
        match self.find::<u64>(key)? {
            None => Ok(None),
            Some(value) => match usize::try_from(value) {
                Ok(size) if (1..=most).contains(&size) => Ok(Some(size)),
                _ => Err(self.bad(key, format!("{value} is not between 1 and {most}"))),
            },
        }
    }

    /// A size from 1 to `most` that must be there.
    pub(super) fn size(&self, key: &str, most: usize) -> Result<usize, LoadError> {
        match self.optional_size(key, most)? {
            Some(size) => Ok(size),
            None => Err(LoadError::Metadata(MetadataError::Missing {
                key: self.key(key),
                wanted: u64::WANTED,
            })),
        }
    }

    /// A size from 1 to `most`, or `default`.
    pub(super) fn size_or(
        &self,
        key: &str,
        most: usize,
        default: usize,
    ) -> Result<usize, LoadError> {
        Ok(self.optional_size(key, most)?.unwrap_or(default))
    }

    /// A float that must be there.
    pub(super) fn float(&self, key: &str) -> Result<f32, LoadError> {
        self.get(key)
    }

    /// A float, if it is there.
    pub(super) fn optional_float(&self, key: &str) -> Result<Option<f32>, LoadError> {
        self.find(key)
    }

    /// A float, or `default`.
    pub(super) fn float_or(&self, key: &str, default: f32) -> Result<f32, LoadError> {
        Ok(self.find(key)?.unwrap_or(default))
    }

    /// A string, if it is there.
    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, LoadError> {
        self.find(key)
    }

    /// The model's name, for people: anything unusable there is as good as none.
    pub(super) fn model_name(&self) -> Option<String> {
        self.gguf.metadata().str("general.name").ok().map(str::to_owned)
    }

    /// The number of tokens that the file's tokenizer lists, from 1 to `most`.
    pub(super) fn vocabulary(&self, most: usize) -> Result<usize, LoadError> {
        let key = "tokenizer.ggml.tokens";
        let tokens: Array<'_> = self.gguf.metadata().get(key)?;
        if (1..=most).contains(&tokens.len()) {
            return Ok(tokens.len());
        }
        Err(LoadError::BadKey {
            key: key.to_owned(),
            reason: format!("{} tokens; supported are 1 to {most}", tokens.len()),
        })
    }

    /// Refuses a file in which the key is a number above zero, since it asks for a `feature` that is not there.
    pub(super) fn refuse_positive(&self, key: &str, feature: &str) -> Result<(), LoadError> {
        let Some(value) = self.gguf.metadata().value(&self.key(key)) else { return Ok(()) };
        let harmless = match value {
            Value::Unsigned(number, _) => number == 0,
            Value::Signed(number, _) => number <= 0,
            Value::F32(number) => number <= 0.0,
            Value::F64(number) => number <= 0.0,
            _ => false,
        };
        if harmless {
            return Ok(());
        }
        Err(self.unsupported(key, feature.to_owned()))
    }

    /// Refuses a file in which the key is `asking`, since that asks for a `feature` that is not there.
    pub(super) fn refuse_bool(
        &self,
        key: &str,
        asking: bool,
        feature: &str,
    ) -> Result<(), LoadError> {
        match self.find::<bool>(key)? {
            Some(value) if value == asking => Err(self.unsupported(key, feature.to_owned())),
            _ => Ok(()),
        }
    }
}
