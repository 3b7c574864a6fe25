//! `lilux-proc`: a process supervisor nothing escapes.
//!
//! What it promises: a run's whole process tree is gone when its result is there, whatever the tool did and whoever of us
//! was killed; output is always read, never lost without being counted; nothing secret stands in an argument list.
//! `docs/protocol.md` has the wire, `docs/adr/` has the reasons.

#![cfg_attr(all(target_os = "linux", not(test)), no_main)]

#[cfg(target_os = "linux")]
mod ask;
#[cfg(target_os = "linux")]
mod broker;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod cell;
#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod cli;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod door;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod notify;
#[cfg(target_os = "linux")]
mod observe;
#[cfg(target_os = "linux")]
mod outbox;
#[cfg(target_os = "linux")]
mod policy;
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

/// The C library calls this directly. Rust's own start-up would read `/proc/self/maps` and install handlers for a stack
/// overflow that this program then takes away again: a tenth of what running a small tool costs, for nothing.
///
/// # Safety
///
/// Only the C library calls it, with the arguments of the process.
#[cfg(target_os = "linux")]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn main(
    count: std::ffi::c_int,
    arguments: *const *const std::ffi::c_char,
) -> std::ffi::c_int {
    use clap::Parser;
    // SAFETY: the C library's promise to every `main`.
    let arguments = unsafe { sys::arguments(count, arguments) };
    let outcome = sys::fd::fill_standard_places().map_err(error::Fatal::system("standard descriptors"));
    let asks = ask::Cli::is_meant(&arguments);
    let outcome = outcome.and_then(|()| {
        if asks { ask::Cli::parse_from(arguments).run() } else { cli::Cli::parse_from(arguments).run() }
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            serve::complain(if asks { ask::NAME } else { "lilux-proc" }, &error);
            if matches!(error, error::Fatal::Usage(_)) { 2 } else { 1 }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!(
        "lilux-proc needs Linux 5.9 or later (subreapers, pidfds, close_range); this system is {}",
        std::env::consts::OS
    );
    std::process::ExitCode::from(2)
}
