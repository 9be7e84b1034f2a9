//! A call's way to a replica: chosen, asked, and asked again where that may help.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tapri_api::{ApiError, Call, ErrorKind};

use super::Inner;
use super::models::Target;
use crate::CallStream;
use crate::breaker::BreakerState;
use crate::config::{Credential, Kind, Secret, UpstreamConfig};
use crate::http::answer::{Begun, Events, stopped};
use crate::http::endpoint::{Endpoint, Running, count};
use crate::http::outgoing::{self, Helpers, Outgoing, outgoing, upstream_name};
use crate::http::trouble::Trouble;
use crate::prefix::calibration::Expected;
use crate::prefix::choice::{Candidate, choose};
use crate::prefix::rules::{Help, Rule};
use crate::prefix::walk::{BLOCK, Prefix};

/// What a choice was made from.
pub(super) struct Chosen {
    pub(super) target: Target,
    seen: usize,
    best: usize,
}

/// Starts a call.
pub(crate) async fn start(inner: Arc<Inner>, call: Call) -> Result<CallStream, ApiError> {
    let submitted = tokio::time::Instant::now();
    let mut stopping = inner.live.enter().ok_or_else(stopped)?;
    let begun = {
        let work = run(&inner, &call, submitted);
        tokio::select! {
            begun = work => begun?,
            () = stopping.wait() => return Err(stopped()),
        }
    };
    let (begun, outgoing) = begun;
    Ok(CallStream::new(Events::new(begun, stopping, &outgoing)))
}

async fn run(
    inner: &Arc<Inner>,
    call: &Call,
    submitted: tokio::time::Instant,
) -> Result<(Begun, Outgoing), ApiError> {
    let inbound = outgoing::inbound(call)?;
    let (card, targets) = inner.targets(call.model.as_deref(), &call.origin.route)?;
    let prefix = Prefix::of(call, &card.id, inner.seed);
    let mut failed: Vec<usize> = Vec::new();
    let mut last: Option<Trouble> = None;
    let mut tries = 0;
    loop {
        let now = inner.clock.now();
        let chosen = match pick(inner, &targets, &prefix, &failed, now) {
            Some(chosen) => chosen,
            // All have failed this call once: again, from the one that is best.
            None if !failed.is_empty() => {
                failed.clear();
                match pick(inner, &targets, &prefix, &failed, now) {
                    Some(chosen) => chosen,
                    None => {
                        return Err(
                            last.map_or_else(|| unavailable(inner, &targets, now), |t| t.error)
                        );
                    }
                }
            }
            None => return Err(unavailable(inner, &targets, now)),
        };
        let endpoint = &inner.endpoints[chosen.target.endpoint];
        let retry = endpoint.upstream.retry;
        if let Some(trouble) = &last {
            // Another replica may be asked at once.
            let same = failed.is_empty();
            if same {
                let Some(wait) = wait(&retry, tries, trouble, call.id.0 as u64) else {
                    return Err(trouble.error.clone());
                };
                tokio::time::sleep(wait).await;
            }
            count(&endpoint.counts.retries);
            tracing::debug!(upstream = endpoint.name, tries, "asked again");
        }
        let Some(pass) = endpoint.breaker.enter(inner.clock.now()) else {
            // Another call took its one try.
            failed.push(chosen.target.endpoint);
            if failed.len() > targets.len() {
                return Err(unavailable(inner, &targets, now));
            }
            continue;
        };
        tries += 1;
        let served = &endpoint.upstream.models[chosen.target.model];
        let rule = inner.rule(&endpoint.upstream, upstream_name(served, &card.id));
        let help = Helpers {
            rule,
            keys: &inner.keys,
            reuse: &inner.reuse,
            tokens: &|bytes| endpoint.calibrator.tokens(bytes),
            now,
        };
        let key = key(&endpoint.upstream, call)?;
        let outgoing =
            outgoing(call, &inbound, &endpoint.upstream, served, &card.id, &prefix, &help)?;
        // Where markers say what is stored, nothing behind the last one is, and nothing at all without one.
        let stored = match rule {
            Some(rule) if rule.help == Help::CacheControl => outgoing.marked.unwrap_or(0),
            _ => usize::MAX,
        };
        let expected = expected(endpoint, rule, &prefix, &chosen, stored);
        let replica = chosen.target.endpoint as u32;
        // What is to leave nothing behind is not looked for later.
        if call.cache.may_store() {
            let stored = (stored / BLOCK).min(prefix.blocks.len());
            inner.index().reads(&prefix.blocks[..stored], replica, now);
        }
        inner.work().reads(replica, prefix.blocks.len().saturating_sub(chosen.seen));
        let running = Running::begin(endpoint);
        let path = outgoing.format.path();
        let sent = endpoint.send(path, &outgoing, key, &inbound.headers, submitted).await;
        match sent {
            Ok(response) => {
                let begun = Begun {
                    response,
                    running,
                    pass: pass.begun(inner.clock.now()),
                    clock: Arc::clone(&inner.clock),
                    expected,
                    totals: Arc::clone(&inner.totals),
                    submitted,
                    event_limit: inner.event_limit,
                    body_limit: inner.body_limit,
                };
                return Ok((begun, outgoing));
            }
            Err(trouble) => {
                inner
                    .index()
                    .forget(&prefix.blocks[chosen.seen.min(prefix.blocks.len())..], replica);
                told(endpoint, &trouble, pass, inner.clock.now());
                failed.push(chosen.target.endpoint);
                if !trouble.again || tries > retry.most {
                    return Err(trouble.error);
                }
                last = Some(trouble);
            }
        }
    }
}

