//! One question's way: the prompt laid out and counted, the call, its answer as it comes, and what it took.

mod measured;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use serde_json::Value;
use tapri_api::{ApiError, Call, CallEvent, Finish, FinishReason, Inbound, Prompt, Says};
use tapri_casefile::{
    Case, CaseId, Document, ErrorFigures, Figures, Layout, Prepared, Room, Session, SessionError,
    StoreError, Turn, TurnState,
};
use tapri_ledger::CallRecord;
use tapri_pipeline::{ModelCard, Running};

use self::measured::{Costs, reason};
use self::writer::{Choice, Writer};
use super::answers::{Hub, Phase};
use super::models::{layout, model};
use super::origin;
use super::searching::{self, ToolCall};
use crate::meter::Meter;
use crate::routes::App;
use crate::tenants::caller::Caller;
use crate::tenants::limits::Size;

/// How often what has come of an answer is kept: a server that is killed loses no more than this much of it.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// Starts a question; its turn is in the store already, and running.
pub(super) fn start(app: &App, caller: Caller, case: Case, n: u32, question: String) {
    let Some(pages) = app.pages() else { return };
    let hub = pages.answers.hub(&case.id);
    let place = pages.answers.enter();
    hub.begin(n);
    let asking = Asking {
        app: app.clone(),
        caller,
        id: case.id.clone(),
        case,
        n,
        question,
        hub: Arc::clone(&hub),
        begun: Instant::now(),
    };
    tokio::spawn(async move {
        let _place = place;
        let (app, id) = (asking.app.clone(), asking.id.clone());
        let mut run = tokio::spawn(asking.run());
        let ended = tokio::select! {
            // A panic in it has been printed, and must not leave the turn running for ever.
            ended = &mut run => ended.unwrap_or_else(|_| Ended::failed(&ApiError::new(
                tapri_api::ErrorKind::Internal, "The question could not be answered",
            ))),
            () = hub.stopped() => {
                // Dropping the call cancels it.
                run.abort();
                let _ = run.await;
                Ended { state: TurnState::Stopped, figures: Figures::default() }
            }
        };
        let answer = hub.read(|state| {
            state.running.as_ref().map_or_else(String::new, |it| it.text.trim().to_owned())
        });
        let kept = blocking(&app, move |store| {
            store.end_turn(&id, n, &answer, ended.state, &ended.figures)
        });
        if let Err(error) = kept.await {
            tracing::error!("an answer could not be kept: {error}");
        }
        hub.end();
    });
}

/// How a question ended.
struct Ended {
    state: TurnState,
    figures: Figures,
}

impl Ended {
    fn failed(error: &ApiError) -> Self {
        let error = ErrorFigures {
            message: error.message.clone(),
            hint: error.hint.as_deref().map(str::to_owned),
            too_long: None,
        };
        Ended {
            state: TurnState::Failed,
            figures: Figures { error: Some(error), ..Figures::default() },
        }
    }
}

struct Asking {
    app: App,
    caller: Caller,
    id: CaseId,
    case: Case,
    n: u32,
    question: String,
    hub: Arc<Hub>,
    begun: Instant,
}

/// Why a question was not answered.
enum Unanswered {
    Api(ApiError),
    Store(StoreError),
    TooLong { tokens: usize, room: usize, message: String },
}

impl From<ApiError> for Unanswered {
    fn from(error: ApiError) -> Self {
        Unanswered::Api(error)
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        Unanswered::Store(error)
    }
}

impl Asking {
    async fn run(self) -> Ended {
        match self.answer().await {
            Ok(figures) => Ended { state: TurnState::Answered, figures },
            // The server ends what still runs when it stops.
            Err(Unanswered::Api(_)) if self.app.is_stopping() => {
                Ended { state: TurnState::Interrupted, figures: Figures::default() }
            }
            Err(Unanswered::Api(error)) => Ended::failed(&self.caller.may_see(error)),
            Err(Unanswered::Store(error)) => {
                tracing::error!("{error}");
                Ended::failed(&ApiError::new(
                    tapri_api::ErrorKind::Internal,
                    "The case could not be read",
                ))
            }
            Err(Unanswered::TooLong { tokens, room, message }) => {
                let too_long = Some((tokens as u64, room as u64));
                let error = ErrorFigures { message, hint: None, too_long };
                Ended {
                    state: TurnState::Failed,
                    figures: Figures { error: Some(error), ..Figures::default() },
                }
            }
        }
    }

