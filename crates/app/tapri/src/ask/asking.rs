//! One question's way.

use std::time::{Duration, Instant};

use anyhow::Result;
use tapri_casefile::{Prepared, Session, SessionError};
use tapri_pipeline::Pipeline;
use tapri_pipeline::api::{ApiError, Call, CallEvent, CallId, Origin, Prompt, Sampling};

use crate::ask::display::Display;
use crate::ask::record::Record;
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Asks one question after another.
pub(crate) struct Asker {
    pipeline: Pipeline,
    session: Session,
    max_tokens: usize,
    keep_turns: bool,
    asked: usize,
    origin: Origin,
    /// The adapter's name; without one the model is meant.
    model: Option<String>,
}

/// How a question ended.
pub(crate) enum Asked {
    Answered(Record),
    /// By Ctrl-C.
    Interrupted,
}

impl Asker {
    pub(crate) fn new(
        pipeline: Pipeline,
        session: Session,
        args: &AskArgs,
        model: Option<String>,
    ) -> Self {
        Asker {
            pipeline,
            session,
            max_tokens: args.max_tokens.get(),
            keep_turns: args.chat,
            asked: 0,
            // The questions of one run are one conversation.
            origin: Origin {
                conversation: Some(CallId::random().to_string()),
                ..Origin::of("ask")
            },
            model,
        }
    }

    /// Asks, and streams the answer to the display.
    pub(crate) async fn ask(
        &mut self,
        question: &str,
        interrupt: &Interrupt,
        display: &mut Display,
    ) -> Result<Asked> {
        self.asked += 1;
        display.question(self.asked, question)?;
        tokio::select! {
            asked = self.ask_to_the_end(question, display) => return asked,
            // Dropping the call cancels it.
            () = interrupt.pressed() => {}
        }
        display.interrupted();
        Ok(Asked::Interrupted)
    }

    async fn ask_to_the_end(&mut self, question: &str, display: &mut Display) -> Result<Asked> {
        // The clock starts before the prompt is laid out and tokenised: that is what a person waits for.
        let start = Instant::now();
        let prepared = self.prepare(question).await?;
        if let Some(dropped) = prepared.dropped {
            display.dropped(dropped);
        }
        let call = Call {
            model: self.model.clone(),
            max_tokens: Some(self.max_tokens),
            sampling: Sampling::greedy(),
            stop: prepared.stop,
            origin: self.origin.clone(),
            outline: Some(prepared.outline),
            ..Call::new(prepared.prompt)
        };
        self.answer(question, call, start, display).await
    }

    async fn answer(
        &mut self,
        question: &str,
        call: Call,
        start: Instant,
        display: &mut Display,
    ) -> Result<Asked> {
        let mut running = self.pipeline.start(call).await.map_err(failure)?;
        // The embedded engine knows it before it begins.
        let Some(reuse) = running.admission().reuse else {
            return Err(anyhow::anyhow!("the engine did not say what it reuses"));
        };
        let mut reading = display.reading(reuse.prompt, reuse.reused());
        let mut answer = String::new();
        let (mut first, mut last) = (None, start);
        while let Some(event) = running.next().await {
            match event {
                CallEvent::Prefill { ready, .. } => reading.at(ready),
                CallEvent::Token(token) => {
                    last = Instant::now();
                    if first.is_none() {
                        first = Some(last);
                        reading.done();
                    }
                    display.text(&token.text)?;
                    answer.push_str(&token.text);
                }
                CallEvent::Finished(finish) => {
                    reading.done();
                    display.text(&finish.tail)?;
                    answer.push_str(&finish.tail);
                    if self.keep_turns {
                        self.session.keep(question, &answer);
                    }
                    return Ok(Asked::Answered(Record {
                        question: question.to_owned(),
                        answer: answer.trim().to_owned(),
                        prompt_tokens: finish.usage.prompt().unwrap_or(0),
                        cached_tokens: finish.usage.reused().unwrap_or(0),
                        written_tokens: finish.usage.written().unwrap_or(0),
                        answer_tokens: finish.usage.answer().unwrap_or(0),
                        // Without a token, the end came when the first was due.
                        ttft: first.map_or_else(|| start.elapsed(), |first| first - start),
                        decode: first.map_or(Duration::ZERO, |first| last - first),
                        finish: finish.reason,
                        stop: reuse.stop,
                    }));
                }
                CallEvent::Failed(error) => return Err(failure(error).into()),
                _ => {}
            }
        }
        Err(anyhow::anyhow!("the answer ended without a reason"))
    }

    /// A question that is refused before it becomes a call leaves a record, too.
    fn too_long(&self, error: &SessionError<Uncounted>) {
        let error =
            ApiError::invalid("question", error.to_string()).code("context_length_exceeded");
        let card = self.pipeline.model(self.model.as_deref());
        let model = card.as_ref().map_or("", |card| card.id.as_str());
        self.pipeline.refused(CallId::random(), &self.origin, model, &error);
    }

    /// The prompt of a question, as token ids where they are known already.
    async fn prepare(&mut self, question: &str) -> Result<Prepared> {
        // Counting is async and the session is not: a counted prompt comes back to be counted here.
        let mut counts: Vec<(Prompt, Vec<u32>)> = Vec::new();
        loop {
            let mut wanted = None;
            let result = self.session.prepare(question, |prompt| {
                match counts.iter().find(|(counted, _)| counted == prompt) {
                    Some((_, ids)) => Ok(ids.len()),
                    None => {
                        wanted = Some(prompt.clone());
                        Err(Uncounted)
                    }
                }
            });
            match (result, wanted) {
                (Ok(mut prepared), _) => {
                    // The same tokens as the text would become; it need not be tokenised again.
                    if let Some(at) =
                        counts.iter().position(|(prompt, _)| *prompt == prepared.prompt)
                    {
                        prepared.prompt = Prompt::Tokens(counts.swap_remove(at).1);
                    }
                    return Ok(prepared);
                }
                (Err(SessionError::Count(Uncounted)), Some(prompt)) => {
                    let ids = self
                        .pipeline
                        .tokenize_call(Call::new(prompt.clone()))
                        .await
                        .map_err(failure)?;
                    counts.push((prompt, ids));
                }
                (Err(error), _) => {
                    self.too_long(&error);
                    let hint = "take a model with a larger context ('tapri pull' lists some), split the document, or \
                                lower --max-tokens";
                    return Err(
                        Failure::new(anyhow::Error::msg(error.to_string()), Some(hint)).into()
                    );
                }
            }
        }
    }
}

/// A prompt that has not been counted yet.
#[derive(Debug, thiserror::Error)]
#[error("the prompt is not counted")]
struct Uncounted;

/// What the pipeline says, as the command line says it.
pub(crate) fn failure(error: ApiError) -> Failure {
    Failure::new(anyhow::Error::msg(error.message), error.hint)
}
