//! Joining the results of two sets of keys.

use super::exp2::exp2;

/// Stands for the maximum of no scores. Finite, so that the difference of two is not NaN.
pub(super) const NO_MAX: f32 = -3.0e38;

/// Maximum (in units of log2) and sum of a softmax so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    pub(super) max: f32,
    pub(super) sum: f32,
}

impl Softmax {
    /// Of no keys.
    pub(super) const EMPTY: Softmax = Softmax { max: NO_MAX, sum: 0.0 };

    /// Takes in the next key block's softmax. Returns the factors of the output so far and of the block's output:
    /// the new output is `so_far * old + block * fresh`.
    ///
    /// Every path uses this one function, compiled without fused operations, so it gives the same bits wherever a merge happens.
    #[inline(never)]
    pub(super) fn merge(&mut self, block: Softmax) -> (f32, f32) {
        let max = if block.max > self.max { block.max } else { self.max };
        let old = exp2(self.max - max);
        let fresh = exp2(block.max - max);
        self.sum = self.sum * old + block.sum * fresh;
        self.max = max;
        (old, fresh)
    }
}

/// The one merge formula for outputs, element by element.
#[inline(always)]
pub(super) fn merge(so_far: &mut [f32], old: f32, block: &[f32], fresh: f32) {
    for (o, b) in so_far.iter_mut().zip(block) {
        *o = *o * old + b * fresh;
    }
}

/// Divides by the sum. Adding 0 turns -0 into 0: the sign of a zero is all that can depend on which masked keys were multiplied.
#[inline(always)]
pub(super) fn finish(out: &mut [f32], sum: f32) {
    let inverse = 1.0 / sum;
    for o in out {
        *o = *o * inverse + 0.0;
    }
}