    async fn answer(&self) -> Result<Figures, Unanswered> {
        let card = model(&self.app, &self.caller, self.case.model.as_deref())?;
        let most = self.app.pages().map_or(0, |pages| pages.config.answer_tokens);
        let (session, numbers) = self.session(&card, most).await?;
        let tools = (!self.tools(session.layout()).is_empty()).then(searching::tools);
        let writer = Writer { model: card.id.clone(), most, tools };
        let prepared = self.prepare(session, &writer, &card).await?;
        self.forget_turns(&prepared, &numbers).await?;
        let mut figures = Figures { model: card.id.clone(), ..Figures::default() };
        if let Some(dropped) = prepared.dropped {
            figures.dropped = u32::try_from(dropped.turns).ok();
        }
        self.call(&writer, prepared, &mut figures).await?;
        Ok(figures)
    }

    /// The case as the prompt needs it, and the places of its turns.
    async fn session(
        &self,
        card: &ModelCard,
        most: usize,
    ) -> Result<(Session, Vec<u32>), Unanswered> {
        let (id, n, first) = (self.id.clone(), self.n, self.case.first_turn);
        let (texts, turns) = blocking(&self.app, move |store| {
            let mut texts = Vec::new();
            for file in store.files(&id)? {
                let text = store.text(&id, &file.id)?;
                let text = match &file.chosen {
                    Some(chosen) => tapri_casefile::sections::join(&text, chosen),
                    None => text,
                };
                texts.push((file.name, text));
            }
            Ok((texts, store.turns(&id)?))
        })
        .await?;
        let (numbers, turns) = turns
            .into_iter()
            .filter(|turn| (first..n).contains(&turn.n) && turn.state == TurnState::Answered)
            .filter(|turn| !turn.answer.is_empty())
            .map(|turn| (turn.n, Turn { question: turn.question, answer: turn.answer }))
            .unzip();
        let room = Room { context: card.context.unwrap_or(usize::MAX), answer: most };
        let session = Session::new(Document::joined(&texts), layout(card), room)
            .instructed(self.case.instructions.clone(), self.tools(layout(card)).to_owned())
            .resumed(turns);
        Ok((session, numbers))
    }

