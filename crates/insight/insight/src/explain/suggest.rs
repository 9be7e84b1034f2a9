//! What to do about a miss, in plain words. Never a value of the prompt.

use tapri_ledger::MissReason;

/// The advice for a reason.
pub(super) fn suggestion(reason: MissReason) -> &'static str {
    use MissReason as R;
    match reason {
        R::Growth | R::LastMessage | R::CutAtEnd => "nothing to change",
        R::Time => {
            "move the time behind what stays the same, or leave it out; where it must stand first, round it to the day"
        }
        R::Date => {
            "move the date or timestamp behind what stays the same; where it must stand first, round it to the day"
        }
        R::Uuid => {
            "leave the UUID out of the prompt, or put it into the last message or into metadata"
        }
        R::RequestId => {
            "leave ids of requests and sessions out of the prompt; put them into metadata or headers"
        }
        R::Counter => "move the counter into the last message, or leave it out",
        R::UserName => {
            "move what is about one user behind what all users share, best into the first user message"
        }
        R::RandomValue => {
            "leave the random value out, or make it from what it stands for, so that it is the same each time"
        }
        R::ToolAdded | R::ToolRemoved => {
            "send the same tools on every call, and say which may be used with tool_choice or in the last message"
        }
        R::ToolsReordered => {
            "sort the tools by name before sending them; don't build the list from a set or a map without order"
        }
        R::ToolReserialised => {
            "write each tool's JSON once and reuse it, or sort its keys and fix its spacing"
        }
        R::ToolEdited => {
            "keep the tools' names, descriptions and schemas fixed; put what changes into the last message"
        }
        R::KeysReordered => {
            "sort the keys when writing JSON (sort_keys=True, or a map that keeps its order)"
        }
        R::WhitespaceOnly => {
            "build the text in one place only, with one rule for blank lines and spaces"
        }
        R::InstructionsEdited => {
            "keep the instructions the same; put what differs from call to call behind them"
        }
        R::FileChanged => {
            "put the file that changes behind those that don't, and keep one version of it for a session"
        }
        R::PagesReordered => {
            "keep pages and documents in one order, by name or by page, not by relevance"
        }
        R::TurnsShortened => {
            "drop earlier turns rarely and many at once, not one on every call: each cut costs everything behind it"
        }
        R::TurnsSummarised => {
            "summarise rarely, and put the summary behind what stays; the call after a summary pays for all of it"
        }
        R::TurnEdited => {
            "send earlier turns exactly as they were sent and answered; append, never edit"
        }
        R::ReasoningDropped => {
            "send reasoning back as it came, or keep it out of the history from the first call on"
        }
        R::ReasoningRewritten => {
            "send reasoning back unchanged, with its signature, or leave it out from the first call on"
        }
        R::ImageChanged => {
            "send the same bytes and the same detail for an image, and put images that change last"
        }
        R::ParametersChanged => {
            "keep the answer's schema, the tool choice and the effort the same within a conversation"
        }
        R::Model => "stay with one model within a conversation; each model has a cache of its own",
        R::Adapter => "stay with one adapter within a conversation; each has a cache of its own",
        R::Tokenizer => "use one tokenizer; its ids are what the cache holds",
        R::Template => "use one chat template; another one writes another prompt",
        R::Tenant => {
            "tenants never share a cache; nothing to change if they are different customers"
        }
        R::Salt => "use one salt or cache key for all calls that may share a start",
        R::Expired => "call again before the lifetime ends, or ask for a longer one if that pays",
        R::Evicted => {
            "give the cache more memory, or send calls with the same start to the same server"
        }
        R::Restarted => {
            "nothing in the prompt to change: the first call after a restart reads everything again"
        }
        R::WindowGone => "give the cache more memory, so that the window's blocks are kept as well",
        R::BelowOneBlock => "nothing to change: a start shorter than one block is not kept",
        R::BelowMinimum => {
            "nothing to gain below the provider's minimum, unless short calls can share a longer start"
        }
        R::BeingWritten => {
            "wait for the first call's first token before sending the others with the same start"
        }
        R::Bypassed => {
            "leave out the directive that says not to look, where the answer may come from a cache"
        }
        R::MarkerMissing => {
            "mark the end of the part that stays the same (cache_control, prompt_cache_breakpoint)"
        }
        R::MarkerMisplaced => {
            "put a marker at the end of the part that stays the same, before what changes"
        }
        R::NeverSeen => "nothing to change: there was nothing to reuse yet",
        R::Unknown => {
            "keep more of the log around this call, or ask the provider's own diagnosis for it"
        }
    }
}
