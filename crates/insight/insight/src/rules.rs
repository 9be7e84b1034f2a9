//! What hosted APIs cache of a prompt: minimum, markers, lifetime. Data with a date, never constants.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// The rules that come with Tapri.
const BUNDLED: &str = include_str!("../data/provider_rules.toml");

/// Rules of all providers that are known, with their date.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// When they were gathered: `2026-11-30`.
    pub date: Option<String>,
    providers: Vec<Provider>,
}

/// Whether markers decide what is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Markers {
    /// There are none.
    #[default]
    None,
    /// They add to what is automatic.
    Optional,
    /// Nothing is cached without one.
    Needed,
}

/// What one provider does. What isn't known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Its name, for people.
    pub name: String,
    /// How its models' names begin.
    pub models: Vec<String>,
    /// Where this was read.
    pub source: Option<String>,
    /// Fewer tokens are never cached.
    pub minimum: Option<u64>,
    /// Other minimums, by model.
    #[serde(default)]
    pub minimums: Vec<Minimum>,
    /// What is read from the cache is a multiple of it.
    pub step: Option<u64>,
    /// Whether markers decide what is cached.
    #[serde(default)]
    pub markers: Markers,
    /// Whether a start without a marker can be found when the text behind it changed.
    #[serde(default = "yes")]
    pub fallback: bool,
    /// Markers that a request may have.
    pub most: Option<usize>,
    /// Content blocks before a marker that are searched, the marker's own included.
    pub lookback: Option<usize>,
    /// Whether longer lifetimes must stand before shorter ones.
    #[serde(default)]
    pub long_first: bool,
    /// From the start of the last call that used it.
    #[serde(default, deserialize_with = "time::optional")]
    pub lifetime: Option<Duration>,
    /// Whether the lifetime is promised, or only typical.
    #[serde(default)]
    pub certain: bool,
    /// Lifetimes by what a request asks for.
    #[serde(default, deserialize_with = "time::map")]
    pub lifetimes: BTreeMap<String, Duration>,
}

/// Another minimum for some models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimum {
    /// How their names begin.
    pub models: Vec<String>,
    /// The minimum.
    pub tokens: u64,
}

/// Why rules could not be read.
#[derive(Debug, thiserror::Error)]
#[error("not a file of provider rules")]
pub struct RulesError(#[from] toml::de::Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    date: Option<String>,
    #[serde(default)]
    provider: Vec<Provider>,
}

/// A provider's rule for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The provider.
    pub provider: &'a Provider,
    /// The model's minimum.
    pub minimum: Option<u64>,
}

impl Rules {
    /// The rules that come with Tapri.
    ///
    /// # Errors
    /// [`RulesError`]; a test reads them.
    pub fn bundled() -> Result<Self, RulesError> {
        Self::read(BUNDLED)
    }

    /// Reads a file of rules, in the form of the bundled one.
    ///
    /// # Errors
    /// [`RulesError`] with the line and what is wrong.
    pub fn read(text: &str) -> Result<Self, RulesError> {
        let file: File = toml::from_str(text)?;
        Ok(Rules { date: file.date, providers: file.provider })
    }

    /// These rules under others: where a model's name begins equally long in both, the others win.
    #[must_use]
    pub fn under(mut self, over: Rules) -> Self {
        self.providers.splice(0..0, over.providers);
        Rules { date: over.date.or(self.date), ..self }
    }

    /// The rule for a model; `None` for one that no provider is known for.
    #[must_use]
    pub fn find(&self, model: &str) -> Option<Rule<'_>> {
        let name = plain(model);
        let mut best: Option<(usize, &Provider)> = None;
        for provider in &self.providers {
            if let Some(length) = longest(&provider.models, &name)
                && best.is_none_or(|(most, _)| length > most)
            {
                best = Some((length, provider));
            }
        }
        let (_, provider) = best?;
        let own = provider
            .minimums
            .iter()
            .filter_map(|minimum| Some((longest(&minimum.models, &name)?, minimum.tokens)))
            .max_by_key(|(length, _)| *length);
        Some(Rule { provider, minimum: own.map(|(_, tokens)| tokens).or(provider.minimum) })
    }
}

