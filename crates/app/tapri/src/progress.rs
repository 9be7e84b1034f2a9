//! What moves on stderr while someone waits. On something that is no terminal, only lines that stay.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tapri_registry::PullEvent;

/// How often a bar is redrawn at most.
const REDRAWS_PER_SECOND: u8 = 10;

fn bar(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template)
        // A template that doesn't parse is a bar that looks otherwise, nothing worse.
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let eta = Duration::from_secs(state.eta().as_secs());
            let _ = write!(out, "{eta:?} left");
        })
        .progress_chars("=> ");
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND);
    let bar = ProgressBar::with_draw_target(Some(total), target);
    bar.set_style(style);
    bar
}

/// The display of a pull.
#[derive(Default)]
pub(crate) struct Pulling {
    bar: Option<ProgressBar>,
}

impl Pulling {
    pub(crate) fn on(&mut self, event: PullEvent<'_>) {
        match event {
            PullEvent::Waiting { name } => {
                eprintln!("waiting for another process that pulls {name}")
            }
            PullEvent::Licence(licence) => {
                eprintln!("licence: {} ({})\n{}", licence.name, licence.url, licence.notice);
            }
            PullEvent::Downloading { name, done, total } => {
                let bar = self.bar.get_or_insert_with(|| {
                    eprintln!("pulling {name} ({})", crate::quantity::show_bytes(total));
                    bar(total, "  [{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {left}")
                });
                bar.set_length(total);
                bar.set_position(done);
            }
            PullEvent::Checking { name } => {
                self.finish();
                eprintln!("checking {name}");
            }
            _ => {}
        }
    }

    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The display of a long read: shown only where it takes long enough to wonder.
pub(crate) struct Reading {
    bar: Option<ProgressBar>,
}

/// Fewer tokens than this are read before a bar could be looked at.
const WORTH_A_BAR: usize = 1024;

impl Reading {
    /// `total` prompt tokens, of which `cached` are there already.
    pub(crate) fn start(total: usize, cached: usize) -> Self {
        let bar = (total - cached.min(total) >= WORTH_A_BAR).then(|| {
            let bar =
                bar(total as u64, "reading [{bar:40}] {human_pos} of {human_len} tokens, {left}");
            bar.set_position(cached as u64);
            bar.reset_eta();
            bar
        });
        Reading { bar }
    }

    pub(crate) fn at(&self, ready: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(ready as u64);
        }
    }

    /// Takes the bar off the screen; the answer begins.
    pub(crate) fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.done();
    }
}

/// The display of work whose end is known.
pub(crate) struct Working {
    bar: ProgressBar,
}

impl Working {
    /// `total` of whatever [`Working::at`] counts.
    pub(crate) fn start(what: &'static str, total: u64) -> Self {
        let bar = bar(total, "{msg} [{bar:40}] {percent} %, {left}");
        bar.set_message(what);
        Working { bar }
    }

    pub(crate) fn at(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Working {
    /// Takes it off the screen.
    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.done();
    }
}

/// The display of reading files: shown only where there is enough to read.
pub(crate) struct Scanning {
    bar: Option<ProgressBar>,
}

/// Fewer bytes than this are read within a second.
const WORTH_SCANNING: u64 = 32 << 20;

impl Scanning {
    /// `total` bytes on disk.
    pub(crate) fn start(total: u64) -> Self {
        let template = "reading [{bar:40}] {bytes} of {total_bytes}, {bytes_per_sec}, {left}";
        Scanning { bar: (total >= WORTH_SCANNING).then(|| bar(total, template)) }
    }

    /// A reader that moves the bar by what is read through it.
    pub(crate) fn reader<'a, R: std::io::Read + 'a>(
        &self,
        reader: R,
    ) -> Box<dyn std::io::Read + 'a> {
        match &self.bar {
            Some(bar) => Box::new(bar.wrap_read(reader)),
            None => Box::new(reader),
        }
    }
}

impl Drop for Scanning {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
