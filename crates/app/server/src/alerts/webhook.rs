//! Alerts to a webhook: a POST of JSON, from a thread of its own.
//!
//! The queue is bounded, tries are bounded, and each has a time limit: an address that doesn't answer costs alerts,
//! which are counted, and nothing else. With a secret the body is signed, so that the receiver knows whose it is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Alerts that wait to be sent. Alarms are rare; more than this is a storm that nobody reads.
const QUEUE: usize = 64;

/// The header with the time of sending, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-tapri-timestamp";
/// The header with the signature: `sha256=` and the HMAC-SHA-256 of the time, a full stop and the body, in hex.
pub const SIGNATURE_HEADER: &str = "x-tapri-signature";

/// Where alerts are sent.
#[derive(Clone)]
pub struct WebhookConfig {
    /// The address, with `http` or `https`. It may hold a secret, and is not logged.
    pub url: String,
    /// What the body is signed with.
    pub secret: Option<String>,
    /// The longest that a try takes.
    pub timeout: Duration,
    /// How long it waits after each failed try; as many tries follow.
    pub waits: Vec<Duration>,
}

impl WebhookConfig {
    /// An address with the usual limits: ten seconds, and three more tries after 1, 5 and 25 seconds.
    pub fn new(url: impl Into<String>) -> Self {
        WebhookConfig {
            url: url.into(),
            secret: None,
            timeout: Duration::from_secs(10),
            waits: [1, 5, 25].map(Duration::from_secs).to_vec(),
        }
    }
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("url", &"***")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A running sender.
pub(crate) struct Webhook {
    queue: Mutex<Option<SyncSender<String>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// When everything has to be over.
    deadline: Mutex<Option<Instant>>,
    hurry: Condvar,
}

impl Webhook {
    /// Starts the thread. `None` where the system gives none, which is logged.
    pub(crate) fn start(config: WebhookConfig) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let (queue, alerts) = sync_channel(QUEUE);
        let worker = std::thread::Builder::new().name("tapri-webhook".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || work(&config, &shared, &alerts)
        });
        match worker {
            Ok(worker) => Some(Webhook {
                queue: Mutex::new(Some(queue)),
                worker: Mutex::new(Some(worker)),
                shared,
            }),
            Err(error) => {
                tracing::error!("alerts are not sent: no thread for it: {error}");
                None
            }
        }
    }

    /// Sends a body later. Where the queue is full it is dropped and counted.
    pub(crate) fn send(&self, body: String) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.as_ref().is_some_and(|queue| queue.try_send(body).is_ok());
        if !taken {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends what waits, for so long; then gives up.
    pub(crate) fn stop(&self, limit: Duration) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        *self.shared.deadline.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Instant::now() + limit);
        self.shared.hurry.notify_all();
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = worker.map(JoinHandle::join);
    }

    /// What became of the alerts so far.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let Shared { sent, failed, dropped, .. } = &*self.shared;
        [("sent", sent), ("failed", failed), ("dropped", dropped)]
            .map(|(result, count)| (result, count.load(Ordering::Relaxed)))
    }
}

impl Shared {
    /// The time that is left, where it is limited.
    fn left(&self) -> Option<Duration> {
        let deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits, unless everything has to be over soon: then there is no time to wait in.
    fn wait(&self, time: Duration) {
        let deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.hurry.wait_timeout_while(deadline, time, |deadline| deadline.is_none());
    }
}

fn work(config: &WebhookConfig, shared: &Shared, alerts: &Receiver<String>) {
    while let Ok(body) = alerts.recv() {
        let result = deliver(config, shared, &body);
        match &result {
            Ok(()) => &shared.sent,
            Err(_) => &shared.failed,
        }
        .fetch_add(1, Ordering::Relaxed);
        if let Err(why) = result {
            tracing::error!("an alert could not be sent to the webhook: {why}");
        }
    }
}

/// Tries until it is taken, refused, or there are no more tries.
fn deliver(config: &WebhookConfig, shared: &Shared, body: &str) -> Result<(), String> {
    let mut waits = config.waits.iter();
    loop {
        let timeout = shared.left().map_or(config.timeout, |left| left.min(config.timeout));
        if timeout.is_zero() {
            return Err("the server is stopping".to_owned());
        }
        match post(config, timeout, body) {
            Try::Taken => return Ok(()),
            Try::Refused(why) => return Err(why),
            Try::Failed(why) => match waits.next() {
                Some(wait) => shared.wait(*wait),
                None => return Err(why),
            },
        }
    }
}

enum Try {
    Taken,
    /// It won't be taken another time either.
    Refused(String),
    Failed(String),
}

fn post(config: &WebhookConfig, timeout: Duration, body: &str) -> Try {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .http_status_as_error(false)
        .build()
        .into();
    let mut request = agent
        .post(&config.url)
        .header("content-type", "application/json")
        .header("user-agent", concat!("tapri/", env!("CARGO_PKG_VERSION")));
    if let Some(secret) = &config.secret {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        request = request
            .header(TIMESTAMP_HEADER, now.to_string())
            .header(SIGNATURE_HEADER, sign(secret, now, body));
    }
    match request.send(body) {
        Ok(response) => match response.status().as_u16() {
            200..=299 => Try::Taken,
            status @ (408 | 425 | 429 | 500..=599) => Try::Failed(format!("it answered {status}")),
            status => Try::Refused(format!("it answered {status}")),
        },
        // ureq's errors name the trouble, and not the address.
        Err(error) => Try::Failed(error.to_string()),
    }
}

/// What a receiver compares with: anyone who holds the secret can compute it.
fn sign(secret: &str, timestamp: u64, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        // HMAC takes keys of every length.
        return String::new();
    };
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    let digits = mac.finalize().into_bytes();
    digits.iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    use super::*;