    /// The tools that the model is offered, as the outline has them; nothing where it is offered none.
    fn tools(&self, layout: Layout) -> &'static str {
        let there = self.app.pages().is_some_and(|pages| pages.config.judgments.is_some());
        // A base model knows nothing of tools.
        if there && self.case.tools && layout == Layout::Chat { searching::NAME } else { "" }
    }

    async fn prepare(
        &self,
        mut session: Session,
        writer: &Writer,
        card: &ModelCard,
    ) -> Result<Prepared, Unanswered> {
        // Counting is async and the session is not: what was counted is told to it when it asks again.
        let mut counted: Vec<(Prompt, usize)> = Vec::new();
        loop {
            let mut wanted = None;
            let prepared = session.prepare(&self.question, |prompt| {
                // Whose context isn't known, nobody can say what fits into it.
                if card.context.is_none() {
                    return Ok(0);
                }
                match counted.iter().find(|(known, _)| known == prompt) {
                    Some((_, tokens)) => Ok(*tokens),
                    None => {
                        wanted = Some(prompt.clone());
                        Err(())
                    }
                }
            });
            match (prepared, wanted) {
                (Ok(prepared), _) => return Ok(prepared),
                (Err(SessionError::TooLong { tokens, room, context, answer }), _) => {
                    let error = SessionError::<ApiError>::TooLong { tokens, room, context, answer };
                    return Err(Unanswered::TooLong { tokens, room, message: error.to_string() });
                }
                (Err(_), Some(prompt)) => {
                    let call = self.written(writer.request(&prompt, &[], &[], Choice::Free)?);
                    let tokens = self.app.pipeline().count_tokens(call).await?;
                    counted.push((prompt, tokens));
                }
                (Err(_), None) => {
                    return Err(ApiError::new(
                        tapri_api::ErrorKind::Internal,
                        "The prompt could not be counted",
                    )
                    .into());
                }
            }
        }
    }

    /// Turns that went from the prompt go from the ones after it too: else the oldest would come back.
    async fn forget_turns(&self, prepared: &Prepared, numbers: &[u32]) -> Result<(), Unanswered> {
        let Some(dropped) = prepared.dropped else { return Ok(()) };
        let (id, next) = (self.id.clone(), numbers.get(dropped.turns).copied().unwrap_or(self.n));
        Ok(blocking(&self.app, move |store| store.set_first_turn(&id, next)).await?)
    }

    fn written(&self, inbound: Inbound) -> Call {
        let mut call = Call::request(Arc::new(inbound));
        call.origin = origin(&self.caller, &self.id);
        self.caller.sign(&mut call);
        call
    }

    /// The call, and those that follow where the model calls a tool: each carries on from the one before, so that
    /// only what the tool said is read anew.
    async fn call(
        &self,
        writer: &Writer,
        prepared: Prepared,
        figures: &mut Figures,
    ) -> Result<(), Unanswered> {
        let mut costs = Costs::default();
        let mut more: Vec<Value> = Vec::new();
        // Where the person wants a search, there is one, and then an answer.
        let search_first = self.case.search_first && writer.tools.is_some();
        for round in 0.. {
            let choice = match (search_first, round) {
                (true, 0) => Choice::Search,
                (false, 0..searching::MOST_ROUNDS) => Choice::Free,
                _ => Choice::Answer,
            };
            let stop = &prepared.stop.strings;
            let inbound = writer.request(&prepared.prompt, stop, &more, choice)?;
            let calls = self.one(inbound, &prepared, figures, &mut costs).await?;
            let judgments = self.app.pages().and_then(|pages| pages.config.judgments.clone());
            let Some(judgments) =
                judgments.filter(|_| !calls.is_empty() && choice != Choice::Answer)
            else {
                break;
            };
            let said = self.hub.read(|it| it.running.as_ref().map(|it| it.text.clone()));
            let found = tokio::task::spawn_blocking(move || {
                searching::answers(&judgments, &calls, said.as_deref().unwrap_or_default())
            });
            let Ok((messages, searches)) = found.await else { break };
            more.extend(messages);
            figures.searches.extend(searches);
            self.hub.progress(|running| {
                running.round += 1;
                running.text.clear();
                running.phase = Phase::Preparing;
            });
        }
        figures.cost = costs.figures();
        Ok(())
    }

    /// One call; gives the tools that the model called in it.
    async fn one(
        &self,
        inbound: Inbound,
        prepared: &Prepared,
        figures: &mut Figures,
        costs: &mut Costs,
    ) -> Result<Vec<ToolCall>, Unanswered> {
        let most = inbound.max_tokens();
        let size = Size { body: inbound.bytes.len(), answer: most };
        let mut call = self.written(inbound);
        call.outline = Some(prepared.outline.clone());
        let route = self.caller.route(&HeaderMap::new(), call.model.as_deref())?;
        if let Some(route) = route {
            call.origin.route = route.name.clone().into();
        }
        let entry = self.caller.enter(size)?;
        let id = call.id.to_string();
        figures.call.clone_from(&id);
        let _record = self.app.records().expect(&id);
        let mut meter = Meter::begin(Arc::clone(self.app.metrics()), Some(entry));
        self.hub.progress(|running| running.phase = Phase::Waiting);
        let running = self.app.pipeline().start(call).await.inspect_err(|_| meter.failed())?;
        meter.admitted();
        let calls = self.hear(running, meter, figures).await?;
        if let Some(record) = self.app.records().take(&id) {
            self.record(figures, costs, &record);
        }
        Ok(calls)
    }

    /// The answer, as it comes.
    async fn hear(
        &self,
        mut running: Running,
        mut meter: Meter,
        figures: &mut Figures,
    ) -> Result<Vec<ToolCall>, Unanswered> {
        let mut calls = Vec::new();
        if let Some(reuse) = running.admission().reuse.filter(|_| !running.is_replay()) {
            let (ready, total) = (reuse.cached + reuse.joined, reuse.prompt);
            // What the cache had is hidden from some tenants, and a bar that begins in its middle tells it.
            let ready = if self.hides_hits() { 0 } else { ready };
            self.hub.progress(|it| it.phase = Phase::Reading { ready, total });
        }
        let mut kept = Instant::now();
        while let Some(event) = running.next().await {
            meter.see(&event);
            match event {
                CallEvent::Prefill { ready, total } => {
                    self.hub.progress(|it| it.phase = Phase::Reading { ready, total });
                }
                CallEvent::Token(token) => self.said(&token.text, figures),
                CallEvent::Piece(piece) => {
                    for delta in piece.deltas {
                        match delta.says {
                            Says::Text(text) | Says::Refusal(text) => self.said(&text, figures),
                            Says::Token(token) => self.said(&token.text, figures),
                            says => searching::hear(&mut calls, says),
                        }
                    }
                }
                CallEvent::Finished(finish) => {
                    self.said(&finish.tail, figures);
                    self.finished(&finish, figures);
                    if !running.is_replay() && !self.hides_hits() {
                        let found = running.explanation().await;
                        // Of several rounds the first says why the files were read.
                        figures.reason = figures.reason.take().or_else(|| found.and_then(reason));
                    }
                    return Ok(calls);
                }
                CallEvent::Failed(error) => return Err(error.into()),
                CallEvent::Admitted(_) => {}
            }
            if kept.elapsed() >= KEEP_EVERY {
                kept = Instant::now();
                self.keep_partial().await?;
            }
        }
        Err(ApiError::new(tapri_api::ErrorKind::Internal, "The answer ended without its end")
            .into())
    }

    fn said(&self, text: &str, figures: &mut Figures) {
        if text.is_empty() {
            return;
        }
        figures.ttft_ms.get_or_insert_with(|| millis(self.begun.elapsed()));
        self.hub.progress(|it| {
            it.phase = Phase::Answering;
            // A model's answer begins with a space more often than not.
            let text = if it.text.is_empty() { text.trim_start() } else { text };
            it.text.push_str(text);
        });
    }

    async fn keep_partial(&self) -> Result<(), StoreError> {
        let text = self.hub.read(|state| state.running.as_ref().map(|it| it.text.clone()));
        let (id, n) = (self.id.clone(), self.n);
        blocking(&self.app, move |store| {
            store.keep_partial(&id, n, text.as_deref().unwrap_or_default())
        })
        .await
    }

    fn finished(&self, finish: &Finish, figures: &mut Figures) {
        let usage = &finish.usage;
        figures.total_ms = Some(millis(self.begun.elapsed()));
        figures.prompt = usage.prompt().map(|tokens| tokens as u64);
        figures.answer = usage.answer().map(|tokens| tokens as u64);
        figures.cut = finish.reason == FinishReason::Length;
        if self.hides_hits() {
            return;
        }
        figures.cached = match (usage.cached(), usage.joined()) {
            (None, None) => None,
            (cached, joined) => Some((cached.unwrap_or(0) + joined.unwrap_or(0)) as u64),
        };
    }

    /// What the record of the call says besides.
    fn record(&self, figures: &mut Figures, costs: &mut Costs, record: &CallRecord) {
        if self.hides_hits() {
            return;
        }
        let answered = |cache: &Option<tapri_ledger::CacheResult>| {
            cache.as_ref().is_some_and(|it| it.outcome.is_replay())
        };
        if answered(&record.semantic) {
            figures.stored = Some("semantic".to_owned());
        } else if answered(&record.exact) {
            figures.stored = Some("exact".to_owned());
        }
        costs.add(record.cost.as_ref());
    }

    fn hides_hits(&self) -> bool {
        self.app.hides_hits(&self.caller)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&tapri_casefile::Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Some(pages) = app.pages() else { return Err(StoreError::NoCase) };
    let store = Arc::clone(&pages.config.store);
    // Only a panic is no answer, and it has been printed.
    tokio::task::spawn_blocking(move || work(&store)).await.unwrap_or(Err(StoreError::NoCase))
}
