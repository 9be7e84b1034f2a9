//! Which instruction-set path the kernels take.

use std::env;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The environment variable that forces an instruction-set path.
pub const ISA_VARIABLE: &str = "TAPRI_ISA";

/// An instruction-set path. Every kernel exists on every path.
///
/// The order is from the most portable to the quickest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust: the reference that the others are held against, and the path of CPUs other than x86-64.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ, VNNI and BF16.
    Avx512,
}

/// Why `TAPRI_ISA` could not be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IsaError {
    /// The value names no path.
    #[error("unknown instruction set `{0}` (known: scalar, avx2, avx512)")]
    Unknown(String),
    /// The path exists, but this CPU lacks one of its instructions.
    #[error("this CPU has no {wanted} path (its best is {best})")]
    Unavailable {
        /// The path that was asked for.
        wanted: Isa,
        /// The best path that this CPU has.
        best: Isa,
    },
}

impl Isa {
    /// All paths, the most portable first.
    pub const ALL: [Isa; 3] = [Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// The quickest path that this CPU has.
    #[must_use]
    pub fn best() -> Isa {
        let mut best = Isa::Scalar;
        for isa in Isa::ALL {
            if isa.is_available() {
                best = isa;
            }
        }
        best
    }

    /// The paths that this CPU has, the most portable first.
    #[must_use]
    pub fn available() -> Vec<Isa> {
        let mut all = Isa::ALL.to_vec();
        all.retain(|isa| isa.is_available());
        all
    }

    /// Whether this CPU (and its operating system) can run the path.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            Isa::Avx2 => has_avx2(),
            Isa::Avx512 => has_avx2() && has_avx512(),
        }
    }

    /// The path named by `TAPRI_ISA`, or the best one where the variable is not set or empty.
    ///
    /// # Errors
    /// When the variable names no path, or one that this CPU lacks.
    pub fn from_env() -> Result<Isa, IsaError> {
        match env::var_os(ISA_VARIABLE) {
            Some(value) if !value.is_empty() => Isa::from_name(&value.to_string_lossy()),
            _ => Ok(Isa::best()),
        }
    }

    /// The path of that name, if this CPU has it.
    ///
    /// # Errors
    /// When there is no such path, or this CPU lacks it.
    pub fn from_name(name: &str) -> Result<Isa, IsaError> {
        let wanted: Isa = name.parse()?;
        if wanted.is_available() {
            Ok(wanted)
        } else {
            Err(IsaError::Unavailable { wanted, best: Isa::best() })
        }
    }

    /// The name that `TAPRI_ISA` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = IsaError;

    fn from_str(name: &str) -> Result<Isa, IsaError> {
        Isa::ALL
            .into_iter()
            .find(|isa| isa.name().eq_ignore_ascii_case(name.trim()))
            .ok_or_else(|| IsaError::Unknown(name.to_owned()))
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_round_trip_and_case_does_not_matter() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse::<Isa>().unwrap(), isa);
            assert_eq!(isa.name().to_uppercase().parse::<Isa>().unwrap(), isa);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "sse9".parse::<Isa>().unwrap_err().to_string();
        assert!(error.contains("sse9") && error.contains("scalar, avx2, avx512"), "{error}");
    }

    #[test]
    fn scalar_is_always_there_and_best_is_available() {
        let available = Isa::available();
        assert_eq!(available.first(), Some(&Isa::Scalar));
        assert_eq!(available.last(), Some(&Isa::best()));
    }

    #[test]
    fn a_missing_path_is_an_error_that_names_the_best() {
        let error = IsaError::Unavailable { wanted: Isa::Avx512, best: Isa::Avx2 };
        assert_eq!(error.to_string(), "this CPU has no avx512 path (its best is avx2)");
    }
}
