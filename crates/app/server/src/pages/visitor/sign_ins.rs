//! Who signed in, by the random names in their cookies.
//!
//! They are looked up in memory and kept in the store of cases, so that they outlive the process: under the hash of their
//! name, with the hash of their key. A request never waits for a disk to be let in; what changed is written at its end,
//! by whoever changed it, and before a sign-in or sign-out is answered.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tapri_casefile::{SignIn, Store};

use crate::tenants::key::KeyHash;

/// How long a sign-in lasts after its last use: a working day.
const IDLE: Duration = Duration::from_secs(12 * 3600);

/// How long it lasts at most: a cookie that was copied somewhere is worth nothing after that.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Its use is written so often. A process that is killed makes it seem unused for no longer than this.
const WRITTEN_EVERY: Duration = Duration::from_secs(300);

/// Sign-ins that are kept; beyond them the one that was longest unused goes.
const MOST: usize = 4096;

/// The SHA-256 of a cookie's value.
type Name = [u8; 32];

pub(crate) struct SignIns {
    secret: Vec<u8>,
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<Store>,
    state: Mutex<State>,
    /// One writes at a time, so that what ended isn't written after its end.
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    open: HashMap<Name, Open>,
    /// What the store doesn't have yet: `None` for those that ended.
    changed: HashMap<Name, Option<SignIn>>,
}

struct Open {
    sign_in: SignIn,
    /// When its use was last handed to the store.
    written: Timestamp,
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIns").finish_non_exhaustive()
    }
}

impl SignIns {
    /// Those that the store has. Blocks for a disk's time. Without them people sign in again, so that an error is logged
    /// and no more.
    pub(crate) fn new(secret: &str, store: Arc<Store>) -> Self {
        let kept = store.sign_ins().unwrap_or_else(|error| {
            tracing::error!("sign-ins of before can't be read: {error}");
            Vec::new()
        });
        let open = kept
            .into_iter()
            .map(|sign_in| (sign_in.name, Open { sign_in, written: sign_in.used }))
            .collect();
        let state = Mutex::new(State { open, changed: HashMap::new() });
        let inner = Arc::new(Inner { store, state, writing: Mutex::default() });
        SignIns { secret: secret.as_bytes().to_vec(), inner }
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Signs in with a key that is known, and gives the cookie's value.
    pub(in crate::pages) fn enter(
        &self,
        key: KeyHash,
        now: Timestamp,
    ) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let cookie: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut state = self.inner.state();
        let over: Vec<Name> = state
            .open
            .values()
            .filter(|it| is_over(&it.sign_in, now))
            .map(|it| it.sign_in.name)
            .collect();
        over.iter().for_each(|name| state.end(name));
        if state.open.len() >= MOST {
            let oldest = state.open.values().min_by_key(|it| it.sign_in.used);
            if let Some(name) = oldest.map(|it| it.sign_in.name) {
                state.end(&name);
            }
        }
        let sign_in = SignIn { name: hash(&cookie), key: key.0, begun: now, used: now };
        state.open.insert(sign_in.name, Open { sign_in, written: now });
        state.changed.insert(sign_in.name, Some(sign_in));
        Ok(cookie)
    }

    /// The key of a sign-in, which is used by that.
    pub(super) fn find(&self, cookie: &str, now: Timestamp) -> Option<KeyHash> {
        let name = hash(cookie);
        let mut state = self.inner.state();
        let open = state.open.get_mut(&name)?;
        if is_over(&open.sign_in, now) {
            state.end(&name);
            return None;
        }
        let key = KeyHash(open.sign_in.key);
        open.sign_in.used = open.sign_in.used.max(now);
        if since(open.written, now) >= WRITTEN_EVERY {
            open.written = now;
            let used = open.sign_in;
            state.changed.insert(name, Some(used));
        }
        Some(key)
    }

    /// Ends a sign-in.
    pub(in crate::pages) fn leave(&self, cookie: &str) {
        self.inner.state().end(&hash(cookie));
    }

    /// Ends those whose keys are not known (any more), and writes it. Blocks.
    pub(crate) fn retain(&self, is_known: impl Fn(&KeyHash) -> bool) {
        let mut state = self.inner.state();
        let unknown: Vec<Name> = state
            .open
            .values()
            .filter(|it| !is_known(&KeyHash(it.sign_in.key)))
            .map(|it| it.sign_in.name)
            .collect();
        unknown.iter().for_each(|name| state.end(name));
        drop(state);
        self.inner.write();
    }

    /// Writes what changed, if anything did.
    pub(in crate::pages) async fn settle(&self) {
        if !self.inner.state().changed.is_empty() {
            self.written().await;
        }
    }

    /// The same; on return it is written, also what somebody else is writing. `false` where it could not be.
    pub(in crate::pages) async fn written(&self) -> bool {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || inner.write()).await.unwrap_or(false)
    }
}

