//! What a kernel call runs on: an instruction-set path and a pool of threads.

use std::marker::PhantomData;

use crate::isa::Isa;
use crate::pool::Pool;

/// An instruction-set path and a pool of threads; each kernel takes one.
///
/// It is made once and shared by reference. Results never depend on the number of threads.
#[derive(Debug)]
pub struct Compute {
    isa: Isa,
    pool: Pool,
}

impl Compute {
    /// Kernels on this path with that many threads, the caller's included (0 counts as 1).
    ///
    /// # Panics
    /// When this CPU lacks the path (see [`Isa::is_available`]). [`Isa::best`] and [`Isa::from_env`] never give such a one.
    #[must_use]
    pub fn new(isa: Isa, threads: usize) -> Compute {
        // The kernels rely on this check: it is what makes it sound to call them.
        assert!(isa.is_available(), "this CPU has no {isa} path");
        Compute { isa, pool: Pool::new(threads) }
    }

    /// The path. This CPU has it.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// On how many threads a job runs, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Calls `job(i)` once for each `i` below `chunks`, on all threads; see [`Pool::run`].
    ///
    /// # Panics
    /// When the job does.
    pub fn run(&self, chunks: usize, job: impl Fn(usize) + Sync) {
        self.pool.run(chunks, &job);
    }

    /// Cuts `data` into pieces of `piece` elements (the last may be shorter) and calls `job(i, piece_i)` for each, on all threads.
    ///
    /// # Panics
    /// When `piece` is 0, or the job panics.
    pub fn run_pieces<T: Send>(
        &self,
        data: &mut [T],
        piece: usize,
        job: impl Fn(usize, &mut [T]) + Sync,
    ) {
        assert!(piece > 0, "a piece must hold something");
        let length = data.len();
        let whole = Disjoint::new(data);
        self.run(length.div_ceil(piece), |index| {
            let start = index * piece;
            // SAFETY: the pool hands out each index once, and the ranges of different indices do not overlap.
            let part = unsafe { whole.slice(start, piece.min(length - start)) };
            job(index, part);
        });
    }
}

/// A mutable slice whose disjoint parts are written by several threads.
#[derive(Clone, Copy)]
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it only hands out disjoint parts (the contract of `slice`), as `split_at_mut` would.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(data: &'a mut [T]) -> Disjoint<'a, T> {
        Disjoint { start: data.as_mut_ptr(), length: data.len(), borrow: PhantomData }
    }

    /// The part of `length` elements from `start`.
    ///
    /// # Safety
    /// No two parts that are alive at one time may overlap.
    ///
    /// # Panics
    /// When the part is not inside the slice.
    pub(crate) unsafe fn slice(&self, start: usize, length: usize) -> &'a mut [T] {
        assert!(start <= self.length && length <= self.length - start, "part outside the slice");
        // SAFETY: inside the borrowed slice (checked), and disjoint from the other parts (the caller's contract).
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_slice_once() {
        for threads in [1, 2] {
            let compute = Compute::new(Isa::Scalar, threads);
            for (length, piece) in [(0, 3), (1, 3), (3, 3), (10, 3), (100, 7), (5, 100)] {
                let mut data = vec![0_u32; length];
                compute.run_pieces(&mut data, piece, |index, part| {
                    for (offset, value) in part.iter_mut().enumerate() {
                        *value += (index * piece + offset) as u32 + 1;
                    }
                });
                let want: Vec<u32> = (1..=length as u32).collect();
                assert_eq!(data, want, "{length} by {piece}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "chunk 3")]
    fn a_panic_of_a_piece_reaches_the_caller() {
        let compute = Compute::new(Isa::Scalar, 2);
        compute.run(8, |chunk| assert!(chunk != 3, "chunk 3"));
    }
}
