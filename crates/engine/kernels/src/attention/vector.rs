//! The vector operations that the tile kernel is written in.

/// A register of f32 lanes. Every operation is one or a few instructions of the path; all are to be inlined into a function that
/// has the path's instructions enabled.
///
/// # Safety
/// Of every function: the CPU must have the path's instructions, and pointers must be valid for a register of elements
/// (64 bytes of bf16 pairs for 16 lanes).
pub(super) trait Vector: Copy {
    /// Lanes, a divisor of 16.
    const LANES: usize;

    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Widens the two bf16 values of each lane's 32 bits: the lower, then the upper.
    unsafe fn load_pairs(from: *const u16) -> (Self, Self);
    /// Asks for the cache line at `from`, which need not be valid.
    unsafe fn prefetch(from: *const u16);
    /// The same for later: into the second-level cache.
    unsafe fn prefetch_far(from: *const u16);
    /// `self * b + c`, fused.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn max(self, b: Self) -> Self;
    /// To the nearest integer.
    unsafe fn round(self) -> Self;
    /// `self * 2^n`, for integers `n` within -126 and 0.
    unsafe fn times_power_of_2(self, n: Self) -> Self;
    /// Lanes `from..to` of `self`, the others of `other`. `from` and `to` may lie outside the lanes.
    unsafe fn keep(self, from: isize, to: isize, other: Self) -> Self;
    /// The sum of the lanes, in one fixed order.
    unsafe fn sum(self) -> f32;
    unsafe fn largest(self) -> f32;
}
