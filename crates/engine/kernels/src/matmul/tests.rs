//! Every path against an independent f64 product, against each other, and against itself in other chunks.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::activations::Keep;
use crate::quant::{Quant, dequantise};

/// A small deterministic generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From -1 to 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn rows(&mut self, count: usize) -> Vec<f32> {
        // Every 97th is an outlier, as activations have them.
        (0..count).map(|i| self.unit() * if i % 97 == 0 { 8.0 } else { 1.0 }).collect()
    }

    /// Random bytes of a matrix with scales near 0.01 of either sign.
    fn matrix(&mut self, quant: Quant, n: usize, k: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..n * quant.bytes_of(k).unwrap()).map(|_| self.next() as u8).collect();
        for block in bytes.chunks_exact_mut(quant.block_bytes()) {
            let halves: &[usize] = match quant {
                Quant::F32 => {
                    block.copy_from_slice(&self.unit().to_le_bytes());
                    continue;
                }
                Quant::Bf16 => {
                    block.copy_from_slice(&self.unit().to_le_bytes()[2..]);
                    continue;
                }
                Quant::Q4_1 | Quant::Q5_1 | Quant::Q4K | Quant::Q5K => &[0, 2],
                Quant::F16 | Quant::Q4_0 | Quant::Q5_0 | Quant::Q8_0 => &[0],
                Quant::Q6K => &[208],
            };
            for &at in halves {
                // Exponents 6 to 9 of an f16: 2^-9 to 2^-6.
                let bits = (self.next() as u16 & 0x83ff) | (6 + self.next() as u16 % 4) << 10;
                block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
        }
        bytes
    }
}

/// Shapes with whole panels, with a half-filled last panel, with an odd number of panels, one column, and one block.
const SHAPES: [(usize, usize); 7] =
    [(192, 256), (256, 640), (49, 1024), (1, 256), (33, 768), (16, 32), (100, 96)];

fn shapes(quant: Quant) -> impl Iterator<Item = (usize, usize)> {
    SHAPES.into_iter().filter(move |(_, k)| k % quant.block_len() == 0)
}

fn product(compute: &Compute, weights: &Weights, x: &[f32], m: usize) -> Vec<f32> {
    let mut activations = Activations::new();
    activations.load(compute, x, m, weights.k());
    let mut out = vec![f32::NAN; m * weights.n()];
    matmul(compute, weights, &activations, &mut out);
    out
}

fn assert_same_bits(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let differing = got.iter().zip(want).filter(|(got, want)| got.to_bits() != want.to_bits());
    assert_eq!(differing.count(), 0, "{what}: elements that differ");
}

/// Against f64 over the dequantised matrix and the activations as the blocks hold them: only f32 sums differ, and
/// by at most 2^-20 of the sum of magnitudes. Against the activations as they were: 2 percent of the root of the sum of squares,
/// which is what 8 bits for a block with outliers may cost.
#[test]
fn every_path_is_near_an_f64_product() {
    let mut random = Random(1);
    for isa in Isa::available() {
        let compute = Compute::new(isa, 2);
        for quant in Quant::ALL {
            for (n, k) in shapes(quant) {
                let m = 9;
                let (bytes, x) = (random.matrix(quant, n, k), random.rows(m * k));
                let mut matrix = vec![0.0; n * k];
                dequantise(quant, &bytes, &mut matrix);
                let weights = Weights::pack(&compute, quant, n, k, &bytes).unwrap();
                let mut activations = Activations::new();
                activations.load(&compute, &x, m, k);
                let held: Vec<f64> = if quant.is_float() {
                    x.iter().map(|&x| f64::from(x)).collect()
                } else {
                    let blocks = activations.blocks().iter();
                    blocks
                        .flat_map(|b| b.quants.map(|q| f64::from(q) * f64::from(b.scale)))
                        .collect()
                };
                let mut out = vec![f32::NAN; m * n];
                matmul(&compute, &weights, &activations, &mut out);
                for (i, &got) in out.iter().enumerate() {
                    let (row, column) = (i / n, i % n);
                    let (mut exact, mut magnitude, mut original, mut squares) =
                        (0.0, 0.0, 0.0, 0.0);
                    for j in 0..k {
                        let weight = f64::from(matrix[column * k + j]);
                        let product = weight * held[row * k + j];
                        let unquantised = weight * f64::from(x[row * k + j]);
                        exact += product;
                        magnitude += product.abs();
                        original += unquantised;
                        squares += unquantised * unquantised;
                    }
                    let what = format!("{isa} {quant} {n}x{k} element {i}: {got} against {exact}");
                    // Minima are multiplied with whole blocks' sums, which may cancel: their part of the magnitude is larger.
                    let bound = magnitude * 2.0_f64.powi(-20);
                    assert!((f64::from(got) - exact).abs() <= bound, "{what}");
                    let loss = (f64::from(got) - original).abs();
                    assert!(loss <= 0.1 * squares.sqrt(), "{what}, unquantised {original}");
                }
            }
        }
    }
}

