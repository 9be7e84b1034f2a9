//! A request of an API, read field by field into what the engine can do.

use tapri_api::{ApiError, Call, Inbound, Prompt};

/// Reads a request. What the engine can't do is refused by name.
pub(super) fn call(inbound: &Inbound) -> Result<Call, ApiError> {
    tapri_api::lower(inbound)
}

/// The call, with its request read: what the gateway found out about it stays, everything else is the request's.
pub(super) fn read(call: Call) -> Result<Call, ApiError> {
    let Prompt::Request(inbound) = &call.prompt else { return Ok(call) };
    let read = self::call(inbound)?;
    Ok(Call {
        id: call.id,
        model: call.model,
        cache: call.cache,
        salt: call.salt.or(read.salt),
        scope: call.scope,
        kv_share: call.kv_share,
        origin: call.origin,
        outline: call.outline,
        ..read
    })
}
