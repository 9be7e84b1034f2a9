//! Each kernel against what the machine can do at all, as a table.
//!
//! ```text
//! cargo run --release -p tapri-kernels --example roofline [THREADS]
//! ```
//!
//! The machine's peaks are measured first, on the same threads: products per second in registers, and bytes per second that can be
//! read from as much memory as a kernel goes through (so a kernel whose data stay in a cache is held against that cache). The
//! roofline (Williams, Waterman and Patterson, 2009) of a kernel is the longer of the two times that its products and its bytes take at
//! those rates, and its share is that time in its own. `TAPRI_ISA` chooses the path.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program")]

mod cases;
mod peak;

use tapri_kernels::{Compute, Isa};

use peak::{Bandwidth, Peaks};

/// What one call of a kernel does.
pub(crate) struct Work {
    /// Operations (two for each product with its sum), and which peak they are held against.
    pub(crate) operations: Option<(Operations, f64)>,
    /// Bytes of memory that it reads and writes.
    pub(crate) bytes: f64,
    /// Bytes that calls go through before they come back to the same ones.
    pub(crate) set: usize,
}

/// The kind of a kernel's products.
#[derive(Clone, Copy)]
pub(crate) enum Operations {
    Int8,
    Float,
}

/// The table's writer.
pub(crate) struct Table<'a> {
    pub(crate) compute: &'a Compute,
    peaks: Peaks,
    bandwidth: Bandwidth,
}

impl Table<'_> {
    /// Measures a kernel and writes its line.
    pub(crate) fn line(&mut self, kernel: &str, shape: &str, work: &Work, call: impl FnMut()) {
        let seconds = peak::median(call);
        let memory = work.bytes / self.bandwidth.of(self.compute, work.set);
        let peak = |(kind, operations): (Operations, f64)| match kind {
            Operations::Int8 => operations / self.peaks.int8,
            Operations::Float => operations / self.peaks.float,
        };
        let products = work.operations.map_or(0.0, peak);
        let (bound, least) =
            if products > memory { ("products", products) } else { ("memory", memory) };
        let rate = work.operations.map_or_else(String::new, |(_, operations)| {
            format!("{:.1}", operations / seconds / 1e9)
        });
        println!(
            "| {kernel} | {shape} | {:.3} | {rate} | {:.1} | {bound} | {:.0} % |",
            seconds * 1e3,
            work.bytes / seconds / 1e9,
            100.0 * least / seconds
        );
    }
}

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |n| n.parse().unwrap());
    let compute = Compute::new(Isa::from_env().unwrap(), threads);
    let peaks = Peaks::measure(&compute);
    let mut bandwidth = Bandwidth::default();
    println!("Path {}, {} threads. Peaks:\n", compute.isa(), compute.threads());
    println!("| what | rate |\n|---|---|");
    println!("| f32 products | {:.0} GFLOP/s |", peaks.float / 1e9);
    println!("| 8-bit products | {:.0} GOP/s |", peaks.int8 / 1e9);
    for (name, set) in
        [("0.5 MB", 1 << 19), ("2 MB", 2 << 20), ("32 MB", 32 << 20), ("512 MB", 512 << 20)]
    {
        println!(
            "| reading {name} again and again | {:.0} GB/s |",
            bandwidth.of(&compute, set) / 1e9
        );
    }
    println!(
        "\n| kernel | shape | ms | G op/s | GB/s | bound by | share |\n|---|---|---|---|---|---|---|"
    );
    let mut table = Table { compute: &compute, peaks, bandwidth };
    cases::matmul(&mut table);
    cases::attention(&mut table);
    cases::elementwise(&mut table);
}
