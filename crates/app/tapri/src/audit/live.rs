//! An audit of a running server.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use tapri_insight::audit::{Letters, Plan, Seeded, judge, judge_reported, smallest_p};
use tokio::sync::oneshot;

use super::caller::{Caller, User};
use super::consent::{self, Most};
use super::findings::{Findings, Tested};
use super::levels::{Level, levels};
use super::show::Times;
use super::stream::Answer;
use super::target::Target;
use super::{AuditArgs, FOUND, LevelArg};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Working;

/// The exit code of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

pub(super) fn run(args: &AuditArgs, url: &str, samples: usize) -> Result<ExitCode> {
    let lowest = smallest_p(samples, samples);
    if lowest >= args.threshold {
        let message = format!(
            "{samples} samples of each kind can't give a p below {:e}: the smallest is {lowest:.1e}",
            args.threshold
        );
        return Err(Failure::usage(
            message,
            "16 are the fewest for 1e-8, and leave no room for noise",
        )
        .into());
    }
    let levels = levels(args, samples)?;
    let most = Most::of(&levels);
    most.check(args)?;
    let target = Target::new(url, args.i_own_this)?;
    let user = levels.first().map(|level| level.victim.clone()).unwrap_or_default();
    let caller = Caller::new(args, &target, &user)?;
    consent::ask(args, &target, &caller, &levels, most)?;
    let seed = args.seed.unwrap_or_else(new_seed);
    let findings = Findings::new(&target.base, caller.model(), seed, args.threshold);
    let progress = Arc::new(Progress {
        bar: Working::start("asking", most.requests),
        sent: AtomicU64::new(0),
    });
    let audit = Audit {
        caller,
        levels,
        seed,
        delay: args.delay.unwrap_or(Duration::from_secs(1)),
        threshold: args.threshold,
        progress: Arc::clone(&progress),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let interrupt = Interrupt::listen().await;
        let (tell, told) = oneshot::channel();
        // Left alone when Ctrl-C comes: the end of the process ends its request.
        thread::spawn(move || {
            // Nobody waits for it after Ctrl-C.
            let _ = tell.send(audit.run(findings));
        });
        tokio::select! {
            done = told => Some(done.unwrap_or_else(|_| Err(anyhow!("the audit broke off")))),
            () = interrupt.pressed() => None,
        }
    });
    progress.bar.done();
    let Some(findings) = done.transpose()? else {
        eprintln!(
            "interrupted after {} requests; nothing was judged",
            progress.sent.load(Ordering::Relaxed)
        );
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &findings)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", findings.text())?;
    }
    out.flush()?;
    Ok(if findings.sharing { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

/// One that no earlier audit had: prompts that a server has seen before would not be misses.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40)
}

struct Progress {
    bar: Working,
    sent: AtomicU64,
}

struct Audit {
    caller: Caller,
    levels: Vec<Level>,
    seed: u64,
    delay: Duration,
    threshold: f64,
    progress: Arc<Progress>,
}

/// The answers to the attacker's requests.
#[derive(Default)]
struct Answers {
    hits: Vec<Answer>,
    misses: Vec<Answer>,
}

impl Audit {
    /// Level by level, until one shows nothing: whom the nearer ones don't share with, the further ones don't either.
    fn run(self, mut findings: Findings) -> Result<Findings> {
        let mut number = 0;
        for level in &self.levels {
            let mut found = false;
            for plan in &level.plans {
                // Each test has prompts of its own.
                number += 1;
                let tested =
                    self.test(level, *plan, Seeded::new(self.seed.wrapping_add(number << 32)))?;
                found = tested.found;
                findings.tests.push(tested);
                if found {
                    break;
                }
            }
            if found && level.kind != LevelArg::User {
                findings.sharing = true;
            }
            if !found {
                break;
            }
        }
        findings.conclude(self.levels.iter().map(|level| level.kind));
        Ok(findings)
    }

    fn test(&self, level: &Level, plan: Plan, mut random: Seeded) -> Result<Tested> {
        let mut answers = Answers::default();
        // Opens the connection and lets the server wake up.
        self.ask(&level.attacker, &Letters::random(plan.letters, &mut random))?;
        for sample in plan.samples(random) {
            thread::sleep(self.delay);
            if let Some(prompt) = &sample.victim {
                for _ in 0..plan.victim_requests {
                    self.ask(&level.victim, prompt)?;
                }
                answers.hits.push(self.ask(&level.attacker, &sample.attacker)?);
            } else {
                answers.misses.push(self.ask(&level.attacker, &sample.attacker)?);
            }
        }
        self.judge(level, plan, &answers)
    }

    fn ask(&self, user: &User, prompt: &Letters) -> Result<Answer> {
        let answer = self.caller.ask(user, prompt);
        let sent = self.progress.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.progress.bar.at(sent);
        answer
    }

    fn judge(&self, level: &Level, plan: Plan, answers: &Answers) -> Result<Tested> {
        let seconds = |answers: &[Answer]| -> Vec<f64> {
            answers.iter().map(|answer| answer.ttft.as_secs_f64()).collect()
        };
        let server = |answers: &[Answer]| -> Option<Vec<f64>> {
            answers.iter().map(|answer| answer.server.map(|time| time.as_secs_f64())).collect()
        };
        let cached = |answers: &[Answer]| -> Vec<Option<u64>> {
            answers.iter().map(|answer| answer.cached).collect()
        };
        let times = judge(&seconds(&answers.hits), &seconds(&answers.misses), self.threshold)?;
        let server = match (server(&answers.hits), server(&answers.misses)) {
            (Some(hits), Some(misses)) => Some(judge(&hits, &misses, self.threshold)?),
            _ => None,
        };
        let reported = judge_reported(
            &cached(&answers.hits),
            &cached(&answers.misses),
            plan.shared_letters() as f64,
        );
        let asked_again =
            answers.hits.iter().chain(&answers.misses).filter(|answer| answer.asked_again).count();
        let found = times.found() || server.is_some_and(|times| times.found()) || reported.found();
        Ok(Tested {
            level: level.name(),
            victim_requests: plan.victim_requests,
            prompt_letters: plan.letters,
            shared_letters: plan.shared_letters(),
            times: Times::from(&times),
            server_times: server.as_ref().map(Times::from),
            reported: reported.into(),
            prompt_tokens: answers.misses.iter().find_map(|answer| answer.prompt),
            asked_again,
            found,
        })
    }
}
