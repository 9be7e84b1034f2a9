//! Requests under a user's name.

use std::fmt;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tapri_insight::audit::Letters;
use ureq::http::Response;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body};

use super::stream::{self, Answer, StreamError};
use super::target::Target;
use super::{Api, AuditArgs};
use crate::failure::Failure;

/// Who asks.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct User {
    key: Option<String>,
    salt: Option<String>,
}

impl User {
    /// From a key, or a file of one, and a salt.
    pub(super) fn new(
        key: Option<&String>,
        file: Option<&Path>,
        salt: Option<&String>,
    ) -> Result<Self> {
        let key = match file {
            None => key.cloned(),
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| {
                    format!("the key file {} could not be read", path.display())
                })?;
                Some(text.trim().to_owned())
            }
        };
        if key
            .as_ref()
            .is_some_and(|key| key.is_empty() || !key.bytes().all(|b| (33..127).contains(&b)))
        {
            let hint = "a key is one word of printable characters";
            return Err(Failure::usage("a key can't be sent as it is", hint).into());
        }
        Ok(User { key, salt: salt.cloned() })
    }

    /// Whether anything says who it is.
    pub(super) fn is_named(&self) -> bool {
        self.key.is_some() || self.salt.is_some()
    }
}

/// Never the key.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(***)")
    }
}

/// How often a request is tried that was refused for the moment.
const TRIES: u32 = 4;

/// The wait before the second try, doubled with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The largest error body that is looked at.
const LARGEST_ERROR: u64 = 64 << 10;

/// Sends requests to one server.
pub(super) struct Caller {
    agent: Agent,
    base: String,
    api: Api,
    model: String,
}

/// Headers in which servers say how long an answer took them, in milliseconds.
const SERVER_TIMES: [&str; 3] =
    ["openai-processing-ms", "x-envoy-upstream-service-time", "x-processing-time-ms"];