/// Counts a failed try, and says it to the breaker.
fn told(endpoint: &Endpoint, trouble: &Trouble, pass: crate::breaker::Pass, now: Instant) {
    let counter = match trouble {
        Trouble { busy: true, .. } => &endpoint.counts.busy,
        Trouble { ill: true, .. } => &endpoint.counts.failed,
        _ => &endpoint.counts.refused,
    };
    count(counter);
    if trouble.ill {
        pass.ill(now);
    } else {
        pass.well(now);
    }
    if trouble.busy || trouble.error.kind == ErrorKind::Overloaded {
        let wait = trouble.error.retry_after.unwrap_or(Duration::from_secs(1));
        endpoint.cool(now + wait.min(Duration::from_secs(60)));
    }
}

/// How long to wait before a try; `None` where that is the caller's to do.
fn wait(
    retry: &crate::config::Retry,
    tries: u32,
    trouble: &Trouble,
    draw: u64,
) -> Option<Duration> {
    let doubled = retry.base.saturating_mul(1 << tries.saturating_sub(1).min(16));
    // Between half of it and all of it, so that callers who failed together don't come back together.
    let mixed = draw.wrapping_add(u64::from(tries)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let part = 0.5 + mixed as f64 / (1u64 << 25) as f64;
    let own = doubled.mul_f64(part);
    let wait = trouble.error.retry_after.unwrap_or(Duration::ZERO).max(own);
    (wait <= retry.longest).then_some(wait)
}

/// The replica for a call, among those that have not failed it.
pub(super) fn pick(
    inner: &Inner,
    targets: &[Target],
    prefix: &Prefix,
    failed: &[usize],
    now: Instant,
) -> Option<Chosen> {
    let can = |target: &&Target| {
        let endpoint = &inner.endpoints[target.endpoint];
        !failed.contains(&target.endpoint) && endpoint.breaker.state(now) != BreakerState::Open
    };
    let mut able: Vec<Target> = targets.iter().filter(can).copied().collect();
    // Those that are ill or asked to be left alone come last: better one of them than none.
    for good in [
        (|endpoint: &Endpoint, _: Instant| endpoint.is_well()) as fn(&Endpoint, Instant) -> bool,
        |endpoint, now| !endpoint.is_cooling(now),
    ] {
        let some: Vec<Target> = able
            .iter()
            .filter(|target| good(&inner.endpoints[target.endpoint], now))
            .copied()
            .collect();
        if !some.is_empty() {
            able = some;
        }
    }
    let index = inner.index();
    let mut candidates: Vec<Candidate> = able
        .iter()
        .map(|target| {
            let endpoint = &inner.endpoints[target.endpoint];
            let replica = target.endpoint as u32;
            let seen = index.seen(&prefix.blocks, replica, inner.life(target), now);
            // An upstream's weight is shared by its replicas as its calls are.
            let weight = endpoint.upstream.weight;
            Candidate { replica, running: endpoint.running(), pressure: 0.0, weight, seen }
        })
        .collect();
    drop(index);
    inner.work().press(&mut candidates);
    let tie = prefix.blocks.first().copied().unwrap_or(prefix.opening);
    let at = choose(&candidates, prefix.blocks.len(), tie)?;
    let best = candidates.iter().map(|candidate| candidate.seen).max().unwrap_or(0);
    Some(Chosen { target: able[at], seen: candidates[at].seen, best })
}

/// What its prefix cache should have for the call.
fn expected(
    endpoint: &Endpoint,
    rule: Option<&Rule>,
    prefix: &Prefix,
    chosen: &Chosen,
    stored: usize,
) -> Expected {
    let seen = chosen.seen * BLOCK;
    let tokens = endpoint.calibrator.tokens(seen.min(stored));
    let tokens = rule.map_or(tokens / 16 * 16, |rule| rule.readable(tokens));
    Expected { bytes: prefix.bytes, seen, best: chosen.best * BLOCK, tokens }
}

/// The key that a call is sent with.
pub(super) fn key<'a>(
    upstream: &'a UpstreamConfig,
    call: &Call,
) -> Result<Option<&'a Secret>, ApiError> {
    match &upstream.credential {
        Credential::None => Ok(None),
        Credential::Shared(key) => Ok(Some(key)),
        Credential::PerTenant(keys) => {
            keys.get(call.origin.tenant.as_ref()).map(Some).ok_or_else(|| {
                ApiError::new(
                    ErrorKind::Forbidden,
                    format!(
                        "There is no credential for the upstream {} that is yours",
                        upstream.name
                    ),
                )
                .code("no_upstream_credential")
                .hint("Ask the operator for one, or for another model")
            })
        }
    }
}

