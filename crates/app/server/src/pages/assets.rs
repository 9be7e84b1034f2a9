//! The files that pages load: compiled in, and found under an address that changes with their content.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderValue, Response, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::reply;

struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

static ASSETS: [Asset; 6] = [
    Asset {
        name: "htmx.min.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/htmx.min.js"),
    },
    Asset {
        name: "tapri.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/tapri.js"),
    },
    Asset {
        name: "tapri.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../../assets/tapri.css"),
    },
    Asset {
        name: "operator.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/operator.js"),
    },
    Asset {
        name: "operator.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../../assets/operator.css"),
    },
    Asset {
        name: "icon.svg",
        media_type: "image/svg+xml",
        bytes: include_bytes!("../../assets/icon.svg"),
    },
];

/// Eight hexadecimal digits of all files' hash: a new build is a new address, so that browsers may keep files for good.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    ASSETS.iter().for_each(|asset| hash.update(asset.bytes));
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
});

/// The address of a file.
pub(crate) fn address(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// `GET /assets/{version}/{name}`.
pub(super) async fn get(Path((version, name)): Path<(String, String)>) -> Response<Body> {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        let mut missing = reply::typed("text/plain; charset=utf-8", "There is no such file\n");
        *missing.status_mut() = StatusCode::NOT_FOUND;
        return missing;
    };
    let mut response = reply::typed(asset.media_type, asset.bytes);
    // An old page that asks a new server gets today's file, which it must not keep as yesterday's.
    let keep = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-store" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    response
}
