//! A hit rate that falls: the log, the webhook and `/metrics` say so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::Value;
use tapri_api::{CallEvent, Finish, FinishReason, Prompt, ReuseStop, Timings, Usage};
use tapri_insight::alert;
use tapri_pipeline::{Backend, ModelCard, Pipeline};
use tapri_server::{AlertConfig, App, ServerConfig, WebhookConfig, router};
use tapri_upstream::{Answer, CallStream};

use super::CHAT;
use super::http::*;
use super::scripted::*;
use super::wire::HI;

/// A backend whose cache stops working.
struct Breaks {
    works: Arc<Scripted>,
    broken: Arc<Scripted>,
    is_broken: AtomicBool,
}

impl Breaks {
    fn now(&self) -> &Scripted {
        if self.is_broken.load(Ordering::SeqCst) { &self.broken } else { &self.works }
    }
}

impl Backend for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }

    fn models(&self) -> Vec<Arc<ModelCard>> {
        self.works.models()
    }

    fn start(&self, call: tapri_api::Call) -> Answer<CallStream> {
        self.now().start(call)
    }

    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>> {
        self.works.tokenize(prompt)
    }

    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>> {
        self.works.tokenize_piece(text)
    }

    fn detokenize(&self, ids: Vec<u32>) -> Answer<String> {
        self.works.detokenize(ids)
    }

    fn stats(&self) -> Option<tapri_pipeline::BackendStats> {
        self.works.stats()
    }

    fn shutdown(&self, limit: Duration) {
        self.works.shutdown(limit);
    }
}

fn missed() -> Vec<Step> {
    let finish = Finish {
        reason: FinishReason::Stop,
        matched_stop: None,
        tail: String::new(),
        usage: Usage::from_prompt(100, 0, 0, 2),
        raw: None,
        timings: Timings::default(),
    };
    vec![
        admitted(0, ReuseStop::NeverSeen),
        token("Hello"),
        Step::Event(CallEvent::Finished(finish)),
    ]
}

/// Takes one POST after the other; their bodies come over the channel.
fn receiver() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
            let _ = sender.send(serde_json::from_slice(&body).unwrap());
        }
    });
    (url, bodies)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_reaches_the_webhook_and_the_metrics() {
    let (url, bodies) = receiver();
    let watch = alert::Config { false_alarm_every: 2000, ..alert::Config::default() };
    let config = ServerConfig {
        alerts: Some(AlertConfig { watch, webhook: Some(WebhookConfig::new(url)) }),
        ..ServerConfig::default()
    };
    let backend = Arc::new(Breaks {
        works: Scripted::plays(whole_call()),
        broken: Scripted::plays(missed()),
        is_broken: AtomicBool::new(false),
    });
    let app = router(App::new(&config, Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>)));
    for call in 0..800 {
        backend.is_broken.store(call >= 640, Ordering::SeqCst);
        assert_eq!(send(app.clone(), post(CHAT, &[], HI)).await.status, 200);
    }
    let mut alerts: Vec<Value> =
        (0..2).map(|_| bodies.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    alerts.sort_by_key(|alert| alert["tenant"].to_string());
    let told: Vec<_> = alerts
        .iter()
        .map(|alert| {
            assert_eq!(alert["schema"], "tapri.alert/1");
            assert_eq!(alert["before"]["mean"], 0.96);
            assert_eq!(alert["after"]["mean"], 0.0);
            (
                alert["kind"].as_str().unwrap(),
                alert["tenant"].as_str().unwrap(),
                alert["route"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [("fell", "*", CHAT), ("fell", "default", "*")]);
    let metrics = send(app, get("/metrics")).await.body;
    let shown: Vec<&str> = metrics
        .lines()
        .filter(|line| line.contains("tapri_alert") || line.contains("tapri_hit_rate"))
        // Whether the second one was confirmed yet is a matter of time.
        .filter(|line| !line.contains("result=\"sent\""))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[tokio::test]
async fn alerts_can_be_left() {
    let config = ServerConfig { alerts: None, ..ServerConfig::default() };
    let metrics = send(app(&Scripted::plays(whole_call()), config), get("/metrics")).await.body;
    assert!(!metrics.contains("tapri_alert"), "{metrics}");
}
