//! Answers as HTTP has them.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use crate::answer::{self, Answer};
use crate::asked::Api;
use crate::play::{End, Play};
use crate::script::Script;
use crate::seen::{Ending, Mark};

/// What an answer is made with.
pub(crate) struct Reply {
    request_id: String,
    mark: Mark,
    api: Option<Api>,
}

impl Reply {
    pub(crate) fn new(request_id: String, mark: Mark, api: Option<Api>) -> Self {
        Reply { request_id, mark, api }
    }

    pub(crate) fn api(&self) -> Option<Api> {
        self.api
    }

    /// It gets no answer.
    pub(crate) fn hang_up(mut self) {
        self.mark.end(Ending::Cut);
    }

    fn with_headers(self, mut response: Response<Play>) -> Response<Play> {
        let name =
            if self.api.is_some_and(Api::is_anthropic) { "request-id" } else { "x-request-id" };
        if let Ok(value) = HeaderValue::from_str(&self.request_id) {
            response.headers_mut().insert(name, value);
        }
        response
    }

    pub(crate) fn error(mut self, status: u16, script: &Script) -> Response<Play> {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match &script.raw {
            Some(raw) => raw.clone(),
            None => answer::error(self.api, status.as_u16(), script, &self.request_id),
        };
        self.mark.end(Ending::Answered);
        let mut response = json_body(status, body);
        typed(&mut response, script.content_type.as_deref());
        if let Some(wait) =
            script.retry_after.as_deref().and_then(|w| HeaderValue::from_str(w).ok())
        {
            response.headers_mut().insert(RETRY_AFTER, wait);
        }
        self.with_headers(response)
    }

    pub(crate) fn body(mut self, answer: &Answer<'_>) -> Response<Play> {
        let script = answer.script;
        let body = script.raw.clone().unwrap_or_else(|| answer.body());
        let mark = std::mem::replace(&mut self.mark, Mark::none());
        let (chunks, end) = match script.cut_after {
            Some(_) => (VecDeque::from([Bytes::from(body[..body.len() / 2].to_owned())]), End::Cut),
            None => (VecDeque::from([Bytes::from(body)]), End::Clean),
        };
        let mut response = Response::new(Play::new(chunks, Duration::ZERO, end, Some(mark)));
        typed(&mut response, Some(script.content_type.as_deref().unwrap_or("application/json")));
        self.with_headers(response)
    }

    pub(crate) fn stream(mut self, answer: &Answer<'_>) -> Response<Play> {
        let script = answer.script;
        let mark = std::mem::replace(&mut self.mark, Mark::none());
        let (chunks, end) = match &script.raw {
            Some(raw) => (VecDeque::from([Bytes::from(raw.clone())]), End::Clean),
            None => frames(answer),
        };
        let chunks = Vec::from(chunks);
        let chunks = match script.split.filter(|size| *size > 0) {
            Some(size) => {
                chunks.concat().chunks(size).map(Bytes::copy_from_slice).collect::<Vec<_>>()
            }
            None => chunks,
        };
        let wait = Duration::from_millis(script.chunk_delay_ms);
        let mut response = Response::new(Play::new(chunks.into(), wait, end, Some(mark)));
        let default = "text/event-stream; charset=utf-8";
        typed(&mut response, Some(script.content_type.as_deref().unwrap_or(default)));
        self.with_headers(response)
    }
}

/// A stream's chunks, cut where the script says.
fn frames(answer: &Answer<'_>) -> (VecDeque<Bytes>, End) {
    let script = answer.script;
    let mut frames = answer.frames();
    let mut end = End::Clean;
    let cuts = [
        (script.cut_after, End::Cut),
        (script.stall_after, End::Stall),
        (script.end_after, End::Clean),
        (script.error_after, End::Clean),
    ];
    if let Some((after, how)) = cuts.into_iter().find_map(|(after, how)| Some((after?, how))) {
        frames.truncate(after);
        end = how;
        if script.error_after.is_some() {
            frames.push(answer::error_frame(answer.api));
        }
    }
    let write = |frame: &answer::Frame| {
        let mut bytes = Vec::new();
        if script.comments {
            bytes.extend_from_slice(if script.crlf {
                b": a comment\r\n\r\n"
            } else {
                b": a comment\n\n"
            });
        }
        bytes.extend(frame.write(script.crlf));
        Bytes::from(bytes)
    };
    (frames.iter().map(write).collect(), end)
}

fn typed(response: &mut Response<Play>, content_type: Option<&str>) {
    if let Some(value) = content_type.and_then(|value| HeaderValue::from_str(value).ok()) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
}

pub(crate) fn json_body(status: StatusCode, body: String) -> Response<Play> {
    let chunks = VecDeque::from([Bytes::from(body)]);
    let mut response = Response::new(Play::new(chunks, Duration::ZERO, End::Clean, None));
    *response.status_mut() = status;
    typed(&mut response, Some("application/json"));
    response
}
