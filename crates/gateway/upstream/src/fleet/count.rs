//! How many tokens a prompt has, by the word of the upstream that would read it.

use std::sync::Arc;

use serde_json::Value;
use tapri_api::{ApiError, Call, ErrorKind, Format, decode};

use super::Inner;
use super::start::{key, pick};
use crate::http::answer::stopped;
use crate::http::outgoing::{Outgoing, inbound, upstream_name};
use crate::http::splice::{Edit, splice};
use crate::prefix::walk::Prefix;

/// The path, in the one API that has it.
const PATH: &str = "/v1/messages/count_tokens";

/// Asks the upstream.
pub(super) async fn count(inner: Arc<Inner>, call: Call) -> Result<usize, ApiError> {
    let _live = inner.live.enter().ok_or_else(stopped)?;
    let inbound = inbound(&call)?;
    let (card, targets) = inner.targets(call.model.as_deref(), &call.origin.route)?;
    let speaks = |at: &usize| inner.upstreams[*at].formats.contains(&Format::Messages);
    let targets: Vec<_> = targets.into_iter().filter(|target| speaks(&target.upstream)).collect();
    if inbound.format != Format::Messages || targets.is_empty() {
        return Err(super::no_tokens());
    }
    let prefix = Prefix::of(&call, &card.id, inner.seed);
    let chosen = pick(&inner, &targets, &prefix, &[], inner.clock.now()).ok_or_else(|| {
        ApiError::new(ErrorKind::Unavailable, "No upstream of this model can be asked now")
            .code("upstream_unavailable")
    })?;
    let endpoint = &inner.endpoints[chosen.target.endpoint];
    let served = &endpoint.upstream.models[chosen.target.model];
    let edits = [
        Edit::set("model", Value::from(upstream_name(served, &card.id))),
        Edit::remove("cache_salt"),
    ];
    let body = splice(&inbound.bytes, &edits).unwrap_or_default().into();
    let options = decode::Options::default();
    let outgoing = Outgoing {
        format: Format::Messages,
        body,
        options,
        dropped: Vec::new(),
        marked: None,
        directives: None,
    };
    let key = key(&endpoint.upstream, &call)?;
    let now = tokio::time::Instant::now();
    let sent = endpoint.send(PATH, &outgoing, key, &inbound.headers, now).await;
    let response = sent.map_err(|trouble| trouble.error)?;
    let unread = || {
        ApiError::new(ErrorKind::Upstream, "The upstream's count can't be understood")
            .code("upstream_invalid")
    };
    let limit = endpoint.upstream.timeouts.between;
    let text = tokio::time::timeout(limit, response.text()).await.map_err(|_| unread())?;
    let text = text.map_err(|_| unread())?;
    let value: Value = serde_json::from_str(&text).map_err(|_| unread())?;
    let count = value.get("input_tokens").and_then(Value::as_u64).ok_or_else(unread)?;
    usize::try_from(count).map_err(|_| unread())
}