/// All paths give the bits of the scalar one: the bound between them is zero.
#[test]
fn every_path_equals_the_scalar_one_bit_for_bit() {
    let mut random = Random(2);
    for quant in Quant::ALL {
        for (n, k) in shapes(quant) {
            let (bytes, x) = (random.matrix(quant, n, k), random.rows(23 * k));
            let on = |isa, threads| {
                let compute = Compute::new(isa, threads);
                let weights = Weights::pack(&compute, quant, n, k, &bytes).unwrap();
                product(&compute, &weights, &x, 23)
            };
            let want = on(Isa::Scalar, 1);
            for isa in Isa::available() {
                for threads in [1, 2, 3] {
                    let what = format!("{isa} {threads} threads {quant} {n}x{k}");
                    assert_same_bits(&on(isa, threads), &want, &what);
                }
            }
        }
    }
}

/// A row's bits depend on that row alone: 512 rows at once, and the same rows in chunks of every size that takes
/// another way through the code, alone and beside others, on one thread and two.
#[test]
fn chunks_of_rows_give_the_same_bits() {
    let mut random = Random(3);
    for isa in Isa::available() {
        for quant in Quant::ALL {
            let (m, n, k) = if isa == Isa::Scalar { (140, 33, 256) } else { (512, 97, 512) };
            let (bytes, x) = (random.matrix(quant, n, k), random.rows(m * k));
            let one = Compute::new(isa, 1);
            let two = Compute::new(isa, 2);
            let weights = Weights::pack(&two, quant, n, k, &bytes).unwrap();
            let want = product(&one, &weights, &x, m);
            assert_same_bits(&product(&two, &weights, &x, m), &want, "two threads");
            for chunk in (1..=14).chain([20, 23, 48, 49, 64, 131]) {
                for compute in [&one, &two] {
                    let mut got = Vec::new();
                    for rows in x.chunks(chunk * k) {
                        got.extend(product(compute, &weights, rows, rows.len() / k));
                    }
                    assert_same_bits(&got, &want, &format!("{isa} {quant} chunks of {chunk}"));
                }
            }
        }
    }
}

/// The output heads' width, and the model's odd ones, with one row and with a few.
#[test]
fn wide_and_narrow_matrices_agree_with_their_parts() {
    let mut random = Random(4);
    for isa in Isa::available() {
        let compute = Compute::new(isa, 2);
        for (quant, n, k) in
            [(Quant::Q8_0, 49_152, 64), (Quant::Q4_1, 192, 576), (Quant::Q5_0, 256, 640)]
        {
            let bytes = random.matrix(quant, n, k);
            let weights = Weights::pack(&compute, quant, n, k, &bytes).unwrap();
            let row_bytes = quant.bytes_of(k).unwrap();
            let x = random.rows(3 * k);
            let whole = product(&compute, &weights, &x, 3);
            // 7 rows of the matrix from the middle, packed alone.
            let first = n / 2 + 3;
            let part = &bytes[first * row_bytes..][..7 * row_bytes];
            let part = Weights::pack(&compute, quant, 7, k, part).unwrap();
            let part = product(&compute, &part, &x, 3);
            for row in 0..3 {
                assert_same_bits(&part[row * 7..][..7], &whole[row * n + first..][..7], "part");
            }
        }
    }
}

