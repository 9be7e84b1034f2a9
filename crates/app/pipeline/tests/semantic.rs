//! The semantic cache on a call's way, with a backend that answers by a list.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde_json::{Value, json};
use tapri_api::{
    Admission, ApiError, Call, CallEvent, ErrorKind, Finish, FinishReason, Format, Inbound, Prompt,
    TenantScope, Timings, Token, Usage,
};
use tapri_cache::exact::{ExactCache, ExactConfig, Filter, SystemClock};
use tapri_cache::semantic::{Judge, SemanticCache, SemanticMode, SemanticPolicy, SemanticStore};
use tapri_embed::Embedder;
use tapri_embed::letters::Letters;
use tapri_pipeline::{Backend, BackendStats, ModelCard, Pipeline, Running};
use tapri_upstream::{Answer, CallStream, EventSource};

/// Answers the last user turn by a list; counts what it was asked. As a judge it says what it is told to.
struct Listed {
    answers: Mutex<HashMap<String, String>>,
    asked: Mutex<Vec<String>>,
    verdict: Mutex<String>,
    judged: Mutex<Vec<Call>>,
}

struct Play(VecDeque<CallEvent>);

impl EventSource for Play {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(std::future::ready(self.0.pop_front()))
    }
}

fn question(call: &Call) -> String {
    let Prompt::Request(inbound) = &call.prompt else { panic!("{:?}", call.prompt) };
    let turns = inbound.body["messages"].as_array().unwrap();
    turns.last().unwrap()["content"].as_str().unwrap().to_owned()
}

impl Backend for Listed {
    fn name(&self) -> &str {
        "listed"
    }

    fn models(&self) -> Vec<Arc<ModelCard>> {
        vec![Arc::new(ModelCard {
            id: "m".into(),
            aliases: Vec::new(),
            upstream: "listed".into(),
            context: None,
            vocabulary: None,
            template: None,
            fingerprint: "f".into(),
            since: SystemTime::UNIX_EPOCH,
        })]
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        let text = if matches!(call.prompt, Prompt::Chat(_)) {
            self.judged.lock().unwrap().push(call);
            let verdict = self.verdict.lock().unwrap().clone();
            if verdict.is_empty() {
                let error = ApiError::new(ErrorKind::Internal, "the judge is ill");
                return Box::pin(std::future::ready(Err(error)));
            }
            verdict
        } else {
            let question = question(&call);
            let answer = self.answers.lock().unwrap().get(&question).cloned();
            self.asked.lock().unwrap().push(question);
            answer.unwrap_or_else(|| "I don't know.".to_owned())
        };
        let events = VecDeque::from([
            CallEvent::Admitted(Admission {
                reuse: None,
                queued: Duration::ZERO,
                template: None,
                prompt_ids: None,
                dropped: Default::default(),
            }),
            CallEvent::Token(Token { id: 1, text, logprobs: None }),
            CallEvent::Finished(Finish {
                reason: FinishReason::Stop,
                matched_stop: None,
                tail: String::new(),
                usage: Usage::default(),
                timings: Timings::default(),
                raw: None,
            }),
        ]);
        Box::pin(std::future::ready(Ok(CallStream::new(Play(events)))))
    }

    fn tokenize(&self, _: Prompt) -> Answer<Vec<u32>> {
        Box::pin(std::future::ready(Err(ApiError::new(ErrorKind::Internal, "not asked here"))))
    }

    fn tokenize_piece(&self, _: String) -> Answer<Vec<u32>> {
        Box::pin(std::future::ready(Err(ApiError::new(ErrorKind::Internal, "not asked here"))))
    }

    fn detokenize(&self, _: Vec<u32>) -> Answer<String> {
        Box::pin(std::future::ready(Err(ApiError::new(ErrorKind::Internal, "not asked here"))))
    }

    fn stats(&self) -> Option<BackendStats> {
        None
    }

    fn shutdown(&self, _: Duration) {}
}

struct Scene {
    backend: Arc<Listed>,
    pipeline: Pipeline,
}

impl Scene {
    fn new(mode: SemanticMode, budget: f64, recheck: f64) -> Self {
        Scene::with(SemanticPolicy { mode, budget, recheck, ..SemanticPolicy::default() })
    }

