//! Sequences over the same pages: their rows share tiles, and each row keeps the bits that it has alone.

use tapri_kernels::{AttnScratch, Compute, Isa, KvType};

use crate::scene::{Paged, Random, Sequence, Shape, first_difference};

fn shapes() -> Vec<Shape> {
    vec![
        Shape::new(4, 1, 256, None),
        Shape::new(9, 3, 64, None),
        Shape::new(4, 1, 64, Some(1500)),
        Shape::new(8, 2, 32, Some(1291)),
        Shape::new(6, 2, 32, None).stored(KvType::Q8_0),
    ]
}

/// Sequences that begin as an earlier one does, and after how many tokens each goes its own way.
struct Crowd {
    sequences: Vec<Sequence>,
    /// With whom each begins, and for how many tokens, a multiple of `block`.
    starts: Vec<(usize, usize)>,
    block: usize,
}

impl Crowd {
    fn random(shape: &Shape, block: usize, random: &mut Random) -> Self {
        let mut crowd = Crowd { sequences: Vec::new(), starts: Vec::new(), block };
        for index in 0..3 + random.below(5) {
            let longest = 1100 + random.below(900);
            let with = if index == 0 { 0 } else { random.below(index) };
            let common = match crowd.sequences.get(with) {
                // One in five shares nothing.
                Some(earlier) if random.below(5) > 0 => {
                    (700 + random.below(1200)).min(earlier.tokens - 1).min(longest) / block * block
                }
                _ => 0,
            };
            let mut new = Sequence::random(shape, longest + 1 + random.below(300), random.next());
            if let Some(earlier) = crowd.sequences.get(with) {
                let width = shape.kv_heads * shape.head_dim;
                new.k[..common * width].copy_from_slice(&earlier.k[..common * width]);
                new.v[..common * width].copy_from_slice(&earlier.v[..common * width]);
            }
            crowd.sequences.push(new);
            crowd.starts.push((with, common));
        }
        crowd
    }

    fn lengths(&self) -> Vec<usize> {
        self.sequences.iter().map(|s| s.tokens).collect()
    }

    /// A store in which common starts are held once, with everything but the last `rest[i]` tokens of each written.
    fn paged(&self, shape: Shape, compute: &Compute, order: u64, rest: &[usize]) -> Paged {
        let mut paged = Paged::new(shape, &self.lengths(), self.block, order);
        for (index, &(with, common)) in self.starts.iter().enumerate() {
            let (earlier, own) = paged.tables.split_at_mut(index);
            if let Some(earlier) = earlier.get(with) {
                let blocks = common / self.block;
                own[0][..blocks].copy_from_slice(&earlier[..blocks]);
            }
            let end = self.sequences[index].tokens - rest[index];
            paged.fill(compute, &self.sequences, index, common.min(end), end);
        }
        paged
    }

    /// The last `rest[i]` tokens of each, in a store of its own and in one call of its own.
    fn alone(&self, shape: Shape, compute: &Compute, rest: &[usize]) -> Vec<Vec<f32>> {
        let mut paged = Paged::new(shape, &self.lengths(), 16, 0);
        let mut scratch = AttnScratch::new();
        (0..self.sequences.len())
            .map(|index| {
                let tokens = self.sequences[index].tokens;
                let from = tokens - rest[index];
                paged.fill(compute, &self.sequences, index, 0, from);
                paged.call(compute, &mut scratch, &self.sequences, &[(index, from, tokens)])
            })
            .collect()
    }
}

#[test]
fn sharing_changes_nothing() {
    let mut random = Random::new(7);
    for isa in Isa::available() {
        let rounds = if isa == Isa::Scalar { 1 } else { 6 };
        for (round, shape) in (0..rounds).flat_map(|r| shapes().into_iter().map(move |s| (r, s))) {
            let crowd = Crowd::random(&shape, [16, 32, 64, 128][random.below(4)], &mut random);
            // Mostly single tokens, and a few chunks, some too long to share tiles; none reaches into a common start.
            let rest: Vec<usize> = crowd
                .sequences
                .iter()
                .map(|s| {
                    match random.below(4) {
                        0 => 1 + random.below(6),
                        1 => 1 + random.below(40),
                        _ => 1,
                    }
                    .min(s.tokens)
                })
                .collect();
            let rest: Vec<usize> = rest
                .iter()
                .zip(&crowd.sequences)
                .zip(&crowd.starts)
                .map(|((rest, s), (_, common))| (*rest).min(s.tokens - common))
                .collect();
            let want = crowd.alone(shape, &Compute::new(isa, 1), &rest);
            for threads in [1, 2, 5] {
                let compute = Compute::new(isa, threads);
                let mut paged = crowd.paged(shape, &compute, round + 1, &rest);
                let mut order: Vec<usize> = (0..rest.len()).collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, random.below(i + 1));
                }
                let part = |&i: &usize| {
                    let tokens = crowd.sequences[i].tokens;
                    (i, tokens - rest[i], tokens)
                };
                let parts: Vec<_> = order.iter().map(part).collect();
                let mut scratch = AttnScratch::new();
                let got = paged.call(&compute, &mut scratch, &crowd.sequences, &parts);
                let width = shape.q_heads * shape.head_dim;
                let mut row = 0;
                for &i in &order {
                    let differs =
                        first_difference(&want[i], &got[row * width..][..rest[i] * width]);
                    assert_eq!(
                        differs, None,
                        "{isa} {shape:?} {threads} threads, round {round}, sequence {i} of {:?}, {rest:?}",
                        crowd.starts
                    );
                    row += rest[i];
                }
            }
        }
    }
}

/// One file's readers decode step by step: each row as alone, while the common part is in everyone's tile.
#[test]
fn readers_of_one_file_decode_as_if_alone() {
    const USERS: usize = 8;
    const FILE: usize = 1552;
    const STEPS: usize = 20;
    for isa in Isa::available() {
        let shape = Shape::new(3, 1, 64, None);
        let width = shape.kv_heads * shape.head_dim;
        let file = Sequence::random(&shape, FILE, 1);
        let user = |i: usize| {
            let mut user = Sequence::random(&shape, FILE + 230 + 7 * i + STEPS, 2 + i as u64);
            user.k[..FILE * width].copy_from_slice(&file.k);
            user.v[..FILE * width].copy_from_slice(&file.v);
            user
        };
        let crowd = Crowd {
            sequences: (0..USERS).map(user).collect(),
            // The first writes the file.
            starts: (0..USERS).map(|i| (0, if i == 0 { 0 } else { FILE })).collect(),
            block: 16,
        };
        let steps = if isa == Isa::Scalar { 2 } else { STEPS };
        let rest = [steps; USERS];
        let compute = Compute::new(isa, 2);
        let want = crowd.alone(shape, &compute, &rest);
        let mut paged = crowd.paged(shape, &compute, 3, &rest);
        let mut scratch = AttnScratch::new();
        let row_width = shape.q_heads * shape.head_dim;
        for step in 0..steps {
            let part = |i: usize| {
                let at = crowd.sequences[i].tokens - steps + step;
                (i, at, at + 1)
            };
            let parts: Vec<_> = (0..USERS).map(part).collect();
            let got = paged.call(&compute, &mut scratch, &crowd.sequences, &parts);
            for i in 0..USERS {
                let want = &want[i][step * row_width..(step + 1) * row_width];
                let got = &got[i * row_width..(i + 1) * row_width];
                assert_eq!(first_difference(want, got), None, "{isa} user {i}, step {step}");
            }
        }
    }
}
