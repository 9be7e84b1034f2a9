//! A case: files, instructions, and the questions asked about them, as they are kept.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A case's name: 128 random bits, written as 32 hexadecimal digits. It stands in addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseId(String);

impl CaseId {
    /// A new one.
    ///
    /// # Errors
    /// Where the system has no randomness to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        Ok(CaseId(random_digits()?))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// 128 random bits as hexadecimal digits.
pub(crate) fn random_digits() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a case's name has 32 hexadecimal digits")]
pub struct NoCaseId;

impl FromStr for CaseId {
    type Err = NoCaseId;

    fn from_str(text: &str) -> Result<Self, NoCaseId> {
        let fits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if fits { Ok(CaseId(text.to_owned())) } else { Err(NoCaseId) }
    }
}

/// A case, without its files' texts and its turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name.
    pub id: CaseId,
    /// Whose it is.
    pub tenant: String,
    /// What people call it: the first file's name, until somebody says otherwise.
    pub title: String,
    /// When it was begun.
    pub created: Timestamp,
    /// When something in it last changed.
    pub updated: Timestamp,
    /// What the model is to do; `None` for the layout's own instructions.
    pub instructions: Option<String>,
    /// Whether the model is offered the tools that there are.
    pub tools: bool,
    /// Whether the model searches with them before every answer, whatever it would do by itself.
    pub search_first: bool,
    /// The model that answers; `None` for the server's only one.
    pub model: Option<String>,
    /// The first turn that is still a part of prompts: those before it went when the context was full.
    pub first_turn: u32,
}

/// A file of a case, without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFile {
    /// Its name among all files: 32 hexadecimal digits.
    pub id: String,
    /// What it was called where it came from.
    pub name: String,
    /// What it was read as, in a word: `pdf`, `docx`, `markdown`, `text`.
    pub format: String,
    /// Pages, where it has pages.
    pub pages: Option<u32>,
    /// Characters of its text.
    pub chars: u64,
    /// Tokens of its text, and of each of its [sections](crate::sections), where the model's tokenizer is known.
    pub tokens: Option<u64>,
    /// The sections that the model reads, where not all of them.
    pub chosen: Option<crate::Sections>,
}

/// A question of a case and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseTurn {
    /// Its place, from 0; never given twice.
    pub n: u32,
    /// What was asked.
    pub question: String,
    /// What came back, as far as it came.
    pub answer: String,
    /// How far it got.
    pub state: TurnState,
    /// When it was asked.
    pub asked: Timestamp,
    /// What it took; absent while it runs.
    pub figures: Option<Figures>,
}

/// How far a turn got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnState {
    /// Its answer is being made.
    Running,
    /// It was answered.
    Answered,
    /// The person stopped it.
    Stopped,
    /// The server ended before the answer did.
    Interrupted,
    /// It failed; the figures say why.
    Failed,
}

impl TurnState {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnState::Running => "running",
            TurnState::Answered => "answered",
            TurnState::Stopped => "stopped",
            TurnState::Interrupted => "interrupted",
            TurnState::Failed => "failed",
        }
    }

    /// From its name; what isn't known was interrupted.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "running" => TurnState::Running,
            "answered" => TurnState::Answered,
            "stopped" => TurnState::Stopped,
            "failed" => TurnState::Failed,
            _ => TurnState::Interrupted,
        }
    }
}

/// What an answer took, as it was measured. Absent is unknown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The call's id, as in the ledger.
    pub call: String,
    /// The model that answered.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    /// Of those, from the prefix cache, the ones included that another call was computing.
    pub cached: Option<u64>,
    /// Tokens of the answer.
    pub answer: Option<u64>,
    /// From the question to the first word of the answer.
    pub ttft_ms: Option<u64>,
    /// From the question to the end.
    pub total_ms: Option<u64>,
    /// Where a stored answer was given: `exact` or `semantic`.
    pub stored: Option<String>,
    /// What it cost, and what it would have cost with nothing out of a cache: estimates.
    pub cost: Option<CostFigures>,
    /// Why less was reused than could be.
    pub reason: Option<ReasonFigures>,
    /// Turns that went for it, since the context was full.
    pub dropped: Option<u32>,
    /// Tools that the model called for it.
    pub searches: Vec<SearchFigures>,
    /// Whether the answer ended at its longest.
    pub cut: bool,
    /// What went wrong, and what to do.
    pub error: Option<ErrorFigures>,
}

/// What an answer cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CostFigures {
    /// With what the caches gave, as a decimal number.
    pub paid: String,
    /// Without.
    pub without: String,
    /// The difference.
    pub saved: String,
    /// In which currency.
    pub currency: String,
    /// By which price list.
    pub list: String,
}

/// Why less was reused than could be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReasonFigures {
    /// The reason's name on the ledger's list.
    pub reason: String,
    /// What to do about it, as the explanation says it.
    pub suggestion: String,
    /// Tokens shared with the nearest earlier prompt.
    pub shared: Option<u64>,
    /// Where the first difference is.
    pub place: Option<String>,
    /// On which page of the files.
    pub page: Option<u64>,
}

/// A call of the search tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SearchFigures {
    /// What the model searched for.
    pub query: String,
    /// The judgments that were found, best first.
    pub found: Vec<String>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorFigures {
    /// A sentence without its full stop.
    pub message: String,
    /// What to do: a sentence without its full stop.
    pub hint: Option<String>,
    /// Where the files don't fit: tokens of the prompt, and room for it.
    pub too_long: Option<(u64, u64)>,
}
