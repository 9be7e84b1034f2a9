use super::*;
use proptest::prelude::*;

const PAGES: usize = 16;

fn shape(window: Option<usize>) -> Shape {
    Shape {
        kv_heads: 1,
        heads_per_kv: 4,
        window,
        threads: 2,
        tile_rows: 12,
        block_tokens: 16,
        slots: usize::MAX,
    }
}

/// A table whose key blocks have the pages of these contents; the last is one page long.
fn table(contents: &[u32]) -> Vec<u32> {
    let pages = |&content: &u32| (1..=PAGES as u32).map(move |page| content * 100 + page);
    let mut table: Vec<u32> = contents.iter().flat_map(pages).collect();
    table.truncate(table.len() - PAGES + 1);
    table
}

/// Each decodes its last token.
fn decoding(tables: &[Vec<u32>]) -> Vec<SeqRows<'_>> {
    let rows = tables.iter().enumerate().map(|(row, table)| {
        let start = table.len() * 16 - 1;
        SeqRows { first_row: row, rows: 1, start, blocks: table }
    });
    rows.collect()
}

fn node(seqs: &[usize], blocks: Range<usize>) -> Node {
    Node { seqs: seqs.to_vec(), blocks }
}

#[test]
fn the_readers_of_one_file_share_all_of_it() {
    let file: Vec<u32> = (1..=117).collect();
    let user = |own: u32| table(&[&file[..], &[1000 + own]].concat());
    let tables: Vec<Vec<u32>> = (0..8).map(user).collect();
    let nodes = find(&decoding(&tables), shape(None), usize::MAX);
    let mut want = vec![node(&[0, 1, 2, 3, 4, 5, 6, 7], 0..117)];
    want.extend((0..8).map(|user| node(&[user], 117..118)));
    assert_eq!(nodes, want);
}

#[test]
fn a_common_start_branches() {
    let system: Vec<u32> = (1..=5).collect();
    let path = |rest: &[u32]| table(&[&system, rest].concat());
    let tables = [
        path(&[21, 22, 23, 24, 91]),
        path(&[31, 32, 33, 34, 92]),
        table(&[77, 78, 79, 80, 81, 82]),
        path(&[21, 22, 23, 24, 93]),
        // Too little beyond the system prompt to be worth its own node.
        path(&[31, 32, 94]),
        path(&[]),
    ];
    let nodes = find(&decoding(&tables), shape(None), usize::MAX);
    let want = [
        // The last page of the last one's last key block is its end; the others' goes on.
        node(&[0, 1, 3, 4, 5], 0..4),
        node(&[5], 4..5),
        node(&[0, 3], 4..9),
        node(&[0], 9..10),
        node(&[3], 9..10),
        node(&[4], 4..8),
        node(&[1], 4..10),
    ];
    assert_eq!(nodes.len(), want.len(), "{nodes:?}");
    for node in want {
        assert!(nodes.contains(&node), "{node:?} in {nodes:?}");
    }
}

#[test]
fn one_that_leaves_early_does_not_keep_the_others_apart() {
    let tables =
        [table(&[1, 2, 3, 4, 5, 6, 91]), table(&[1, 2, 92]), table(&[1, 2, 3, 4, 5, 6, 93])];
    let nodes = find(&decoding(&tables), shape(None), usize::MAX);
    assert_eq!(nodes, [node(&[0, 2], 0..6), node(&[0], 6..7), node(&[2], 6..7)]);
}

#[test]
fn who_shares_nothing_is_in_no_node() {
    let apart = [table(&[1, 2, 3, 4, 5, 6]), table(&[11, 12, 13, 14, 15, 16])];
    assert_eq!(find(&decoding(&apart), shape(None), usize::MAX), []);
    let short = [table(&[1, 2, 3, 91]), table(&[1, 2, 3, 92])];
    assert_eq!(find(&decoding(&short), shape(None), usize::MAX), []);
    assert_eq!(find(&decoding(&short[..1]), shape(None), usize::MAX), []);
    // The same, but too many rows for a shared tile: each computes longer than memory takes.
    let same = [table(&[1, 2, 3, 4, 5, 6, 91]), table(&[1, 2, 3, 4, 5, 6, 92])];
    let mut seqs = decoding(&same);
    for seq in &mut seqs {
        seq.rows = 7;
        seq.start -= 6;
    }
    assert_eq!(find(&seqs, shape(None), usize::MAX), []);
    // And no room for the results.
    assert_eq!(find(&decoding(&same), shape(None), 2 * 7 * 4 - 1), []);
    assert!(!find(&decoding(&same), shape(None), 2 * 7 * 4).is_empty());
}

#[test]
fn in_a_window_the_first_key_block_stays_apart() {
    let mut tables =
        [table(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 91]), table(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 92])];
    // Other pages of the third block are gone already.
    tables[0][..35].fill(0);
    tables[1][..33].fill(0);
    let seqs = decoding(&tables);
    let nodes = find(&seqs, shape(Some(seqs[0].start - 36 * 16)), usize::MAX);
    let want = [
        node(&[0], 2..3),
        node(&[1], 2..3),
        node(&[0, 1], 3..9),
        node(&[0], 9..10),
        node(&[1], 9..10),
    ];
    assert_eq!(nodes, want);
}

proptest! {
    #[test]
    fn nodes_hold_what_is_common_and_nothing_else(
        // Each goes along an earlier one for a while, then alone.
        ways in prop::collection::vec((0_usize..20, 0_usize..14, 1_usize..6), 2..12),
    ) {
        let mut contents: Vec<Vec<u32>> = Vec::new();
        for (index, &(with, common, alone)) in ways.iter().enumerate() {
            let start = contents.get(with % (index + 1)).map_or(&[][..], |c| &c[..common.min(c.len() - 1)]);
            let own = (0..alone as u32).map(|block| 1000 * (index as u32 + 1) + block);
            let way = start.iter().copied().chain(own).collect();
            contents.push(way);
        }
        let tables: Vec<Vec<u32>> = contents.iter().map(|c| table(c)).collect();
        let nodes = find(&decoding(&tables), shape(None), usize::MAX);
        for (a, way) in contents.iter().enumerate() {
            let blocks: Vec<usize> =
                nodes.iter().filter(|n| n.seqs.contains(&a)).flat_map(|n| n.blocks.clone()).collect();
            prop_assert!(blocks.is_empty() || blocks.iter().copied().eq(0..way.len()), "{a}: {nodes:?}");
            for (b, other) in contents.iter().enumerate().filter(|(b, _)| *b != a) {
                let common = way.iter().zip(other).take_while(|(a, b)| a == b).count();
                let together: usize = nodes.iter().filter(|n| n.seqs.contains(&a) && n.seqs.contains(&b)).map(|n| n.blocks.len()).sum();
                prop_assert!(together <= common && together + SHARE_BLOCKS > common, "{a}, {b}: {nodes:?}");
            }
        }
    }
}
