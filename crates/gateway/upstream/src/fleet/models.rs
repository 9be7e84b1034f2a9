//! Which replicas serve a name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use crate::ModelCard;
use crate::config::{ServedModel, UpstreamConfig};
use crate::http::outgoing::upstream_name;
use crate::prefix::salt::{code, hex};

/// A replica, and what it calls the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) endpoint: usize,
    pub(crate) upstream: usize,
    pub(crate) model: usize,
}

/// A name that is served.
#[derive(Debug, Clone)]
struct Entry {
    card: Arc<ModelCard>,
    targets: Vec<Target>,
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Models {
    /// In the order of the configuration.
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// What names of a pattern begin with, and who serves them; the longest first.
    patterns: Vec<(String, Vec<Target>)>,
    since: Option<SystemTime>,
}

impl Models {
    /// From upstreams and the numbers of their replicas.
    pub(crate) fn new(upstreams: &[Arc<UpstreamConfig>], replicas: &[Vec<usize>]) -> Self {
        let mut models = Models { since: Some(SystemTime::now()), ..Models::default() };
        let mut patterns: BTreeMap<String, Vec<Target>> = BTreeMap::new();
        for (at, (upstream, replicas)) in upstreams.iter().zip(replicas).enumerate() {
            for (model, served) in upstream.models.iter().enumerate() {
                let targets =
                    replicas.iter().map(|&endpoint| Target { endpoint, upstream: at, model });
                match served.name.strip_suffix('*') {
                    Some(start) => patterns.entry(start.to_owned()).or_default().extend(targets),
                    None => models.add(upstream, served, targets),
                }
            }
        }
        models.patterns = patterns.into_iter().collect();
        models.patterns.sort_by_key(|(start, _)| std::cmp::Reverse(start.len()));
        models
    }

    fn add(
        &mut self,
        upstream: &UpstreamConfig,
        served: &ServedModel,
        targets: impl Iterator<Item = Target>,
    ) {
        if let Some(&at) = self.by_name.get(&served.name) {
            if let Some(entry) = self.entries.get_mut(at) {
                entry.targets.extend(targets);
                // A context is promised where all have it.
                let mut card = ModelCard::clone(&entry.card);
                card.context = card.context.zip(served.context).map(|(a, b)| a.min(b));
                card.upstream = format!("{}+{}", card.upstream, upstream.name);
                card.fingerprint =
                    mixed(&card.fingerprint, &fingerprint(upstream, &served.name, served));
                card.aliases.extend(served.aliases.iter().cloned());
                entry.card = Arc::new(card);
            }
        } else {
            self.by_name.insert(served.name.clone(), self.entries.len());
            let card = self.card(upstream, &served.name, served);
            self.entries.push(Entry { card: Arc::new(card), targets: targets.collect() });
        }
        let at = self.by_name.get(&served.name).copied().unwrap_or_default();
        for alias in &served.aliases {
            self.by_name.entry(alias.clone()).or_insert(at);
        }
    }

    fn card(&self, upstream: &UpstreamConfig, name: &str, served: &ServedModel) -> ModelCard {
        ModelCard {
            id: name.to_owned(),
            aliases: served.aliases.clone(),
            upstream: upstream.name.clone(),
            context: served.context,
            vocabulary: None,
            template: None,
            fingerprint: fingerprint(upstream, name, served),
            since: self.since.unwrap_or_else(SystemTime::now),
        }
    }

    /// Those that can be listed.
    pub(crate) fn cards(&self) -> Vec<Arc<ModelCard>> {
        self.entries.iter().map(|entry| Arc::clone(&entry.card)).collect()
    }

    /// The card of a name, and who serves it.
    pub(crate) fn find(
        &self,
        name: &str,
        upstreams: &[Arc<UpstreamConfig>],
    ) -> Option<(Arc<ModelCard>, &[Target])> {
        if let Some(entry) = self.by_name.get(name).and_then(|at| self.entries.get(*at)) {
            return Some((Arc::clone(&entry.card), &entry.targets));
        }
        // Longest first; a name of any length is no model.
        let (_, targets) = self
            .patterns
            .iter()
            .find(|(start, _)| name.starts_with(start.as_str()) && name.len() <= 256)?;
        let first = targets.first()?;
        let upstream = upstreams.get(first.upstream)?;
        let served = upstream.models.get(first.model)?;
        Some((Arc::new(self.card(upstream, name, served)), targets))
    }
}

/// Of a model that can't be looked at: whose it is and what it is called there.
fn fingerprint(upstream: &UpstreamConfig, name: &str, served: &ServedModel) -> String {
    let urls = upstream.urls.join(" ");
    let name = upstream_name(served, name);
    hex(&code(b"", &[urls.as_bytes(), name.as_bytes()]))[..10].to_owned()
}

fn mixed(one: &str, other: &str) -> String {
    hex(&code(b"", &[one.as_bytes(), other.as_bytes()]))[..10].to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Api;

    #[test]
    fn names_aliases_and_patterns() {
        let mut one = UpstreamConfig::new("one", "http://a", Api::OpenAi);
        one.models = vec![
            ServedModel { aliases: vec!["fast".into()], ..ServedModel::named("small") },
            ServedModel::named("gpt-*"),
        ];
        let mut two = UpstreamConfig::new("two", "http://b", Api::OpenAi);
        two.models = vec![ServedModel::named("small"), ServedModel::named("gpt-5*")];
        let upstreams = [Arc::new(one), Arc::new(two)];
        let models = Models::new(&upstreams, &[vec![0, 1], vec![2]]);
        let who = |name: &str| {
            let (card, targets) = models.find(name, &upstreams)?;
            Some((card.id.clone(), targets.iter().map(|t| t.endpoint).collect::<Vec<_>>()))
        };
        assert_eq!(who("small"), Some(("small".into(), vec![0, 1, 2])));
        assert_eq!(who("fast"), Some(("small".into(), vec![0, 1, 2])));
        assert_eq!(who("gpt-4o"), Some(("gpt-4o".into(), vec![0, 1])));
        assert_eq!(who("gpt-5.5"), Some(("gpt-5.5".into(), vec![2])), "the longest pattern");
        assert_eq!(who("claude"), None);
        let cards = models.cards();
        assert_eq!((cards.len(), cards[0].upstream.as_str()), (1, "one+two"));
    }
}
