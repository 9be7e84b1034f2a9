//! Starts of prompts that stay: whose they are and what they hold.

use tapri_pipeline::{Pin, Whose};

use crate::pages::figures::Bytes;
use crate::pages::show::{Html, Number};
use crate::pages::texts::{ENGLISH, fill};
use crate::routes::App;
use crate::routes::pins::name;

/// All pins.
pub(super) struct Pinned {
    pub(super) rows: Vec<Row>,
    /// What they hold together, and how much they may.
    pub(super) held: Html,
}

/// A pin.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) tokens: Html,
    pub(super) blocks: Html,
    pub(super) bytes: Html,
}

/// The pins of every tenant; `None` where there is no memory to pin in, or it doesn't answer.
pub(super) async fn all(app: &App) -> Option<Pinned> {
    let mut rows = Vec::new();
    let (mut blocks, mut bytes, mut limit) = (0, 0, None);
    for tenant in &app.tenants().current().tenants {
        let whose = Whose { tenant: tenant.name().to_owned(), scope: tenant.scope.clone() };
        let pins = match app.pipeline().pins(whose).await {
            Ok(Some(pins)) => pins,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!("the pins can't be listed: {}", error.message);
                continue;
            }
        };
        limit = Some(pins.limit_bytes);
        for pin in &pins.pins {
            blocks += pin.blocks as u64;
            bytes += pin.bytes;
            rows.push(row(pin, tenant.name()));
        }
    }
    let counts: [&dyn std::fmt::Display; 4] =
        [&Number(rows.len() as u64), &Number(blocks), &Bytes(bytes), &Bytes(limit?)];
    Some(Pinned { held: Html(fill(ENGLISH.cache.pins_held, &counts)), rows })
}

fn row(pin: &Pin, tenant: &str) -> Row {
    Row {
        name: name(pin.id),
        tenant: tenant.to_owned(),
        tokens: Html(Number(pin.tokens as u64).to_string()),
        blocks: Html(Number(pin.blocks as u64).to_string()),
        bytes: Html(Bytes(pin.bytes).to_string()),
    }
}
