//! The kernels, in the shapes of the two development models.

use std::hint::black_box;

use tapri_kernels::{
    Activations, AttnScratch, Keep, KvLayout, KvStore, KvType, Quant, RopeConfig, RopeStyle,
    RopeTable, SeqRows, Weights, gelu_mul, matmul as product, rms_norm, rope, write_kv,
};

use crate::{Operations, Table, Work};

/// Bytes of matrices that products go through: more than a core's own caches.
const MATRICES: usize = 32 << 20;

/// Rows of a step's batch: decoding, a question, a chunk of a prompt.
const ROWS: [usize; 3] = [1, 20, 512];

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0).collect()
}

/// Every format's product, with its rows already in 8 bits (or floats), and the step that makes them so.
pub(crate) fn matmul(table: &mut Table<'_>) {
    let compute = table.compute;
    let (n, k) = (640, 2048);
    for quant in Quant::ALL {
        // In each format these bytes are small finite scales and some integers; time does not depend on which.
        let file = vec![0x21; n * quant.bytes_of(k).unwrap()];
        let pack = || Weights::pack(compute, quant, n, k, &file).unwrap();
        let one = pack();
        let copies = (MATRICES / one.bytes()).max(1);
        let weights: Vec<Weights> = (0..copies).map(|_| pack()).collect();
        let set = copies * one.bytes();
        let kind = if quant.name().contains('F') { Operations::Float } else { Operations::Int8 };
        for m in ROWS {
            let mut activations = Activations::keeping(Keep::Both);
            activations.load(compute, &numbers(m * k), m, k);
            let mut out = vec![0.0; m * n];
            let operations = Some((kind, (2 * m * n * k) as f64));
            let work = Work { operations, bytes: one.bytes() as f64, set };
            let mut turn = 0;
            table.line(&format!("matmul {quant}"), &format!("{m} x {k} x {n}"), &work, || {
                turn = (turn + 1) % copies;
                product(compute, &weights[turn], &activations, black_box(&mut out));
            });
        }
    }
    for m in ROWS {
        let rows = numbers(m * k);
        let mut activations = Activations::keeping(Keep::Int8);
        let bytes = m * k * 5;
        let work = Work { operations: None, bytes: bytes as f64, set: bytes };
        table.line("rows to 8 bits", &format!("{m} x {k}"), &work, || {
            activations.load(compute, black_box(&rows), m, k);
        });
    }
}

/// A model's attention.
struct Heads {
    queries: usize,
    keys: usize,
    dim: usize,
    depth: usize,
}

/// Attention over a long prompt in pages of each type, and writing them.
pub(crate) fn attention(table: &mut Table<'_>) {
    for heads in [
        Heads { queries: 4, keys: 1, dim: 256, depth: 30_208 },
        Heads { queries: 9, keys: 3, dim: 64, depth: 7_680 },
    ] {
        for kv_type in KvType::ALL {
            attend(table, &heads, kv_type);
        }
    }
}

fn attend(table: &mut Table<'_>, heads: &Heads, kv_type: KvType) {
    let compute = table.compute;
    let (kv_heads, head_dim, block_tokens) = (heads.keys, heads.dim, 16);
    let layout = KvLayout { layers_per_block: 1, kv_heads, head_dim, block_tokens, kv_type };
    let tokens = heads.depth + 512;
    let blocks = tokens / 16;
    let mut store = KvStore::new(layout, blocks + 1).unwrap();
    // Pages lie anywhere; the step has no divisor in common with their number.
    let pages: Vec<u32> = (0..blocks).map(|i| (i * 7919 % blocks) as u32 + 1).collect();
    let rows = |rows, start| [SeqRows { first_row: 0, rows, start, blocks: &pages }];
    let kv = numbers(tokens * kv_heads * head_dim);
    write_kv(compute, &mut store, 0, &rows(tokens, 0), &kv, &kv);
    let name = format!("{} heads of {head_dim}", heads.queries);
    for m in ROWS {
        let q = numbers(m * heads.queries * head_dim);
        let (mut out, mut scratch) = (vec![0.0; q.len()], AttnScratch::new());
        let pairs: usize = (0..m).map(|row| heads.depth + row + 1).sum();
        let operations = (4 * pairs * heads.queries * head_dim) as f64;
        let bytes = (heads.depth + m) * layout.block_bytes() / block_tokens;
        let work = Work {
            operations: Some((Operations::Float, operations)),
            bytes: bytes as f64,
            set: bytes,
        };
        let shape = format!("{m} at {}, {name}", heads.depth);
        table.line(&format!("attention {kv_type}"), &shape, &work, || {
            tapri_kernels::attention(
                compute,
                &store,
                0,
                &rows(m, heads.depth),
                black_box(&q),
                heads.queries,
                None,
                1.0 / (head_dim as f32).sqrt(),
                &mut scratch,
                &mut out,
            );
        });
    }
    let kv = &kv[..512 * kv_heads * head_dim];
    let bytes = 2 * size_of_val(kv) + 512 * layout.block_bytes() / block_tokens;
    let work = Work { operations: None, bytes: bytes as f64, set: bytes };
    table.line(&format!("write {kv_type}"), &format!("512, {name}"), &work, || {
        write_kv(compute, &mut store, 0, &rows(512, heads.depth), black_box(kv), kv);
    });
}

/// What is left: memory that is read and written once.
pub(crate) fn elementwise(table: &mut Table<'_>) {
    let compute = table.compute;
    let (m, width, heads, dim, ffn) = (512, 640, 4, 256, 2048);
    let moves = |floats: usize| {
        let bytes = floats * size_of::<f32>();
        Work { operations: None, bytes: bytes as f64, set: bytes }
    };
    let (x, weight) = (numbers(m * width), numbers(width));
    let mut out = vec![0.0; x.len()];
    table.line("RMS norm", &format!("{m} x {width}"), &moves(2 * m * width), || {
        rms_norm(compute, black_box(&x), m, width, &weight, 1e-6, &mut out);
    });
    let angles = RopeTable::new(&RopeConfig {
        dims: dim,
        base: 1e6,
        frequency_scale: 1.0,
        factors: None,
        positions: 32_768,
    });
    let positions: Vec<u32> = (30_000..30_000 + m as u32).collect();
    let mut turned = numbers(m * heads * dim);
    let work = moves(2 * turned.len());
    table.line("RoPE", &format!("{m} x {heads} heads of {dim}"), &work, || {
        let style = RopeStyle::Neox;
        rope(compute, black_box(&mut turned), m, heads, dim, dim, &positions, &angles, style);
    });
    let up = numbers(m * ffn);
    let mut gate = numbers(m * ffn);
    table.line("GELU gate", &format!("{m} x {ffn}"), &moves(5 * m * ffn), || {
        // Its own result would shrink to denormals, whose time is another. The copy counts.
        gate.copy_from_slice(&up);
        gelu_mul(compute, black_box(&mut gate), &up);
    });
}
