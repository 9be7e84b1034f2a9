//! A record as a row of the table, and back.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::{FromSql, Type};
use rusqlite::{Row, Statement, named_params};
use rust_decimal::Decimal;

use crate::query::Detail;
use crate::{CacheOutcome, CacheResult, CallRecord, Cost, Ending, Money, PartPrint, TokenCounts};

/// The columns, by the name that both directions use. `miss_reason` repeats what is in `explanation`.
const COLUMNS: [&str; 33] = [
    "id",
    "at",
    "tenant",
    "route",
    "model",
    "upstream",
    "conversation",
    "ending",
    "error",
    "prompt_tokens",
    "cached_tokens",
    "restored_tokens",
    "joined_tokens",
    "written_tokens",
    "answer_tokens",
    "ttft_us",
    "total_us",
    "exact_outcome",
    "exact_reason",
    "semantic_outcome",
    "semantic_reason",
    "prefix_outcome",
    "prefix_reason",
    "explanation",
    "miss_reason",
    "cost_paid",
    "cost_without_cache",
    "currency",
    "price_list",
    "price_date",
    "parts",
    "trace",
    "text",
];

/// The statement that inserts.
pub(crate) fn insert_sql() -> String {
    let names = COLUMNS.join(", ");
    let values: Vec<String> = COLUMNS.iter().map(|name| format!(":{name}")).collect();
    format!("INSERT INTO calls ({names}) VALUES ({})", values.join(", "))
}

/// What a query selects.
pub(crate) fn select_list(detail: Detail) -> String {
    COLUMNS
        .map(|name| match (name, detail) {
            ("parts", Detail::Figures) => "'[]' AS parts".to_owned(),
            ("trace", Detail::Figures) => "x'' AS trace".to_owned(),
            ("text", Detail::Figures) => "NULL AS text".to_owned(),
            _ => name.to_owned(),
        })
        .join(", ")
}

/// Microseconds, as the table counts.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

fn duration_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn count(tokens: Option<u64>) -> Option<i64> {
    tokens.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX))
}

/// Inserts a record with a statement of [`insert_sql`].
pub(crate) fn insert(statement: &mut Statement<'_>, record: &CallRecord) -> rusqlite::Result<()> {
    let cache = |cache: &Option<CacheResult>| {
        let outcome = cache.as_ref().map(|cache| cache.outcome.as_str());
        (outcome, cache.as_ref().and_then(|cache| cache.reason.clone()))
    };
    let (exact, semantic, prefix) =
        (cache(&record.exact), cache(&record.semantic), cache(&record.prefix));
    let error = match &record.ending {
        Ending::Error(code) => Some(code),
        _ => None,
    };
    let json = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let parts: Vec<_> = record
        .parts
        .iter()
        .map(|part| (part.kind, &part.path, part.chars, format!("{:016x}", part.print)))
        .collect();
    let trace: Vec<u8> = record.trace.iter().flat_map(|print| print.to_le_bytes()).collect();
    let cost = record.cost.as_ref();
    statement.execute(named_params! {
        ":id": record.id,
        ":at": micros(record.at),
        ":tenant": record.tenant,
        ":route": record.route,
        ":model": record.model,
        ":upstream": record.upstream,
        ":conversation": record.conversation,
        ":ending": record.ending.word(),
        ":error": error,
        ":prompt_tokens": count(record.tokens.prompt),
        ":cached_tokens": count(record.tokens.cached),
        ":restored_tokens": count(record.tokens.restored),
        ":joined_tokens": count(record.tokens.joined),
        ":written_tokens": count(record.tokens.written),
        ":answer_tokens": count(record.tokens.answer),
        ":ttft_us": record.ttft.map(duration_micros),
        ":total_us": duration_micros(record.total),
        ":exact_outcome": exact.0,
        ":exact_reason": exact.1,
        ":semantic_outcome": semantic.0,
        ":semantic_reason": semantic.1,
        ":prefix_outcome": prefix.0,
        ":prefix_reason": prefix.1,
        ":explanation": record.explanation.as_ref().map(serde_json::to_string).transpose().map_err(json)?,
        ":miss_reason": record.explanation.as_ref().map(|it| it.reason.as_str()),
        ":cost_paid": cost.map(|cost| cost.paid.amount.to_string()),
        ":cost_without_cache": cost.map(|cost| cost.without_cache.amount.to_string()),
        ":currency": cost.map(|cost| &cost.paid.currency),
        ":price_list": cost.map(|cost| &cost.price_list),
        ":price_date": cost.and_then(|cost| cost.price_date.as_ref()),
        ":parts": serde_json::to_string(&parts).map_err(json)?,
        ":trace": trace,
        ":text": record.text,
    })?;
    Ok(())
}

