//! What makes two calls the same call.
//!
//! Everything is in the key unless it is named here as not affecting the answer: a field that nobody knows makes a
//! new key, never a wrong hit. [`Inbound`] and [`Call`] are taken apart without a rest, so that a new field of theirs
//! doesn't compile until someone has decided (the way of TensorZero's cache).

use std::fmt;

use tapri_api::{
    Call, Format, Inbound, Message, Origin, OutputFormat, Part, Prompt, Sampling, Stop, Tool,
    ToolChoice,
};

use super::canon::canonical;

/// Changes whenever what is hashed, or how, does.
const VERSION: &[u8] = b"tapri exact key 1";

/// The name of a call's answer: equal only for calls that are the same for whoever answers them.
///
/// It is a hash keyed by the tenant's scope. Never shown to anyone, since equal keys tell that the same was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    /// Its bytes: for stores, not for eyes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

/// What the route made of the request: where it goes, and what is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resolved<'a> {
    /// The upstream's name.
    pub upstream: &'a str,
    /// The model's own name there.
    pub model: &'a str,
    /// What changes when the model's weights, tokenizer or arithmetic do, where that is known.
    pub build: &'a str,
    /// What the route fills in or changes, in any fixed form.
    pub defaults: &'a [u8],
}

/// Why a call has no key: it is never answered from the cache, and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoKey {
    /// It uses or changes something that the upstream keeps (`store`, `background`, `conversation`,
    /// `previous_response_id`): the same request again is another one.
    Stateful,
    /// A member of its JSON is named twice, and readers differ in which one they take.
    Ambiguous,
    /// A part of it is of a kind that this code doesn't know.
    Unknown,
}

impl NoKey {
    /// The stable name, as in records.
    pub fn as_str(self) -> &'static str {
        match self {
            NoKey::Stateful => "stateful",
            NoKey::Ambiguous => "ambiguous",
            NoKey::Unknown => "unknown_part",
        }
    }
}

/// Fields that don't affect the answer. Each API's own, since the same name may mean something else elsewhere.
fn is_no_part_of_the_question(format: Format, field: &str) -> bool {
    match field {
        // How the answer is sent. A stored answer can be sent either way.
        "stream" => true,
        "stream_options" => matches!(format, Format::Chat | Format::Completion | Format::Responses),
        // Whose question it is, for the provider's search for abuse.
        "user" | "safety_identifier" => format != Format::Messages,
        // Labels for the caller's own records (Anthropic: `user_id`, for its search for abuse).
        "metadata" => true,
        // Where the provider keeps the prompt's K and V. It changes how fast an answer comes, and what it costs.
        "prompt_cache_key" | "prompt_cache_retention" => format != Format::Messages,
        // Whether the provider keeps the answer. `true` has no key at all; see `is_stateful`.
        "store" => matches!(format, Format::Chat | Format::Responses),
        _ => false,
    }
}

/// Whether the request uses or changes something that the upstream keeps.
fn is_stateful(inbound: &Inbound) -> bool {
    let says = |field: &str| inbound.body.get(field).is_some_and(|value| value == true);
    let names = |field: &str| inbound.body.get(field).is_some_and(|value| !value.is_null());
    match inbound.format {
        Format::Chat => says("store"),
        Format::Responses => {
            says("store")
                || says("background")
                || names("conversation")
                || names("previous_response_id")
        }
        Format::Messages => names("container"),
        Format::Completion | Format::Embeddings => false,
    }
}

impl Key {
    /// The key of a call as it came, before anything of it is changed.
    pub fn of(call: &Call, resolved: &Resolved<'_>) -> Result<Self, NoKey> {
        let Call {
            // Every call has its own.
            id: _,
            model,
            prompt,
            max_tokens,
            sampling,
            stop,
            logprobs,
            prompt_logprobs,
            echo,
            // How caches may be used, not what is asked.
            cache: _,
            salt,
            scope,
            // How much room it has, not what it says.
            kv_share: _,
            origin,
            // Made from the prompt.
            outline: _,
            tools,
            tool_choice,
            parallel_tool_calls,
            output,
            choices,
        } = call;
        let Origin { route, tenant, conversation: _, document, traceparent: _ } = origin;
        let Resolved { upstream, model: served, build, defaults } = *resolved;

        let mut hash = Fields(blake3::Hasher::new_keyed(&scope_key(&scope.0)));
        hash.bytes("version", VERSION);
        hash.text("tenant", tenant);
        hash.maybe("salt", salt.as_ref().map(|salt| salt.as_str()));
        // Not the same calls, though the words are: what is stored for a document goes with it.
        hash.maybe("document", document.as_deref());
        hash.text("door", route);
        hash.text("upstream", upstream);
        hash.text("served", served);
        hash.text("build", build);
        hash.bytes("defaults", defaults);

        hash.maybe("model", model.as_deref());
        hash.prompt(prompt)?;
        hash.number("max_tokens", max_tokens.map_or(-1, |n| n as i128));
        hash.sampling(sampling);
        hash.stop(stop);
        hash.number("logprobs", logprobs.map_or(-1, i128::from));
        // Named only where they are asked for, as calls without them had keys before.
        if let Some(top) = prompt_logprobs {
            hash.number("prompt_logprobs", i128::from(*top));
        }
        if *echo {
            hash.number("echo", 1);
        }
        hash.tools(tools);
        match tool_choice {
            ToolChoice::Auto => hash.text("tool_choice", "auto"),
            ToolChoice::None => hash.text("tool_choice", "none"),
            ToolChoice::Required => hash.text("tool_choice", "required"),
            ToolChoice::Named(name) => hash.text("tool_named", name),
        }
        hash.number("parallel", i128::from(*parallel_tool_calls));
        match output {
            OutputFormat::Text => hash.text("output", "text"),
            OutputFormat::JsonObject => hash.text("output", "json"),
            OutputFormat::JsonSchema(schema) => hash.text("schema", &schema.to_string()),
        }
        hash.number("choices", *choices as i128);
        Ok(Key(*hash.0.finalize().as_bytes()))
    }
}

