//! A collector that takes OTLP/HTTP and keeps what came, in the protocol's own messages.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Point;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Connections are accepted and nobody answers.
pub const SILENT: u16 = 0;

/// A collector on a port of its own, which lives as long as the process.
pub struct Collector {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    traces: Mutex<Vec<ExportTraceServiceRequest>>,
    metrics: Mutex<Vec<ExportMetricsServiceRequest>>,
    heads: Mutex<Vec<String>>,
    bytes: Mutex<Vec<u8>>,
    status: AtomicU16,
}

impl Collector {
    /// One that answers with a status.
    pub fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { status: AtomicU16::new(status), ..Shared::default() });
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&all);
                std::thread::spawn(move || while serve(&stream, &shared).is_some() {});
            }
        });
        Collector { address, shared }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it answers so.
    pub fn answers(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    /// All spans that were taken.
    pub fn spans(&self) -> Vec<Span> {
        let traces = self.shared.traces.lock().unwrap();
        let scopes = traces.iter().flat_map(|it| &it.resource_spans).flat_map(|it| &it.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// What describes the program that sent them.
    pub fn resource(&self) -> Vec<KeyValue> {
        let traces = self.shared.traces.lock().unwrap();
        traces[0].resource_spans[0].resource.clone().unwrap().attributes
    }

    /// A metric's latest sum over the points that have an attribute.
    pub fn sum(&self, name: &str, attribute: (&str, &str)) -> Option<i64> {
        let metrics = self.shared.metrics.lock().unwrap();
        let last = metrics.last()?;
        let scopes = last.resource_metrics.iter().flat_map(|it| &it.scope_metrics);
        let metric = scopes.flat_map(|scope| &scope.metrics).find(|it| it.name == name)?;
        assert_eq!(metric.unit, "{token}");
        let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "cumulative: {sum:?}");
        let points = sum
            .data_points
            .iter()
            .filter(|it| text(&it.attributes, attribute.0).as_deref() == Some(attribute.1));
        let values: Vec<i64> = points
            .map(|it| match it.value {
                Some(Point::AsInt(value)) => value,
                ref other => panic!("{other:?}"),
            })
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The heads of the requests.
    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }

    /// Whether a text is in anything that came.
    pub fn has_seen(&self, text: &str) -> bool {
        let bytes = self.shared.bytes.lock().unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Waits until something is so.
    pub fn wait_until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One request; `None` at the connection's end.
fn serve(mut stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    let (head, body) = loop {
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..n]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        let length: usize = length.trim().parse().ok()?;
        if bytes.len() >= end + 4 + length {
            break (head, bytes[end + 4..end + 4 + length].to_vec());
        }
    };
    let status = shared.status.load(Ordering::SeqCst);
    if status == SILENT {
        // Until the client gives up.
        let _ = stream.read(&mut buffer);
        return None;
    }
    shared.bytes.lock().unwrap().extend_from_slice(&body);
    if status == 200 {
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        match head.split(' ').nth(1)? {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                shared.traces.lock().unwrap().push(request);
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
                shared.metrics.lock().unwrap().push(request);
            }
            path => panic!("nothing is sent to {path}"),
        }
    }
    shared.heads.lock().unwrap().push(head);
    let answer = format!("HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).ok()
}

fn find<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|it| it.key == key)?.value.as_ref()?.value.as_ref()
}

/// An attribute that is a text.
pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    match find(attributes, key)? {
        Value::StringValue(text) => Some(text.clone()),
        other => panic!("{key} is {other:?}"),
    }
}

/// An attribute that is a whole number.
pub fn count(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match find(attributes, key)? {
        Value::IntValue(count) => Some(*count),
        other => panic!("{key} is {other:?}"),
    }
}

/// An attribute that is a list with one text.
pub fn only(attributes: &[KeyValue], key: &str) -> Option<String> {
    match find(attributes, key)? {
        Value::ArrayValue(list) => match list.values[0].value.as_ref()? {
            Value::StringValue(text) if list.values.len() == 1 => Some(text.clone()),
            other => panic!("{key} has {other:?}"),
        },
        other => panic!("{key} is {other:?}"),
    }
}
