//! Between whom to look, and in which order.

use anyhow::Result;
use tapri_insight::audit::Plan;

use super::caller::User;
use super::{AuditArgs, LevelArg};
use crate::failure::Failure;

/// One level: a victim and an attacker.
#[derive(Debug, Clone)]
pub(super) struct Level {
    pub(super) kind: LevelArg,
    pub(super) victim: User,
    pub(super) attacker: User,
    /// Tried in turn until sharing is found.
    pub(super) plans: Vec<Plan>,
}

impl Level {
    /// The name in output.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            LevelArg::User => "same user",
            LevelArg::Organisation => "same organisation",
            LevelArg::Strangers => "strangers",
        }
    }
}

/// The levels of an audit, as the paper steps through them: first whether a user's own prompt comes back faster when it is
/// repeated whole, which every cache must show; then a shared start, between users that are ever further apart.
pub(super) fn levels(args: &AuditArgs, samples: usize) -> Result<Vec<Level>> {
    let users = &args.users;
    let user = |key: &Option<String>, file: &Option<std::path::PathBuf>, salt: &Option<String>| {
        User::new(key.as_ref(), file.as_deref(), salt.as_ref())
    };
    let victim = user(&users.victim_key, &users.victim_key_file, &users.victim_salt)?;
    let organisation = user(&users.org_key, &users.org_key_file, &users.org_salt)?;
    let stranger = user(&users.attacker_key, &users.attacker_key_file, &users.attacker_salt)?;
    let mut kinds = args.level.clone();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() {
        kinds = vec![LevelArg::User];
        if organisation.is_named() {
            kinds.push(LevelArg::Organisation);
        }
        kinds.push(LevelArg::Strangers);
    }
    if kinds.contains(&LevelArg::Organisation) && !organisation.is_named() {
        let hint = "give it with --org-key, --org-key-file or --org-salt";
        return Err(
            Failure::usage("nothing says who another user of the organisation is", hint).into()
        );
    }
    let letters = args.prompt_tokens.get();
    let mut victim_requests: Vec<usize> = args.victim_requests.iter().map(|n| n.get()).collect();
    victim_requests.sort_unstable();
    victim_requests.dedup();
    let plan =
        |shared: f64, victim_requests: usize| Plan { samples, letters, shared, victim_requests };
    let level = |kind| match kind {
        LevelArg::User => Level {
            kind,
            victim: victim.clone(),
            attacker: victim.clone(),
            plans: victim_requests.last().map(|most| plan(1.0, *most)).into_iter().collect(),
        },
        LevelArg::Organisation | LevelArg::Strangers => Level {
            kind,
            victim: victim.clone(),
            attacker: if kind == LevelArg::Strangers {
                stranger.clone()
            } else {
                organisation.clone()
            },
            plans: victim_requests.iter().map(|most| plan(args.prefix_fraction, *most)).collect(),
        },
    };
    let shared = plan(args.prefix_fraction, 1).shared_letters();
    if shared == 0 {
        let hint = "a longer --prompt-tokens or a larger --prefix-fraction";
        return Err(Failure::usage("victim and attacker would share no letter", hint).into());
    }
    Ok(kinds.into_iter().map(level).collect())
}
