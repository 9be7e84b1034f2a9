//! The engine as others see it: its start, a call's submission and its events.

mod error;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tapri_gguf::{Gguf, TokenId};
use tapri_kernels::{Compute, Isa, KvStore, KvType};
use tapri_kv::{CacheConfig, CallId, GroupSpec, Picture, PrefixCache, ResetReport, Root};
use tapri_model::Model;
use tapri_text::{ChatTemplate, KnownTexts, Rendered, Special, TextUse, Tokenizer};

use crate::adapters::{AdapterInfo, Adapters};
use crate::config::EngineConfig;
use crate::constraint::{Constraint, ConstraintError, Grammar, Grammars};
use crate::disk::{Disk, DiskError, Figures};
use crate::event::{GenerateEvent, Pin};
use crate::holdings::EngineHoldings;
use crate::request::{GenerateRequest, Scope};
use crate::sampling;
use crate::scheduler::{Choice, Command, Scheduler, Submission, root, since_1970};
use crate::stats::EngineStats;

pub use error::{PictureError, StartError, SubmitError};

/// What is known of the loaded model.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// The file's own name for it, or the file's name.
    pub name: String,
    /// The architecture, as the file names it.
    pub architecture: String,
    /// The most tokens that prompt and answer may have together.
    pub context_length: usize,
    /// Digest of the weights, the tokenizer and everything else that the numbers depend on.
    pub fingerprint: [u8; 32],
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// The file.
    pub file: PathBuf,
    /// The instruction-set path.
    pub isa: Isa,
    /// Bytes of the packed weights.
    pub weight_bytes: usize,
    /// Bytes of the KV budget that blocks can use.
    pub kv_bytes: usize,
    /// Why there is no disk tier although one is set up.
    pub disk_refused: Option<String>,
    /// The adapters that calls may name. Their bytes come on top of the weights'.
    pub adapters: Vec<AdapterInfo>,
    /// How keys and values are stored.
    pub kv_type: KvType,
}

/// What the prefix cache holds, and whose it is.
#[derive(Debug, Clone)]
pub struct PrefixPicture {
    /// What it holds.
    pub picture: Picture,
    /// The roots of the scopes that were asked about, in their order.
    pub roots: Vec<Root>,
}

/// What a scope has pinned.
#[derive(Debug, Clone)]
pub struct Pins {
    /// Its pins, the oldest first.
    pub pins: Vec<Pin>,
    /// Bytes that all scopes together may pin.
    pub limit_bytes: u64,
}

/// State that the handle and the engine's thread share, beside the channels between them.
///
/// What is sound about it:
/// - `stats` is one snapshot behind a lock: a reader sees the counters of one moment, never of two.
/// - `waiting` is a count and publishes nothing. A submission adds its answers before it sends them, and the thread takes
///   each away once, when it is admitted or ends unadmitted; a refused submission takes its own away again. All are
///   read-modify-writes of one word, which have one order in every memory model, so the sum is right whenever nobody is in
///   between, and it never falls below 0: a call's addition is before its sending, which is before the thread's
///   subtraction (the channel is a lock, so sending happens before receiving). In between it is too high at most, by the
///   submissions that are being refused: a call may then be refused that would just have had a place, never the reverse.
/// - `stopping` only becomes true. It is a hint that saves work: whoever reads an old `false` is refused by `closed`.
/// - `closed` says that the thread takes nothing more. Calls are sent while its lock is held and it is false, and the
///   thread sets it under the lock and then empties the channel. Of two holders of a lock one is before the other:
///   a call sent before is found by the emptying, one after is not sent. So no call is left in the channel.
/// - A call's `cancelled` flag only becomes true and publishes nothing. The thread reads it once a step; a step that
///   misses it is followed by another, since a call that isn't cancelled is in one of the thread's lists.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stats: Mutex<EngineStats>,
    /// Calls submitted and not admitted yet.
    pub(crate) waiting: AtomicUsize,
    pub(crate) stopping: AtomicBool,
    /// Whether the thread has stopped taking calls.
    pub(crate) closed: Mutex<bool>,
}

