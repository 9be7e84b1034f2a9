//! One body, compiled for each instruction-set path.

/// Defines `fn name(isa, arguments)`, which runs the body compiled with the path's instructions.
///
/// The body must be `#[inline(always)]`, as must be all that it calls in its loops: only inlined code is compiled with the
/// instructions of the function around it.
macro_rules! paths {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:path) => {
        $(#[$doc])*
        fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                $body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                $body($($arg),*)
            }
            match isa {
                // SAFETY: a `Compute` has a path only if the CPU has its instructions, and the isa came from one.
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => $body($($arg),*),
            }
        }
    };
}

pub(super) use paths;