    /// A receiver that answers each request with the next status; the requests come over the channel.
    fn receiver(statuses: &'static [u16]) -> (String, mpsc::Receiver<(Vec<String>, String)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?key=secret", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for status in statuses {
                let (stream, _) = listener.accept().unwrap();
                let _ = sender.send(answer(stream, *status));
            }
        });
        (url, requests)
    }

    fn answer(mut stream: TcpStream, status: u16) -> (Vec<String>, String) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let length = head
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    fn config(url: String) -> WebhookConfig {
        WebhookConfig { waits: vec![Duration::from_millis(1); 3], ..WebhookConfig::new(url) }
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn it_is_sent_signed_and_again_after_trouble() {
        let (url, requests) = receiver(&[503, 429, 200]);
        let webhook =
            Webhook::start(WebhookConfig { secret: Some("key".into()), ..config(url) }).unwrap();
        webhook.send(r#"{"kind":"fell"}"#.to_owned());
        for _ in 0..3 {
            let (head, body) = requests.recv_timeout(LONG).unwrap();
            assert_eq!(head[0], "POST /hook?key=secret HTTP/1.1");
            assert_eq!(body, r#"{"kind":"fell"}"#);
            let value = |name: &str| {
                head.iter().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap()
            };
            assert_eq!(value("content-type"), "application/json");
            let timestamp = value(TIMESTAMP_HEADER).parse().unwrap();
            assert_eq!(value(SIGNATURE_HEADER), sign("key", timestamp, &body));
        }
        webhook.stop(LONG);
        assert_eq!(webhook.counts(), [("sent", 1), ("failed", 0), ("dropped", 0)]);
    }

    #[test]
    fn a_refusal_is_final_and_tries_end() {
        let (url, requests) = receiver(&[404, 500, 500, 500, 500]);
        let webhook = Webhook::start(config(url)).unwrap();
        webhook.send("a".to_owned());
        webhook.send("b".to_owned());
        let bodies: Vec<String> = (0..5).map(|_| requests.recv_timeout(LONG).unwrap().1).collect();
        assert_eq!(bodies, ["a", "b", "b", "b", "b"]);
        webhook.stop(LONG);
        assert_eq!(webhook.counts(), [("sent", 0), ("failed", 2), ("dropped", 0)]);
    }

    /// The receiver takes the connection and never answers: senders never wait, and stopping ends it in its time.
    #[test]
    fn a_silent_receiver_costs_alerts_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let webhook = Webhook::start(WebhookConfig {
            timeout: Duration::from_millis(50),
            waits: vec![LONG],
            ..config(url)
        })
        .unwrap();
        let all = QUEUE as u64 + 100;
        (0..all).for_each(|n| webhook.send(n.to_string()));
        webhook.stop(Duration::ZERO);
        let counts = webhook.counts().map(|(_, count)| count);
        assert_eq!((counts[0], counts[1] + counts[2]), (0, all));
        assert!(counts[2] >= 99, "{counts:?}");
        webhook.send("late".to_owned());
        assert_eq!(webhook.counts()[2].1, counts[2] + 1);
    }

    #[test]
    fn the_signature_is_the_documented_one() {
        // printf '1796035327.{}' | openssl dgst -sha256 -hmac key
        assert_eq!(
            sign("key", 1_796_035_327, "{}"),
            "sha256=608f96100c00df09c2236124e1607ce5ca47116c16d8463f056e328d08533315"
        );
    }

    #[test]
    fn the_address_is_not_printed() {
        let config =
            WebhookConfig { secret: Some("key".into()), ..WebhookConfig::new("https://h/secret") };
        assert!(!format!("{config:?}").contains("secret\""), "{config:?}");
        assert!(!format!("{config:?}").contains("https"), "{config:?}");
    }
}
