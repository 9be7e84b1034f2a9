//! All series.

use std::collections::HashMap;

use super::series::Series;
use super::{Alert, Call, Config, Kind, Subject};

/// Watches the hit rates of tenants and routes.
#[derive(Debug, Clone)]
pub struct Watch {
    config: Config,
    series: HashMap<Subject, Watched>,
    clock: u64,
    dropped: u64,
}

#[derive(Debug, Clone)]
struct Watched {
    series: Series,
    /// When it was seen last, in calls.
    seen: u64,
}

/// How a series stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge<'a> {
    /// What.
    pub subject: &'a Subject,
    /// The mean share from cache over the last blocks; `None` before the first.
    pub rate: Option<f64>,
    /// Whether its usual rate is known.
    pub learned: bool,
    /// Whether it is in alarm, and for what.
    pub alarm: Option<Kind>,
}

impl Watch {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Watch { config, series: HashMap::new(), clock: 0, dropped: 0 }
    }

    /// Takes a call; what follows for its tenant and its route, each at most one.
    pub fn see(&mut self, call: &Call<'_>) -> Vec<Alert> {
        let subjects =
            [Subject::Tenant(call.tenant.to_owned()), Subject::Route(call.route.to_owned())];
        subjects.into_iter().filter_map(|subject| self.see_as(subject, call)).collect()
    }

    /// Takes a call for one series.
    pub fn see_as(&mut self, subject: Subject, call: &Call<'_>) -> Option<Alert> {
        if call.prompt < self.config.min_prompt.max(1) {
            return None;
        }
        let share = call.cached.min(call.prompt) as f64 / call.prompt as f64;
        self.clock += 1;
        if !self.series.contains_key(&subject) {
            self.make_room();
            let series = Series::new(&self.config);
            self.series.insert(subject.clone(), Watched { series, seen: self.clock });
        }
        let watched = self.series.get_mut(&subject)?;
        watched.seen = self.clock;
        let said = watched.series.see(&self.config, call.at, share)?;
        Some(Alert {
            subject,
            kind: said.kind,
            before: said.before,
            after: said.after,
            changed: said.changed,
            seen: call.at,
            threshold: self.config.threshold,
            false_alarm_every: self.config.false_alarm_every,
        })
    }

    /// Drops the tenth that was quiet longest, so that a log with a tenant of its own on every line pays for a look at
    /// all of them seldom.
    fn make_room(&mut self) {
        if self.series.len() < self.config.series.max(1) {
            return;
        }
        let mut seen: Vec<u64> = self.series.values().map(|watched| watched.seen).collect();
        let last = (seen.len() / 10).max(1) - 1;
        let (_, quiet, _) = seen.select_nth_unstable(last);
        let quiet = *quiet;
        let before = self.series.len();
        self.series.retain(|_, watched| watched.seen > quiet);
        self.dropped += (before - self.series.len()) as u64;
    }

    /// How every series stands, in no order.
    pub fn gauges(&self) -> impl Iterator<Item = Gauge<'_>> {
        self.series.iter().map(|(subject, watched)| Gauge {
            subject,
            rate: watched.series.rate().map(|(rate, _)| rate),
            learned: watched.series.is_learned(),
            alarm: watched.series.alarm,
        })
    }

    /// How a series stands, if it is watched.
    #[must_use]
    pub fn gauge(&self, subject: &Subject) -> Option<Gauge<'_>> {
        let (subject, watched) = self.series.get_key_value(subject)?;
        Some(Gauge {
            subject,
            rate: watched.series.rate().map(|(rate, _)| rate),
            learned: watched.series.is_learned(),
            alarm: watched.series.alarm,
        })
    }

    /// Series that made room for others.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn call<'a>(tenant: &'a str, route: &'a str, cached: u64) -> Call<'a> {
        Call { at: Timestamp::UNIX_EPOCH, tenant, route, prompt: 1000, cached }
    }

    /// One of four tenants breaks: it is named, and the route they share is not, since most of its calls go well.
    #[test]
    fn the_one_that_broke_is_named() {
        let mut watch = Watch::new(Config { margin: 0.3, ..Config::default() });
        let mut alerts = Vec::new();
        for n in 0..8000 {
            let tenant = ["a", "b", "c", "d"][n % 4];
            let cached = if n > 5000 && tenant == "c" { 0 } else { 940 };
            alerts.extend(watch.see(&call(tenant, "/v1/messages", cached)));
        }
        let named: Vec<_> = alerts.iter().map(|alert| (&alert.subject, alert.kind)).collect();
        assert_eq!(named, [(&Subject::Tenant("c".to_owned()), Kind::Fell)]);
        let gauge = watch.gauge(&Subject::Tenant("c".to_owned()));
        assert_eq!(
            gauge.map(|gauge| (gauge.rate, gauge.alarm)),
            Some((Some(0.0), Some(Kind::Fell)))
        );
        assert_eq!(watch.gauges().count(), 5);
    }

    /// A route whose tenants call seldom: no tenant has enough calls, the route has.
    #[test]
    fn many_small_tenants_are_seen_by_their_route() {
        let mut watch = Watch::new(Config::default());
        let mut alerts = Vec::new();
        for n in 0..4000u64 {
            let tenant = (n % 400).to_string();
            alerts.extend(watch.see(&call(
                &tenant,
                "/v1/messages",
                if n < 3000 { 940 } else { 0 },
            )));
        }
        let named: Vec<_> = alerts.iter().map(|alert| &alert.subject).collect();
        assert_eq!(named, [&Subject::Route("/v1/messages".to_owned())]);
    }

    #[test]
    fn series_are_bounded_and_short_prompts_are_left_out() {
        let mut watch = Watch::new(Config { series: 10, ..Config::default() });
        for n in 0..100 {
            let tenant = n.to_string();
            watch.see(&call(&tenant, "r", 0));
        }
        assert_eq!((watch.gauges().count(), watch.dropped()), (10, 91));
        let mut watch = Watch::new(Config::default());
        watch.see(&Call { prompt: 63, ..call("a", "r", 0) });
        assert_eq!(watch.gauges().count(), 0);
    }
}