/// A row of a query with [`select_list`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<CallRecord> {
    let columns = Columns(row);
    let text = |name| columns.get::<String>(name);
    let maybe = |name| columns.get::<Option<String>>(name);
    let tokens = |name| -> rusqlite::Result<Option<u64>> {
        let tokens: Option<i64> = columns.get(name)?;
        Ok(tokens.and_then(|tokens| u64::try_from(tokens).ok()))
    };
    let micros = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    let cache = |outcome, reason| -> rusqlite::Result<Option<CacheResult>> {
        let Some(name) = maybe(outcome)? else { return Ok(None) };
        let outcome = CacheOutcome::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == name)
            .ok_or_else(|| broken(format!("'{name}' is no outcome")))?;
        Ok(Some(CacheResult { outcome, reason: maybe(reason)? }))
    };
    let explanation = maybe("explanation")?;
    let at: i64 = columns.get("at")?;
    Ok(CallRecord {
        id: text("id")?,
        at: Timestamp::from_microsecond(at).map_err(broken)?,
        tenant: text("tenant")?,
        route: text("route")?,
        model: text("model")?,
        upstream: text("upstream")?,
        conversation: maybe("conversation")?,
        ending: match text("ending")?.as_str() {
            "stop" => Ending::Stop,
            "length" => Ending::Length,
            "abort" => Ending::Abort,
            "error" => Ending::Error(maybe("error")?.unwrap_or_default()),
            other => return Err(broken(format!("'{other}' is no ending"))),
        },
        tokens: TokenCounts {
            prompt: tokens("prompt_tokens")?,
            cached: tokens("cached_tokens")?,
            restored: tokens("restored_tokens")?,
            joined: tokens("joined_tokens")?,
            written: tokens("written_tokens")?,
            answer: tokens("answer_tokens")?,
        },
        ttft: columns.get::<Option<i64>>("ttft_us")?.map(micros),
        total: micros(columns.get("total_us")?),
        exact: cache("exact_outcome", "exact_reason")?,
        semantic: cache("semantic_outcome", "semantic_reason")?,
        prefix: cache("prefix_outcome", "prefix_reason")?,
        explanation: explanation
            .map(|json| serde_json::from_str(&json))
            .transpose()
            .map_err(broken)?,
        cost: cost(&columns)?,
        parts: parts(&text("parts")?)?,
        trace: columns
            .get::<Vec<u8>>("trace")?
            .chunks_exact(8)
            .filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
            .collect(),
        text: maybe("text")?,
    })
}

fn cost(columns: &Columns<'_, '_>) -> rusqlite::Result<Option<Cost>> {
    let maybe = |name| columns.get::<Option<String>>(name);
    let (Some(paid), Some(without), Some(currency), Some(price_list)) = (
        maybe("cost_paid")?,
        maybe("cost_without_cache")?,
        maybe("currency")?,
        maybe("price_list")?,
    ) else {
        return Ok(None);
    };
    let money = |amount: &str| -> rusqlite::Result<Money> {
        Ok(Money::new(amount.parse::<Decimal>().map_err(broken)?, &currency))
    };
    Ok(Some(Cost {
        paid: money(&paid)?,
        without_cache: money(&without)?,
        price_list,
        price_date: maybe("price_date")?,
    }))
}

fn parts(json: &str) -> rusqlite::Result<Vec<PartPrint>> {
    let parts: Vec<(tapri_api::PartKind, String, u64, String)> =
        serde_json::from_str(json).map_err(broken)?;
    parts
        .into_iter()
        .map(|(kind, path, chars, print)| {
            let print = u64::from_str_radix(&print, 16).map_err(broken)?;
            Ok(PartPrint { kind, path, chars, print })
        })
        .collect()
}

struct Columns<'row, 'statement>(&'row Row<'statement>);

impl Columns<'_, '_> {
    fn get<T: FromSql>(&self, name: &str) -> rusqlite::Result<T> {
        self.0.get(name)
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into())
}
