//! The command line: what can be asked for, and how an answer is printed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::confine::Facts;
use crate::error::{Fatal, RequestError};
use crate::protocol::{KillMethod, RunRequest, Stdin};
use crate::spawn::SpawnRequest;
use crate::text::OsText;
use crate::{door, exec, process, serve, spawn, sys};

/// Runs programs, keeps their output, leaves nothing behind.
///
/// Every command but `serve` prints one JSON object and exits with 0 when it could answer: the tool's own exit code
/// stands in the answer.
#[derive(Debug, Parser)]
#[command(name = "lilux-proc", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Face,
}

#[derive(Debug, Subcommand)]
enum Face {
    /// Run a program and wait; nothing it started survives
    Exec(ExecArgs),
    /// Start a process that outlives this command
    Spawn(SpawnArgs),
    /// End a process, or the group it leads: SIGTERM, grace, SIGKILL
    Kill(KillArgs),
    /// Tell whether a process is alive
    Status(StatusArgs),
    /// Tell what this machine can enforce, by making a whole cell
    Probe,
    /// Serve framed requests on standard input and output
    Serve,
    /// Lead the runs of a supervisor to their hosts; only the supervisor starts it
    #[command(hide = true)]
    Door,
}

#[derive(Debug, Args)]
struct ProgramArgs {
    /// The program; looked up on PATH when it holds no slash
    #[arg(long, value_name = "C", required_unless_present = "request")]
    cmd: Option<OsString>,
    /// One argument; repeat it for each
    #[arg(long = "arg", value_name = "A", allow_hyphen_values = true)]
    args: Vec<OsString>,
    /// Working directory
    #[arg(long, value_name = "D")]
    cwd: Option<OsString>,
    /// An environment variable, beside this command's own; repeat it for each
    #[arg(long = "env", value_name = "K=V")]
    env: Vec<OsString>,
    /// Read the whole request as JSON from standard input ("-"), so that nothing of it stands in an argument list
    #[arg(long, value_name = "-", value_parser = ["-"], conflicts_with_all = ["cmd", "args", "cwd", "env"])]
    request: Option<String>,
}

#[derive(Debug, Args)]
struct ExecArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// Text for the program's standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["stdin_pipe", "request"])]
    stdin: Option<OsString>,
    /// Let the program read this command's standard input
    #[arg(long, conflicts_with = "request")]
    stdin_pipe: bool,
    /// Seconds after which the program is ended
    #[arg(long, value_name = "S", allow_negative_numbers = true, conflicts_with = "request")]
    timeout: Option<f64>,
}

#[derive(Debug, Args)]
struct SpawnArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// File that output is appended to
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    log: Option<OsString>,
}

#[derive(Debug, Args)]
struct KillArgs {
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pid: i64,
    /// Seconds between SIGTERM and SIGKILL
    #[arg(long, value_name = "S", default_value_t = 3.0, allow_negative_numbers = true)]
    grace: f64,
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pid: i64,
}

/// A request for `exec` in JSON: the fields of `run`, and the input as text.
#[derive(Debug, Deserialize)]
struct ExecRequest {
    #[serde(default)]
    input: Option<OsText>,
    #[serde(flatten)]
    run: BTreeMap<String, serde_json::Value>,
}

impl Cli {
    /// Does what was asked for and prints the answer.
    pub fn run(self) -> Result<(), Fatal> {
        match self.command {
            Face::Exec(args) => {
                let (request, input) = args.read()?;
                print(&exec::run(request, &input)?)
            }
            Face::Spawn(args) => print(&spawn::run(args.read()?)?),
            Face::Kill(args) => print(&kill_answer(&args)?),
            Face::Status(args) => print(&status_answer(args.pid)),
            Face::Probe => {
                sys::check_kernel()?;
                print(&Facts::gather())
            }
            Face::Serve => serve::main(),
            Face::Door => door::main(),
        }
    }
}

fn print(answer: &impl Serialize) -> Result<(), Fatal> {
    let mut line = serde_json::to_vec(answer).map_err(|error| Fatal::Usage(error.to_string()))?;
    line.push(b'\n');
    std::io::stdout().write_all(&line).map_err(|error| Fatal::Usage(format!("standard output: {error}")))
}

impl ProgramArgs {
    fn environment(&self) -> Result<BTreeMap<String, OsText>, Fatal> {
        let mut environment = own_environment();
        for setting in &self.env {
            let bytes = setting.clone().into_vec();
            let Some(equals) = bytes.iter().position(|byte| *byte == b'=') else {
                let shown = setting.to_string_lossy();
                return Err(Fatal::Usage(format!("--env takes NAME=value, not {shown:?}")));
            };
            let name = String::from_utf8_lossy(&bytes[..equals]).into_owned();
            environment.insert(name, OsText(bytes[equals + 1..].to_vec()));
        }
        Ok(environment)
    }

    fn command(&self) -> OsText {
        OsText(self.cmd.clone().unwrap_or_default().into_vec())
    }

