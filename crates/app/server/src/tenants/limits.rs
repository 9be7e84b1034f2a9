//! What a tenant may use, and the counting of it.
//!
//! Requests and tokens are counted in buckets that leak: a limit of 60 a minute lets 60 through at once and then one
//! each second. Tokens are reserved before a call runs, from the size of its body and the answer it allows, and set
//! right when it has ended; a call that is larger than a whole minute's tokens waits for an empty bucket and leaves a
//! debt behind. A call in flight holds its place until its `Entry` is dropped, streams included.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tapri_api::{ApiError, ErrorKind};

use super::{Tenant, Tenants};

/// Bytes of a request that are taken for one token before it was read: English text in JSON has four or five.
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens reserved for an answer that has no limit of its own.
const OPEN_ANSWER: u64 = 512;

/// How long a call that found all places taken should wait: about as long as a short call takes.
const PLACE: Duration = Duration::from_secs(1);

/// What a tenant may use. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Requests a minute.
    pub requests: Option<NonZeroU32>,
    /// Tokens of prompts and answers a minute.
    pub tokens: Option<NonZeroU32>,
    /// Calls at one time.
    pub concurrent: Option<NonZeroUsize>,
    /// The share of the KV memory, in (0, 1].
    pub kv_share: Option<f64>,
}

/// A bucket that leaks at its limit a minute.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    used: f64,
    at: Instant,
}

impl Bucket {
    fn leak(&mut self, limit: f64, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.used = (self.used - limit * passed / 60.0).max(0.0);
        self.at = self.at.max(now);
    }

    /// Takes an amount, or says how long until it can be had.
    fn take(&mut self, limit: f64, amount: f64, now: Instant) -> Result<(), Duration> {
        self.leak(limit, now);
        // More than all there ever is: it may go when nothing is used.
        let over = self.used + amount.min(limit) - limit;
        // Floating-point sums of a leak end a hair above what they should.
        if over > 1e-6 {
            return Err(Duration::from_secs_f64(over * 60.0 / limit));
        }
        self.used += amount;
        Ok(())
    }

    /// Sets an amount right that turned out to be another.
    fn correct(&mut self, by: f64) {
        self.used = (self.used + by).max(0.0);
    }
}

/// What a tenant has used.
#[derive(Debug)]
pub(crate) struct Used {
    requests: Mutex<Bucket>,
    tokens: Mutex<Bucket>,
    running: AtomicUsize,
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Until all of it can be had again.
    pub(crate) reset: Duration,
}

impl Used {
    pub(crate) fn new(now: Instant) -> Self {
        let bucket = Bucket { used: 0.0, at: now };
        Used {
            requests: Mutex::new(bucket),
            tokens: Mutex::new(bucket),
            running: AtomicUsize::new(0),
        }
    }

    /// Calls that run.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// What is left of the requests and of the tokens, where they are limited.
    pub(crate) fn left(&self, limits: &Limits, now: Instant) -> (Option<Left>, Option<Left>) {
        let left = |bucket: &Mutex<Bucket>, limit: Option<NonZeroU32>| {
            limit.map(|limit| {
                let per_minute = f64::from(limit.get());
                let mut bucket = lock(bucket);
                bucket.leak(per_minute, now);
                Left {
                    limit: limit.get(),
                    remaining: (per_minute - bucket.used).max(0.0) as u32,
                    reset: Duration::from_secs_f64(bucket.used * 60.0 / per_minute),
                }
            })
        };
        (left(&self.requests, limits.requests), left(&self.tokens, limits.tokens))
    }
}

fn lock(bucket: &Mutex<Bucket>) -> MutexGuard<'_, Bucket> {
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a request, or refuses it.
pub(crate) fn request(tenant: &Tenant, now: Instant) -> Result<(), ApiError> {
    let Some(limit) = tenant.config.limits.requests else { return Ok(()) };
    let taken = lock(&tenant.used.requests).take(f64::from(limit.get()), 1.0, now);
    taken.map_err(|wait| {
        let what = format!("This key's tenant may send {limit} requests a minute, and has");
        ApiError::new(ErrorKind::Busy, what)
            .code("rate_limit_exceeded")
            .hint("Try again after the time in `Retry-After`")
            .retry_after(wait)
    })
}

