//! Zeroed memory on a page boundary, for panels and tiles.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Below this, a huge page would be mostly waste.
const WORTH_HUGE_PAGES: usize = 4 << 20;

/// Bytes on a page boundary, zero at first, which the system maps as they are touched (so by the threads that fill them).
pub(crate) struct Buffer {
    map: MmapMut,
    bytes: usize,
}

impl Buffer {
    /// `None` when the system has no room for a buffer of that size.
    pub(crate) fn zeroed(bytes: usize) -> Option<Buffer> {
        // A map of no bytes is an error.
        let map = MmapMut::map_anon(bytes.max(1)).ok()?;
        #[cfg(target_os = "linux")]
        if bytes >= WORTH_HUGE_PAGES {
            // Weights stream through more memory than the address translation cache covers in small pages. A refusal
            // costs speed alone.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Buffer { map, bytes })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[..self.bytes]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn aligned_zero_and_of_the_asked_size() {
        for bytes in [0, 1, 63, 64, 4096, WORTH_HUGE_PAGES, WORTH_HUGE_PAGES + 5] {
            let mut buffer = Buffer::zeroed(bytes).unwrap();
            assert_eq!(buffer.len(), bytes);
            assert!(buffer.as_ptr().addr().is_multiple_of(64));
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
        }
        assert!(Buffer::zeroed(usize::MAX).is_none());
        assert!(Buffer::zeroed(isize::MAX as usize).is_none());
    }
}
