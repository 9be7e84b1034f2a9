//! What the machine can do: products in registers, and reading.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use tapri_kernels::{Compute, Isa};

/// How long a measurement takes at least; the median is taken of what fits.
const TIME: Duration = Duration::from_millis(120);

/// Calls at least.
const CALLS: usize = 5;

/// Independent chains of products: enough for two units with four cycles each.
const CHAINS: usize = 12;

const STEPS: usize = 100_000;

/// The median time of a call, in seconds, after one that warms up.
pub(crate) fn median(mut call: impl FnMut()) -> f64 {
    call();
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < CALLS || begin.elapsed() < TIME {
        let start = Instant::now();
        call();
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Operations per second in registers, on all threads.
pub(crate) struct Peaks {
    pub(crate) float: f64,
    pub(crate) int8: f64,
}

impl Peaks {
    pub(crate) fn measure(compute: &Compute) -> Peaks {
        // Operations of a step of a chain, two for each product.
        let rate = |per_step: usize, burn: fn()| {
            let threads = compute.threads();
            let seconds = median(|| compute.run(threads, |_| burn()));
            (threads * STEPS * CHAINS * per_step) as f64 / seconds
        };
        match compute.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Peaks { float: rate(32, x86::fma_512), int8: rate(128, x86::vnni) },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Peaks { float: rate(16, x86::fma_256), int8: rate(64, x86::maddubs) },
            // The portable path has no instruction of its own: single numbers, as a plain loop has them.
            _ => Peaks { float: rate(2, plain), int8: rate(2, plain) },
        }
    }
}

fn plain() {
    let (a, b) = (black_box(0.999_f32), black_box(0.001_f32));
    let mut sums: [f32; CHAINS] = std::array::from_fn(|i| black_box(i as f32));
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = *sum * a + b;
        }
        // Without this the chains would become one vector.
        black_box(&mut sums);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::array::from_fn;
    use std::hint::black_box;

    use super::{CHAINS, STEPS};

    /// A function for a path that the CPU has, as a `Compute` on that path proves, around one with its instructions.
    macro_rules! burn {
        ($name:ident, $features:literal, $start:expr, $step:expr) => {
            pub(super) fn $name() {
                #[target_feature(enable = $features)]
                fn run() {
                    // Each chain starts with another value, or the compiler would keep one for all.
                    let mut sums = from_fn::<_, CHAINS, _>(|i| $start(black_box(i as i32 + 1)));
                    let (a, b) = (black_box($start(1)), black_box($start(2)));
                    for _ in 0..STEPS {
                        for sum in &mut sums {
                            *sum = $step(*sum, a, b);
                        }
                    }
                    black_box(sums);
                }
                // SAFETY: only called where a `Compute` is on a path that has the instructions.
                unsafe { run() }
            }
        };
    }

    burn!(fma_512, "avx512f", |i: i32| _mm512_set1_ps(i as f32 * 1e-3), |sum, a, b| {
        _mm512_fmadd_ps(a, b, sum)
    });
    burn!(vnni, "avx512f,avx512vnni", |i: i32| _mm512_set1_epi32(i), |sum, a, b| {
        _mm512_dpbusd_epi32(sum, a, b)
    });
    burn!(fma_256, "avx2,fma", |i: i32| _mm256_set1_ps(i as f32 * 1e-3), |sum, a, b| {
        _mm256_fmadd_ps(a, b, sum)
    });
    // As the AVX2 path multiplies: pairs in 16 bits, then four in 32.
    burn!(maddubs, "avx2", |i: i32| _mm256_set1_epi32(i), |sum, a, b| {
        let pairs = _mm256_maddubs_epi16(_mm256_xor_si256(a, sum), b);
        _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, a))
    });
}

/// Bytes per second that all threads read together from sets of any size.
#[derive(Default)]
pub(crate) struct Bandwidth {
    known: HashMap<usize, f64>,
}

impl Bandwidth {
    /// For a set of `bytes`; sets are rounded to powers of two.
    pub(crate) fn of(&mut self, compute: &Compute, bytes: usize) -> f64 {
        let bytes = bytes.next_power_of_two().max(1 << 16);
        *self.known.entry(bytes).or_insert_with(|| {
            // Huge pages, as weights and blocks have: small ones cost translations.
            let mut map = memmap2::MmapMut::map_anon(bytes).unwrap();
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            map.fill(1);
            let memory: &[u64] = bytemuck::cast_slice(&map);
            let threads = compute.threads();
            let part = memory.len() / threads;
            // Small sets many times, so that handing out the work does not show.
            let times = ((4 << 20) / bytes).max(1);
            let seconds = median(|| {
                compute.run(threads, |thread| {
                    for _ in 0..times {
                        black_box(sum(compute.isa(), black_box(&memory[thread * part..][..part])));
                    }
                });
            });
            (times * threads * part * 8) as f64 / seconds
        })
    }
}

fn sum(isa: Isa, numbers: &[u64]) -> u64 {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            #[target_feature(enable = "avx512f")]
            fn run(numbers: &[u64]) -> u64 {
                plain_sum::<64>(numbers)
            }
            // SAFETY: the `Compute` whose path this is has the instructions.
            unsafe { run(numbers) }
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            #[target_feature(enable = "avx2")]
            fn run(numbers: &[u64]) -> u64 {
                plain_sum::<32>(numbers)
            }
            // SAFETY: as above.
            unsafe { run(numbers) }
        }
        _ => plain_sum::<16>(numbers),
    }
}

/// In `LANES` sums, which become vectors.
#[inline(always)]
fn plain_sum<const LANES: usize>(numbers: &[u64]) -> u64 {
    let mut sums = [0_u64; LANES];
    for chunk in numbers.as_chunks::<LANES>().0 {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*number);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}
