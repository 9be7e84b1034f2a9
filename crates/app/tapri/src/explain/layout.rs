//! Prompts as a model reads them: its own chat template, its own tokenizer. No weights are read.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result};
use tapri_gguf::Gguf;
use tapri_insight::prompt::PromptDoc;
use tapri_registry::{ModelRef, Recheck};
use tapri_text::{
    ChatTemplate, ControlTokens, RenderInput, Special, TokenId, Tokenizer, ZonedDateTime,
};

use crate::failure::Failure;
use crate::pull;

/// A model's tokenizer and chat template.
pub(super) struct Layout {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// What a template sees as now: the same for all prompts, so that only their own differences show.
    now: ZonedDateTime,
    refused: Cell<u64>,
    why: RefCell<Option<String>>,
}

impl Layout {
    /// Of a model's file, which is pulled if it is missing.
    pub(super) fn of(model: &ModelRef) -> Result<Self> {
        let path = pull::pulled(model, Recheck::No)?;
        let not_a_model = |error: anyhow::Error| {
            let error = error.context(format!("{} can't lay out prompts", path.display()));
            Failure::new(error, Some("'tapri pull' lists models that run"))
        };
        let gguf = Gguf::open(&path).map_err(|error| not_a_model(error.into()))?;
        let tokenizer = Tokenizer::from_gguf(&gguf).map_err(|error| not_a_model(error.into()))?;
        let template = ChatTemplate::from_gguf(&gguf, &tokenizer)
            .map_err(|error| not_a_model(error.into()))?;
        let now = ZonedDateTime::now();
        Ok(Layout { tokenizer, template, now, refused: Cell::new(0), why: RefCell::new(None) })
    }

    /// The token ids of a prompt.
    pub(super) fn tokens(&self, doc: &PromptDoc) -> Result<Vec<u32>> {
        let Some(chat) = doc.chat() else { return Ok(self.plain(doc)) };
        let rendered = self
            .template
            .render(&RenderInput {
                messages: &chat.messages,
                tools: &chat.tools,
                add_generation_prompt: true,
                now: &self.now,
                variables: &chat.variables,
            })
            .context("the model's chat template refused the conversation")?;
        Ok(ids(&self.tokenizer.encode_rendered(&rendered)))
    }

    /// The same; a prompt that can't be laid out is counted.
    pub(super) fn tokens_or_none(&self, doc: &PromptDoc) -> Option<Vec<u32>> {
        match self.tokens(doc) {
            Ok(tokens) => Some(tokens),
            Err(error) => {
                self.refused.set(self.refused.get() + 1);
                self.why.borrow_mut().get_or_insert_with(|| format!("{error:#}"));
                None
            }
        }
    }

    /// What was refused, in words.
    pub(super) fn refusals(&self) -> Option<String> {
        let why = self.why.borrow();
        let (count, why) = (self.refused.get(), why.as_ref()?);
        Some(format!(
            "{count} of the prompts could not be laid out, and their tokens are estimates: {why}"
        ))
    }

    /// What a token says.
    pub(super) fn text(&self, token: u32) -> String {
        self.tokenizer.decode(&[TokenId(token)], ControlTokens::Show).unwrap_or_default()
    }

    /// A text that no template lays out, or ids that are tokens already.
    fn plain(&self, doc: &PromptDoc) -> Vec<u32> {
        let text: String = doc.parts.iter().map(|part| &*part.text).collect();
        let given: Option<Vec<u32>> = match doc.parts.as_slice() {
            [part] if part.kind == tapri_insight::prompt::Kind::Tokens => {
                part.text.split(' ').map(|id| id.parse().ok()).collect()
            }
            _ => None,
        };
        given.unwrap_or_else(|| ids(&self.tokenizer.encode_prompt(&text, Special::AsText)))
    }
}

fn ids(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}