/// How large a call may become, as far as can be told before it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Bytes of its body.
    pub(crate) body: usize,
    /// Tokens that its answers may have together, where it says.
    pub(crate) answer: Option<u64>,
}

/// A call's place among its tenant's. Given back when dropped; what it used is set right then.
#[derive(Debug)]
pub(crate) struct Entry {
    tenant: Arc<Tenant>,
    tenants: Arc<Tenants>,
    /// Tokens taken from the bucket for it.
    reserved: u64,
    prompt: u64,
    said: u64,
    admitted: bool,
    used: Option<u64>,
}

impl Entry {
    /// Takes a place and reserves tokens, or says why not.
    pub(crate) fn take(
        tenants: &Arc<Tenants>,
        tenant: &Arc<Tenant>,
        size: Size,
    ) -> Result<Self, ApiError> {
        let limits = &tenant.config.limits;
        let before = tenant.used.running.fetch_add(1, Ordering::AcqRel);
        let prompt = size.body as u64 / BYTES_PER_TOKEN;
        // From here on dropping it gives the place back.
        let mut entry = Entry {
            tenant: Arc::clone(tenant),
            tenants: Arc::clone(tenants),
            reserved: 0,
            prompt,
            said: 0,
            admitted: false,
            used: None,
        };
        if let Some(limit) = limits.concurrent.filter(|limit| before >= limit.get()) {
            let what = format!("This key's tenant may have {limit} calls at one time, and has");
            return Err(ApiError::new(ErrorKind::Busy, what)
                .code("concurrency_limit_exceeded")
                .hint("Wait for one of them to end")
                .retry_after(PLACE));
        }
        if let Some(limit) = limits.tokens {
            let reserve = prompt.saturating_add(size.answer.unwrap_or(OPEN_ANSWER));
            lock(&tenant.used.tokens)
                .take(f64::from(limit.get()), reserve as f64, tenants.now())
                .map_err(|wait| {
                    let what = format!("This key's tenant may use {limit} tokens a minute, and this call's (about {reserve}) are more than are left");
                    ApiError::new(ErrorKind::Busy, what)
                        .code("token_limit_exceeded")
                        .hint("Try again after the time in `Retry-After`, or allow a shorter answer")
                        .retry_after(wait)
                })?;
            entry.reserved = reserve;
        }
        Ok(entry)
    }

    /// The call runs: should nobody wait for its end, its prompt has been read all the same.
    pub(crate) fn admitted(&mut self) {
        self.admitted = true;
    }

    /// A token, or a piece that is taken for one, was said.
    pub(crate) fn said(&mut self) {
        self.said += 1;
    }