/// The scope is the key of the hash: without it nobody can try requests against stored keys.
fn scope_key(scope: &[u8]) -> [u8; 32] {
    blake3::derive_key("tapri 2026 exact response cache, key of a tenant's scope", scope)
}

/// Hashes fields so that no two rows of them read alike: each has its name and its length before it.
struct Fields(blake3::Hasher);

impl Fields {
    fn bytes(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), value] {
            self.0.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        self.bytes(name, value.as_bytes());
    }

    fn maybe(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.bytes("absent", name.as_bytes()),
        }
    }

    fn number(&mut self, name: &str, value: i128) {
        self.bytes(name, &value.to_le_bytes());
    }

    fn real(&mut self, name: &str, value: f32) {
        // -0.0 and 0.0 mean the same.
        self.bytes(name, &(value + 0.0).to_le_bytes());
    }

    fn prompt(&mut self, prompt: &Prompt) -> Result<(), NoKey> {
        match prompt {
            Prompt::Chat(messages) => {
                self.number("chat", messages.len() as i128);
                messages.iter().try_for_each(|message| self.message(message))?;
            }
            Prompt::Text(text) => self.text("text", text),
            Prompt::Tokens(ids) => {
                let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                self.bytes("tokens", &bytes);
            }
            Prompt::Request(inbound) => self.inbound(inbound)?,
        }
        Ok(())
    }

    fn inbound(&mut self, inbound: &Inbound) -> Result<(), NoKey> {
        let Inbound {
            format,
            body,
            bytes,
            headers,
            // Both are in the body.
            model: _,
            stream: _,
        } = inbound;
        if is_stateful(inbound) {
            return Err(NoKey::Stateful);
        }
        let form = canonical(body, |field| is_no_part_of_the_question(*format, field));
        if form.is_ambiguous(bytes) {
            return Err(NoKey::Ambiguous);
        }
        self.text("format", format.path());
        self.number("headers", headers.len() as i128);
        for (name, value) in headers {
            self.text(name, value);
        }
        self.bytes("body", &form.bytes);
        if !form.exact {
            self.bytes("text", bytes);
        }
        Ok(())
    }

    fn message(&mut self, message: &Message) -> Result<(), NoKey> {
        let Message { role, parts, name } = message;
        self.text("role", role.as_str());
        self.maybe("name", name.as_deref());
        self.number("parts", parts.len() as i128);
        for part in parts {
            match part {
                Part::Text(text) => self.text("text", text),
                Part::ToolCall(call) => {
                    let tapri_api::ToolCall { id, name, arguments } = call;
                    self.text("call", id);
                    self.text("tool", name);
                    self.text("arguments", arguments);
                }
                Part::ToolResult(result) => {
                    let tapri_api::ToolResult { id, text, is_error } = result;
                    self.text("result", id);
                    self.text("said", text);
                    self.number("failed", i128::from(*is_error));
                }
                // A kind of part that was added later has no key until someone decides.
                _ => return Err(NoKey::Unknown),
            }
        }
        Ok(())
    }

    fn sampling(&mut self, sampling: &Sampling) {
        let Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            seed,
            presence_penalty,
            frequency_penalty,
            repetition_penalty,
            logit_bias,
        } = sampling;
        self.real("temperature", *temperature);
        self.number("top_k", top_k.map_or(-1, |n| n as i128));
        self.real("top_p", *top_p);
        self.real("min_p", *min_p);
        self.number("seed", seed.map_or(-1, i128::from));
        self.real("presence_penalty", *presence_penalty);
        self.real("frequency_penalty", *frequency_penalty);
        if *repetition_penalty != 1.0 {
            self.real("repetition_penalty", *repetition_penalty);
        }
        self.number("biases", logit_bias.len() as i128);
        for (token, bias) in logit_bias {
            self.number("token", i128::from(*token));
            self.real("bias", *bias);
        }
    }

    fn stop(&mut self, stop: &Stop) {
        let Stop { strings, token_ids, ignore_eos } = stop;
        self.number("stops", strings.len() as i128);
        strings.iter().for_each(|string| self.text("stop", string));
        let bytes: Vec<u8> = token_ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.bytes("stop_ids", &bytes);
        self.number("ignore_eos", i128::from(*ignore_eos));
    }

    fn tools(&mut self, tools: &[Tool]) {
        self.number("tools", tools.len() as i128);
        for tool in tools {
            let Tool { name, description, parameters, strict } = tool;
            self.text("tool", name);
            self.maybe("description", description.as_deref());
            self.text("parameters", &parameters.to_string());
            self.number("strict", i128::from(*strict));
        }
    }
}