impl Caller {
    /// Finds out the model where none was named.
    pub(super) fn new(args: &AuditArgs, target: &Target, user: &User) -> Result<Self> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(args.timeout));
        // What stays at home needs no proxy, and must not go through one.
        let config = if target.private { config.proxy(None) } else { config };
        let agent = Agent::with_parts(config.build(), DefaultConnector::new(), target.pinned());
        let mut caller =
            Caller { agent, base: target.base.clone(), api: args.api, model: String::new() };
        caller.model = match &args.model {
            Some(model) => model.clone(),
            None => caller.first_model(user)?,
        };
        Ok(caller)
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    fn first_model(&self, user: &User) -> Result<String> {
        let url = format!("{}/v1/models", self.base);
        let mut request = self.agent.get(&url);
        if let Some(key) = &user.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let asked = request.call().map_err(|error| unreachable(&url, &error))?;
        let mut response = accepted(&url, asked)?;
        let body = response.body_mut().with_config().limit(LARGEST_ERROR * 16).read_to_vec();
        let list: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
        match list["data"][0]["id"].as_str() {
            Some(model) => Ok(model.to_owned()),
            None => Err(Failure::new(
                anyhow::anyhow!("{url} lists no model"),
                Some("name one with --model"),
            )
            .into()),
        }
    }

    /// Asks for one token. Tries again a few times where the server or the connection asks for patience.
    pub(super) fn ask(&self, user: &User, prompt: &Letters) -> Result<Answer> {
        let mut wait = FIRST_WAIT;
        for tried in 1.. {
            match self.try_once(user, prompt) {
                Ok(answer) => return Ok(Answer { asked_again: tried > 1, ..answer }),
                Err(Refused::ForNow { after, error }) if tried < TRIES => {
                    eprintln!("note: {error:#}; trying again");
                    sleep(after.unwrap_or(wait).min(LONGEST_WAIT));
                    wait *= 2;
                }
                Err(Refused::ForNow { error, .. }) => {
                    let error = error.context(format!("given up after {TRIES} tries"));
                    let hint = "a slower pace helps against limits: --delay 5s";
                    return Err(Failure::new(error, Some(hint)).into());
                }
                Err(Refused::ForGood(error)) => return Err(error),
            }
        }
        // The loop ends by returning.
        Err(anyhow::anyhow!("no request was sent"))
    }

    fn try_once(&self, user: &User, prompt: &Letters) -> Result<Answer, Refused> {
        let mut body = json!({
            "model": self.model,
            "max_tokens": 1,
            "temperature": 1,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        let path = match self.api {
            Api::Chat => {
                body["messages"] = json!([{"role": "user", "content": prompt.text()}]);
                "chat/completions"
            }
            Api::Completions => {
                body["prompt"] = prompt.text().into();
                "completions"
            }
        };
        if let Some(salt) = &user.salt {
            body["cache_salt"] = salt.as_str().into();
        }
        let url = format!("{}/v1/{path}", self.base);
        let mut request = self.agent.post(&url).content_type("application/json");
        if let Some(key) = &user.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let body = body.to_string();
        let sent = Instant::now();
        let response = request.send(body).map_err(|error| match error {
            ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Protocol(_) => {
                Refused::ForNow { after: None, error: unreachable(&url, &error) }
            }
            error => Refused::ForGood(unreachable(&url, &error)),
        })?;
        let after = seconds(&response, "retry-after").map(Duration::from_secs_f64);
        let busy = matches!(response.status().as_u16(), 429 | 500 | 502 | 503 | 504 | 529);
        let mut response = accepted(&url, response).map_err(|error| {
            if busy { Refused::ForNow { after, error } } else { Refused::ForGood(error) }
        })?;
        let server = SERVER_TIMES.iter().find_map(|name| seconds(&response, name));
        let read = stream::read(response.body_mut().as_reader(), sent);
        let mut answer = read.map_err(|error| {
            let cut = matches!(error, StreamError::Cut | StreamError::Io(_));
            let error = anyhow::Error::new(error).context(format!("no answer from {url}"));
            if cut { Refused::ForNow { after: None, error } } else { Refused::ForGood(error) }
        })?;
        answer.server = server.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
        Ok(answer)
    }
}

/// Why there is no answer.
enum Refused {
    /// It may come when asked again, after a while that the server may have named.
    ForNow {
        after: Option<Duration>,
        error: anyhow::Error,
    },
    ForGood(anyhow::Error),
}

/// A header that is a number of at least 0.
fn seconds(response: &Response<Body>, name: &str) -> Option<f64> {
    let value: f64 = response.headers().get(name)?.to_str().ok()?.trim().parse().ok()?;
    (0.0..1e9).contains(&value).then_some(value)
}

fn unreachable(url: &str, error: &ureq::Error) -> anyhow::Error {
    let hint = match error {
        ureq::Error::Timeout(_) => "it may need longer: --timeout 5m",
        _ => "is the server running, and is the address right?",
    };
    Failure::new(anyhow::anyhow!("{url} could not be asked: {error}"), Some(hint)).into()
}

/// The response, unless its status says no.
fn accepted(url: &str, mut response: Response<Body>) -> Result<Response<Body>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        let hint = "it is not followed, since keys must not go elsewhere; give the address itself";
        return Err(
            Failure::new(anyhow::anyhow!("{url} leads elsewhere ({status})"), Some(hint)).into()
        );
    }
    let body = response.body_mut().with_config().limit(LARGEST_ERROR).read_to_vec();
    let said = stream::message(&body.unwrap_or_default());
    let error = anyhow::anyhow!("{url} answered {status}: {said}");
    let hint = match status.as_u16() {
        401 | 403 => Some(
            "give keys with --victim-key and --attacker-key, or in TAPRI_AUDIT_VICTIM_KEY and TAPRI_AUDIT_ATTACKER_KEY",
        ),
        400 if said.contains("context") || said.contains("token") => {
            Some("a shorter prompt may do: --prompt-tokens 1000")
        }
        404 => Some("is the model's name right (--model), and has the server this API (--api)?"),
        _ => None,
    };
    Err(Failure::new(error, hint).into())
}
