//! The keys of `tapri.toml` that are flags of `tapri serve` too. A value in the file becomes the flag's default, so a
//! variable or the flag itself goes before it.

use anyhow::Result;
use clap::Command;
use tapri_engine::KvType;

use super::Config;
use super::reader::{At, Scalar, Section, word};
use super::secret;
use crate::{cli, quantity, report};

/// A value for a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// The flag's name in the program: `kv_memory`.
    pub(crate) id: &'static str,
    pub(crate) value: String,
    pub(crate) line: Option<usize>,
}

/// How a key's value is checked.
#[derive(Clone, Copy)]
enum Kind {
    /// A string.
    Text,
    /// A string that isn't shown.
    Hidden,
    /// `env:NAME` or `file:PATH`, which is read when the flag is.
    Secret,
    /// A number or a string that a check takes.
    Checked(fn(&str) -> Result<(), String>),
    /// A truth; the flag says the same.
    Same,
    /// A truth; the flag says the opposite.
    Opposite,
}

use Kind::{Checked, Hidden, Opposite, Same, Secret, Text};

/// A key of a section, and the flag that it is.
type Key = (&'static str, &'static str, Kind);

/// The sections and their keys.
const KEYS: &[(&str, &[Key])] = &[
    (
        "server",
        &[
            ("host", "host", Text),
            ("port", "port", Checked(port)),
            ("hide_cached_tokens", "hide_cached_tokens", Same),
            ("isolation", "isolation", Checked(isolation)),
        ],
    ),
    (
        "engine",
        &[
            ("model", "model", Checked(model)),
            ("embed_model", "embed_model", Checked(model)),
            ("kv_memory", "kv_memory", Checked(size)),
            ("kv_type", "kv_type", Checked(kv_type)),
            ("prefix_cache", "no_prefix_cache", Opposite),
            ("prefix_ttl", "prefix_ttl", Checked(time)),
            ("kv_disk", "kv_disk", Text),
            ("kv_disk_size", "kv_disk_size", Checked(size)),
            ("prefix_hash", "prefix_hash", Checked(hash)),
            ("block_size", "block_size", Checked(block)),
            ("max_waiting", "max_waiting", Checked(count)),
            ("pin_limit", "pin_limit", Checked(share)),
            ("threads", "threads", Checked(count)),
        ],
    ),
    (
        "ledger",
        &[
            ("enabled", "no_ledger", Opposite),
            ("file", "ledger", Text),
            ("text", "ledger_text", Same),
            ("max_size", "ledger_max_size", Checked(size)),
            ("max_age", "ledger_max_age", Checked(time)),
            ("explain_values", "explain_values", Same),
        ],
    ),
    (
        "alerts",
        &[
            ("enabled", "no_alerts", Opposite),
            ("webhook", "alert_webhook", Hidden),
            ("webhook_secret", "alert_webhook_secret", Secret),
            ("threshold", "alert_threshold", Checked(share)),
            ("margin", "alert_margin", Checked(share)),
            ("false_alarm_every", "alert_false_alarm_every", Checked(count)),
        ],
    ),
    (
        "pages",
        &[
            ("enabled", "no_pages", Opposite),
            ("cases", "cases", Text),
            ("judgments", "judgments", Text),
            ("upload_limit", "upload_limit", Checked(size)),
            ("answer_tokens", "answer_tokens", Checked(count)),
        ],
    ),
    ("prices", &[("list", "prices", Text)]),
];

/// The keys that are flags, of the sections that they stand in; the sections' other keys are [`super::sections`]'.
fn of(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |(name, _)| *name == section).flat_map(|(_, keys)| keys.iter())
}

/// Reads the keys of a section that are flags.
pub(crate) fn read_section(name: &str, section: &Section<'_, '_>, given: &mut Vec<Given>) {
    for (key, id, kind) in of(name) {
        let hidden = matches!(kind, Hidden | Secret);
        let Some(At { value, line }) = section.of_file(key, hidden) else { continue };
        match check(*kind, &value) {
            Ok(value) => given.push(Given { id, value, line }),
            Err(what) => section.wrong(key, line, &what, None),
        }
    }
}

