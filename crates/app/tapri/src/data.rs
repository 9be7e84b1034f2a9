//! Where Tapri keeps what a person gave it or it gathered.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::failure::Failure;

/// The environment variable that names the folder.
pub(crate) const FOLDER_VARIABLE: &str = "TAPRI_DATA";

/// `TAPRI_DATA`, or `tapri` in the person's data folder (`XDG_DATA_HOME` where that is in use).
pub(crate) fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(folder));
    }
    let dirs = directories::BaseDirs::new().ok_or_else(|| {
        let hint = format!("set {FOLDER_VARIABLE} to a folder for Tapri's data");
        Failure::new(anyhow!("the home folder is not known"), Some(hint))
    })?;
    Ok(dirs.data_dir().join("tapri"))
}
