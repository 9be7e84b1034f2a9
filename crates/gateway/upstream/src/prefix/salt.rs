//! vLLM's `cache_salt`, which only the gateway may choose.
//!
//! A client that could choose it could name another tenant's and ask whether a prompt was there. So a client's own
//! salt is taken out and goes, together with the tenant's scope, into a code that vLLM gets instead:
//! `HMAC-SHA-256(secret, parts)` in hexadecimal, where each part (the tag [`TAG`], the scope, and the client's salt
//! where there is one) stands behind its length in eight bytes, little end first. Length before content is what keeps a
//! scope that ends like someone's salt begins from meeting it. (The design of a public router for confidential
//! inference, tinfoil's confidential-model-router, is alike.) Sixty-four hexadecimal digits are a salt that every
//! version of vLLM takes.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Says what the code is for, and which version of this rule made it.
pub const TAG: &[u8] = b"tapri vllm cache_salt v1";

/// The salt for a tenant's call.
pub fn vllm(secret: &[u8], scope: &[u8], client: Option<&str>) -> String {
    let parts: &[&[u8]] = match client {
        None => &[TAG, scope],
        Some(client) => &[TAG, scope, client.as_bytes()],
    };
    hex(&code(secret, parts))
}

/// A keyed code over parts, each behind its length.
pub(crate) fn code(secret: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // Keys of any length are taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return [0; 32] };
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// In hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors, also in docs/upstreams.md; made with Python's hmac module.
    #[test]
    fn vectors() {
        for (secret, scope, client, salt) in VECTORS {
            assert_eq!(vllm(secret, scope, client), salt);
        }
    }

    type Vector = (&'static [u8], &'static [u8], Option<&'static str>, &'static str);

    const VECTORS: [Vector; 4] = [
        (b"", b"", None, "2a0418b5159f053f48be7ad3b500240c9beca8fd8dd2ee186a0e4c827d2eeff5"),
        (
            b"secret",
            b"tenant-a",
            None,
            "78bb62a4bf377ced472f0c6e056ce69d36794abec538a911d77fa4a39833c6b5",
        ),
        (
            b"secret",
            b"tenant-a",
            Some("session-1"),
            "2b1fdc9e1e8ad9211df2a3c8f791ca84323bf49785822d3b64fa897552c3738b",
        ),
        (
            b"secret",
            b"tenant-as",
            Some("ession-1"),
            "d8e33267f08b1c4b2f969b9d370208f997cd28ba281fe15e281a4ddb24231d5d",
        ),
    ];

    #[test]
    fn a_salt_only_narrows_and_nothing_meets() {
        let mut all: Vec<String> = VECTORS.iter().map(|(a, b, c, _)| vllm(a, b, *c)).collect();
        // An empty salt is not the same as none, and a salt that spells another's code is no way in.
        all.push(vllm(b"secret", b"tenant-a", Some("")));
        all.push(vllm(b"secret", b"tenant-b", Some(&vllm(b"secret", b"tenant-a", None))));
        all.push(vllm(b"other secret", b"tenant-a", None));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(
            all.iter().all(|salt| salt.len() == 64 && salt.bytes().all(|b| b.is_ascii_hexdigit()))
        );
    }
}
