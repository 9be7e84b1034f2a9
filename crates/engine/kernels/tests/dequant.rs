//! The dequantisers against an independent implementation: `data/dequant.bin`, made by `data/make_dequant.py`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tapri_kernels::{Compute, Isa, Quant, Weights, dequantise};

struct Record {
    quant: Quant,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
}

fn records() -> Vec<Record> {
    let mut rest: &[u8] = include_bytes!("data/dequant.bin");
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        Some(head)
    };
    let mut records = Vec::new();
    while let Some(name) = take(8) {
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0').to_owned();
        let mut number = || u32::from_le_bytes(take(4).unwrap().try_into().unwrap()) as usize;
        let (blocks, block_bytes, block_len) = (number(), number(), number());
        let quant =
            Quant::ALL.into_iter().find(|quant| quant.name() == name).expect("known format");
        assert_eq!((quant.block_bytes(), quant.block_len()), (block_bytes, block_len), "{name}");
        let bytes = take(blocks * block_bytes).unwrap().to_vec();
        let numbers = take(blocks * block_len * 4).unwrap().chunks_exact(4);
        let numbers = numbers.map(|n| f32::from_le_bytes(n.try_into().unwrap())).collect();
        records.push(Record { quant, bytes, numbers });
    }
    records
}

fn assert_same_bits(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.to_bits(), want.to_bits(), "{what}: number {i} is {got}, not {want}");
    }
}

#[test]
fn every_format_equals_the_python_package_bit_for_bit() {
    let records = records();
    assert_eq!(records.len(), Quant::ALL.len());
    for record in records {
        let mut out = vec![0.0; record.numbers.len()];
        dequantise(record.quant, &record.bytes, &mut out);
        assert_same_bits(&out, &record.numbers, record.quant.name());
    }
}

/// A row read back from the packed form is that row of the file, bit for bit, on every path.
#[test]
fn a_packed_row_equals_the_python_package_bit_for_bit() {
    for isa in Isa::available() {
        let compute = Compute::new(isa, 2);
        for record in records() {
            let (quant, numbers) = (record.quant, &record.numbers);
            for k in [quant.block_len(), 2 * quant.block_len(), 3 * quant.block_len()] {
                let n = numbers.len() / k;
                let bytes = &record.bytes[..n * quant.bytes_of(k).unwrap()];
                let weights = Weights::pack(&compute, quant, n, k, bytes).unwrap();
                let mut row = vec![0.0; k];
                for (i, want) in numbers.chunks_exact(k).take(n).enumerate() {
                    weights.row(i, &mut row);
                    assert_same_bits(&row, want, &format!("{isa} {quant} row {i} of {k}"));
                }
            }
        }
    }
}
