//! Why a call reused less than it could.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why reuse ended where it did: one closed list. The names are stored and printed, and stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MissReason {
    /// The prompt grew at its end: all that could be reused was.
    #[serde(rename = "grew_at_end")]
    Growth,
    /// Only the last message differs: a new question behind the same start.
    #[serde(rename = "last_message_differs")]
    LastMessage,
    /// The prompt is a start of the earlier one: all of it could be reused.
    #[serde(rename = "cut_at_end")]
    CutAtEnd,
    /// A time of day changed.
    #[serde(rename = "time_changed")]
    Time,
    /// A date, or a timestamp with its date, changed.
    #[serde(rename = "date_changed")]
    Date,
    /// A UUID changed.
    #[serde(rename = "uuid_changed")]
    Uuid,
    /// An id of a request, a session or a trace changed.
    #[serde(rename = "request_id_changed")]
    RequestId,
    /// A number that counts changed.
    #[serde(rename = "counter_changed")]
    Counter,
    /// The name of a person, an account or an address changed.
    #[serde(rename = "user_name_changed")]
    UserName,
    /// A value without meaning changed: a nonce, a token, a hash.
    #[serde(rename = "random_value_changed")]
    RandomValue,
    /// A tool was added.
    #[serde(rename = "tool_added")]
    ToolAdded,
    /// A tool was removed.
    #[serde(rename = "tool_removed")]
    ToolRemoved,
    /// The same tools came in another order.
    #[serde(rename = "tools_reordered")]
    ToolsReordered,
    /// The same tool was written otherwise: other key order or spacing.
    #[serde(rename = "tool_reserialised")]
    ToolReserialised,
    /// A tool's name, description or schema was edited.
    #[serde(rename = "tool_edited")]
    ToolEdited,
    /// The same JSON came with its keys in another order.
    #[serde(rename = "json_keys_reordered")]
    KeysReordered,
    /// Only white space differs.
    #[serde(rename = "whitespace_only")]
    WhitespaceOnly,
    /// The instructions were edited.
    #[serde(rename = "instructions_edited")]
    InstructionsEdited,
    /// A file's text changed at some page and offset.
    #[serde(rename = "file_changed")]
    FileChanged,
    /// The same pages or documents came in another order.
    #[serde(rename = "pages_reordered")]
    PagesReordered,
    /// Earlier turns were dropped or cut.
    #[serde(rename = "turns_shortened")]
    TurnsShortened,
    /// Earlier turns were replaced by a summary.
    #[serde(rename = "turns_summarised")]
    TurnsSummarised,
    /// An earlier turn was edited.
    #[serde(rename = "turn_edited")]
    TurnEdited,
    /// Reasoning of an earlier turn was dropped.
    #[serde(rename = "reasoning_dropped")]
    ReasoningDropped,
    /// Reasoning of an earlier turn was rewritten, by the client or by the template.
    #[serde(rename = "reasoning_rewritten")]
    ReasoningRewritten,
    /// An image or another attachment differs.
    #[serde(rename = "image_changed")]
    ImageChanged,
    /// A parameter that stands in the prompt changed: the schema of the answer, the tool choice, the effort.
    #[serde(rename = "parameters_changed")]
    ParametersChanged,
    /// Another model.
    #[serde(rename = "model_changed")]
    Model,
    /// Another adapter.
    #[serde(rename = "adapter_changed")]
    Adapter,
    /// Another tokenizer.
    #[serde(rename = "tokenizer_changed")]
    Tokenizer,
    /// Another chat template.
    #[serde(rename = "template_changed")]
    Template,
    /// Another tenant.
    #[serde(rename = "tenant_changed")]
    Tenant,
    /// Another cache salt, or another key that partitions the cache.
    #[serde(rename = "salt_changed")]
    Salt,
    /// It was stored, and its time was up.
    #[serde(rename = "expired")]
    Expired,
    /// It was stored, and made room for others.
    #[serde(rename = "evicted")]
    Evicted,
    /// It was stored, and the cache has begun anew since: a restart, or a reset.
    #[serde(rename = "restarted")]
    Restarted,
    /// The blocks that a sliding window needs were gone.
    #[serde(rename = "window_gone")]
    WindowGone,
    /// The prompt, or what it shares, is shorter than one block.
    #[serde(rename = "below_one_block")]
    BelowOneBlock,
    /// The prompt is shorter than the provider's minimum.
    #[serde(rename = "below_minimum")]
    BelowMinimum,
    /// The first call with this start was still computing it.
    #[serde(rename = "being_written")]
    BeingWritten,
    /// The caller or the configuration said not to look.
    #[serde(rename = "bypassed")]
    Bypassed,
    /// The provider caches only what is marked, and nothing is.
    #[serde(rename = "marker_missing")]
    MarkerMissing,
    /// A marker stands behind what changes, or too far behind what was stored.
    #[serde(rename = "marker_misplaced")]
    MarkerMisplaced,
    /// Nothing like it was seen before.
    #[serde(rename = "never_seen")]
    NeverSeen,
    /// It can't be told any more.
    #[serde(rename = "unknown")]
    Unknown,
}

