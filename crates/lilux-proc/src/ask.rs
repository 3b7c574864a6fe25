//! `rye` inside of a program: asks through the descriptor that `RYE_CALL_FD` names, and prints the answer.
//!
//! One process asks once, through a channel of its own, so any number of them ask beside each other. What a tool takes
//! is written as `rye run` takes it; the other end reads the words, because it knows the schema.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use clap::{Args, Parser, Subcommand};
use rustix::net::SendFlags;
use serde_json::{Map, Value, json};

use crate::error::Fatal;
use crate::sys;

/// The name under which a program finds this command.
pub const NAME: &str = "rye";

const DESCRIPTOR: &str = "RYE_CALL_FD";

/// Calls other tools from a program: a tool whose signed file names them in `permissions.calls`.
#[derive(Debug, Parser)]
#[command(name = NAME, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Face,
}

#[derive(Debug, Subcommand)]
enum Face {
    /// Call a tool, and print the data that it returns: text as it is, everything else as JSON
    Call(CallArgs),
    /// Find the tools that this program may call, by what they are for; one JSON object
    Search { words: Vec<String> },
    /// Tell what a tool does, and the schema of its parameters; one JSON object
    Describe { item_id: String },
    /// Print a piece of a result that was kept
    Read(ReadArgs),
}

#[derive(Debug, Args)]
struct CallArgs {
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    /// Keep the data, and print its handle
    #[arg(long)]
    as_handle: bool,
    /// Seconds that the call may take
    #[arg(long, value_name = "S")]
    timeout: Option<f64>,
    /// Parameters as a JSON object; "-" reads it from standard input
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    item_id: String,
    /// --name value, for each parameter
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(Debug, Args)]
struct ReadArgs {
    handle: String,
    /// The byte to start at; a negative number counts from the end
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    offset: i64,
    /// How many bytes to read at most
    #[arg(long, value_name = "N")]
    length: Option<u64>,
}

impl Cli {
    /// Whether this program was started under the name of the command.
    pub fn is_meant(arguments: &[OsString]) -> bool {
        arguments.first().is_some_and(|first| std::path::Path::new(first).ends_with(NAME))
    }

    /// Asks, and prints what was answered.
    pub fn run(self) -> Result<(), Fatal> {
        let (request, show) = self.command.request()?;
        let answer = ask(&request)?;
        if let Some(error) = answer.get("error") {
            return Err(refused(error));
        }
        let result = answer.get("result").ok_or_else(no_answer)?;
        if result.get("status").is_some_and(|status| status != "success") {
            return Err(refused(result));
        }
        print(show.of(result))
    }
}

/// What is printed of a result.
enum Show {
    All,
    Content,
    Data,
}

impl Show {
    fn of<'a>(&self, result: &'a Value) -> &'a Value {
        match self {
            Self::All => result,
            Self::Content => &result["content"],
            Self::Data => {
                let handle = result.pointer("/kept/0/handle");
                result.get("data").filter(|data| !data.is_null()).or(handle).unwrap_or(&Value::Null)
            }
        }
    }
}

impl Face {
    fn request(self) -> Result<(Value, Show), Fatal> {
        Ok(match self {
            Self::Call(args) => args.request()?,
            Self::Search { words } => (json!({"id": 1, "search": words.join(" ")}), Show::All),
            Self::Describe { item_id } => (json!({"id": 1, "describe": item_id}), Show::All),
            Self::Read(args) => {
                let mut request = json!({"id": 1, "read": args.handle, "offset": args.offset});
                if let Some(length) = args.length {
                    request["length"] = length.into();
                }
                (request, Show::Content)
            }
        })
    }
}

impl CallArgs {
    fn request(self) -> Result<(Value, Show), Fatal> {
        let mut request =
            json!({"id": 1, "call": self.item_id, "parameters": parameters(self.params.as_deref())?});
        if !self.words.is_empty() {
            request["words"] = self.words.into();
        }
        if let Some(timeout) = self.timeout {
            request["timeout"] = timeout.into();
        }
        if self.as_handle {
            request["as_handle"] = true.into();
        }
        Ok((request, if self.json { Show::All } else { Show::Data }))
    }
}

fn parameters(given: Option<&str>) -> Result<Map<String, Value>, Fatal> {
    let read = match given {
        None => return Ok(Map::new()),
        Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Fatal::Usage(format!("standard input: {error}")))?;
            serde_json::from_str(&text)
        }
        Some(text) => serde_json::from_str(text),
    };
    read.map_err(|error| Fatal::Usage(format!("expected a JSON object in --params, found none: {error}")))
}

/// What the other end answers to one request.
fn ask(request: &Value) -> Result<Value, Fatal> {
    let channel = open_channel()?;
    let lost =
        |error: std::io::Error| Fatal::Usage(format!("lost: the calls of this program ended: {error}"));
    let mut line = request.to_string();
    line.push('\n');
    (&channel).write_all(line.as_bytes()).map_err(lost)?;
    let mut answer = String::new();
    BufReader::new(&channel).read_line(&mut answer).map_err(lost)?;
    serde_json::from_str(&answer).map_err(|_| no_answer())
}

/// A channel of this process alone, through the descriptor that all processes of the program have together.
fn open_channel() -> Result<UnixStream, Fatal> {
    let door = door()?; // first: what is closed would be the number of a new descriptor
    let (ours, theirs) = UnixStream::pair().map_err(|error| Fatal::Usage(format!("a channel: {error}")))?;
    let line = [IoSlice::new(b"{\"channel\":true}\n")];
    sys::fd::send_as(&door, &line, &[theirs.as_fd()], SendFlags::NOSIGNAL)
        .map_err(Fatal::system("lost: nobody serves the calls of this program"))?;
    Ok(ours)
}

fn door() -> Result<OwnedFd, Fatal> {
    let number = std::env::var(DESCRIPTOR).ok().and_then(|text| text.parse::<RawFd>().ok());
    number.and_then(|number| sys::fd::handed(number).ok()).ok_or_else(|| {
        let what = "expected a program, which has permissions.calls, and its descriptor";
        Fatal::Usage(format!("call_not_allowed: {what}, found none in {DESCRIPTOR}"))
    })
}

fn refused(error: &Value) -> Fatal {
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let hint = text("hint");
    let below = if hint.is_empty() { String::new() } else { format!("\n  hint:  {hint}") };
    Fatal::Usage(format!("{}: {}{below}", text("code"), text("error")))
}

fn no_answer() -> Fatal {
    Fatal::Usage("lost: expected an answer, found that the calls of this program ended".to_owned())
}

fn print(value: &Value) -> Result<(), Fatal> {
    let mut text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Fatal::Usage(format!("standard output: {error}")))
}