    fn arguments(&self) -> Vec<OsText> {
        self.args.iter().map(|argument| OsText(argument.clone().into_vec())).collect()
    }

    fn directory(&self) -> Option<OsText> {
        self.cwd.clone().map(|cwd| OsText(cwd.into_vec()))
    }
}

fn own_environment() -> BTreeMap<String, OsText> {
    let own = std::env::vars_os();
    // A name that is not UTF-8, or no name at all, cannot be named in a request either.
    let own = own.filter(|(name, _)| !name.as_encoded_bytes().contains(&b'='));
    own.filter_map(|(name, value)| Some((name.into_string().ok()?, OsText(value.into_vec())))).collect()
}

impl ExecArgs {
    fn read(&self) -> Result<(RunRequest, Vec<u8>), Fatal> {
        if self.program.request.is_some() {
            return read_exec_request();
        }
        let stdin = match (&self.stdin, self.stdin_pipe) {
            (Some(_), _) => Stdin::Data,
            (None, true) => Stdin::Own,
            (None, false) => Stdin::Null,
        };
        let request = RunRequest {
            command: self.program.command(),
            args: self.program.arguments(),
            cwd: self.program.directory(),
            env: self.program.environment()?,
            stdin,
            timeout_ms: self.timeout.map(|limit| milliseconds("--timeout", limit)).transpose()?,
            ..RunRequest::default()
        };
        Ok((request, self.stdin.clone().unwrap_or_default().into_vec()))
    }
}

fn read_exec_request() -> Result<(RunRequest, Vec<u8>), Fatal> {
    let mut asked: ExecRequest = read_request()?;
    // On the wire every run has an id; here it is the only one.
    asked.run.insert("id".to_owned(), exec::RUN.into());
    let fields = serde_json::Value::Object(asked.run.into_iter().collect());
    let mut request: RunRequest = serde_json::from_value(fields).map_err(not_a_request)?;
    if request.stdin == Stdin::Pipe {
        let message = "nobody could bring more input later: give all of it as `input`";
        return Err(Fatal::Usage(message.to_owned()));
    }
    if asked.input.is_some() {
        request.stdin = Stdin::Data;
    }
    Ok((request, asked.input.unwrap_or_default().0))
}

fn read_request<T: for<'de> Deserialize<'de>>() -> Result<T, Fatal> {
    let mut text = Vec::new();
    let read = std::io::stdin().read_to_end(&mut text);
    read.map_err(|error| Fatal::Usage(format!("standard input: {error}")))?;
    serde_json::from_slice(&text).map_err(not_a_request)
}

fn not_a_request(error: serde_json::Error) -> Fatal {
    Fatal::Usage(format!("the request on standard input is not usable: {error}"))
}

impl SpawnArgs {
    fn read(&self) -> Result<SpawnRequest, Fatal> {
        if self.program.request.is_some() {
            return read_request();
        }
        Ok(SpawnRequest {
            command: self.program.command(),
            args: self.program.arguments(),
            cwd: self.program.directory(),
            env: self.program.environment()?,
            search_path: None,
            log: self.log.clone().map(|log| OsText(log.into_vec())),
        })
    }
}

/// Zero is refused with the rest: it would mean "at once" to some and "never" to others.
fn milliseconds(option: &str, seconds: f64) -> Result<u64, Fatal> {
    const YEAR: f64 = 365.0 * 24.0 * 3600.0;
    if seconds.is_finite() && seconds > 0.0 && seconds <= YEAR {
        return Ok((seconds * 1e3).ceil() as u64);
    }
    Err(Fatal::Usage(format!(
        "{option} takes seconds, more than 0 and at most {YEAR} (a year), not {seconds}"
    )))
}

fn kill_answer(args: &KillArgs) -> Result<serde_json::Value, Fatal> {
    if !(args.grace.is_finite() && args.grace >= 0.0) {
        return Err(Fatal::Usage(format!("--grace takes seconds, 0 or more, not {}", args.grace)));
    }
    let grace = Duration::try_from_secs_f64(args.grace).unwrap_or(Duration::MAX);
    Ok(match process::kill(args.pid, grace) {
        Ok(method) => answer_killed(args.pid, method),
        Err(error) => json!({"success": false, "pid": args.pid, "method": "", "error": details(&error)}),
    })
}

fn answer_killed(pid: i64, method: KillMethod) -> serde_json::Value {
    json!({"success": true, "pid": pid, "method": method, "error": null})
}

fn status_answer(pid: i64) -> serde_json::Value {
    match process::is_alive(pid) {
        Ok(alive) => json!({"pid": pid, "alive": alive, "error": null}),
        Err(error) => json!({"pid": pid, "alive": false, "error": details(&error)}),
    }
}

fn details(error: &RequestError) -> serde_json::Value {
    json!({"code": error.code, "stage": error.stage, "errno": error.errno, "message": error.message})
}
