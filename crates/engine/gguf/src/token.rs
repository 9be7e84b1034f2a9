//! The id of a token.

use bytemuck::{Pod, TransparentWrapper, Zeroable};

/// The id of a token: its row in a model's vocabulary.
///
/// Slices of it and slices of `u32` are the same bytes: [`TokenId::as_u32s`] views one as the other without a copy.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Pod,
    Zeroable,
    TransparentWrapper,
)]
#[repr(transparent)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The same ids as plain numbers, without a copy.
    pub fn as_u32s(tokens: &[TokenId]) -> &[u32] {
        bytemuck::cast_slice(tokens)
    }

    /// Plain numbers as ids, without a copy.
    pub fn from_u32s(ids: &[u32]) -> &[TokenId] {
        bytemuck::cast_slice(ids)
    }

    /// The id as an index into a table of the vocabulary's size.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for TokenId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_viewed_without_a_copy() {
        let ids = [TokenId(3), TokenId(u32::MAX)];
        assert_eq!(TokenId::as_u32s(&ids), [3, u32::MAX]);
        assert_eq!(TokenId::from_u32s(&[3, u32::MAX]), ids);
    }
}
