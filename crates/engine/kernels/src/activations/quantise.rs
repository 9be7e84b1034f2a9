//! Floats to 8-bit blocks. Every path gives the same bits: all operations are exact or rounded once, to nearest.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::Block;
use crate::compute::Compute;
use crate::isa::Isa;
use crate::weights::layout::BLOCK;

/// Below this magnitude a block counts as zero: `127 / largest` would overflow.
const SMALLEST: f32 = f32::from_bits(0x0400_0000);

/// As many blocks as are worth a thread's while.
const BLOCKS_PER_PIECE: usize = 512;

/// Quantises the rows `x`, `[m][k]`, into `blocks`, `[m][k / 32]`.
pub(super) fn rows(compute: &Compute, x: &[f32], k: usize, blocks: &mut [Block]) {
    debug_assert!(k.is_multiple_of(BLOCK) && x.len() == blocks.len() * BLOCK);
    let isa = compute.isa();
    compute.run_pieces(blocks, BLOCKS_PER_PIECE, |index, piece| {
        let start = index * BLOCKS_PER_PIECE * BLOCK;
        run(isa, &x[start..start + piece.len() * BLOCK], piece);
    });
}

fn run(isa: Isa, x: &[f32], blocks: &mut [Block]) {
    match isa {
        // SAFETY: a `Compute` has only a path that the CPU has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { x86::avx512(x, blocks) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { x86::avx2(x, blocks) },
        _ => scalar(x, blocks),
    }
}

fn scalar(x: &[f32], blocks: &mut [Block]) {
    for (numbers, block) in x.chunks_exact(BLOCK).zip(blocks) {
        *block = quantise(numbers);
    }
}

/// One block: the scale is the largest magnitude over 127, each quant is rounded to nearest, ties to even.
fn quantise(numbers: &[f32]) -> Block {
    // As integers, magnitudes are in order, and infinities and NaNs are above all numbers.
    let largest = numbers.iter().map(|x| x.to_bits() & 0x7fff_ffff).max().unwrap_or(0);
    let largest = f32::from_bits(largest);
    let Some(inverse) = inverse(largest) else {
        return special(largest);
    };
    let mut quants = [0; BLOCK];
    for (quant, x) in quants.iter_mut().zip(numbers) {
        *quant = (x * inverse).round_ties_even() as i8;
    }
    let sum = |quants: &[i8]| quants.iter().map(|&quant| i32::from(quant)).sum::<i32>();
    let (low, high) = (sum(&quants[..BLOCK / 2]), sum(&quants[BLOCK / 2..]));
    finish(quants, largest, low, high)
}

/// What the numbers of a block are multiplied with; `None` if [`special`] makes the block.
fn inverse(largest: f32) -> Option<f32> {
    (largest >= SMALLEST && largest.is_finite()).then(|| 127.0 / largest)
}

/// The block of numbers that are all next to nothing, or not all finite.
fn special(largest: f32) -> Block {
    let scale = if largest < SMALLEST { 0.0 } else { f32::NAN };
    Block { quants: [0; BLOCK], scale, scaled_sum: scale, start: 0, start_low: 0 }
}

/// A block of these quants, whose first and last 16 have these sums.
fn finish(quants: [i8; BLOCK], largest: f32, low: i32, high: i32) -> Block {
    let scale = largest / 127.0;
    let sum = low + high;
    Block {
        quants,
        scale,
        scaled_sum: scale * sum as f32,
        start: -128 * sum,
        start_low: -128 * low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(block: &Block) -> ([i8; BLOCK], u32, u32, i32, i32) {
        let &Block { quants, scale, scaled_sum, start, start_low } = block;
        (quants, scale.to_bits(), scaled_sum.to_bits(), start, start_low)
    }

    /// Numbers of every size and sign, ties, zeros, denormals, infinities and NaNs: all paths agree on every bit.
    #[test]
    fn every_path_gives_the_same_bits() {
        let mut state = 1_u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        };
        let mut x = Vec::new();
        for block in 0..4000_u32 {
            let size = 2.0_f32.powi((block % 250) as i32 - 126);
            for i in 0..BLOCK {
                let unit = (next() >> 8) as f32 / (1 << 23) as f32 - 1.0;
                x.push(match block % 7 {
                    // Whole and half steps of 127: each half is a tie.
                    0 if i == 0 => 127.0,
                    0 => (unit * 254.0).round() / 2.0,
                    1 if next() % 3 == 0 => 0.0,
                    2 => f32::from_bits(next()),
                    3 if i == 31 => -size,
                    _ => unit * size,
                });
            }
        }
        for special in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0] {
            x.extend([special; BLOCK]);
            x.extend([1.0; BLOCK - 1]);
            x.push(special);
        }
        let empty = special(0.0);
        let mut want = vec![empty; x.len() / BLOCK];
        scalar(&x, &mut want);
        for isa in Isa::available() {
            let mut got = vec![empty; want.len()];
            run(isa, &x, &mut got);
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert_eq!(
                    bits(got),
                    bits(want),
                    "{isa}, block {i}: {:?}",
                    &x[i * BLOCK..][..BLOCK]
                );
            }
        }
    }

    /// A quant is within half a step of its number, and the sums are the quants'.
    #[test]
    fn quants_are_within_half_a_step() {
        let x: Vec<f32> = (0..320).map(|i| ((i * 7919) % 1000) as f32 / 321.0 - 1.3).collect();
        let mut blocks = vec![special(0.0); 10];
        scalar(&x, &mut blocks);
        for (numbers, block) in x.chunks_exact(BLOCK).zip(&blocks) {
            let mut sum = 0;
            for (x, &quant) in numbers.iter().zip(&block.quants) {
                let error = x - block.scale * f32::from(quant);
                assert!(error.abs() <= block.scale * 0.500_01, "{x} as {quant} of {}", block.scale);
                sum += i32::from(quant);
            }
            assert_eq!(block.start, -128 * sum);
            assert_eq!(block.scaled_sum.to_bits(), (block.scale * sum as f32).to_bits());
            assert!(block.quants.iter().any(|quant| quant.abs() == 127));
        }
    }
}
