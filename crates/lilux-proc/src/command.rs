//! From what a client asked for to something that can be executed, and from a kernel's "no" to a sentence.
//!
//! Everything that can be known before forking is refused before forking: NUL bytes, strings and lists the kernel would not
//! take. `PATH` is looked up here, `execve` does the rest; a file that is no program is never handed to a shell.

mod explain;

use std::ffi::{CStr, CString};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::SpawnError;
use crate::protocol::RunRequest;
use crate::sys::launch::{Launched, Places, Program, Restriction, launch};
use crate::text::OsText;

/// One argument or `NAME=value`, its NUL included (MAX_ARG_STRLEN: 32 pages).
const MAX_STRING: usize = 131_072;
/// Three quarters of the 8 MiB that the kernel counts with at the most, whatever the stack limit is.
const MAX_TOTAL: usize = 6 * 1024 * 1024;
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Something that can be started: every string checked, the candidates for the program in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    name: CString,
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: Option<CString>,
}

impl Command {
    /// Checks everything that can be checked before forking.
    pub fn prepare(request: &RunRequest) -> Result<Self, SpawnError> {
        let name = c_string(&request.command.0, || "the command".to_owned())?;
        let mut arguments = vec![name.clone()];
        for (index, argument) in request.args.iter().enumerate() {
            arguments.push(c_string(&argument.0, || format!("argument {}", index + 1))?);
        }
        let environment =
            request.env.iter().map(|(name, value)| variable(name, value)).collect::<Result<Vec<_>, _>>()?;
        let directory =
            request.cwd.as_ref().map(|cwd| c_string(&cwd.0, || "the working directory".to_owned()));
        let command = Self {
            candidates: candidates(&request.command.0, search_path(request)),
            name,
            arguments,
            environment,
            directory: directory.transpose()?,
        };
        command.check_total()?;
        Ok(command)
    }

    fn check_total(&self) -> Result<(), SpawnError> {
        let strings = self.arguments.iter().chain(&self.environment);
        let total: usize = strings.map(|text| text.as_bytes_with_nul().len() + size_of::<usize>()).sum();
        let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
        let limit = MAX_TOTAL.min(usize::try_from(stack / 4).unwrap_or(MAX_TOTAL));
        if total <= limit {
            return Ok(());
        }
        Err(SpawnError::new(
            "arguments_too_large",
            "prepare",
            Some(Errno::TOOBIG),
            format!(
                "arguments and environment take {total} bytes together; this system takes at most {limit}; \
                 pass large data through standard input"
            ),
        ))
    }

    /// How many strings `pack` will hold.
    pub fn shape(&self) -> Shape {
        Shape {
            candidates: self.candidates.len(),
            arguments: self.arguments.len(),
            environment: self.environment.len(),
            directory: self.directory.is_some(),
        }
    }

    /// All strings in one piece, for a keeper to read; with the shape, `unpack` is the other end.
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = self.name.as_bytes_with_nul().to_vec();
        let lists = [&self.candidates, &self.arguments, &self.environment];
        for text in lists.into_iter().flatten().chain(&self.directory) {
            bytes.extend_from_slice(text.as_bytes_with_nul());
        }
        bytes
    }

    /// The command that `pack` made of it; `None` when they do not belong together.
    pub fn unpack(shape: &Shape, bytes: &[u8]) -> Option<Self> {
        let mut strings = bytes
            .split_inclusive(|byte| *byte == 0)
            .map(|text| CStr::from_bytes_with_nul(text).map(CStr::to_owned).ok());
        let name = strings.next()??;
        let mut list = |count: usize| strings.by_ref().take(count).collect::<Option<Vec<CString>>>();
        Some(Self {
            name,
            candidates: list(shape.candidates)?,
            arguments: list(shape.arguments)?,
            environment: list(shape.environment)?,
            directory: list(usize::from(shape.directory))?.pop(),
        })
    }

    /// Starts it with these descriptors.
    pub fn start(
        &self,
        descriptors: Places<'_>,
        restriction: &dyn Restriction,
    ) -> Result<Launched, SpawnError> {
        let candidates: Vec<&CStr> = self.candidates.iter().map(CString::as_c_str).collect();
        launch(&Program {
            candidates: &candidates,
            arguments: &pointers(&self.arguments),
            environment: &pointers(&self.environment),
            directory: self.directory.as_deref(),
            descriptors,
            restriction,
        })
        .map_err(|failure| self.explain(failure, restriction))
    }
}

