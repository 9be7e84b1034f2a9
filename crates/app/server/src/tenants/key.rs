//! API keys. The server keeps their hashes alone.
//!
//! A key that Tapri makes has 256 random bits, so one SHA-256 is enough to keep it: there is nothing to guess, and a
//! slow hash would cost every call. Keys from elsewhere must be as long as [`MIN_CHARS`].

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The shortest key that is taken from elsewhere.
pub const MIN_CHARS: usize = 20;

/// What keys that Tapri makes begin with, so that scanners for leaked secrets can find them.
pub const PREFIX: &str = "tapri_";

/// What the text of a hash begins with.
const TAG: &str = "sha256:";

/// The SHA-256 of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub(crate) [u8; 32]);

/// Why a text is no hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not `sha256:` and 64 hexadecimal digits")]
pub struct NoHash;

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has at least {MIN_CHARS} characters, all of them visible ASCII")]
pub struct BadKey;

impl KeyHash {
    /// The hash of a key.
    pub fn of(key: &str) -> Self {
        KeyHash(Sha256::digest(key.as_bytes()).into())
    }

    /// The hash of a key that a person chose.
    pub fn of_chosen(key: &str) -> Result<Self, BadKey> {
        let fits = key.len() >= MIN_CHARS && key.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(KeyHash::of(key)) } else { Err(BadKey) }
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TAG)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// As little as it takes to tell hashes apart.
impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TAG}{:02x}{:02x}***", self.0[0], self.0[1])
    }
}

impl FromStr for KeyHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let digits = text.strip_prefix(TAG).ok_or(NoHash)?;
        unhex(digits).map(KeyHash).ok_or(NoHash)
    }
}

/// 32 bytes from 64 hexadecimal digits.
pub(crate) fn unhex(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// A new key, to be shown once. An error where the system gives no random bytes.
pub fn new_key() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(PREFIX.to_owned(), |mut key, byte| {
        key.push_str(&format!("{byte:02x}"));
        key
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // `printf abc | sha256sum`, and the first vector of FIPS 180-2.
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(KeyHash::of("abc").to_string(), text);
        assert_eq!(text.parse::<KeyHash>().unwrap(), KeyHash::of("abc"));
        for wrong in ["", "ba78", &text[7..], &text[..70], &text.replace('b', "x")] {
            assert_eq!(wrong.parse::<KeyHash>(), Err(NoHash), "{wrong}");
        }
        assert_eq!(format!("{:?}", KeyHash::of("abc")), "sha256:ba78***");
    }

    #[test]
    fn keys_are_new_each_time_and_long() {
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert!(one != other && one.len() == 70 && one.starts_with(PREFIX));
        assert!(KeyHash::of_chosen(&one).is_ok());
        for wrong in ["short", "with a space in it, and long", "ümlaute-sind-nicht-erlaubt"] {
            assert_eq!(KeyHash::of_chosen(wrong), Err(BadKey), "{wrong}");
        }
    }
}
