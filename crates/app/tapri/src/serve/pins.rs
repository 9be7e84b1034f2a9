//! `--pin`: starts that the server keeps in the KV memory, its own or that of a tenant's process.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tapri_casefile::Document;
use tapri_server::{Start, StartPin};

use crate::failure::Failure;

/// Reads the files of `--pin`, so that what is wrong with one is said before the model is loaded.
pub(super) fn read(given: &[String]) -> Result<Vec<StartPin>> {
    given.iter().map(|given| one(given)).collect()
}

/// The tenants and files of `--pin`, for their processes, which read the files again.
pub(super) fn of_processes(
    given: &[String],
    tenants: &[(String, Option<f64>)],
) -> Result<Vec<(String, String)>> {
    let place = |StartPin { name, tenant, start: _ }: StartPin| {
        let known = || tenants.iter().map(|(name, _)| name);
        let whose = match &tenant {
            Some(tenant) => known().find(|known| *known == tenant),
            None => known().next().filter(|_| tenants.len() == 1),
        };
        let Some(whose) = whose else {
            let message = match tenant {
                Some(tenant) => format!("--pin {tenant}={name}: there is no such tenant"),
                None => format!("--pin {name}: there are several tenants"),
            };
            return Err(Failure::usage(message, "write --pin TENANT=FILE").into());
        };
        Ok((whose.clone(), name))
    };
    read(given)?.into_iter().map(place).collect()
}

fn one(given: &str) -> Result<StartPin> {
    // A file may have the sign in its name; a tenant's name has no slash.
    let (tenant, file) = match given.split_once('=') {
        Some((tenant, file)) if !tenant.contains('/') && !Path::new(given).exists() => {
            (Some(tenant.to_owned()), file)
        }
        _ => (None, given),
    };
    let path = Path::new(file);
    let start = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Start::Body(body(path)?),
        _ => Start::Document(Arc::new(Document::open(path).map_err(|error| {
            let hint = error.hint();
            Failure::new(error, hint)
        })?)),
    };
    Ok(StartPin { name: file.to_owned(), tenant, start })
}

fn body(path: &Path) -> Result<bytes::Bytes> {
    let file = path.display();
    let text = std::fs::read(path).map_err(|error| {
        Failure::usage(format!("{file} can't be read: {error}"), "give --pin the path of a file")
    })?;
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(
            format!("{file} is no JSON: {error}"),
            "write a body as for POST /cache/pins",
        )
    })?;
    if value.get("messages").is_none() && value.get("prompt").is_none() {
        let hint =
            "write `messages` as for /v1/chat/completions, or `prompt` as for /v1/completions";
        return Err(Failure::usage(format!("{file} names no start to pin"), hint).into());
    }
    Ok(text.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_a_body_or_a_document_of_a_tenant_or_of_none() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let body = write("a.json", "{\"prompt\": \"Once\"}");
        let text = write("b=c.txt", "Once upon a time");
        let given = [body.clone(), format!("acme={body}"), text.clone(), format!("acme={text}")];
        let pins = read(&given).unwrap();
        let said: Vec<_> =
            pins.iter().map(|pin| (pin.tenant.as_deref(), format!("{:?}", pin.start))).collect();
        let said: Vec<_> = said.iter().map(|(tenant, start)| (*tenant, start.as_str())).collect();
        let expected = [
            (None, "Body"),
            (Some("acme"), "Body"),
            (None, "Document"),
            (Some("acme"), "Document"),
        ];
        assert_eq!(said, expected);
        for (name, text, wrong) in [
            ("c.json", "{", "is no JSON"),
            ("d.json", "{\"model\": \"m\"}", "names no start to pin"),
        ] {
            let error = read(&[write(name, text)]).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(read(&["nowhere.json".to_owned()]).is_err());
        // Each goes to a tenant's process.
        let tenants = |names: &[&str]| -> Vec<_> {
            names.iter().map(|name| ((*name).to_owned(), None)).collect()
        };
        let placed = of_processes(&given[..2], &tenants(&["acme"])).unwrap();
        assert_eq!(placed, [("acme".to_owned(), body.clone()), ("acme".to_owned(), body)]);
        for (given, names, wrong) in [
            (&given[..1], vec!["acme", "blue"], "there are several tenants"),
            (&given[1..2], vec!["blue"], "there is no such tenant"),
        ] {
            let error = of_processes(given, &tenants(&names)).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
