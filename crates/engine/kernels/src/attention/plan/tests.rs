#![allow(clippy::panic)]

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn items_cover_each_row_and_block_once(
        lengths in prop::collection::vec((0_usize..400, 0_usize..9_000), 1..5),
        kv_heads in 1_usize..4,
        heads_per_kv in 1_usize..9,
        window in prop::option::of(1_usize..1_000),
        threads in 1_usize..20,
    ) {
        let seqs: Vec<SeqRows<'_>> = lengths.iter().map(|&(rows, start)| SeqRows { first_row: 0, rows, start, blocks: &[] }).collect();
        let shape = Shape { kv_heads, heads_per_kv, window, threads, tile_rows: 12, block_tokens: 16, slots: usize::MAX };
        let plan = Plan::new(&seqs, shape);
        for (index, unit) in plan.units.iter().enumerate() {
            let Readers::One(seq) = unit.readers else { panic!("nothing is shared") };
            let mut count = vec![0; unit.rows * unit.blocks.len()];
            for item in plan.items.iter().filter(|i| i.unit == index) {
                prop_assert!(!item.rows.is_empty() && !item.blocks.is_empty());
                for row in item.rows.clone() {
                    for block in item.blocks.clone() {
                        count[row * unit.blocks.len() + block - unit.blocks.start] += 1;
                    }
                }
            }
            for row in 0..unit.rows {
                let seen = seen_blocks(&seqs[seq], &(row..row + 1), heads_per_kv, window);
                for block in unit.blocks.clone() {
                    let n = count[row * unit.blocks.len() + block - unit.blocks.start];
                    prop_assert!(n <= 1 && (n == 1 || !seen.contains(&block)), "row {row} block {block}: {n} times");
                }
            }
        }
    }
}

/// Eight sequences of `own` tokens each after `common` shared ones, all decoding; on `kv_heads` heads.
fn crowd(common: usize, own: usize) -> Vec<Vec<u32>> {
    let start: Vec<u32> = (1..=common as u32 / 16).collect();
    let user = |user: u32| {
        let rest = (0..own.div_ceil(16) as u32).map(move |block| 10_000 * (user + 1) + block);
        start.iter().copied().chain(rest).collect()
    };
    (0..8).map(user).collect()
}

#[test]
fn common_keys_are_read_once_for_all() {
    for (common, heads_per_kv, kv_heads) in [(30_000, 4, 1), (30_000, 3, 3), (6_000, 4, 1)] {
        let tables = crowd(common, 40);
        let seqs: Vec<SeqRows<'_>> = tables
            .iter()
            .enumerate()
            .map(|(row, table)| SeqRows {
                first_row: row,
                rows: 1,
                start: common + row,
                blocks: table,
            })
            .collect();
        let shape = Shape {
            kv_heads,
            heads_per_kv,
            window: None,
            threads: 2,
            tile_rows: 12,
            block_tokens: 16,
            slots: usize::MAX,
        };
        let plan = Plan::new(&seqs, shape);
        let blocks = common / KEY_BLOCK;
        for kv_head in 0..kv_heads {
            let mut reads = vec![0; blocks + 1];
            for item in plan.items.iter().filter(|i| plan.units[i.unit].kv_head == kv_head) {
                for block in item.blocks.clone() {
                    reads[block] += 1;
                }
            }
            assert_eq!(reads[..blocks], vec![1; blocks]);
            assert_eq!(reads[blocks], 8);
        }
        // No thread has much more to do than another, whoever takes which item.
        let cost = |i: &Item| i.rows.len().div_ceil(12) * i.blocks.len();
        let total: usize = plan.items.iter().map(cost).sum();
        assert!(
            plan.items.iter().all(|i| cost(i) <= total.div_ceil(4).max(2 * 3)),
            "{:?}",
            plan.items
        );
        // Each row has a slot of its own in each key block that it sees.
        assert_eq!(plan.partials, kv_heads * heads_per_kv * 8 * (blocks + 1));
        let mut slots: Vec<usize> = plan
            .parts
            .iter()
            .flat_map(|part| {
                part.blocks
                    .clone()
                    .flat_map(move |block| (0..heads_per_kv).map(move |row| part.slot(block, row)))
            })
            .collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..plan.partials));
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let tables = crowd(30_000, 40);
    let seqs: Vec<SeqRows<'_>> = tables
        .iter()
        .enumerate()
        .map(|(row, table)| SeqRows { first_row: row, rows: 1, start: 30_000, blocks: table })
        .collect();
    let shape = Shape {
        kv_heads: 1,
        heads_per_kv: 4,
        window: None,
        threads: 2,
        tile_rows: 12,
        block_tokens: 16,
        slots: 118 * 4 * 3,
    };
    let plan = Plan::new(&seqs, shape);
    assert_eq!(plan.partials, 118 * 4 * 3);
    // Three share; the others take their rows whole.
    assert_eq!(plan.units.iter().filter(|u| matches!(u.readers, Readers::Many(_))).count(), 1);
    assert_eq!(plan.rows.len(), 12);
}