impl State {
    fn end(&mut self, name: &Name) {
        if self.open.remove(name).is_some() {
            self.changed.insert(*name, None);
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> bool {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = std::mem::take(&mut self.state().changed);
        if changed.is_empty() {
            return true;
        }
        let kept: Vec<SignIn> = changed.values().copied().flatten().collect();
        let gone: Vec<Name> =
            changed.iter().filter(|(_, it)| it.is_none()).map(|(name, _)| *name).collect();
        let Err(error) = self.store.keep_sign_ins(&kept, &gone) else { return true };
        tracing::error!("sign-ins can't be written: {error}");
        // One that ended must not come back with the next process: it is tried again.
        let mut state = self.state();
        for name in gone {
            state.changed.entry(name).or_insert(None);
        }
        false
    }
}

fn hash(cookie: &str) -> Name {
    Sha256::digest(cookie.as_bytes()).into()
}

/// A clock that was set back counts as no time.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

fn is_over(sign_in: &SignIn, now: Timestamp) -> bool {
    since(sign_in.used, now) >= IDLE || since(sign_in.begun, now) >= LONGEST
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BEGUN: Timestamp = Timestamp::UNIX_EPOCH;

    fn key() -> KeyHash {
        KeyHash::of("a key of some length")
    }

    /// A store, and the sign-ins of one process after the other.
    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Place { folder: tempfile::tempdir().unwrap() }
        }

        fn start(&self) -> SignIns {
            let store = Store::open(&self.folder.path().join("cases.sqlite")).unwrap();
            SignIns::new("secret", Arc::new(store))
        }
    }

    #[test]
    fn a_sign_in_ends_when_it_is_not_used_and_after_a_week() {
        let place = Place::new();
        let sign_ins = place.start();
        let name = sign_ins.enter(key(), BEGUN).unwrap();
        let later = BEGUN + IDLE - Duration::from_secs(1);
        assert_eq!(sign_ins.find(&name, later), Some(key()));
        assert!(sign_ins.find(&name, later + IDLE).is_none());
        assert!(sign_ins.find(&name, later).is_none(), "it is gone for good");
        let name = sign_ins.enter(key(), BEGUN).unwrap();
        let hours = (0..168).map(|hour| BEGUN + Duration::from_secs(hour * 3600));
        for now in hours {
            assert_eq!(sign_ins.find(&name, now), Some(key()), "used each hour");
        }
        assert!(sign_ins.find(&name, BEGUN + LONGEST).is_none());
    }

    #[test]
    fn a_sign_in_outlives_the_process_and_its_end_does_too() {
        let place = Place::new();
        let first = place.start();
        let (kept, left) = (first.enter(key(), BEGUN).unwrap(), first.enter(key(), BEGUN).unwrap());
        assert!(first.inner.write());
        first.leave(&left);
        assert!(first.inner.write());
        drop(first);
        let second = place.start();
        let later = BEGUN + IDLE - Duration::from_secs(1);
        assert_eq!(second.find(&kept, later), Some(key()));
        assert!(second.find(&left, later).is_none());
        assert!(second.inner.write());
        drop(second);
        // Its use was written, and its time is over all the same.
        let third = place.start();
        assert_eq!(third.find(&kept, later + Duration::from_secs(60)), Some(key()));
        assert!(third.find(&kept, later + IDLE * 2).is_none());
        assert!(third.inner.write());
        assert!(place.start().find(&kept, later).is_none());
    }

    #[test]
    fn a_key_that_is_taken_out_takes_its_sign_ins_along() {
        let place = Place::new();
        let sign_ins = place.start();
        let name = sign_ins.enter(key(), BEGUN).unwrap();
        let other = sign_ins.enter(KeyHash::of("another key"), BEGUN).unwrap();
        sign_ins.retain(|known| *known == KeyHash::of("another key"));
        assert!(sign_ins.find(&name, BEGUN).is_none());
        drop(sign_ins);
        let again = place.start();
        assert!(again.find(&name, BEGUN).is_none(), "it doesn't come back with its key");
        assert!(again.find(&other, BEGUN).is_some());
    }

    #[test]
    fn the_file_has_neither_the_cookie_nor_the_key() {
        let place = Place::new();
        let sign_ins = place.start();
        let name = sign_ins.enter(key(), BEGUN).unwrap();
        assert!(sign_ins.inner.write());
        for entry in std::fs::read_dir(place.folder.path()).unwrap() {
            let content = std::fs::read(entry.unwrap().path()).unwrap();
            for secret in [name.as_bytes(), b"a key of some length"] {
                assert!(!content.windows(secret.len()).any(|it| it == secret));
            }
        }
    }

    #[test]
    fn there_is_an_end_to_how_many_are_kept() {
        let place = Place::new();
        let sign_ins = place.start();
        let first = sign_ins.enter(key(), BEGUN).unwrap();
        for n in 1..=MOST as u64 {
            sign_ins.enter(key(), BEGUN + Duration::from_secs(n)).unwrap();
        }
        assert!(sign_ins.find(&first, BEGUN + Duration::from_secs(60)).is_none());
        assert_eq!(sign_ins.inner.state().open.len(), MOST);
    }
}