/// What is given to the flag, or what is wrong.
fn check(kind: Kind, value: &Scalar) -> Result<String, String> {
    let text = value.as_text();
    match kind {
        Secret => secret::Secret::parse(text).map(|_| text.to_owned()),
        Text | Hidden => match value {
            Scalar::Text(text) if !text.is_empty() => Ok(text.clone()),
            Scalar::Text(_) => Err("it is empty".to_owned()),
            _ => Err("it should be a string".to_owned()),
        },
        Checked(check) => match value {
            Scalar::Truth(_) => Err("it should be a number or a string".to_owned()),
            _ => check(text).map(|()| text.to_owned()),
        },
        Same | Opposite => match text {
            "true" | "false" => Ok(((text == "true") == matches!(kind, Same)).to_string()),
            _ => Err("it should be true or false".to_owned()),
        },
    }
}

/// The command with a file's values as defaults of its flags.
pub(crate) fn with_defaults(command: Command, config: &Config) -> Result<Command> {
    let mut values = Vec::new();
    for Given { id, value, .. } in &config.flags {
        let is_secret = KEYS
            .iter()
            .flat_map(|(_, keys)| keys.iter())
            .any(|(_, flag, kind)| flag == id && matches!(kind, Secret));
        let value = match secret::Secret::parse(value) {
            Ok(secret) if is_secret => secret.read(config.folder())?,
            _ => value.clone(),
        };
        values.push((*id, value));
    }
    Ok(command.mut_subcommand("serve", |mut serve| {
        for (id, value) in values {
            // A flag of a feature that this build doesn't have.
            if serve.get_arguments().any(|flag| flag.get_id() == id) {
                serve = serve.mut_arg(id, |flag| flag.default_value(value));
            }
        }
        serve
    }))
}

fn port(text: &str) -> Result<(), String> {
    text.parse::<u16>().map(drop).map_err(|_| "a port is a number from 0 to 65535".to_owned())
}

fn model(text: &str) -> Result<(), String> {
    cli::model(text).map(drop)
}

fn size(text: &str) -> Result<(), String> {
    quantity::bytes(text).map(drop)
}

fn time(text: &str) -> Result<(), String> {
    quantity::duration(text).map(drop)
}

fn count(text: &str) -> Result<(), String> {
    quantity::count(text).map(drop)
}

fn share(text: &str) -> Result<(), String> {
    report::period::share(text).map(drop)
}

fn block(text: &str) -> Result<(), String> {
    cli::block_size(text).map(drop)
}

fn isolation(text: &str) -> Result<(), String> {
    word(&[("scope", ()), ("process", ())])(text)
}

fn kv_type(text: &str) -> Result<(), String> {
    text.parse::<KvType>().map(drop).map_err(|error| error.to_string())
}

fn hash(text: &str) -> Result<(), String> {
    word(&[("sha256", ()), ("xxh3", ())])(text)
}

/// Every key that is a flag: its section, its name, the flag's, whether that says the opposite, and whether the value
/// is hidden.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static str, bool, bool)>
{
    KEYS.iter().flat_map(|(section, keys)| {
        keys.iter().map(|(key, id, kind)| {
            let hidden = matches!(kind, Hidden | Secret);
            (*section, *key, *id, matches!(kind, Opposite), hidden)
        })
    })
}

/// The variable of a flag of `serve`.
pub(crate) fn variable(id: &str) -> Option<String> {
    use clap::CommandFactory;
    let command = cli::Cli::command();
    let serve = command.find_subcommand("serve")?;
    let flag = serve.get_arguments().find(|flag| flag.get_id() == id)?;
    Some(flag.get_env()?.to_string_lossy().into_owned())
}
