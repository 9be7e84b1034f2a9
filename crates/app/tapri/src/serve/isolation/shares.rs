//! How the KV memory is split.

use std::collections::HashMap;

/// Bytes of KV memory for each tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::serve) struct Shares(HashMap<String, u64>);

/// The shares are more than the whole.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the tenants' kv_share values are {sum} together, and can be 1 at most")]
pub(in crate::serve) struct TooMuch {
    sum: f64,
}

impl Shares {
    /// Splits memory among tenants: those with a share get it, the others the rest in equal parts.
    pub(in crate::serve) fn split(
        memory: u64,
        tenants: &[(String, Option<f64>)],
    ) -> Result<Self, TooMuch> {
        let sum: f64 = tenants.iter().filter_map(|(_, share)| *share).sum();
        let open = tenants.iter().filter(|(_, share)| share.is_none()).count();
        // Sums of decimal fractions end a hair beside what they should; nothing left for those without a share is none.
        if sum > 1.0 + 1e-9 || (open > 0 && sum > 1.0 - 1e-9) {
            return Err(TooMuch { sum });
        }
        let rest = (1.0 - sum).max(0.0) / open.max(1) as f64;
        let bytes = |share: f64| (memory as f64 * share) as u64;
        Ok(Shares(
            tenants
                .iter()
                .map(|(name, share)| (name.clone(), bytes(share.unwrap_or(rest))))
                .collect(),
        ))
    }

    /// The tenants that have one.
    pub(in crate::serve) fn tenants(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A tenant's part.
    pub(in crate::serve) fn of(&self, tenant: &str) -> Option<u64> {
        self.0.get(tenant).copied()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn split(shares: &[Option<f64>]) -> Result<Vec<u64>, TooMuch> {
        let tenants: Vec<_> =
            shares.iter().enumerate().map(|(at, share)| (at.to_string(), *share)).collect();
        let split = Shares::split(1000, &tenants)?;
        Ok((0..shares.len()).map(|at| split.of(&at.to_string()).unwrap()).collect())
    }

    #[test]
    fn shares_are_parts_of_the_whole() {
        assert_eq!(split(&[None, None, None, None]), Ok(vec![250; 4]));
        assert_eq!(split(&[Some(0.5), None, None]), Ok(vec![500, 250, 250]));
        assert_eq!(split(&[Some(0.1), Some(0.2), Some(0.7)]), Ok(vec![100, 200, 700]));
        assert!(split(&[Some(0.6), Some(0.5)]).is_err());
        assert!(split(&[Some(1.0), None]).is_err(), "nothing is left");
        assert_eq!(Shares::split(1000, &[]).unwrap().of("a"), None);
    }
}
