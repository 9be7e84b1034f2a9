//! Where telemetry goes.

use std::collections::HashMap;
use std::time::Duration;

/// Settings. Their defaults are those of OpenTelemetry's own SDKs.
#[derive(Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// Where the collector listens for OTLP/HTTP, without `/v1/traces`: `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Headers of every request: a collector's credential, say.
    pub headers: Vec<(String, String)>,
    /// The program's name in traces (`service.name`).
    pub service: String,
    /// What else describes the program.
    pub attributes: Vec<(String, String)>,
    /// Whom an upstream's name stands for, in `gen_ai.provider.name`; a name that isn't here stands for itself.
    pub providers: HashMap<String, String>,
    /// How long a span may wait for others to be sent with it.
    pub delay: Duration,
    /// How often token counts are sent.
    pub interval: Duration,
    /// How long the collector may take for a request.
    pub timeout: Duration,
    /// The most calls that wait to be sent.
    pub queue: usize,
    /// The most calls in a request.
    pub batch: usize,
}

impl std::fmt::Debug for TelemetryConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("TelemetryConfig")
            .field("endpoint", &self.endpoint)
            .field("headers", &names)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// What of the settings can't be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// An address that is none.
    #[error("{0:?} is no address of a collector, such as http://127.0.0.1:4318")]
    Endpoint(String),
    /// A protocol that isn't spoken.
    #[error("{name} asks for {value:?}, and only http/protobuf is spoken")]
    Protocol {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A list that can't be read. Its value isn't said: it may be a credential.
    #[error("{0} is no list of the form name=value,name=value")]
    List(String),
    /// A number that is none.
    #[error("{name} is {value:?}, and should be a number of milliseconds")]
    Milliseconds {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

/// The variable that names the collector.
pub const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

impl TelemetryConfig {
    /// To a collector, with the defaults.
    pub fn new(endpoint: impl Into<String>) -> Self {
        TelemetryConfig {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service: "tapri".to_owned(),
            attributes: Vec::new(),
            providers: HashMap::new(),
            delay: Duration::from_secs(5),
            interval: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
            queue: 2048,
            batch: 512,
        }
    }

    /// With what OpenTelemetry's variables say, each over what was set before. `variable` looks one up.
    ///
    /// Read are `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, `_TIMEOUT` and `_PROTOCOL`, `OTEL_SERVICE_NAME`,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_SCHEDULE_DELAY` and `OTEL_METRIC_EXPORT_INTERVAL`.
    ///
    /// # Errors
    /// The first that can't be read.
    pub fn with_variables(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        // By the specification an empty variable is one that isn't set.
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if let Some(endpoint) = variable(ENDPOINT) {
            self.endpoint = endpoint;
        }
        const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
        if let Some(value) = variable(PROTOCOL).filter(|value| value != "http/protobuf") {
            return Err(ConfigError::Protocol { name: PROTOCOL, value });
        }
        const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
        if let Some(headers) = variable(HEADERS) {
            self.headers = pairs(HEADERS, &headers)?;
        }
        if let Some(attributes) = variable("OTEL_RESOURCE_ATTRIBUTES") {
            self.attributes = pairs("OTEL_RESOURCE_ATTRIBUTES", &attributes)?;
            if let Some(at) = self.attributes.iter().position(|(name, _)| name == "service.name") {
                self.service = self.attributes.remove(at).1;
            }
        }
        if let Some(service) = variable("OTEL_SERVICE_NAME") {
            self.service = service;
        }
        let times = [
            ("OTEL_EXPORTER_OTLP_TIMEOUT", &mut self.timeout),
            ("OTEL_BSP_SCHEDULE_DELAY", &mut self.delay),
            ("OTEL_METRIC_EXPORT_INTERVAL", &mut self.interval),
        ];
        for (name, time) in times {
            if let Some(value) = variable(name) {
                let number = value.trim().parse().map(Duration::from_millis);
                *time = number.map_err(|_| ConfigError::Milliseconds { name, value })?;
            }
        }
        Ok(self)
    }
}

/// `name=value,name=value`, with percent-encoding in values.
///
/// # Errors
/// Where it isn't that; `name` says what it was.
pub fn pairs(name: &str, written: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let wrong = || ConfigError::List(name.to_owned());
    let parts = written.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let name = name.trim();
            if name.is_empty() {
                return Err(wrong());
            }
            Ok((name.to_owned(), decoded(value.trim()).ok_or_else(wrong)?))
        })
        .collect()
}

/// A text with `%20` for a space. `None` where it isn't UTF-8 then.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        let digits = more.get(..2).filter(|_| byte == b'%');
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(coded) => {
                bytes.push(coded);
                rest = &more[2..];
            }
            None => {
                bytes.push(byte);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<TelemetryConfig, ConfigError> {
        let of = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        TelemetryConfig::new("http://file:4318").with_variables(of)
    }

    #[test]
    fn variables_hold_over_what_was_set() {
        let config = read(&[
            (ENDPOINT, "http://env:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, x-two = 2,"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=first,deployment.environment=test"),
            ("OTEL_SERVICE_NAME", "second"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
        ])
        .unwrap();
        assert_eq!(
            (config.endpoint.as_str(), config.service.as_str()),
            ("http://env:4318", "second")
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(config.headers, [pair("x-key", "a b"), pair("x-two", "2")]);
        assert_eq!(config.attributes, [pair("deployment.environment", "test")]);
        assert_eq!(config.timeout, Duration::from_millis(500));
        assert!(!format!("{config:?}").contains("a b"), "a header's value may be a credential");
        let unset = read(&[(ENDPOINT, ""), ("OTEL_SERVICE_NAME", " ")]).unwrap();
        assert_eq!(unset, TelemetryConfig::new("http://file:4318"));
    }

    #[test]
    fn what_cant_be_read_is_said() {
        let error = read(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err().to_string();
        assert!(error.contains("grpc") && error.contains("http/protobuf"), "{error}");
        let error = read(&[("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")]).unwrap_err().to_string();
        assert!(
            error.contains("OTEL_EXPORTER_OTLP_HEADERS") && !error.contains("hunter2"),
            "{error}"
        );
        assert!(read(&[("OTEL_BSP_SCHEDULE_DELAY", "5s")]).is_err());
    }
}