impl Provider {
    /// The lifetime of what was stored with this one asked for.
    #[must_use]
    pub fn lifetime_of(&self, asked: Option<&str>) -> Option<Duration> {
        asked.and_then(|asked| self.lifetimes.get(asked).copied()).or(self.lifetime)
    }
}

/// A model's name as the rules have it: `bedrock/us.anthropic.claude-opus-4.8` is `claude-opus-4-8`.
fn plain(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let family = ["anthropic.", "openai.", "amazon.", "mistral.", "deepseek."]
        .iter()
        .find_map(|family| name.find(family).map(|at| at + family.len()))
        .unwrap_or(0);
    name[family..].replace('.', "-")
}

fn longest(prefixes: &[String], name: &str) -> Option<usize> {
    prefixes.iter().filter(|prefix| name.starts_with(*prefix)).map(String::len).max()
}

fn yes() -> bool {
    true
}

/// Lifetimes as people write them: `5m`, `12h`.
mod time {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    pub(super) fn optional<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).map(Some).map_err(D::Error::custom)
    }

    pub(super) fn map<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, Duration>, D::Error> {
        BTreeMap::<String, String>::deserialize(from)?
            .into_iter()
            .map(|(asked, text)| Ok((asked, parse(&text).map_err(D::Error::custom)?)))
            .collect()
    }

    fn parse(text: &str) -> Result<Duration, String> {
        let unit = text.len() - text.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
        let (number, unit) = text.split_at(unit);
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(format!("'{text}' is no time such as 5m or 12h")),
        };
        let number: u32 = number.parse().map_err(|_| format!("'{text}' is no time such as 5m"))?;
        Ok(Duration::from_secs(u64::from(number) * seconds))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_rules_are_found_by_name() {
        let rules = Rules::bundled().unwrap();
        let of = |model| {
            rules.find(model).map(|rule| (rule.provider.name.as_str(), rule.minimum.unwrap_or(0)))
        };
        assert_eq!(of("claude-sonnet-4-5-20250929"), Some(("Anthropic", 1024)));
        assert_eq!(of("anthropic/claude-opus-5.5"), Some(("Anthropic", 512)));
        assert_eq!(of("us.anthropic.claude-haiku-4-5-v1:0"), Some(("Anthropic", 4096)));
        assert_eq!(of("gpt-4o-mini"), Some(("OpenAI (up to GPT-5.5)", 1024)));
        assert_eq!(of("gpt-5.6"), Some(("OpenAI (from GPT-5.6)", 1024)));
        assert_eq!(of("gpt-5"), Some(("OpenAI (up to GPT-5.5)", 1024)));
        assert_eq!(of("gemini-3.8-flash"), Some(("Gemini", 4096)));
        assert_eq!(of("smollm2"), None);
        let claude = rules.find("claude-sonnet-5").unwrap().provider;
        assert_eq!(claude.lifetime_of(Some("1h")), Some(Duration::from_secs(3600)));
        assert_eq!(claude.lifetime_of(None), Some(Duration::from_secs(300)));
    }

    #[test]
    fn a_users_rules_win() {
        let own = "[[provider]]\nname = 'own'\nmodels = ['claude-']\nminimum = 7\n";
        let rules = Rules::bundled().unwrap().under(Rules::read(own).unwrap());
        assert_eq!(rules.find("claude-sonnet-5").unwrap().minimum, Some(7));
        assert!(Rules::read("[[provider]]\nnam = 'own'").is_err());
        assert!(Rules::read("[[provider]]\nname='x'\nmodels=[]\nlifetime='5 bananas'").is_err());
    }
}
