//! What the tests share: upstreams, a fleet on them, and calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tapri_api::{ApiError, Call, CallEvent, Finish, Format, Inbound, Says, TenantScope};
use tapri_fake_upstream::{CacheConfig, CacheStyle, Fake, FakeConfig, Script};
use tapri_upstream::clock::{ManualClock, SystemClock};
use tapri_upstream::{Api, Backend, CallStream, Fleet, FleetConfig, Retry, UpstreamConfig};

pub async fn fake(script: Script) -> Fake {
    Fake::start(FakeConfig { script, ..FakeConfig::default() }).await.unwrap()
}

pub async fn caching(style: CacheStyle) -> Fake {
    let cache = Some(CacheConfig { style, ..CacheConfig::default() });
    Fake::start(FakeConfig { cache, ..FakeConfig::default() }).await.unwrap()
}

/// An upstream whose retries don't wait.
pub fn upstream(name: &str, url: &str, api: Api) -> UpstreamConfig {
    let retry =
        Retry { most: 2, base: Duration::from_millis(1), longest: Duration::from_millis(50) };
    UpstreamConfig { retry, ..UpstreamConfig::new(name, url, api) }
}

pub fn fleet(upstreams: Vec<UpstreamConfig>) -> Fleet {
    let config = FleetConfig { upstreams, ..FleetConfig::default() };
    Fleet::with(config, Arc::new(SystemClock), 7).unwrap()
}

pub fn with_clock(upstreams: Vec<UpstreamConfig>, clock: &ManualClock) -> Fleet {
    let config = FleetConfig { upstreams, ..FleetConfig::default() };
    Fleet::with(config, Arc::new(clock.clone()), 7).unwrap()
}

pub fn call(format: Format, body: Value) -> Call {
    let headers = vec![("anthropic-beta".to_owned(), "tools-2026".to_owned())];
    let inbound = Inbound::read(format, body.to_string().into(), headers).unwrap();
    let mut call = Call::request(Arc::new(inbound));
    call.model = body["model"].as_str().map(str::to_owned);
    call
}

pub fn tenant(scope: &[u8], name: &'static str, call: Call) -> Call {
    let mut call = call;
    call.scope = TenantScope(scope.to_vec());
    call.origin.tenant = name.into();
    call
}

pub fn chat(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

pub fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

/// An answer's text and its end.
#[derive(Debug)]
pub struct Answer {
    pub text: String,
    pub end: Result<Finish, ApiError>,
    pub events: Vec<CallEvent>,
}

impl Answer {
    pub fn finish(&self) -> &Finish {
        self.end.as_ref().unwrap()
    }
}

pub async fn read(mut stream: CallStream) -> Answer {
    let (mut text, mut events) = (String::new(), Vec::new());
    loop {
        let event = stream.next().await.expect("a last event");
        events.push(event.clone());
        match event {
            CallEvent::Piece(piece) => {
                for delta in piece.deltas {
                    if let Says::Text(more) = delta.says {
                        text.push_str(&more);
                    }
                }
            }
            CallEvent::Finished(finish) => return Answer { text, end: Ok(finish), events },
            CallEvent::Failed(error) => return Answer { text, end: Err(error), events },
            _ => {}
        }
    }
}

pub async fn ask(fleet: &Fleet, call: Call) -> Result<Answer, ApiError> {
    Ok(read(fleet.start(call).await?).await)
}

pub async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