/// How many strings of each sort a packed command holds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    candidates: usize,
    arguments: usize,
    environment: usize,
    directory: bool,
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Refuses what the kernel would; `what` names the string in the message, never its value.
fn c_string(bytes: &[u8], what: impl Fn() -> String) -> Result<CString, SpawnError> {
    if bytes.len() >= MAX_STRING {
        return Err(SpawnError::new(
            "argument_too_long",
            "prepare",
            Some(Errno::TOOBIG),
            format!(
                "{} has {} bytes; the system takes at most {} in one argument or variable; \
                 pass large data through standard input",
                what(),
                bytes.len(),
                MAX_STRING - 1
            ),
        ));
    }
    CString::new(bytes).map_err(|error| {
        let message = format!("{} holds a NUL byte at offset {}", what(), error.nul_position());
        SpawnError::new("nul_byte", "prepare", Some(Errno::INVAL), message)
    })
}

fn variable(name: &str, value: &OsText) -> Result<CString, SpawnError> {
    if name.is_empty() || name.contains('=') {
        let message = format!("{name:?} cannot be the name of an environment variable");
        return Err(SpawnError::new("invalid_environment", "prepare", Some(Errno::INVAL), message));
    }
    let entry = [name.as_bytes(), b"=", &value.0].concat();
    c_string(&entry, || format!("environment variable {name}"))
}

fn search_path(request: &RunRequest) -> &[u8] {
    let own = request.env.get("PATH").map(|path| path.0.as_slice());
    request.search_path.as_ref().map(|path| path.0.as_slice()).or(own).unwrap_or(DEFAULT_PATH)
}

/// Where the program may be. Relative entries of the path are skipped: what runs must not depend on the working directory.
fn candidates(command: &[u8], search_path: &[u8]) -> Vec<CString> {
    let paths: Vec<Vec<u8>> = if command.contains(&b'/') {
        vec![command.to_vec()]
    } else if command.is_empty() {
        Vec::new()
    } else {
        let directories = search_path.split(|byte| *byte == b':').filter(|entry| entry.starts_with(b"/"));
        directories.map(|directory| [directory, b"/", command].concat()).collect()
    };
    paths.into_iter().filter_map(|path| CString::new(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(command: &str) -> RunRequest {
        RunRequest { command: command.into(), ..RunRequest::default() }
    }

    #[test]
    fn a_packed_command_unpacks_to_itself() {
        let mut full = request("/bin/echo");
        full.args = vec!["a".into(), "".into(), OsText(b"\xff".to_vec())];
        full.env.insert("A".to_owned(), "1 2".into());
        full.cwd = Some("/tmp".into());
        for request in [full, request("true")] {
            let command = Command::prepare(&request).expect("is fine");
            assert_eq!(Command::unpack(&command.shape(), &command.pack()), Some(command));
        }
    }

    #[test]
    fn relative_entries_of_the_path_are_never_searched() {
        let found = candidates(b"tool", b":.:bin:/usr/bin:~/bin:/bin");
        assert_eq!(found, [c"/usr/bin/tool".to_owned(), c"/bin/tool".to_owned()]);
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused_before_forking() {
        let mut long = request("true");
        long.args = vec!["ok".into(), OsText(vec![b'a'; 131_072])];
        let mut nul = request("true");
        nul.args = vec![OsText(b"a\0b".to_vec())];
        let mut name = request("true");
        name.env.insert("A=B".to_owned(), "".into());
        let mut heavy = request("true");
        heavy.args = vec![OsText(vec![b'a'; 131_071]); 60];
        let cases = [
            (long, "argument_too_long", "argument 2"),
            (nul, "nul_byte", "argument 1"),
            (name, "invalid_environment", "A=B"),
            (heavy, "arguments_too_large", "standard input"),
        ];
        for (request, code, mention) in cases {
            let error = Command::prepare(&request).expect_err(code);
            assert_eq!(error.code, code);
            assert!(error.message.contains(mention), "{}", error.message);
        }
    }

    #[test]
    fn the_longest_argument_is_still_accepted() {
        let mut request = request("true");
        request.args = vec![OsText(vec![b'a'; 131_071])];
        assert!(Command::prepare(&request).is_ok());
    }
}
