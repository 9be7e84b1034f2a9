//! The settings of the watch on hit rates.

use std::num::NonZeroU64;

use anyhow::Result;
use clap::Args;
use tapri_insight::alert::Config;
use tapri_server::{AlertConfig, WebhookConfig};

use crate::failure::Failure;
use crate::report::period::share;

/// How hit rates are watched, and who is told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Alerts")]
pub(crate) struct AlertArgs {
    /// Don't watch the hit rates of tenants and routes
    #[arg(long)]
    no_alerts: bool,
    /// Send alerts there, as a POST of JSON
    #[arg(
        long,
        env = "TAPRI_ALERT_WEBHOOK",
        hide_env_values = true,
        value_name = "URL",
        conflicts_with = "no_alerts"
    )]
    alert_webhook: Option<String>,
    /// Sign what is sent with this (HMAC-SHA-256, in x-tapri-signature)
    #[arg(
        long,
        env = "TAPRI_ALERT_WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        requires = "alert_webhook"
    )]
    alert_webhook_secret: Option<String>,
    /// A hit rate below this is low (0.5 or 50%)
    #[arg(long, env = "TAPRI_ALERT_THRESHOLD", hide_env_values = true, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    alert_threshold: f64,
    /// A fall of less than this is no alert (0.1 or 10%)
    #[arg(long, env = "TAPRI_ALERT_MARGIN", hide_env_values = true, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    alert_margin: f64,
    /// The mean number of calls between false alarms of a tenant or a route, at least
    #[arg(
        long,
        env = "TAPRI_ALERT_FALSE_ALARM_EVERY",
        hide_env_values = true,
        value_name = "CALLS",
        default_value = "1000000"
    )]
    alert_false_alarm_every: NonZeroU64,
}

impl AlertArgs {
    /// As the server takes them; `None` where nothing is watched.
    pub(crate) fn config(&self) -> Result<Option<AlertConfig>> {
        if self.no_alerts {
            return Ok(None);
        }
        let webhook = self.alert_webhook.as_deref().map(|url| self.webhook(url)).transpose()?;
        let watch = Config {
            threshold: self.alert_threshold,
            margin: self.alert_margin,
            false_alarm_every: self.alert_false_alarm_every.get(),
            ..Config::default()
        };
        Ok(Some(AlertConfig { watch, webhook }))
    }

    fn webhook(&self, url: &str) -> Result<WebhookConfig, Failure> {
        let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        // The address may hold a secret, so it isn't said again.
        if rest.is_none_or(|rest| {
            rest.is_empty() || rest.starts_with('/') || rest.contains(char::is_whitespace)
        }) {
            return Err(Failure::usage(
                "the address of --alert-webhook is none",
                "write it whole, for example https://hooks.example.com/tapri",
            ));
        }
        Ok(WebhookConfig { secret: self.alert_webhook_secret.clone(), ..WebhookConfig::new(url) })
    }
}