impl MissReason {
    /// Every reason.
    pub const ALL: [Self; 45] = [
        Self::Growth,
        Self::LastMessage,
        Self::CutAtEnd,
        Self::Time,
        Self::Date,
        Self::Uuid,
        Self::RequestId,
        Self::Counter,
        Self::UserName,
        Self::RandomValue,
        Self::ToolAdded,
        Self::ToolRemoved,
        Self::ToolsReordered,
        Self::ToolReserialised,
        Self::ToolEdited,
        Self::KeysReordered,
        Self::WhitespaceOnly,
        Self::InstructionsEdited,
        Self::FileChanged,
        Self::PagesReordered,
        Self::TurnsShortened,
        Self::TurnsSummarised,
        Self::TurnEdited,
        Self::ReasoningDropped,
        Self::ReasoningRewritten,
        Self::ImageChanged,
        Self::ParametersChanged,
        Self::Model,
        Self::Adapter,
        Self::Tokenizer,
        Self::Template,
        Self::Tenant,
        Self::Salt,
        Self::Expired,
        Self::Evicted,
        Self::Restarted,
        Self::WindowGone,
        Self::BelowOneBlock,
        Self::BelowMinimum,
        Self::BeingWritten,
        Self::Bypassed,
        Self::MarkerMissing,
        Self::MarkerMisplaced,
        Self::NeverSeen,
        Self::Unknown,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Growth => "grew_at_end",
            Self::LastMessage => "last_message_differs",
            Self::CutAtEnd => "cut_at_end",
            Self::Time => "time_changed",
            Self::Date => "date_changed",
            Self::Uuid => "uuid_changed",
            Self::RequestId => "request_id_changed",
            Self::Counter => "counter_changed",
            Self::UserName => "user_name_changed",
            Self::RandomValue => "random_value_changed",
            Self::ToolAdded => "tool_added",
            Self::ToolRemoved => "tool_removed",
            Self::ToolsReordered => "tools_reordered",
            Self::ToolReserialised => "tool_reserialised",
            Self::ToolEdited => "tool_edited",
            Self::KeysReordered => "json_keys_reordered",
            Self::WhitespaceOnly => "whitespace_only",
            Self::InstructionsEdited => "instructions_edited",
            Self::FileChanged => "file_changed",
            Self::PagesReordered => "pages_reordered",
            Self::TurnsShortened => "turns_shortened",
            Self::TurnsSummarised => "turns_summarised",
            Self::TurnEdited => "turn_edited",
            Self::ReasoningDropped => "reasoning_dropped",
            Self::ReasoningRewritten => "reasoning_rewritten",
            Self::ImageChanged => "image_changed",
            Self::ParametersChanged => "parameters_changed",
            Self::Model => "model_changed",
            Self::Adapter => "adapter_changed",
            Self::Tokenizer => "tokenizer_changed",
            Self::Template => "template_changed",
            Self::Tenant => "tenant_changed",
            Self::Salt => "salt_changed",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
            Self::Restarted => "restarted",
            Self::WindowGone => "window_gone",
            Self::BelowOneBlock => "below_one_block",
            Self::BelowMinimum => "below_minimum",
            Self::BeingWritten => "being_written",
            Self::Bypassed => "bypassed",
            Self::MarkerMissing => "marker_missing",
            Self::MarkerMisplaced => "marker_misplaced",
            Self::NeverSeen => "never_seen",
            Self::Unknown => "unknown",
        }
    }

    /// One sentence for a person.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Growth => "The prompt grew at its end: all that could be reused was.",
            Self::LastMessage => {
                "Only the last message differs: a new question behind the same start."
            }
            Self::CutAtEnd => {
                "The prompt is a start of the earlier one: all of it could be reused."
            }
            Self::Time => "A time of day changed.",
            Self::Date => "A date, or a timestamp with its date, changed.",
            Self::Uuid => "A UUID changed.",
            Self::RequestId => "An id of a request, a session or a trace changed.",
            Self::Counter => "A number that counts changed.",
            Self::UserName => "The name of a person, an account or an address changed.",
            Self::RandomValue => "A value without meaning changed: a nonce, a token, a hash.",
            Self::ToolAdded => "A tool was added.",
            Self::ToolRemoved => "A tool was removed.",
            Self::ToolsReordered => "The same tools came in another order.",
            Self::ToolReserialised => {
                "The same tool was written otherwise: other key order or spacing."
            }
            Self::ToolEdited => "A tool's name, description or schema was edited.",
            Self::KeysReordered => "The same JSON came with its keys in another order.",
            Self::WhitespaceOnly => "Only white space differs.",
            Self::InstructionsEdited => "The instructions were edited.",
            Self::FileChanged => "A file's text changed at some page and offset.",
            Self::PagesReordered => "The same pages or documents came in another order.",
            Self::TurnsShortened => "Earlier turns were dropped or cut.",
            Self::TurnsSummarised => "Earlier turns were replaced by a summary.",
            Self::TurnEdited => "An earlier turn was edited.",
            Self::ReasoningDropped => "Reasoning of an earlier turn was dropped.",
            Self::ReasoningRewritten => {
                "Reasoning of an earlier turn was rewritten, by the client or by the template."
            }
            Self::ImageChanged => "An image or another attachment differs.",
            Self::ParametersChanged => {
                "A parameter that stands in the prompt changed: the schema of the answer, the tool choice, the effort."
            }
            Self::Model => "Another model.",
            Self::Adapter => "Another adapter.",
            Self::Tokenizer => "Another tokenizer.",
            Self::Template => "Another chat template.",
            Self::Tenant => "Another tenant.",
            Self::Salt => "Another cache salt, or another key that partitions the cache.",
            Self::Expired => "It was stored, and its time was up.",
            Self::Evicted => "It was stored, and made room for others.",
            Self::Restarted => "It was stored, and the cache has begun anew since.",
            Self::WindowGone => "The blocks that a sliding window needs were gone.",
            Self::BelowOneBlock => "The prompt, or what it shares, is shorter than one block.",
            Self::BelowMinimum => "The prompt is shorter than the provider's minimum.",
            Self::BeingWritten => "The first call with this start was still computing it.",
            Self::Bypassed => "The caller or the configuration said not to look.",
            Self::MarkerMissing => "The provider caches only what is marked, and nothing is.",
            Self::MarkerMisplaced => {
                "A marker stands behind what changes, or too far behind what was stored."
            }
            Self::NeverSeen => "Nothing like it was seen before.",
            Self::Unknown => "It can't be told any more.",
        }
    }

    /// Whether reuse ended here because there was no more to reuse: nothing to repair.
    #[must_use]
    pub fn is_expected(self) -> bool {
        matches!(self, Self::Growth | Self::LastMessage | Self::CutAtEnd)
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no reason")]
pub struct UnknownReason(pub String);

impl FromStr for MissReason {
    type Err = UnknownReason;

    fn from_str(name: &str) -> Result<Self, UnknownReason> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == name)
            .ok_or_else(|| UnknownReason(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for reason in MissReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
            assert_eq!(serde_json::json!(reason), reason.as_str());
        }
        assert!("nonsense".parse::<MissReason>().is_err());
    }
}
