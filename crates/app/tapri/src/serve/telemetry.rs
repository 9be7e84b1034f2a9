//! `[telemetry]` and OpenTelemetry's variables: traces and token counts for a collector.

#[cfg(feature = "otel")]
pub(super) use built_in::{close, counts, start};
#[cfg(not(feature = "otel"))]
pub(super) use left_out::{close, counts, start};

#[cfg(feature = "otel")]
mod built_in {
    use std::sync::Arc;
    use std::time::Duration;

    use anyhow::{Context, Result, anyhow};
    use tapri_server::TraceCounts;
    use tapri_telemetry::{Telemetry, TelemetryConfig, config as variables};

    use crate::config::Config;
    use crate::config::sections::{Kind, Telemetry as Written};
    use crate::failure::Failure;

    /// How long the last traces have to reach the collector.
    const LAST_TRACES: Duration = Duration::from_secs(5);

    /// Starts to send, where a collector is named.
    pub(in crate::serve) fn start(config: &Config) -> Result<Option<Telemetry>> {
        let written = &config.sections.telemetry;
        let variable = |name: &str| std::env::var(name).ok();
        let set = variable(variables::ENDPOINT).filter(|value| !value.trim().is_empty());
        let Some(endpoint) = set.or_else(|| written.endpoint.clone()) else {
            if written.is_written() {
                return Err(Failure::usage(
                    "[telemetry] names no collector",
                    "write endpoint = \"http://HOST:4318\" in it, or take the section out",
                )
                .into());
            }
            return Ok(None);
        };
        let settings = settings(written, config, endpoint)?;
        let settings = settings.with_variables(variable).map_err(wrong)?;
        let endpoint = settings.endpoint.clone();
        let telemetry = Telemetry::start(settings).map_err(wrong)?;
        tracing::info!("traces and token counts go to {endpoint}");
        Ok(Some(telemetry))
    }

    fn settings(written: &Written, config: &Config, endpoint: String) -> Result<TelemetryConfig> {
        let mut settings = TelemetryConfig::new(endpoint);
        let Written { endpoint: _, headers, service, delay, interval, timeout } = written;
        if let Some(headers) = headers {
            let headers = headers.read(config.folder()).context("telemetry.headers")?;
            settings.headers = variables::pairs("telemetry.headers", &headers).map_err(wrong)?;
        }
        settings.service = service.clone().unwrap_or(settings.service);
        settings.delay = delay.unwrap_or(settings.delay);
        settings.interval = interval.unwrap_or(settings.interval);
        settings.timeout = timeout.unwrap_or(settings.timeout);
        // The conventions' names for whom they have one.
        let known = config.sections.upstreams.iter().filter_map(|upstream| {
            let provider = match upstream.kind {
                Kind::OpenAi => "openai",
                Kind::Anthropic => "anthropic",
                Kind::Vllm => "vllm",
                Kind::Sglang => "sglang",
                Kind::LlamaServer => "llama.cpp",
                Kind::Any => return None,
            };
            Some((upstream.name.clone(), provider.to_owned()))
        });
        settings.providers = known.collect();
        Ok(settings)
    }

    fn wrong(error: impl std::error::Error) -> Failure {
        let hint = "see [telemetry] in the configuration, and the variables that begin with OTEL_";
        Failure::new(anyhow!("telemetry can't be sent: {error}"), Some(hint)).with_code(2)
    }

    /// What became of calls' traces.
    pub(in crate::serve) fn counts(telemetry: &Telemetry) -> TraceCounts {
        let telemetry = telemetry.clone();
        Arc::new(move || {
            let counts = telemetry.counts();
            [("exported", counts.exported), ("dropped", counts.dropped), ("failed", counts.failed)]
        })
    }

    /// Sends what waits.
    pub(in crate::serve) fn close(telemetry: &Telemetry) {
        if !telemetry.close(LAST_TRACES) {
            tracing::warn!("the collector is slow: the last traces were left");
        }
    }
}

/// A build without it says how to get one with it.
#[cfg(not(feature = "otel"))]
mod left_out {
    use std::convert::Infallible;

    use anyhow::Result;
    use tapri_pipeline::Observer;
    use tapri_server::TraceCounts;

    use crate::config::Config;
    use crate::failure::Failure;

    /// Never there.
    pub(in crate::serve) struct Never(Infallible);

    impl Never {
        pub(in crate::serve) fn observer(&self) -> Observer {
            match self.0 {}
        }
    }

    pub(in crate::serve) fn start(config: &Config) -> Result<Option<Never>> {
        if config.sections.telemetry.is_written() {
            return Err(Failure::usage(
                "[telemetry] is written, and this tapri was built without OpenTelemetry",
                "build it in: cargo install --path crates/app/tapri --features otel",
            )
            .into());
        }
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
            tracing::warn!(
                "OTEL_EXPORTER_OTLP_ENDPOINT is set, and this tapri was built without OpenTelemetry (feature `otel`)"
            );
        }
        Ok(None)
    }

    pub(in crate::serve) fn counts(never: &Never) -> TraceCounts {
        match never.0 {}
    }

    pub(in crate::serve) fn close(never: &Never) {
        match never.0 {}
    }
}