/// The error where no replica may be asked.
fn unavailable(inner: &Inner, targets: &[Target], now: Instant) -> ApiError {
    let opens = targets
        .iter()
        .filter_map(|target| inner.endpoints[target.endpoint].breaker.opens_at())
        .map(|at| at.saturating_duration_since(now))
        .min();
    ApiError::new(
        ErrorKind::Unavailable,
        "The upstreams of this model have failed and are left alone for a while",
    )
    .code("upstream_unavailable")
    .hint("Try again a little later")
    .retry_after(opens.unwrap_or(Duration::from_secs(1)))
}

impl Inner {
    /// The rule for a model, where its upstream keeps to one.
    fn rule(&self, upstream: &UpstreamConfig, model: &str) -> Option<&Rule> {
        (upstream.kind == Kind::Hosted).then(|| self.rules.find(model)).flatten()
    }

    /// How long a replica keeps a start.
    fn life(&self, target: &Target) -> Option<Duration> {
        let upstream = &self.upstreams[target.upstream];
        let served = &upstream.models[target.model];
        upstream
            .cache_life
            .or_else(|| self.rule(upstream, upstream_name(served, &served.name))?.life())
    }

    /// Who serves a name. The model's card comes with them.
    pub(super) fn targets(
        &self,
        asked: Option<&str>,
        route: &str,
    ) -> Result<(Arc<crate::ModelCard>, Vec<Target>), ApiError> {
        let card = self.model(asked)?;
        let name = asked.unwrap_or(&card.id);
        let Some((card, targets)) = self.models.find(name, &self.upstreams) else {
            return Err(crate::unknown_model(name, &self.models.cards()));
        };
        let allowed = self.routes.get(route);
        let may = |target: &&Target| {
            allowed.is_none_or(|names| names.contains(&self.upstreams[target.upstream].name))
        };
        let targets: Vec<Target> = targets.iter().filter(may).copied().collect();
        if targets.is_empty() {
            // As if it were not there: what other routes have is not this caller's to know.
            return Err(crate::unknown_model(name, &[]));
        }
        Ok((card, targets))
    }
}
