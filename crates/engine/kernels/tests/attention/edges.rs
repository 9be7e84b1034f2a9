//! Stale contents, wrong arguments, and the store itself.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tapri_kernels::{
    AttnScratch, Compute, Isa, KvLayout, KvStore, KvStoreError, KvType, SeqRows, attention,
    write_kv,
};

use crate::scene::{Paged, Sequence, Shape, first_difference};

fn layout(
    layers_per_block: usize,
    kv_heads: usize,
    head_dim: usize,
    block_tokens: usize,
) -> KvLayout {
    KvLayout { layers_per_block, kv_heads, head_dim, block_tokens, kv_type: KvType::Bf16 }
}

#[test]
fn a_cleared_block_hides_what_it_held() {
    let shape = Shape::new(4, 1, 64, None);
    let shapes = KvType::ALL.map(|kv_type| shape.stored(kv_type));
    for (isa, shape) in Isa::available().into_iter().flat_map(|isa| shapes.map(|s| (isa, s))) {
        let compute = Compute::new(isa, 2);
        let mut scratch = AttnScratch::new();
        let mut poison = Sequence::random(&shape, 64, 1);
        poison.k.fill(f32::INFINITY);
        poison.v.fill(f32::NAN);
        let sequences = [poison, Sequence::random(&shape, 37, 2)];
        let want = Paged::new(shape, &[64, 37], 16, 0).call(
            &compute,
            &mut scratch,
            &sequences,
            &[(1, 0, 37)],
        );
        let mut paged = Paged::new(shape, &[64, 37], 16, 0);
        paged.call(&compute, &mut scratch, &sequences, &[(0, 0, 64)]);
        let reused: Vec<u32> = paged.tables[0][1..].to_vec();
        for &block in &reused {
            paged.store.clear_block(block);
        }
        paged.tables[1] = reused;
        let got = paged.call(&compute, &mut scratch, &sequences, &[(1, 0, 37)]);
        assert_eq!(first_difference(&want, &got), None, "{isa} {shape:?}");
    }
}

#[test]
fn what_is_written_is_read_back_rounded() {
    for kv_type in KvType::ALL {
        written_and_read_back(KvLayout { kv_type, ..layout(2, 3, 64, 32) });
    }
}

fn written_and_read_back(layout: KvLayout) {
    let mut store = KvStore::new(layout, 4).unwrap();
    let compute = Compute::new(Isa::best(), 2);
    let tokens = 70;
    let value = |t: usize, h: usize, d: usize| (t * 1000 + h * 100 + d) as f32 / 7.0;
    let k: Vec<f32> = (0..tokens * 3 * 64).map(|i| value(i / 192, i / 64 % 3, i % 64)).collect();
    let v: Vec<f32> = k.iter().map(|x| -x).collect();
    let blocks = [3, 1, 2];
    write_kv(
        &compute,
        &mut store,
        1,
        &[SeqRows { first_row: 0, rows: tokens, start: 0, blocks: &blocks }],
        &k,
        &v,
    );
    let (mut key, mut val) = (vec![0.0; 64], vec![0.0; 64]);
    for t in 0..tokens {
        for h in 0..3 {
            store.read_token(blocks[t / 32], 1, t % 32, h, &mut key, &mut val);
            for d in 0..64 {
                let want = value(t, h, d);
                let near = match layout.kv_type {
                    KvType::Bf16 => want * 0.004,
                    // Half of a 127th of the largest that shares its scale, and the rounding to bf16.
                    KvType::Q8_0 => value(t, h, d | 31) * 0.008,
                };
                assert!(
                    (key[d] - want).abs() <= near,
                    "token {t}, head {h}, dim {d}: {} for {want}",
                    key[d]
                );
                assert_eq!(val[d], -key[d]);
            }
            store.read_token(blocks[t / 32], 0, t % 32, h, &mut key, &mut val);
            assert!(key.iter().chain(&val).all(|x| *x == 0.0), "the other layer was touched");
        }
    }
    assert!(store.block(3).iter().any(|b| *b != 0));
    store.clear_block(3);
    assert!(store.block(3).iter().all(|b| *b == 0));
}