/// Scales that are no numbers, or the largest ones, and activations likewise: results, not crashes, and neighbours unharmed.
#[test]
fn numbers_that_are_none_stay_in_their_place() {
    let mut random = Random(5);
    for isa in Isa::available() {
        let compute = Compute::new(isa, 2);
        for quant in Quant::ALL {
            let (m, n, k) = (9, 40, 256);
            let (mut bytes, mut x) = (random.matrix(quant, n, k), random.rows(m * k));
            let sound = {
                let weights = Weights::pack(&compute, quant, n, k, &bytes).unwrap();
                product(&compute, &weights, &x, m)
            };
            // Row 5 of the matrix is nothing but ones: NaN scales in each format.
            let row_bytes = quant.bytes_of(k).unwrap();
            bytes[5 * row_bytes..6 * row_bytes].fill(0xff);
            x[2 * k + 7] = f32::NAN;
            x[3 * k + 40] = f32::INFINITY;
            x[4 * k..5 * k].fill(0.0);
            x[6 * k..7 * k].fill(f32::from_bits(1));
            let weights = Weights::pack(&compute, quant, n, k, &bytes).unwrap();
            let out = product(&compute, &weights, &x, m);
            for (i, &got) in out.iter().enumerate() {
                let (row, column) = (i / n, i % n);
                let what = format!("{isa} {quant} row {row} column {column}: {got}");
                if column == 5 || row == 2 {
                    assert!(got.is_nan(), "{what}");
                } else if row == 3 {
                    assert!(!got.is_finite(), "{what}");
                } else if row == 4 {
                    assert!(got == 0.0, "{what}");
                } else if row == 6 {
                    assert!(got.abs() < 1e-38, "{what}");
                } else {
                    assert_eq!(got.to_bits(), sound[i].to_bits(), "{what}");
                }
            }
        }
    }
}

#[test]
fn extreme_quants_do_not_overflow() {
    for isa in Isa::available() {
        let compute = Compute::new(isa, 1);
        for byte in [0x00, 0x7f, 0x80, 0xff] {
            let (n, k) = (16, 64);
            let mut bytes = vec![byte; n * 68];
            for block in bytes.chunks_exact_mut(34) {
                block[..2].copy_from_slice(&0x3c00_u16.to_le_bytes());
            }
            let weights = Weights::pack(&compute, Quant::Q8_0, n, k, &bytes).unwrap();
            for sign in [1.0, -1.0] {
                let out = product(&compute, &weights, &vec![sign * 127.0; k], 1);
                let want = f32::from(byte as i8) * 127.0 * 64.0 * sign;
                assert!(
                    out.iter().all(|&got| got == want),
                    "{isa} {byte:02x}: {out:?}, not {want}"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "not kept as floats")]
fn a_form_that_is_not_kept_is_named() {
    let compute = Compute::new(Isa::Scalar, 1);
    let weights = Weights::pack(&compute, Quant::F32, 1, 32, &[0; 128]).unwrap();
    let mut activations = Activations::keeping(Keep::Int8);
    activations.load(&compute, &[0.0; 32], 1, 32);
    matmul(&compute, &weights, &activations, &mut [0.0]);
}

/// Few rows, more than the direct kernel takes, and so many that a single panel's rows are cut for the threads.
#[test]
fn pairs_are_the_sums_of_two_rows() {
    let mut random = Random(11);
    for isa in Isa::available() {
        let compute = Compute::new(isa, 2);
        for quant in Quant::ALL {
            for (n, k) in shapes(quant) {
                let bytes = random.matrix(quant, n, k);
                let weights = Weights::pack(&compute, quant, n, k, &bytes).unwrap();
                for m in [1, 3, 9, 70] {
                    let x = random.rows(m * k);
                    let mut activations = Activations::new();
                    activations.load_refined(&compute, &x, m, k);
                    let mut rows = vec![f32::NAN; 2 * m * n];
                    matmul(&compute, &weights, &activations, &mut rows);
                    let want: Vec<f32> = rows
                        .chunks_exact(2 * n)
                        .flat_map(|pair| pair[..n].iter().zip(&pair[n..]).map(|(a, b)| a + b))
                        .collect();
                    let mut got = vec![f32::NAN; m * n];
                    matmul_pairs(&compute, &weights, &activations, &mut got);
                    assert_same_bits(&got, &want, &format!("{isa} {quant} {n} by {k}, {m} rows"));
                }
            }
        }
    }
}