/// A running engine. Clones are handles to the same one; it stops when the last is dropped.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    info: ModelInfo,
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    texts: KnownTexts,
    grammars: OnceLock<Result<Grammars, ConstraintError>>,
    max_waiting: usize,
    commands: flume::Sender<Command>,
    shared: Arc<Shared>,
    /// The disk tier's figures.
    disk: Option<Arc<Figures>>,
    next_call: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The disk tier, if one is set up and anything is to be kept; or why there is none.
fn disk(
    config: &EngineConfig,
    block_bytes: usize,
    family: u32,
) -> Result<(Option<Disk>, Option<String>), StartError> {
    let Some(disk) = config.disk.as_ref().filter(|_| config.prefix_cache) else {
        return Ok((None, None));
    };
    if !config.prefix_hash.is_collision_safe() {
        return Err(DiskError::Hash(config.prefix_hash.as_str()).into());
    }
    let now = since_1970();
    match Disk::open(disk, block_bytes, config.block_size, family, config.prefix_ttl, now)? {
        Ok(disk) => Ok((Some(disk), None)),
        Err(refused) => Ok((None, Some(refused.to_string()))),
    }
}

/// What the roots of all scopes have in common, in short.
fn family(config: &EngineConfig, isa: Isa, model: &Model) -> u32 {
    let root = root(config, isa, model, &Scope::default());
    root.as_bytes().first_chunk().map_or(0, |head| u32::from_le_bytes(*head))
}

/// Memory for the texts of prompts and their tokens: some 140 case files of 100 kB.
const KNOWN_TEXTS: usize = 32 << 20;

/// Room for commands that are not calls; calls are bounded by `max_waiting`.
const SPARE_COMMANDS: usize = 64;

/// The most answers to one prompt: as many as run at once by default.
pub const MAX_CHOICES: usize = 16;

