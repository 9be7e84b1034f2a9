//! What providers offer and promise: dated data, never constants.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// The rules that come with Tapri.
const BUNDLED: &str = include_str!("../../data/prefix_rules.toml");

/// How a provider's prefix cache can be helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Help {
    /// Not at all.
    #[default]
    None,
    /// OpenAI's `prompt_cache_key`.
    PromptCacheKey,
    /// Anthropic's `cache_control`.
    CacheControl,
}

/// The rule for some models. What isn't known is absent.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, for people.
    pub name: String,
    /// How the models' names begin.
    pub models: Vec<String>,
    /// Where this was read.
    pub source: Option<String>,
    /// How the cache can be helped.
    #[serde(default)]
    pub help: Help,
    /// Fewer tokens are never cached.
    #[serde(default)]
    pub minimum: usize,
    /// What is read is a multiple of it.
    pub step: Option<usize>,
    /// Seconds that a start is kept after its last use.
    pub life: Option<u64>,
    /// Calls a minute for one key.
    pub key_rate: Option<u32>,
    /// The longest key.
    pub key_chars: Option<usize>,
    /// Markers that a request may have.
    #[serde(default)]
    pub most: usize,
    /// Whether longer lives must stand before shorter ones.
    #[serde(default)]
    pub long_first: bool,
    /// The price of a cached token, as a multiple of an uncached one's.
    pub read: Option<f64>,
    /// The price of a token that is stored, by the life asked for.
    #[serde(default)]
    pub write: BTreeMap<String, f64>,
}

impl Rule {
    /// How long a start is kept.
    pub fn life(&self) -> Option<Duration> {
        self.life.map(Duration::from_secs)
    }

    /// Tokens of a start that can be read, where so many are there.
    pub fn readable(&self, tokens: usize) -> usize {
        if tokens < self.minimum {
            return 0;
        }
        match self.step {
            Some(step) if step > 0 => tokens / step * step,
            _ => tokens,
        }
    }
}

/// All rules, with their date.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// When they were gathered.
    pub date: Option<String>,
    #[serde(default, rename = "rule")]
    rules: Vec<Rule>,
}

/// Why rules could not be read.
#[derive(Debug, thiserror::Error)]
#[error("not a file of prefix rules: {0}")]
pub struct RulesError(#[from] toml::de::Error);

impl Rules {
    /// Reads a file in the form of the bundled one.
    pub fn read(text: &str) -> Result<Self, RulesError> {
        Ok(toml::from_str(text)?)
    }

    /// Those that come with Tapri.
    pub fn bundled() -> Result<Self, RulesError> {
        Rules::read(BUNDLED)
    }

    /// These rules under an operator's own, which win where a model's name begins equally long.
    #[must_use]
    pub fn under(mut self, over: Rules) -> Self {
        self.rules.splice(0..0, over.rules);
        Rules { date: over.date.or(self.date), ..self }
    }

    /// The rule for a model.
    pub fn find(&self, model: &str) -> Option<&Rule> {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase().replace('.', "-");
        let length = |rule: &Rule| {
            rule.models.iter().filter(|start| name.starts_with(*start)).map(String::len).max()
        };
        let mut best: Option<(usize, &Rule)> = None;
        for rule in &self.rules {
            if let Some(length) = length(rule)
                && best.is_none_or(|(most, _)| length > most)
            {
                best = Some((length, rule));
            }
        }
        best.map(|(_, rule)| rule)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_rules_are_dated_and_found_by_name() {
        let rules = Rules::bundled().unwrap();
        assert_eq!(rules.date.as_deref(), Some("2026-11-30"));
        let of = |model: &str| rules.find(model).map(|rule| (rule.help, rule.minimum));
        assert_eq!(of("claude-sonnet-4-5-20250929"), Some((Help::CacheControl, 1024)));
        assert_eq!(of("anthropic/claude-opus-5.5"), Some((Help::CacheControl, 512)));
        assert_eq!(of("claude-haiku-4.5"), Some((Help::CacheControl, 4096)));
        assert_eq!(of("gpt-4o"), Some((Help::PromptCacheKey, 1024)));
        assert_eq!(of("openai/gpt-oss-20b"), Some((Help::None, 0)));
        assert_eq!(of("smollm2"), None);
        let gpt = rules.find("gpt-4o").unwrap();
        assert_eq!((gpt.readable(1023), gpt.readable(1300)), (0, 1280));
        assert_eq!(rules.find("claude-sonnet-5").unwrap().life(), Some(Duration::from_secs(300)));
    }

    #[test]
    fn an_operators_rules_win() {
        let own = "[[rule]]\nname = 'own'\nmodels = ['claude-']\nminimum = 7\n";
        let rules = Rules::bundled().unwrap().under(Rules::read(own).unwrap());
        assert_eq!(rules.find("claude-sonnet-5").unwrap().minimum, 7);
        assert!(Rules::read("[[rule]]\nnam = 'own'").is_err());
    }
}