#[test]
fn unusable_layouts_are_refused() {
    let good = layout(1, 1, 64, 16);
    assert_eq!(KvStore::new(good, 10).unwrap().bytes(), 10 * 16 * 64 * 2 * 2);
    for bad in [
        KvLayout { layers_per_block: 0, ..good },
        KvLayout { kv_heads: 0, ..good },
        KvLayout { head_dim: 48, ..good },
        KvLayout { head_dim: 0, ..good },
        KvLayout { block_tokens: 0, ..good },
        KvLayout { block_tokens: 48, ..good },
        KvLayout { block_tokens: 512, ..good },
    ] {
        assert!(matches!(KvStore::new(bad, 1), Err(KvStoreError::Layout { .. })), "{bad:?}");
    }
    assert!(matches!(KvStore::new(good, usize::MAX / 2), Err(KvStoreError::TooLarge { .. })));
}

/// Reserving costs nothing: this is 4.9 GB, and one block is written.
#[cfg(target_os = "linux")]
#[test]
fn untouched_blocks_take_no_memory() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let layout = layout(3, 1, 256, 16);
    let before = resident();
    let mut store = KvStore::new(layout, 100_000).unwrap();
    assert!(store.bytes() > 4_000_000_000);
    store.clear_block(50_000);
    let row = vec![1.0; 256];
    let compute = Compute::new(Isa::best(), 1);
    write_kv(
        &compute,
        &mut store,
        0,
        &[SeqRows { first_row: 0, rows: 1, start: 0, blocks: &[77_777] }],
        &row,
        &row,
    );
    // Other tests run in this process meanwhile.
    assert!(resident() < before + 500_000_000);
}

#[test]
fn wrong_calls_panic_and_leave_the_store_usable() {
    let layout = layout(1, 2, 32, 16);
    let mut store = KvStore::new(layout, 5).unwrap();
    let compute = Compute::new(Isa::best(), 2);
    let seq = |first_row, rows, start, blocks| SeqRows { first_row, rows, start, blocks };
    let blocks = [1, 2];
    let mut bad_write = |layer, seqs: &[SeqRows<'_>], values: usize| {
        let x = vec![0.0; values];
        catch_unwind(AssertUnwindSafe(|| write_kv(&compute, &mut store, layer, seqs, &x, &x)))
            .is_err()
    };
    assert!(!bad_write(0, &[seq(0, 3, 0, &blocks)], 3 * 64));
    assert!(bad_write(1, &[seq(0, 3, 0, &blocks)], 3 * 64), "layer");
    assert!(bad_write(0, &[seq(0, 3, 0, &blocks)], 3 * 64 + 1), "shape");
    assert!(bad_write(0, &[seq(1, 3, 0, &blocks)], 3 * 64), "rows outside");
    assert!(bad_write(0, &[seq(0, 3, 30, &blocks)], 3 * 64), "table too short");
    assert!(bad_write(0, &[seq(0, 3, 0, &[0, 1])], 3 * 64), "null block");
    assert!(bad_write(0, &[seq(0, 3, 0, &[5])], 3 * 64), "no such block");
    assert!(bad_write(0, &[seq(0, 20, 0, &[1, 1])], 20 * 64), "a block twice");
    assert!(
        bad_write(0, &[seq(0, 1, 0, &[1]), seq(1, 1, 1, &[1])], 2 * 64),
        "two sequences in one block"
    );
    assert!(bad_write(0, &[seq(0, 2, 0, &[1]), seq(1, 1, 0, &[2])], 3 * 64), "a row twice");
    assert!(bad_write(0, &[seq(0, 2, usize::MAX, &[1])], 2 * 64), "position overflow");

    let mut scratch = AttnScratch::new();
    let mut bad_call = |seqs: &[SeqRows<'_>], q_heads, window, values: usize| {
        let q = vec![0.0; values];
        let mut out = vec![0.0; values];
        let run = || {
            attention(&compute, &store, 0, seqs, &q, q_heads, window, 1.0, &mut scratch, &mut out)
        };
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    assert!(!bad_call(&[seq(0, 3, 0, &blocks)], 4, None, 3 * 128));
    assert!(bad_call(&[seq(0, 3, 0, &blocks)], 3, None, 3 * 96), "heads");
    assert!(bad_call(&[seq(0, 3, 0, &blocks)], 4, Some(0), 3 * 128), "window");
    assert!(bad_call(&[seq(0, 3, 0, &blocks)], 4, None, 3 * 128 - 1), "shape");
    assert!(bad_call(&[seq(0, 1, 16, &[0, 1])], 4, None, 128), "absent block in sight");
    assert!(!bad_call(&[seq(0, 1, 16, &[0, 1])], 4, Some(1), 128), "absent block out of sight");
    assert!(!bad_call(&[], 4, None, 0));
    assert!(!bad_call(&[seq(0, 0, 0, &[])], 4, None, 0));
}
