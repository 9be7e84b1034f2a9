//! Lengths and angles.

/// How far from 1 the length of a vector may be.
pub const TOLERANCE: f32 = 1e-3;

/// The inner product; of vectors of length 1, the cosine of the angle between them. Of vectors of different
/// lengths, that of what they have in common.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Sixteen sums side by side, which a compiler turns into vector instructions.
    let mut lanes = [0.0_f32; 16];
    let (a_chunks, b_chunks) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += x * y;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// The Euclidean length.
pub fn norm(vector: &[f32]) -> f32 {
    dot(vector, vector).sqrt()
}

/// Scales to length 1; a vector of zeros, or one with something that is no number, stays as it is.
pub fn normalise(vector: &mut [f32]) {
    let norm = norm(vector);
    if norm.is_finite() && norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let mut v: Vec<f32> = (0..37).map(|i| i as f32 - 10.0).collect();
        let naive: f32 = v.iter().map(|x| x * x).sum();
        assert!((dot(&v, &v) - naive).abs() < 1e-2);
        normalise(&mut v);
        assert!((norm(&v) - 1.0).abs() < 1e-6);
        let mut zeros = [0.0; 3];
        normalise(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }
}