/// The seed of one of several answers. The first has the call's own, so that one answer is the first of many.
fn derived(seed: u64, choice: u64) -> u64 {
    if choice == 0 {
        return seed;
    }
    // SplitMix64's finaliser over its sequence (Steele, Lea, Flood 2014): neighbouring seeds share no answers.
    let mut mixed = seed.wrapping_add(choice.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Events besides one for each token: one of admission, at most `PROGRESS_BACKLOG` of progress (none is sent while so many
/// events are unread), one for the end. Since a call has at most one event for each token it may have, a channel with
/// this much more room is never full, and the engine's thread never waits for a reader.
const SPARE_EVENTS: usize = 80;

impl Engine {
    /// Loads the model at `path` and starts its thread.
    ///
    /// # Errors
    /// When the file, the model, the tokenizer or a setting is one that it can't run exactly; the error names it.
    pub fn start(path: &Path, config: EngineConfig) -> Result<Engine, StartError> {
        let at = || path.to_owned();
        let gguf = Gguf::open(path).map_err(|source| StartError::File { path: at(), source })?;
        Engine::start_from(&gguf, at(), config)
    }

    /// The same for a file that is open already; `path` is only its name.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_from(
        gguf: &Gguf,
        path: PathBuf,
        config: EngineConfig,
    ) -> Result<Engine, StartError> {
        let isa = match config.isa {
            Some(isa) => isa,
            None => Isa::from_env()?,
        };
        if !matches!(config.block_size, 16 | 32 | 64 | 128 | 256) {
            return Err(StartError::BlockSize(config.block_size));
        }
        let compute = Compute::new(isa, config.threads.get());
        let tokenizer = Tokenizer::from_gguf(gguf)
            .map_err(|source| StartError::Tokenizer { path: path.clone(), source })?;
        let template = ChatTemplate::from_gguf(gguf, &tokenizer)
            .map_err(|source| StartError::Template { path: path.clone(), source })?;
        let model = Model::load(gguf, &compute)
            .map_err(|source| StartError::Model { path: path.clone(), source })?;

        let adapters = Adapters::load(&config.adapters, &model, &compute)?;

        let plan = model.kv_plan(config.block_size).stored(config.kv_type);
        let block_bytes = plan.layout.block_bytes();
        let blocks = usize::try_from(config.kv_memory / block_bytes as u64).unwrap_or(usize::MAX);
        // The null block, which takes address space alone, and a block of every group for one token.
        if blocks < 1 + plan.groups.len() {
            let least = (block_bytes * (1 + plan.groups.len())) as u64;
            return Err(StartError::KvMemory { budget: config.kv_memory, least });
        }
        let store = KvStore::new(plan.layout, blocks)?;
        let groups = plan.groups.iter().map(|group| GroupSpec::from_window(group.window)).collect();
        let mut cache_config = CacheConfig::new(blocks, groups);
        cache_config.block_tokens = config.block_size;
        cache_config.hash = config.prefix_hash;
        cache_config.enabled = config.prefix_cache;
        cache_config.join = config.prefix_cache;
        cache_config.ttl = config.prefix_ttl;
        cache_config.step_tokens = config.chunk.get();
        let (disk, disk_refused) = disk(&config, block_bytes, family(&config, isa, &model))?;
        cache_config.spill = disk.is_some();
        let figures = disk.as_ref().map(Disk::figures);
        let cache = PrefixCache::new(cache_config)?;

        let name = gguf.metadata().str("general.name").map_or_else(
            |_| path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned()),
            str::to_owned,
        );
        let info = ModelInfo {
            name,
            architecture: gguf.metadata().str("general.architecture").unwrap_or("").to_owned(),
            context_length: model.config().context_length,
            fingerprint: model.fingerprint(),
            vocabulary: model.config().vocab_size,
            file: path,
            isa,
            weight_bytes: model.weight_bytes(),
            kv_bytes: (blocks - 1) * block_bytes,
            disk_refused,
            adapters: adapters.infos(),
            kv_type: config.kv_type,
        };
        let tokenizer = Arc::new(tokenizer);
        let texts = if config.prefix_cache { KNOWN_TEXTS } else { 0 };
        let shared = Arc::new(Shared::default());
        let max_waiting = config.max_waiting;
        let (sender, receiver) = flume::bounded(max_waiting + SPARE_COMMANDS);
        let mut scheduler = Scheduler::new(
            model,
            adapters,
            compute,
            store,
            cache,
            disk,
            Arc::clone(&tokenizer),
            config,
            receiver,
            Arc::clone(&shared),
        );
        scheduler.publish_stats();
        let thread = std::thread::Builder::new()
            .name("tapri-engine".to_owned())
            .spawn(move || {
                // A panic out of the loop is a defect; nobody must wait for a thread that is gone.
                let ended = catch_unwind(AssertUnwindSafe(|| scheduler.run()));
                scheduler.close_door();
                match ended {
                    Ok(()) => scheduler.save_all(),
                    // What is in memory is not to be trusted.
                    Err(_) => tracing::error!("the engine's thread ended by a defect"),
                }
            })
            .map_err(StartError::Thread)?;
        Ok(Engine {
            inner: Arc::new(Inner {
                info,
                tokenizer,
                template,
                texts: KnownTexts::new(texts),
                grammars: OnceLock::new(),
                max_waiting,
                commands: sender,
                shared,
                disk: figures,
                next_call: AtomicU64::new(1),
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// The loaded model.
    pub fn model(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.inner.tokenizer
    }

    /// Its chat template, or ChatML where it has none.
    pub fn template(&self) -> &ChatTemplate {
        &self.inner.template
    }

    /// The tokens of a whole prompt, as [`Tokenizer::encode_prompt`] gives them. Of a text that begins like an earlier one of
    /// its scope only the rest is tokenised.
    pub fn encode_prompt(&self, text: &str, special: Special, whose: &TextUse<'_>) -> Vec<TokenId> {
        self.inner.texts.encode_prompt(&self.inner.tokenizer, text, special, whose)
    }

    /// The tokens of a rendered conversation, as [`Tokenizer::encode_rendered`] gives them, in the same way.
    pub fn encode_rendered(&self, rendered: &Rendered, whose: &TextUse<'_>) -> Vec<TokenId> {
        self.inner.texts.encode_rendered(&self.inner.tokenizer, rendered, whose)
    }

    /// Compiles a grammar for [`GenerateRequest::constraint`]. Takes from 1 to some 50 ms of the caller's thread; the
    /// first time some more, as the vocabulary is made ready.
    ///
    /// # Errors
    /// When the grammar can't be kept to; the error says what of it.
    pub fn constrain(&self, grammar: &Grammar) -> Result<Constraint, ConstraintError> {
        let grammars = self.inner.grammars.get_or_init(|| Grammars::new(&self.inner.tokenizer));
        grammars.as_ref().map_err(Clone::clone)?.compile(grammar)
    }

    /// Takes a call. Its events come through the handle; dropping the handle cancels it.
    ///
    /// An answer never outgrows the context: it ends with [`FinishReason::Length`](crate::FinishReason::Length) there.
    ///
    /// # Errors
    /// When the request can't be run as it stands, too many calls wait, or the engine is stopping.
    pub fn submit(&self, request: GenerateRequest) -> Result<CallHandle, SubmitError> {
        let mut handles = self.submit_choices(request, 1)?;
        handles.pop().ok_or(SubmitError::Choices { asked: 0, most: MAX_CHOICES })
    }

    /// Takes a call that wants several answers, from 1 to [`MAX_CHOICES`]: a handle for each. The prompt is read once,
    /// and its blocks are shared. With a seed, the first answer is that of [`submit`](Self::submit), and each other one has
    /// a seed of its own, derived from it.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); and when so many answers can't be had.
    pub fn submit_choices(
        &self,
        request: GenerateRequest,
        choices: usize,
    ) -> Result<Vec<CallHandle>, SubmitError> {
        if choices == 0 || choices > MAX_CHOICES {
            return Err(SubmitError::Choices { asked: choices, most: MAX_CHOICES });
        }
        let inner = &*self.inner;
        let info = &inner.info;
        sampling::validate(&request.sampling, request.logprobs, info.vocabulary)?;
        sampling::validate(&request.sampling, request.prompt_logprobs, info.vocabulary)?;
        let prompt = request.prompt.len();
        if prompt == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        // An answer of one token needs no position of its own: it is never read back.
        if prompt > info.context_length || (prompt == info.context_length && request.max_tokens > 1)
        {
            return Err(SubmitError::PromptTooLong { prompt, context: info.context_length });
        }
        let vocabulary = info.vocabulary;
        if let Some((position, id)) =
            request.prompt.iter().enumerate().find(|(_, id)| id.0 as usize >= vocabulary)
        {
            return Err(SubmitError::BadToken { id: id.0, position, vocabulary });
        }
        if let Some(name) = &request.adapter
            && info.adapters.iter().all(|adapter| adapter.name != *name)
        {
            return Err(SubmitError::UnknownAdapter { name: name.clone() });
        }
        if request.pin && (request.max_tokens > 0 || choices > 1) {
            return Err(SubmitError::PinWithAnswer);
        }
        if inner.shared.stopping.load(Ordering::Acquire) {
            return Err(SubmitError::ShuttingDown);
        }
        let waiting = inner.shared.waiting.fetch_add(choices, Ordering::AcqRel);
        let give_up = |error| {
            inner.shared.waiting.fetch_sub(choices, Ordering::AcqRel);
            Err(error)
        };
        // A call counts as waiting until the thread has seen it, so one may always come.
        if waiting >= inner.max_waiting.max(1) {
            return give_up(SubmitError::QueueFull { waiting });
        }
        // Logprobs of the prompt may come a token at a time.
        let scored = if request.prompt_logprobs.is_some() { prompt } else { 0 };
        let room = request.max_tokens.min(info.context_length) + scored + SPARE_EVENTS;
        let first_id = inner.next_call.fetch_add(choices as u64, Ordering::Relaxed);
        let mut handles = Vec::with_capacity(choices);
        let ends = (0..choices as u64).map(|choice| {
            let (events, receiver) = flume::bounded(room);
            let cancelled = Arc::new(AtomicBool::new(false));
            handles.push(CallHandle { events: receiver, cancelled: Arc::clone(&cancelled) });
            Choice {
                id: CallId(first_id + choice),
                events,
                cancelled,
                seed: request.sampling.seed.map_or_else(
                    || RandomState::new().build_hasher().finish(),
                    |seed| derived(seed, choice),
                ),
                constraint: request.constraint.clone(),
            }
        });
        let ends = ends.collect();
        let submission = Submission { request, choices: ends, submitted: Instant::now() };
        let command = Command::Submit(Box::new(submission));
        let sent = {
            let closed = inner.shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
            if *closed {
                Err(flume::TrySendError::Disconnected(command))
            } else {
                inner.commands.try_send(command)
            }
        };
        match sent {
            Ok(()) => Ok(handles),
            Err(flume::TrySendError::Full(_)) => give_up(SubmitError::QueueFull { waiting }),
            Err(flume::TrySendError::Disconnected(_)) => give_up(SubmitError::ShuttingDown),
        }
    }

    /// Counters and gauges, as of the last step.
    pub fn stats(&self) -> EngineStats {
        let stats = self.inner.shared.stats.lock();
        let mut stats = stats.unwrap_or_else(PoisonError::into_inner).clone();
        if let (Some(disk), Some(figures)) = (&mut stats.disk, &self.inner.disk) {
            figures.refresh(disk);
        }
        let texts = self.inner.texts.stats();
        EngineStats { text_bytes: texts.bytes, known_text_bytes: texts.known_bytes, ..stats }
    }

    /// Forgets everything that is cached, on disk and the texts of prompts too; running calls go on undisturbed.
    ///
    /// # Errors
    /// When the engine has stopped, or what is on disk can't be erased.
    pub fn reset_prefix_cache(&self) -> Result<ResetReport, SubmitError> {
        self.inner.texts.clear();
        self.inner.tokenizer.forget_fragments();
        let (reply, answer) = flume::bounded(1);
        self.inner
            .answered(Command::Reset(reply), &answer)
            .unwrap_or(Err(SubmitError::ShuttingDown))
    }

    /// Forgets everything that is cached in a scope, on disk too, whatever the salts of its calls; running calls go on undisturbed,
    /// and nobody finds their blocks any more.
    ///
    /// # Errors
    /// When the engine has stopped, or what is on disk can't be erased.
    pub fn forget(&self, scope: &Scope) -> Result<ResetReport, SubmitError> {
        self.inner.texts.forget(&scope.0);
        // A fragment is nobody's, so all of them go.
        self.inner.tokenizer.forget_fragments();
        let (reply, answer) = flume::bounded(1);
        let command = Command::Forget(scope.clone(), reply);
        self.inner.answered(command, &answer).unwrap_or(Err(SubmitError::ShuttingDown))
    }

    /// Says which scopes there are: what is cached under any other, in memory or on disk, is forgotten and erased, since no
    /// call can find it. Pages of other models in the same folder are left alone. From here on nothing of another scope is
    /// kept on disk.
    ///
    /// # Errors
    /// When the engine has stopped, or what is on disk can't be erased.
    pub fn retain(&self, scopes: Vec<Scope>) -> Result<ResetReport, SubmitError> {
        let (reply, answer) = flume::bounded(1);
        let command = Command::Retain(scopes, reply);
        self.inner.answered(command, &answer).unwrap_or(Err(SubmitError::ShuttingDown))
    }

    /// What a scope has pinned.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn pins(&self, scope: &Scope) -> Result<Pins, SubmitError> {
        let (reply, answer) = flume::bounded(1);
        let command = Command::Pins(scope.clone(), reply);
        self.inner.answered(command, &answer).ok_or(SubmitError::ShuttingDown)
    }

    /// Takes a pin of a scope away: its blocks stay cached as those of any call that ends. `false`: the scope has none of
    /// this name.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn unpin(&self, scope: &Scope, id: u64) -> Result<bool, SubmitError> {
        let (reply, answer) = flume::bounded(1);
        let command = Command::Unpin(scope.clone(), id, reply);
        self.inner.answered(command, &answer).ok_or(SubmitError::ShuttingDown)
    }

    /// What the prefix cache holds, the last used first, in at most `limit` runs, and the roots by which the blocks of
    /// some scopes are known. The engine's thread answers between two steps, so a long step makes this wait.
    ///
    /// # Errors
    /// When the engine doesn't come to it `within` that time, or has stopped.
    pub fn picture(
        &self,
        scopes: Vec<Scope>,
        limit: usize,
        within: Duration,
    ) -> Result<PrefixPicture, PictureError> {
        let (reply, answer) = flume::bounded(1);
        self.inner.shown(Command::Picture { scopes, limit, reply }, &answer, within)
    }

    /// Which call holds what, and the roots by which the calls of some scopes are known. The engine's thread answers
    /// between two steps, so a long step makes this wait.
    ///
    /// # Errors
    /// When the engine doesn't come to it `within` that time, or has stopped.
    pub fn holdings(
        &self,
        scopes: Vec<Scope>,
        within: Duration,
    ) -> Result<EngineHoldings, PictureError> {
        let (reply, answer) = flume::bounded(1);
        self.inner.shown(Command::Holdings { scopes, reply }, &answer, within)
    }

    /// Stops: calls have `limit` to end, the rest fail with
    /// [`GenerateError::ShuttingDown`](crate::GenerateError::ShuttingDown). Then what is in memory is written to disk, where
    /// there is one, within [`DiskConfig::last_writes`](crate::DiskConfig::last_writes). Blocks until the thread has ended.
    pub fn shutdown(&self, limit: Duration) {
        self.inner.shutdown(limit);
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("model", &self.inner.info).finish_non_exhaustive()
    }
}

/// How often someone who waits for the thread's word looks whether it is still there.
const LOOK: Duration = Duration::from_millis(100);

impl Inner {
    /// The thread's answer, however long its step takes; `None` when it has ended. An end is noticed by looking, as a
    /// command that came after the thread's last look stays in the channel, and with it the sender of its answer.
    fn answered<T>(&self, command: Command, answer: &flume::Receiver<T>) -> Option<T> {
        self.commands.send(command).ok()?;
        loop {
            let closed = *self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return Some(answer),
                // It was closed before the wait: what was to be answered has been by now.
                Err(flume::RecvTimeoutError::Timeout) if closed => return answer.try_recv().ok(),
                Err(flume::RecvTimeoutError::Timeout) => {}
                Err(flume::RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// What the thread shows between two steps, within some time.
    fn shown<T>(
        &self,
        command: Command,
        answer: &flume::Receiver<T>,
        within: Duration,
    ) -> Result<T, PictureError> {
        self.commands.send_timeout(command, within).map_err(|error| match error {
            flume::SendTimeoutError::Timeout(_) => PictureError::Busy,
            flume::SendTimeoutError::Disconnected(_) => PictureError::ShuttingDown,
        })?;
        answer.recv_timeout(within).map_err(|error| match error {
            flume::RecvTimeoutError::Timeout => PictureError::Busy,
            flume::RecvTimeoutError::Disconnected => PictureError::ShuttingDown,
        })
    }

    fn shutdown(&self, limit: Duration) {
        self.shared.stopping.store(true, Ordering::Release);
        // A thread that is gone already needs no word.
        let _ = self.commands.send(Command::Shutdown(Instant::now() + limit));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

/// A call's events. Dropping it cancels the call at the next step.
#[derive(Debug)]
pub struct CallHandle {
    events: flume::Receiver<GenerateEvent>,
    cancelled: Arc<AtomicBool>,
}

impl CallHandle {
    /// Waits for the next event; `None` after the last.
    #[expect(clippy::should_implement_trait, reason = "an iterator would hide that this blocks")]
    pub fn next(&mut self) -> Option<GenerateEvent> {
        self.events.recv().ok()
    }

    /// Waits for the next event without blocking the thread; `None` after the last.
    /// The future can be dropped without losing an event.
    pub async fn next_async(&mut self) -> Option<GenerateEvent> {
        self.events.recv_async().await.ok()
    }

    /// Ends the call at the next step with [`FinishReason::Cancelled`](crate::FinishReason::Cancelled).
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        self.cancel();
    }
}
