//! What a route does with questions that mean the same.

use std::time::Duration;

/// Whether a route looks for questions that mean the same, and what it does with what it finds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SemanticMode {
    /// It doesn't.
    #[default]
    Off,
    /// It looks, has the model answer all the same, and compares: nobody is served a stored answer.
    Shadow,
    /// It serves from the similarity up where the labels of shadow runs show that few answers are wrong.
    Serve,
}

/// Who says whether two answers are the same where their text isn't.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judge {
    /// Nobody: what isn't the same text counts as wrong, until a person says otherwise (`tapri semantic label`).
    #[default]
    Person,
    /// A model is asked: the one of this name, or the one that answered.
    Model(Option<String>),
    /// A model of one upstream is asked.
    Upstream {
        /// The upstream's name.
        upstream: String,
        /// The model's name.
        model: String,
    },
}

/// A route's policy.
#[derive(Debug, Clone, PartialEq)]
pub struct SemanticPolicy {
    /// What it does.
    pub mode: SemanticMode,
    /// The share of served answers that may be wrong.
    pub budget: f64,
    /// The share of served answers that are checked against the model all the same, for ever.
    pub recheck: f64,
    /// Who judges.
    pub judge: Judge,
    /// Stored questions of one scope; the oldest go first.
    pub entries: usize,
    /// How long an answer may be served.
    pub ttl: Option<Duration>,
}

/// Why a policy can't be followed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The budget is no share, or nothing could ever meet it.
    #[error("the budget {0} is not above 0 and below 1; 0.01 allows one wrong answer in a hundred")]
    Budget(f64),
    /// Labels would end.
    #[error(
        "the recheck {0} is not above 0 and at most 1: without it nobody would notice when answers go wrong"
    )]
    Recheck(f64),
    /// Nothing could be stored.
    #[error("entries must be at least 1")]
    Entries,
}

impl SemanticPolicy {
    /// The policy `off`.
    pub fn off() -> Self {
        SemanticPolicy::default()
    }

    /// The same, if it can be followed.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn checked(self) -> Result<Self, PolicyError> {
        if !(self.budget > 0.0 && self.budget < 1.0) {
            return Err(PolicyError::Budget(self.budget));
        }
        if !(self.recheck > 0.0 && self.recheck <= 1.0) {
            return Err(PolicyError::Recheck(self.recheck));
        }
        if self.entries == 0 {
            return Err(PolicyError::Entries);
        }
        Ok(self)
    }
}

impl Default for SemanticPolicy {
    /// Off; with a budget of 1 percent and one served answer in fifty checked, where it is turned on.
    fn default() -> Self {
        SemanticPolicy {
            mode: SemanticMode::Off,
            budget: 0.01,
            recheck: 0.02,
            judge: Judge::Person,
            entries: 100_000,
            ttl: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_the_default_and_nonsense_is_refused() {
        assert_eq!(SemanticPolicy::default().mode, SemanticMode::Off);
        assert!(SemanticPolicy::default().checked().is_ok());
        let with = |change: fn(&mut SemanticPolicy)| {
            let mut policy = SemanticPolicy::default();
            change(&mut policy);
            policy.checked()
        };
        assert_eq!(with(|p| p.budget = 0.0), Err(PolicyError::Budget(0.0)));
        assert!(with(|p| p.budget = f64::NAN).is_err());
        assert_eq!(with(|p| p.recheck = 0.0), Err(PolicyError::Recheck(0.0)));
        assert_eq!(with(|p| p.entries = 0), Err(PolicyError::Entries));
    }
}
