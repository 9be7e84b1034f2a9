//! Constrained decoding: a grammar says after each token which tokens may come next.
//!
//! The grammars are llguidance's: an Earley parser over a lexer of regular-expression derivatives, walked down a tree of
//! the vocabulary's bytes. A grammar is compiled before its call is submitted, on the caller's thread; the masks are
//! computed on a thread of their own (`scheduler/masks`) while the model computes. So neither makes other calls wait.
//!
//! A mask depends on the grammar and on the answer's tokens alone, so a constrained answer keeps the engine's promise:
//! a hit changes nothing. Logprobs stay those of the model, as if there were no grammar.

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::SimpleVob;
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;
use tapri_gguf::TokenId;
use tapri_text::Tokenizer;

mod schema;
mod vocabulary;

pub use schema::JsonShape;

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Grammar {
    /// JSON of a schema. A schema of `{"type": "object"}` allows any object.
    Json(Value),
    /// Text that a regular expression matches as a whole.
    Regex(String),
    /// A grammar in llguidance's dialect of Lark; `%json` takes what [`JsonShape::grammar`] gives.
    Lark(String),
}

/// Why a grammar can't be used. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// A keyword of JSON schema that can't be kept to.
    #[error("`{keyword}` at {path} is not supported")]
    Keyword {
        /// The keyword.
        keyword: String,
        /// The JSON pointer of the schema that has it.
        path: String,
    },
    /// Nothing matches.
    #[error("nothing can match it: {0}")]
    Unsatisfiable(String),
    /// It can't be read, or costs more than a grammar may.
    #[error("{0}")]
    Invalid(String),
    /// The model has no token that ends an answer, so no answer could be complete.
    #[error("the model has no token that ends an answer")]
    NoEnd,
}

/// Compiles grammars for one vocabulary.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    /// Takes up to a second (for 262,144 tokens) and tens of MB, so it is made when the first grammar comes.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, ConstraintError> {
        let environment = vocabulary::environment(tokenizer)?;
        let mut factory = ParserFactory::new_simple(&environment).map_err(invalid)?;
        // Errors carry no text of answers, and nothing goes to stderr.
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Grammars { factory })
    }

    pub(crate) fn compile(&self, grammar: &Grammar) -> Result<Constraint, ConstraintError> {
        let grammar = match grammar {
            Grammar::Json(schema) => {
                TopLevelGrammar::from_json_schema(JsonShape::new(schema)?.grammar())
            }
            Grammar::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Grammar::Lark(lark) => TopLevelGrammar::from_lark(lark.clone()),
        };
        // A defect of the compiler is one grammar's bad luck.
        let compile = std::panic::AssertUnwindSafe(|| self.factory.create_parser(grammar));
        let parser = llguidance::panic_utils::catch_unwind(compile).map_err(invalid)?;
        let matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(error) => Err(ConstraintError::Invalid(first_line(&error))),
            None => Ok(Constraint { matcher: Box::new(matcher) }),
        }
    }
}

fn invalid(error: impl std::fmt::Display) -> ConstraintError {
    let text = first_line(&error.to_string());
    match text.strip_prefix("Unsatisfiable schema: ") {
        Some(reason) => ConstraintError::Unsatisfiable(reason.to_owned()),
        None => ConstraintError::Invalid(text),
    }
}

/// The parser adds its state below the message.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end().to_owned()
}

/// A grammar that was compiled for an engine's vocabulary. A clone starts where this one is and goes its own way.
pub struct Constraint {
    /// It is as large as several pages, and moves between threads.
    matcher: Box<Matcher>,
}

impl Clone for Constraint {
    fn clone(&self) -> Self {
        // Deep: clones run on different calls, and what a lexer has learnt counts against its limits.
        Constraint { matcher: Box::new(self.matcher.deep_clone()) }
    }
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Constraint")
            .field("complete", &self.matcher.is_stopped())
            .finish_non_exhaustive()
    }
}

impl Constraint {
    /// The tokens that may come next; end tokens are among them only where the answer may end.
    pub(crate) fn mask(&mut self) -> Result<Mask, String> {
        self.matcher.compute_mask_or_eos().map(Mask).map_err(|error| first_line(&error.to_string()))
    }

    /// Takes the next token. `true`: nothing can follow but the end.
    pub(crate) fn push(&mut self, token: TokenId) -> Result<bool, String> {
        self.matcher.consume_token(token.0).map_err(|error| first_line(&error.to_string()))?;
        Ok(self.matcher.is_stopped())
    }
}

/// A set of tokens.
pub(crate) struct Mask(SimpleVob);

impl Mask {
    /// Whether a token is in it.
    pub(crate) fn has(&self, token: usize) -> bool {
        token < self.0.len() && self.0.get(token)
    }

    /// Its tokens, 32 to a word, the lowest first; the last word may have bits beyond the vocabulary.
    pub(crate) fn words(&self) -> &[u32] {
        self.0.as_slice()
    }

    /// A set of some tokens, for tests.
    #[cfg(test)]
    pub(crate) fn of(tokens: &[u32], vocabulary: usize) -> Self {
        let mut set = SimpleVob::alloc(vocabulary);
        tokens.iter().for_each(|&token| set.allow_token(token));
        Mask(set)
    }
}