    fn with(policy: SemanticPolicy) -> Self {
        let backend = Arc::new(Listed {
            answers: Mutex::default(),
            asked: Mutex::default(),
            verdict: Mutex::default(),
            judged: Mutex::default(),
        });
        let policies = HashMap::from([(Format::Chat.path().to_owned(), policy)]);
        let store = SemanticStore::in_memory().unwrap();
        let embedder = Embedder::checked(Letters::sound()).unwrap();
        let semantic =
            SemanticCache::open(embedder, store, policies, Arc::new(SystemClock), 1).unwrap();
        let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>)
            .cached(ExactCache::new(ExactConfig::default()))
            .semantic(semantic);
        Scene { backend, pipeline }
    }

    fn answers(&self, question: &str, answer: &str) {
        self.backend.answers.lock().unwrap().insert(question.to_owned(), answer.to_owned());
    }

    fn asked(&self) -> usize {
        self.backend.asked.lock().unwrap().len()
    }

    fn semantic(&self) -> &SemanticCache {
        self.pipeline.semantic_cache().unwrap()
    }

    async fn ask(&self, question: &str) -> (String, String) {
        self.ask_with(question, |_| ()).await
    }

    /// The answer and the header.
    async fn ask_with(&self, question: &str, change: impl Fn(&mut Value)) -> (String, String) {
        let mut body = json!({"messages": [
            {"role": "system", "content": "Be kind"}, {"role": "user", "content": question}]});
        change(&mut body);
        let inbound =
            Inbound::read(Format::Chat, Bytes::from(body.to_string()), Vec::new()).unwrap();
        let mut call = Call::request(Arc::new(inbound));
        call.origin.route = Format::Chat.path().into();
        call.origin.tenant = "acme".into();
        call.scope = TenantScope(vec![7]);
        let mut running: Running = self.pipeline.start(call).await.unwrap();
        let status = running.cache_status().to_string();
        let mut text = String::new();
        while let Some(event) = running.next().await {
            match event {
                CallEvent::Token(token) => text.push_str(&token.text),
                CallEvent::Failed(error) => panic!("{error:?}"),
                _ => {}
            }
        }
        (text, status)
    }
}

/// Waits for what is learnt off the call's way.
async fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

