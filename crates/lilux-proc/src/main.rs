//! `lilux-proc`: a process supervisor nothing escapes.
//!
//! What it promises: a run's whole process tree is gone when its result is there, whatever the tool did and whoever of us
//! was killed; output is always read, never lost without being counted; nothing secret stands in an argument list.
//! `docs/protocol.md` has the wire, `docs/adr/` has the reasons.

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod cli;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod outbox;
#[cfg(target_os = "linux")]
mod poller;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod protocol;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod switches;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod text;
#[cfg(target_os = "linux")]
mod warden;
#[cfg(target_os = "linux")]
mod wire;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use clap::Parser;
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            serve::complain(&error);
            ExitCode::from(if matches!(error, error::Fatal::Usage(_)) { 2 } else { 1 })
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!(
        "lilux-proc needs Linux 5.9 or later (subreapers, pidfds, close_range); this system is {}",
        std::env::consts::OS
    );
    ExitCode::from(2)
}
