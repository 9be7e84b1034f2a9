//! Floats to 8-bit blocks. Every path gives the same bits: all operations are exact or rounded once, to nearest.

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
        Isa::Scalar | Isa::Avx2 | Isa::Avx512 => scalar(x, blocks),
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
    let mut block =
        Block { quants: [0; BLOCK], scale: 0.0, scaled_sum: 0.0, start: 0, start_low: 0 };
    if !largest.is_finite() {
        block.scale = f32::NAN;
        block.scaled_sum = f32::NAN;
        return block;
    }
    if largest < SMALLEST {
        return block;
    }
    let inverse = 127.0 / largest;
    for (quant, x) in block.quants.iter_mut().zip(numbers) {
        *quant = (x * inverse).round_ties_even() as i8;
    }
    let sum = |quants: &[i8]| quants.iter().map(|&quant| i32::from(quant)).sum::<i32>();
    let (low, high) = (sum(&block.quants[..BLOCK / 2]), sum(&block.quants[BLOCK / 2..]));
    block.scale = largest / 127.0;
    block.scaled_sum = block.scale * (low + high) as f32;
    block.start = -128 * (low + high);
    block.start_low = -128 * low;
    block
}