const STORED: &str = "How do I cancel my plan?";
/// The highest threshold is tested first, so these are as near as can be.
const NEAR: [&str; 6] = [
    "how do I cancel my plan?",
    "How do I cancel my plan",
    "How do I cancel my plan!",
    "how do i cancel my plan",
    "How do I cancel my plan??",
    "How do I CANCEL my plan?",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_learns_and_serves_nothing() {
    let scene = Scene::new(SemanticMode::Shadow, 0.5, 1.0);
    scene.answers(STORED, "In the settings.");
    let (_, status) = scene.ask(STORED).await;
    assert!(
        status.contains("tapri-semantic; fwd=miss") && status.contains("tapri-exact; fwd=miss")
    );
    until("the first is kept", || scene.semantic().len() == 1).await;
    for (number, question) in NEAR.iter().enumerate() {
        scene.answers(question, if number == 0 { "By post." } else { "in the settings" });
        let (answer, _) = scene.ask(question).await;
        assert_ne!(answer, "I don't know.");
        until("the pair is compared", || scene.semantic().counts().labels > number as u64).await;
    }
    assert_eq!(scene.asked(), 7, "the model answers every one");
    assert_eq!(scene.semantic().counts().wrong, 1, "what is not the same text counts as wrong");
    assert_eq!(scene.semantic().unsettled(9).unwrap().len(), 1);
    // The same request again is the exact cache's.
    let (_, status) = scene.ask(STORED).await;
    assert!(status.contains("tapri-exact; hit"), "{status}");
    assert_eq!(scene.asked(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve_gives_the_stored_answer_checks_it_and_stops_when_it_is_wrong() {
    // A budget of a half is met after a few labels.
    let scene = Scene::new(SemanticMode::Serve, 0.5, 1.0);
    let says = "In the settings.";
    scene.answers(STORED, says);
    NEAR.iter().for_each(|question| scene.answers(question, says));
    scene.ask(STORED).await;
    until("the first is kept", || scene.semantic().len() == 1).await;
    let (mut served, mut asked) = (0, 1);
    for (number, question) in NEAR.iter().enumerate() {
        let (answer, status) = scene.ask(question).await;
        asked += 1;
        assert_eq!(answer, says);
        served += u64::from(status.contains("tapri-semantic; hit"));
        until("it is compared", || scene.semantic().counts().labels > number as u64).await;
    }
    assert!(served >= 1, "{:?}", scene.semantic().status());
    assert_eq!(scene.semantic().counts().hits, served);
    assert_eq!(scene.asked(), asked, "those that were served are checked as well");
    // Look-alikes and other circumstances.
    for (question, other) in [("How do I renew my plan?", None), (STORED, Some("Be rude"))] {
        let (_, status) = scene
            .ask_with(question, |body| {
                if let Some(other) = other {
                    body["messages"][0]["content"] = json!(other);
                }
            })
            .await;
        assert!(status.contains("tapri-semantic; fwd=miss"), "{status}");
    }
    // Whatever the model answered is kept, a moment after its answer.
    let before = 1 + NEAR.len() - served as usize + 2;
    until("all are kept", || scene.semantic().len() == before).await;
    scene.answers("Um, how do I cancel my plan?", "That is no longer possible.");
    let (answer, status) = scene.ask("Um, how do I cancel my plan?").await;
    assert!(status.contains("tapri-semantic; hit") && answer == says, "{status}");
    until("the wrong one is gone", || scene.semantic().len() < before).await;
    assert_eq!(scene.semantic().counts().wrong, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erased_and_unstored_leaves_nothing() {
    let scene = Scene::new(SemanticMode::Shadow, 0.01, 0.02);
    scene.answers(STORED, "In the settings.");
    scene.ask(STORED).await;
    until("it is kept", || scene.semantic().len() == 1).await;
    let filter = Filter { tenant: Some("nobody".to_owned()), ..Filter::default() };
    scene.pipeline.purge(&filter).await.unwrap();
    assert_eq!(scene.semantic().len(), 1);
    scene.pipeline.purge(&Filter::default()).await.unwrap();
    assert!(scene.semantic().is_empty());
    assert!(scene.semantic().unsettled(9).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_is_off() {
    let scene = Scene::new(SemanticMode::Off, 0.01, 0.02);
    let (_, status) = scene.ask(STORED).await;
    assert!(status.contains("tapri-semantic; fwd=bypass; detail=\"off\""), "{status}");
    assert!(scene.semantic().is_empty());
    assert_eq!(scene.semantic().counts().lookups, 0);
}

/// A model is asked where the texts differ: a clear yes is right, a clear no is wrong and forgets the answer, and
/// anything else waits for a person and counts as wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_judges_what_is_not_the_same_text() {
    let judge = Judge::Upstream { upstream: "strict".to_owned(), model: "judge".to_owned() };
    let scene = Scene::with(SemanticPolicy {
        mode: SemanticMode::Shadow,
        judge,
        ..SemanticPolicy::default()
    });
    scene.answers(STORED, "In the settings.");
    NEAR.iter().for_each(|question| scene.answers(question, "Under settings, at the bottom."));
    // Its own words are no judge's: each round compares with this question again.
    let keep = async || {
        scene.pipeline.exact().unwrap().purge(&Filter::default()).await.unwrap();
        scene.semantic().purge(&Filter::default()).unwrap();
        scene.ask(STORED).await;
        until("the first is kept", || scene.semantic().len() == 1).await;
    };
    let cases = [
        ("Yes.", [0, 0], "kept"),
        ("yes, it would", [0, 0], "kept"),
        ("No, the place differs.", [1, 0], "forgotten"),
        ("It depends", [1, 1], "kept"),
        ("", [1, 1], "kept"),
    ];
    for (round, (says, [wrong, unsettled], then)) in cases.into_iter().enumerate() {
        keep().await;
        let before = scene.semantic().counts();
        *scene.backend.verdict.lock().unwrap() = says.to_owned();
        scene.ask(NEAR[0]).await;
        until("it is compared", || scene.semantic().counts().labels > before.labels).await;
        let counts = scene.semantic().counts();
        assert_eq!(counts.wrong - before.wrong, wrong, "{says}");
        assert_eq!(counts.unsettled - before.unsettled, unsettled, "{says}");
        // The new question is kept as well; the old one goes where it was wrong.
        let stored = if then == "kept" { 2 } else { 1 };
        until("the new one is kept", || scene.semantic().len() == stored).await;
        let judged = scene.backend.judged.lock().unwrap();
        assert_eq!(judged.len(), round + 1);
        let call = &judged[round];
        let Prompt::Chat(messages) = &call.prompt else { panic!() };
        let text = format!("{messages:?}");
        for part in [STORED, "In the settings.", NEAR[0], "at the bottom"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(call.model.as_deref(), Some("judge"));
        assert_eq!(call.origin.route, tapri_pipeline::semantic::judge_route("strict"));
        // With the tenant's own credential, in its scope, and leaving nothing behind.
        assert_eq!((&*call.origin.tenant, &call.scope), ("acme", &TenantScope(vec![7])));
        assert!(call.cache.no_store && call.sampling.temperature == 0.0);
    }
    // Where the texts are the same nobody is asked.
    keep().await;
    scene.answers(NEAR[1], "in the settings");
    let labels = scene.semantic().counts().labels;
    scene.ask(NEAR[1]).await;
    until("it is compared", || scene.semantic().counts().labels > labels).await;
    assert_eq!(scene.backend.judged.lock().unwrap().len(), 5);
}
