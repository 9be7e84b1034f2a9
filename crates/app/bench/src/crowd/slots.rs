//! A llama-server set up by hand, so that no user's slot reads the file: one slot reads it and is saved, and the others are
//! restored from that. It spares the reading; each slot still holds a copy of its own.

use anyhow::{Context, Result};
use serde_json::json;

use crate::client::post;

/// What the saved slot is called, in the folder of `--slot-save-path`.
const FILE: &str = "crowd.slot";

/// Puts the file into the first `slots` slots.
pub(super) fn fill(url: &str, file: &str, slots: usize) -> Result<()> {
    let url = url.trim_end_matches('/');
    let body = json!({"prompt": file, "n_predict": 0, "id_slot": 0, "cache_prompt": true});
    post(&format!("{url}/completion"), &body).context("let slot 0 read the file")?;
    let name = json!({"filename": FILE});
    post(&format!("{url}/slots/0?action=save"), &name)
        .context("save slot 0 (the server needs --slot-save-path)")?;
    for slot in 1..slots {
        post(&format!("{url}/slots/{slot}?action=restore"), &name)
            .with_context(|| format!("restore slot {slot} (the server needs -np {slots})"))?;
    }
    Ok(())
}
