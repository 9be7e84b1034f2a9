//! The promise: a row's bits depend on the row alone.

use tapri_kernels::{AttnScratch, Compute, Isa, KvType};

use crate::scene::{Paged, Sequence, Shape, first_difference};

const TOKENS: usize = 700;

fn shapes() -> Vec<Shape> {
    vec![
        Shape::new(4, 1, 256, None),
        Shape::new(4, 1, 256, Some(512)),
        Shape::new(9, 3, 64, None),
        Shape::new(3, 1, 64, Some(100)),
        Shape::new(8, 1, 128, None),
        Shape::new(3, 1, 64, None).stored(KvType::Q8_0),
        Shape::new(9, 3, 64, Some(100)).stored(KvType::Q8_0),
    ]
}

#[test]
fn chunks_threads_and_blocks_change_nothing() {
    for isa in Isa::available() {
        let chunks: &[usize] =
            if isa == Isa::Scalar { &[7, 64] } else { &[1, 3, 7, 16, 20, 64, 333] };
        for shape in shapes() {
            let sequences = [Sequence::random(&shape, TOKENS, 3)];
            let one = Compute::new(isa, 1);
            let want = Paged::new(shape, &[TOKENS], 16, 0).chunked(&one, &sequences, 0, TOKENS);
            for (i, &chunk) in chunks.iter().enumerate() {
                let threads = [2, 1, 3, 2, 7][i % 5];
                let block = [32, 16, 64, 128, 256][i % 5];
                let compute = Compute::new(isa, threads);
                let got = Paged::new(shape, &[TOKENS], block, 11 + i as u64)
                    .chunked(&compute, &sequences, 0, chunk);
                let differs = first_difference(&want, &got);
                assert_eq!(
                    differs, None,
                    "{isa} {shape:?}: chunks of {chunk}, {threads} threads, blocks of {block}"
                );
            }
        }
    }
}

#[test]
fn threads_change_nothing_for_the_whole() {
    for isa in Isa::available() {
        for shape in shapes() {
            let sequences = [Sequence::random(&shape, TOKENS, 5)];
            let run = |threads| {
                Paged::new(shape, &[TOKENS], 16, 1).chunked(
                    &Compute::new(isa, threads),
                    &sequences,
                    0,
                    TOKENS,
                )
            };
            let want = run(1);
            for threads in [2, 5] {
                assert_eq!(
                    first_difference(&want, &run(threads)),
                    None,
                    "{isa} {shape:?} {threads} threads"
                );
            }
        }
    }
}

#[test]
fn a_batch_changes_nothing() {
    let lengths = [700, 1, 30, 257, 512, 256];
    for isa in Isa::available() {
        for shape in shapes() {
            let sequences: Vec<Sequence> = lengths
                .iter()
                .enumerate()
                .map(|(i, &l)| Sequence::random(&shape, l, 20 + i as u64))
                .collect();
            let compute = Compute::new(isa, 2);
            let mut scratch = AttnScratch::new();
            let mut alone = Paged::new(shape, &lengths, 16, 0);
            let want: Vec<Vec<f32>> = (0..lengths.len())
                .map(|i| alone.call(&compute, &mut scratch, &sequences, &[(i, 0, lengths[i])]))
                .collect();
            let mut paged = Paged::new(shape, &lengths, 32, 9);
            // First all but the last 1, 1, 20, 3, ... tokens of each, then the rest, in another order.
            let rest = [1, 1, 20, 3, 64, 1];
            let heads: Vec<_> = (0..lengths.len()).map(|i| (i, 0, lengths[i] - rest[i])).collect();
            let tails: Vec<_> =
                (0..lengths.len()).rev().map(|i| (i, lengths[i] - rest[i], lengths[i])).collect();
            let width = shape.q_heads * shape.head_dim;
            for parts in [heads, tails] {
                let got = paged.call(&compute, &mut scratch, &sequences, &parts);
                let mut row = 0;
                for (i, from, to) in parts {
                    let got = &got[row * width..(row + to - from) * width];
                    let differs = first_difference(&want[i][from * width..to * width], got);
                    assert_eq!(differs, None, "{isa} {shape:?}: sequence {i}, {from}..{to}");
                    row += to - from;
                }
            }
        }
    }
}

#[test]
fn the_null_block_may_stand_outside_the_window() {
    let shape = Shape::new(4, 1, 256, Some(100));
    let shapes = KvType::ALL.map(|kv_type| shape.stored(kv_type));
    for (isa, shape) in Isa::available().into_iter().flat_map(|isa| shapes.map(|s| (isa, s))) {
        let sequences = [Sequence::random(&shape, TOKENS, 5)];
        let compute = Compute::new(isa, 2);
        let mut scratch = AttnScratch::new();
        let mut paged = Paged::new(shape, &[TOKENS], 16, 4);
        paged.call(&compute, &mut scratch, &sequences, &[(0, 0, 650)]);
        let want = paged.call(&compute, &mut scratch, &sequences, &[(0, 650, TOKENS)]);
        // The first row sees 551..=650.
        let gone: Vec<u32> = paged.tables[0].drain(..551 / 16).collect();
        let mut table = vec![0; gone.len()];
        table.append(&mut paged.tables[0]);
        paged.tables[0] = table;
        let got = paged.call(&compute, &mut scratch, &sequences, &[(0, 650, TOKENS)]);
        assert_eq!(first_difference(&want, &got), None, "{isa} {shape:?}");
    }
}
