//! Writes a made-up block trace in Mooncake's format to stdout, for measuring `tapri simulate`:
//!
//! ```text
//! cargo run -p tapri-insight --example block_trace -- 1000000 > trace.jsonl
//! ```
//!
//! The argument is the number of blocks of all calls together. Conversations behind eight instructions, which grow with
//! each turn, come back soon or late, and end.

use std::io::{self, BufWriter, Write};

fn main() -> io::Result<()> {
    let blocks = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let mut out = BufWriter::new(io::stdout().lock());
    for (number, ids) in Calls::new(1)
        .scan(0, |sum, ids| {
            (*sum < blocks).then(|| {
                *sum += ids.len();
                ids
            })
        })
        .enumerate()
    {
        let tokens = ids.len() * 512 - number % 512;
        write!(
            out,
            "{{\"timestamp\": {}, \"input_length\": {tokens}, \"output_length\": 300, \"hash_ids\": [",
            number * 250
        )?;
        for (at, id) in ids.iter().enumerate() {
            write!(out, "{}{id}", if at > 0 { ", " } else { "" })?;
        }
        writeln!(out, "]}}")?;
    }
    out.flush()
}

/// Endless calls, the same from the same seed.
struct Calls {
    state: u64,
    next: u64,
    conversations: Vec<Vec<u64>>,
}

impl Calls {
    fn new(seed: u64) -> Self {
        Calls { state: seed, next: 100, conversations: Vec::new() }
    }

    /// A number below `bound`, by a linear congruential generator (Knuth's MMIX).
    fn below(&mut self, bound: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as usize) % bound
    }
}

impl Iterator for Calls {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let open = self.conversations.len();
        let mut ids = if open < 2000 || self.below(4) == 0 {
            // One of eight instructions of three blocks.
            let first = self.below(8) as u64 * 3;
            vec![first, first + 1, first + 2]
        } else {
            // Mostly one of the latest.
            let back = self.below(open).min(self.below(open));
            self.conversations.swap_remove(open - 1 - back)
        };
        for _ in 0..=self.below(12) {
            ids.push(self.next);
            self.next += 1;
        }
        if ids.len() < 100 {
            self.conversations.push(ids.clone());
        }
        Some(ids)
    }
}
