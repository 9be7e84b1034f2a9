//! Servers in turn, each started cold, so that a drift of the machine's speed touches all alike.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::process::Server;

/// Which servers are measured, and how often.
#[derive(Debug, Clone, Args)]
pub(crate) struct TurnArgs {
    /// A server to measure: NAME=COMMAND, with {port} for the port to listen on and {dir} for a folder that
    /// ends with it. The first is compared with the others.
    #[arg(long = "server", value_name = "NAME=COMMAND", required = true, num_args = 1)]
    servers: Vec<String>,
    /// How often each is measured, in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How long a server may take to answer /health, in seconds.
    #[arg(long, default_value_t = 120)]
    start_seconds: u64,
}

/// A server to measure.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) name: String,
    command: String,
}

impl Contender {
    /// Reads `NAME=COMMAND`.
    fn parse(text: &str) -> Result<Contender> {
        let (name, command) =
            text.split_once('=').with_context(|| format!("--server {text}: write NAME=COMMAND"))?;
        ensure!(command.contains("{port}"), "--server {name}: its command must hold {{port}}");
        Ok(Contender { name: name.to_owned(), command: command.to_owned() })
    }
}

impl TurnArgs {
    /// The servers, in the order in which they were named.
    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        self.servers.iter().map(|s| Contender::parse(s)).collect()
    }

    /// Starts, measures and ends every server once in each round. For each server by its name, in the order
    /// of `contenders`, what its rounds gave.
    pub(crate) fn measure<T>(
        &self,
        contenders: &[Contender],
        mut measure: impl FnMut(&Contender, &Server, &str) -> Result<T>,
    ) -> Result<Vec<(String, Vec<T>)>> {
        ensure!(self.rounds >= 1, "at least one round is needed");
        let limit = Duration::from_secs(self.start_seconds);
        let mut results: Vec<(String, Vec<T>)> =
            contenders.iter().map(|contender| (contender.name.clone(), Vec::new())).collect();
        for round in 0..self.rounds {
            // The order turns, so that none always comes after the slowest.
            for i in 0..contenders.len() {
                let at = (i + round) % contenders.len();
                let contender = &contenders[at];
                let label = format!("round {}/{} {}", round + 1, self.rounds, contender.name);
                let server = Server::start(&contender.command, limit)
                    .with_context(|| format!("start {} for {label}", contender.name))?;
                let result = measure(contender, &server, &label)
                    .with_context(|| format!("measure {label}"))?;
                results[at].1.push(result);
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_needs_a_name_and_a_port() {
        assert!(Contender::parse("just words").is_err());
        assert!(Contender::parse("a=serve").is_err());
        assert_eq!(Contender::parse("a=serve --port {port}").unwrap().name, "a");
    }
}
