//! An alert in words, for the log, and as JSON, for a webhook.

use std::fmt;

use serde_json::{Value, json};

use super::{Alert, Kind, Rate, Subject};

/// The schema of an alert's JSON.
pub const SCHEMA: &str = "tapri.alert/1";

impl Kind {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fell => "fell",
            Self::Low => "low",
            Self::Recovered => "recovered",
        }
    }

    /// Whether it is an alarm.
    #[must_use]
    pub fn is_alarm(self) -> bool {
        self != Self::Recovered
    }
}

impl Subject {
    /// As a tenant's label and a route's: `*` is all of them.
    #[must_use]
    pub fn labels(&self) -> (&str, &str) {
        match self {
            Self::Tenant(tenant) => (tenant, "*"),
            Self::Route(route) => ("*", route),
            Self::All => ("*", "*"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(tenant) => write!(f, "tenant {tenant}"),
            Self::Route(route) => write!(f, "route {route}"),
            Self::All => f.write_str("all calls"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        write!(
            f,
            "{:.0}% ({:.0}% to {:.0}%)",
            percent(self.mean),
            percent(self.low).floor(),
            percent(self.high).ceil()
        )
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, after) = (&self.subject, &self.after);
        match (self.kind, &self.before) {
            (Kind::Low, _) | (Kind::Fell, None) => write!(
                f,
                "hit rate of {subject} is {after} over {} calls, below {:.0}%: check the top of the prompt",
                after.calls,
                self.threshold * 100.0
            )?,
            (Kind::Fell, Some(before)) => {
                write!(f, "hit rate of {subject} fell from {before} to {after}")?;
            }
            (Kind::Recovered, Some(before)) => {
                write!(f, "hit rate of {subject} rose from {before} to {after}")?;
            }
            (Kind::Recovered, None) => write!(f, "hit rate of {subject} rose to {after}")?,
        }
        // Whole seconds: who reads it looks for a deployment.
        match &self.changed {
            Some(changed) if changed.from == changed.to => write!(f, ", at {:.0}", changed.at),
            Some(changed) => {
                let (from, to) = (changed.from, changed.to);
                write!(f, ", about {:.0} (between {from:.0} and {to:.0})", changed.at)
            }
            None => Ok(()),
        }
    }
}

impl Alert {
    /// As JSON. Rates are shares of a call's prompt, the mean over calls, with bounds at 95 percent.
    #[must_use]
    pub fn json(&self) -> Value {
        let rate = |rate: &Rate| {
            // Four digits: a block holds no more.
            let rounded = |share: f64| (share * 1e4).round() / 1e4;
            json!({
                "mean": rounded(rate.mean),
                "low": rounded(rate.low),
                "high": rounded(rate.high),
                "calls": rate.calls,
            })
        };
        let (tenant, route) = self.subject.labels();
        json!({
            "schema": SCHEMA,
            "kind": self.kind.as_str(),
            "alarm": self.kind.is_alarm(),
            "tenant": tenant,
            "route": route,
            "text": self.to_string(),
            "before": self.before.as_ref().map(rate),
            "after": rate(&self.after),
            "changed": self.changed.map(|changed| json!({
                "at": changed.at, "from": changed.from, "to": changed.to,
            })),
            "seen": self.seen,
            "threshold": self.threshold,
            "false_alarm_every_calls": self.false_alarm_every,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::alert::{Call, Config, Watch};

    #[test]
    fn words_and_json() {
        let mut watch = Watch::new(Config::default());
        let mut said = String::new();
        for n in 0..3000u64 {
            let cached = if (1000..2000).contains(&n) { 0 } else { 30_400 };
            let call = Call {
                at: jiff::Timestamp::from_millisecond((1_796_035_327 + n as i64) * 1000 + 280)
                    .unwrap(),
                tenant: "acme",
                route: "/v1/messages",
                prompt: 32_200,
                cached,
            };
            for alert in
                watch.see(&call).iter().filter(|alert| matches!(alert.subject, Subject::Tenant(_)))
            {
                said +=
                    &format!("{alert}\n{}\n", serde_json::to_string_pretty(&alert.json()).unwrap());
            }
        }
        let mut never = Watch::new(Config::default());
        for _ in 0..500 {
            let at = jiff::Timestamp::UNIX_EPOCH;
            for alert in
                never.see(&Call { at, tenant: "acme", route: "ask", prompt: 32_200, cached: 0 })
            {
                said += &format!("{alert}\n");
            }
        }
        insta::assert_snapshot!(said);
    }
}
