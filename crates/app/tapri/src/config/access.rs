//! Tenants, keys and scopes, from the configuration to what the server takes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use tapri_pipeline::api::Origin;
use tapri_server::tenants::key::KeyHash;
use tapri_server::tenants::key_file;
use tapri_server::tenants::route::RouteConfig;
use tapri_server::tenants::secret::{SecretError, ServerSecret};
use tapri_server::{AccessConfig, TenantConfig};

use super::Config;
use super::sections::Key;
use crate::data;
use crate::failure::Failure;

/// Keys and secrets that were read, and what to say about them.
pub(crate) struct Access {
    pub(crate) config: AccessConfig,
    pub(crate) secret: ServerSecret,
    pub(crate) warnings: Vec<String>,
}

impl Config {
    /// The file of the server's secret.
    pub(crate) fn secret_file(&self) -> Result<PathBuf> {
        match &self.sections.server.secret_file {
            Some(path) => Ok(self.folder().join(path)),
            None => Ok(data::folder()?.join("scope.secret")),
        }
    }

    /// The tenants that there are, with their shares of the KV memory: the file's and the key file's.
    pub(crate) fn tenant_names(&self) -> Result<Vec<(String, Option<f64>)>> {
        let mut tenants: Vec<TenantConfig> = self
            .sections
            .tenants
            .iter()
            .map(|tenant| TenantConfig {
                name: tenant.name.clone(),
                limits: tenant.limits,
                ..TenantConfig::default()
            })
            .collect();
        self.add_key_file(&mut tenants)?;
        if tenants.is_empty() {
            tenants.push(TenantConfig {
                name: Origin::DEFAULT_TENANT.to_owned(),
                ..TenantConfig::default()
            });
        }
        Ok(tenants.into_iter().map(|tenant| (tenant.name, tenant.limits.kv_share)).collect())
    }

    /// The one tenant of an engine process: the gateway that has the key, which opens the operator's paths as well. Its
    /// scope is its own, as its memory is.
    ///
    /// With the gateway's secret for it, the scope is the same after a restart.
    pub(crate) fn child(tenant: &str, key: &str, secret: Option<&str>) -> Result<Access> {
        let secret = match secret.and_then(unhex) {
            Some(bytes) => ServerSecret::from_bytes(bytes),
            None => ServerSecret::random()?,
        };
        let config = AccessConfig {
            tenants: vec![TenantConfig {
                name: tenant.to_owned(),
                keys: vec![KeyHash::of(key)],
                ..TenantConfig::default()
            }],
            secret: Some(secret.clone()),
            admin_key: Some(KeyHash::of(key)),
            ..AccessConfig::default()
        };
        Ok(Access { config, secret, warnings: Vec::new() })
    }

    /// Reads keys and secrets, and makes the server's secret where there is none.
    pub(crate) fn access(&self) -> Result<Access> {
        let mut warnings = Vec::new();
        let mut tenants = Vec::new();
        for tenant in &self.sections.tenants {
            let keys = tenant.keys.iter().map(|key| self.hash(key)).collect::<Result<Vec<_>>>();
            let keys = keys.with_context(|| format!("the tenant {:?} has no key", tenant.name))?;
            tenants.push(TenantConfig {
                name: tenant.name.clone(),
                keys,
                limits: tenant.limits,
                routes: tenant.routes.clone(),
                hides_hits: !tenant.sees_hits,
            });
        }
        self.add_key_file(&mut tenants)?;
        let with_keys = tenants.iter().filter(|tenant| !tenant.keys.is_empty()).count();
        if with_keys > 0 {
            for tenant in tenants.iter().filter(|tenant| tenant.keys.is_empty()) {
                warnings.push(format!(
                    "the tenant {:?} has no API key, so nobody can call as it",
                    tenant.name
                ));
            }
        }
        let secret = self.secret(&mut warnings)?;
        let admin_key = self.sections.admin.key.as_ref().map(|key| {
            let key = key.read(self.folder()).context("the admin key can't be read")?;
            chosen(&key).context("the admin key is too weak")
        });
        let routes = self
            .sections
            .routes
            .iter()
            .map(|route| RouteConfig { name: route.name.clone(), models: route.models.clone() });
        let config = AccessConfig {
            tenants,
            routes: routes.collect(),
            secret: Some(secret.clone()),
            admin_key: admin_key.transpose()?,
        };
        Ok(Access { config, secret, warnings })
    }

    fn hash(&self, key: &Key) -> Result<KeyHash> {
        match key {
            Key::Hash(hash) => Ok(*hash),
            Key::Kept(secret) => chosen(&secret.read(self.folder())?),
        }
    }

    /// Adds the key file's. A tenant that only the file names has no limits.
    fn add_key_file(&self, tenants: &mut Vec<TenantConfig>) -> Result<()> {
        let Some(path) = &self.sections.server.key_file else { return Ok(()) };
        let path = self.folder().join(path);
        let shown = path.display();
        let text = fs::read_to_string(&path).map_err(|error| {
            let hint = "'tapri keys new --tenant NAME --file FILE' makes one";
            Failure::new(anyhow!("the key file {shown} can't be read: {error}"), Some(hint))
        })?;
        let keys =
            key_file::parse(&text).with_context(|| format!("the key file {shown} is wrong"))?;
        for (name, key) in keys {
            match tenants.iter_mut().find(|tenant| tenant.name == name) {
                Some(tenant) => tenant.keys.push(key),
                None => {
                    tenants.push(TenantConfig { name, keys: vec![key], ..TenantConfig::default() });
                }
            }
        }
        Ok(())
    }

    fn secret(&self, warnings: &mut Vec<String>) -> Result<ServerSecret> {
        let path = self.secret_file()?;
        let loaded = ServerSecret::load(&path).map_err(|error| {
            let hint = match &error {
                SecretError::Open { .. } => "take the permissions of others away (chmod 600), or name another file as secret_file in [server]",
                SecretError::Content { .. } => "'tapri keys rotate-secret' makes a new one; what was cached is not found again",
                _ => "name another file as secret_file in [server]",
            };
            Failure::new(error, Some(hint))
        })?;
        if let Some(mode) = loaded.was_open {
            warnings.push(format!(
                "others could read the server's secret {} (mode {mode:03o}), which is closed now; 'tapri keys rotate-secret' makes a new one",
                path.display()
            ));
        }
        Ok(loaded.secret)
    }
}

fn chosen(key: &str) -> Result<KeyHash> {
    KeyHash::of_chosen(key).map_err(|error| {
        let hint = "'tapri keys new' makes one that can't be guessed";
        Failure::new(anyhow!("{error}"), Some(hint)).into()
    })
}

/// 32 bytes from their hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}
