//! The formats as constants for kernels that are generic over them, and the way from a matrix's format to such a kernel.

pub(super) const Q4_0: u8 = 0;
pub(super) const Q4_1: u8 = 1;
pub(super) const Q5_0: u8 = 2;
pub(super) const Q5_1: u8 = 3;
pub(super) const Q8_0: u8 = 4;
pub(super) const Q4_K: u8 = 5;
pub(super) const Q5_K: u8 = 6;
pub(super) const Q6_K: u8 = 7;
pub(super) const F32: u8 = 8;
pub(super) const F16: u8 = 9;
pub(super) const BF16: u8 = 10;

/// Whether a format has minima.
pub(super) const fn has_minima(format: u8) -> bool {
    matches!(format, Q4_1 | Q5_1 | Q4_K | Q5_K)
}

/// Calls a function that is generic over a quantised format with this one.
macro_rules! with_format {
    ($quant:expr, $function:ident, $arguments:tt) => {
        match $quant {
            Quant::Q4_0 => $function::<{ $crate::matmul::format::Q4_0 }> $arguments,
            Quant::Q4_1 => $function::<{ $crate::matmul::format::Q4_1 }> $arguments,
            Quant::Q5_0 => $function::<{ $crate::matmul::format::Q5_0 }> $arguments,
            Quant::Q5_1 => $function::<{ $crate::matmul::format::Q5_1 }> $arguments,
            Quant::Q8_0 => $function::<{ $crate::matmul::format::Q8_0 }> $arguments,
            Quant::Q4K => $function::<{ $crate::matmul::format::Q4_K }> $arguments,
            Quant::Q5K => $function::<{ $crate::matmul::format::Q5_K }> $arguments,
            Quant::Q6K => $function::<{ $crate::matmul::format::Q6_K }> $arguments,
            // Floats have kernels of their own, and the caller has told them apart.
            Quant::F32 | Quant::F16 | Quant::Bf16 => unreachable!("floats are not quantised"),
        }
    };
}

/// Calls a function that is generic over a format of floats with this one.
macro_rules! with_float_format {
    ($quant:expr, $function:ident, $arguments:tt) => {
        match $quant {
            Quant::F16 => $function::<{ $crate::matmul::format::F16 }> $arguments,
            Quant::Bf16 => $function::<{ $crate::matmul::format::BF16 }> $arguments,
            _ => $function::<{ $crate::matmul::format::F32 }> $arguments,
        }
    };
}

/// A function that is generic over a format and its number of rows, for this number of rows: the last one named, if it is none of the others.
macro_rules! for_rows {
    ($count:expr, $function:ident::<$format:ident>, $($rows:literal)+, $most:literal) => {
        match $count {
            $($rows => $function::<$format, $rows>,)+
            _ => $function::<$format, $most>,
        }
    };
}

pub(super) use {for_rows, with_float_format, with_format};