    /// The call ended, and used so many tokens.
    pub(crate) fn finished(&mut self, tokens: u64) {
        self.used = Some(tokens);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.tenant.used.running.fetch_sub(1, Ordering::AcqRel);
        if let (Some(limit), true) = (self.tenant.config.limits.tokens, self.reserved > 0) {
            let guessed = if self.admitted { self.prompt + self.said } else { 0 };
            let used = self.used.unwrap_or(guessed);
            let mut tokens = lock(&self.tenant.used.tokens);
            tokens.leak(f64::from(limit.get()), self.tenants.now());
            tokens.correct(used as f64 - self.reserved as f64);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tenants::{AccessConfig, TenantConfig};
    use proptest::prelude::*;

    /// A registry whose clock the test moves.
    fn tenants(limits: Limits) -> (Arc<Tenants>, Arc<Mutex<Instant>>) {
        let now = Arc::new(Mutex::new(Instant::now()));
        let clock = Arc::clone(&now);
        let tenant = TenantConfig { name: "a".into(), limits, ..TenantConfig::default() };
        let config = AccessConfig { tenants: vec![tenant], ..AccessConfig::default() };
        let clock = Arc::new(move || *clock.lock().unwrap());
        (Arc::new(Tenants::with_clock(config, clock).unwrap()), now)
    }

    fn first(tenants: &Tenants) -> Arc<Tenant> {
        Arc::clone(&tenants.current().tenants[0])
    }

    #[test]
    fn requests_leak_back() {
        let limits = Limits { requests: NonZeroU32::new(60), ..Limits::default() };
        let (tenants, clock) = tenants(limits);
        let tenant = first(&tenants);
        for _ in 0..60 {
            request(&tenant, tenants.now()).unwrap();
        }
        let refused = request(&tenant, tenants.now()).unwrap_err();
        assert_eq!((refused.status(), refused.code.as_deref()), (429, Some("rate_limit_exceeded")));
        assert_eq!(refused.retry_after.unwrap().as_millis(), 1000);
        let left = tenant.used.left(&limits, tenants.now()).0.unwrap();
        assert_eq!((left.limit, left.remaining, left.reset.as_secs()), (60, 0, 60));
        *clock.lock().unwrap() += Duration::from_secs(2);
        assert_eq!(tenant.used.left(&limits, tenants.now()).0.unwrap().remaining, 2);
        assert!(request(&tenant, tenants.now()).is_ok() && request(&tenant, tenants.now()).is_ok());
        assert!(request(&tenant, tenants.now()).is_err());
    }

    #[test]
    fn tokens_are_reserved_and_set_right() {
        let limits = Limits { tokens: NonZeroU32::new(1000), ..Limits::default() };
        let (tenants, _) = tenants(limits);
        let tenant = first(&tenants);
        let left = || tenant.used.left(&limits, tenants.now()).1.unwrap().remaining;
        let size = Size { body: 400, answer: Some(500) };
        let mut entry = Entry::take(&tenants, &tenant, size).unwrap();
        assert_eq!(left(), 400, "reserved");
        let refused = Entry::take(&tenants, &tenant, size).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some("token_limit_exceeded"));
        assert_eq!((left(), tenant.used.running()), (400, 1), "a refusal takes nothing");
        entry.admitted();
        entry.finished(120);
        drop(entry);
        assert_eq!((left(), tenant.used.running()), (880, 0), "what it used, and no more");
        // One that failed before it ran has used nothing; one whose client left has used what was seen.
        drop(Entry::take(&tenants, &tenant, size).unwrap());
        assert_eq!(left(), 880);
        let mut left_alone = Entry::take(&tenants, &tenant, size).unwrap();
        left_alone.admitted();
        left_alone.said();
        drop(left_alone);
        assert_eq!(left(), 779);
    }

    #[test]
    fn a_call_larger_than_a_minute_waits_for_an_empty_bucket_and_leaves_a_debt() {
        let limits = Limits { tokens: NonZeroU32::new(100), ..Limits::default() };
        let (tenants, clock) = tenants(limits);
        let tenant = first(&tenants);
        let large = Size { body: 4000, answer: Some(0) };
        let mut entry = Entry::take(&tenants, &tenant, large).unwrap();
        entry.admitted();
        drop(entry);
        let wait = Entry::take(&tenants, &tenant, Size { body: 40, answer: Some(0) });
        assert_eq!(
            wait.unwrap_err().retry_after.unwrap().as_secs(),
            546,
            "910 tokens at 100 a minute"
        );
        *clock.lock().unwrap() += Duration::from_secs(546);
        assert!(Entry::take(&tenants, &tenant, Size { body: 40, answer: Some(0) }).is_ok());
    }

    proptest! {
        /// Whatever is asked and whenever calls end: never more at one time than allowed, never more requests in a
        /// window than the limit and what leaks meanwhile, and everything is given back.
        #[test]
        fn limits_hold(steps in proptest::collection::vec((0u8..3, 0u64..40), 1..200)) {
            let limits = Limits { requests: NonZeroU32::new(30), concurrent: NonZeroUsize::new(3), ..Limits::default() };
            let (tenants, clock) = tenants(limits);
            let tenant = first(&tenants);
            let start = tenants.now();
            let (mut running, mut taken) = (Vec::new(), 0u32);
            for (what, amount) in steps {
                match what {
                    0 => *clock.lock().unwrap() += Duration::from_millis(amount * 100),
                    1 => { running.pop(); }
                    _ => {
                        if request(&tenant, tenants.now()).is_ok() {
                            taken += 1;
                        }
                        if let Ok(entry) = Entry::take(&tenants, &tenant, Size { body: 0, answer: None }) {
                            running.push(entry);
                        }
                    }
                }
                prop_assert!(running.len() <= 3);
                prop_assert_eq!(tenant.used.running(), running.len());
                let passed = (tenants.now() - start).as_secs_f64();
                prop_assert!(f64::from(taken) <= 30.0 + passed * 0.5 + 1e-3);
            }
            drop(running);
            prop_assert_eq!(tenant.used.running(), 0);
        }
    }
}
