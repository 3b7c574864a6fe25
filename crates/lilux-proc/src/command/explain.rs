//! Why a command could not be started, in words.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Command;
use crate::error::SpawnError;
use crate::sys::launch::{LaunchError, Restriction, Stage};

/// Characters of a path or a name that a message shows; with all of them it would not fit a keeper's report.
const MAX_SHOWN: usize = 1024;

impl Command {
    pub(super) fn explain(&self, failure: LaunchError, restriction: &dyn Restriction) -> SpawnError {
        let (code, stage, message) = match failure.stage {
            Stage::WorkingDirectory if restriction.is_confining() && self.has_directory() => {
                let directory = shown(self.directory.as_deref().unwrap_or_default());
                (
                    "cwd_hidden",
                    "cwd",
                    format!("working directory {directory} is there, but this run may not see it"),
                )
            }
            Stage::WorkingDirectory => self.explain_directory(failure.errno),
            Stage::Execute if restriction.is_confining() && self.is_hidden(failure.errno) => {
                ("command_hidden", "execute", self.explain_hidden())
            }
            Stage::Execute => self.explain_execute(failure.errno),
            Stage::Session => ("resource_exhausted", "fork", format!("no new process: {}", failure.errno)),
            Stage::Descriptors => {
                ("resource_exhausted", "descriptors", format!("no descriptors: {}", failure.errno))
            }
            Stage::Restrict("limit") => {
                ("spawn_failed", "restrict", format!("a limit could not be applied: {}", failure.errno))
            }
            Stage::Restrict(what) => {
                let name =
                    failure.step.map(|step| format!(" {}", restriction.name_of(step))).unwrap_or_default();
                let message = format!("the run could not be confined ({what}{name}): {}", failure.errno);
                ("isolation_unavailable", "isolate", message)
            }
        };
        SpawnError::new(code, stage, Some(failure.errno), message)
    }

    /// It is there for us, and for the tool it is not.
    fn is_hidden(&self, errno: Errno) -> bool {
        matches!(errno, Errno::NOENT | Errno::ACCESS) && self.program_of_ours().is_some()
    }

    fn has_directory(&self) -> bool {
        let directory = self.directory.as_deref().unwrap_or_default();
        Path::new(OsStr::from_bytes(directory.to_bytes())).is_dir()
    }

    fn program_of_ours(&self) -> Option<PathBuf> {
        let seen = self.candidates.iter().map(|path| self.seen_from_directory(path));
        let executable = |path: &PathBuf| {
            path.is_file() && rustix::fs::access(path.as_path(), rustix::fs::Access::EXEC_OK).is_ok()
        };
        let mut executable = seen.filter(executable);
        executable.find(|path| missing_interpreter_is_there(path))
    }

    fn explain_hidden(&self) -> String {
        let path = self.program_of_ours().unwrap_or_default();
        let path = shortened(&path.display().to_string());
        format!("{path} is there, but what this run may read does not include it, or what it needs to start")
    }

    fn explain_directory(&self, errno: Errno) -> (&'static str, &'static str, String) {
        let directory = shown(self.directory.as_deref().unwrap_or_default());
        match errno {
            Errno::NOENT => ("cwd_not_found", "cwd", format!("working directory {directory} does not exist")),
            Errno::NOTDIR => {
                ("cwd_not_directory", "cwd", format!("working directory {directory} is not a directory"))
            }
            Errno::ACCESS => {
                ("cwd_denied", "cwd", format!("working directory {directory} may not be entered"))
            }
            other => ("spawn_failed", "cwd", format!("working directory {directory}: {other}")),
        }
    }

    fn explain_execute(&self, errno: Errno) -> (&'static str, &'static str, String) {
        let name = shown(&self.name);
        let found =
            self.candidates.iter().map(|path| self.seen_from_directory(path)).find(|path| path.exists());
        let path =
            found.as_deref().map_or_else(|| name.clone(), |path| shortened(&path.display().to_string()));
        match errno {
            Errno::NOENT if found.is_some() => {
                let reason = missing_interpreter(found.as_deref());
                ("interpreter_not_found", "execute", format!("{path} is there, but {reason}"))
            }
            Errno::NOENT => ("command_not_found", "execute", self.not_found(&name)),
            Errno::ACCESS if found.as_deref().is_some_and(Path::is_dir) => {
                ("not_executable", "execute", format!("{path} is a directory"))
            }
            Errno::ACCESS if found.is_some() => {
                ("not_executable", "execute", format!("{path} is not executable (chmod +x)"))
            }
            Errno::ACCESS | Errno::PERM => ("permission_denied", "execute", format!("{path}: {errno}")),
            Errno::NOEXEC => {
                let hint = "neither a program for this machine nor a script that starts with #!";
                ("exec_format", "execute", format!("{path} is {hint}"))
            }
            Errno::TOOBIG => (
                "arguments_too_large",
                "execute",
                "arguments and environment are too large together".to_owned(),
            ),
            Errno::NOMEM | Errno::AGAIN | Errno::MFILE | Errno::NFILE => {
                ("resource_exhausted", "execute", format!("{path}: {errno}"))
            }
            other => ("spawn_failed", "execute", format!("{path}: {other}")),
        }
    }

    fn not_found(&self, name: &str) -> String {
        if name.contains('/') {
            return format!("{name} does not exist");
        }
        let directories = self.candidates.iter().filter_map(|path| {
            Some(Path::new(OsStr::from_bytes(path.as_bytes())).parent()?.display().to_string())
        });
        let searched = shortened(&directories.collect::<Vec<_>>().join(":"));
        format!("command not found: {name} (searched {searched})")
    }

    /// A relative path means: below the tool's working directory.
    fn seen_from_directory(&self, path: &CStr) -> PathBuf {
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        match &self.directory {
            Some(directory) => Path::new(OsStr::from_bytes(directory.as_bytes())).join(path),
            None => path.to_owned(),
        }
    }
}

/// The file exists and `execve` still said "no such file": what it names as its interpreter is missing.
fn missing_interpreter(path: Option<&Path>) -> String {
    let head = path.and_then(|path| read_head(path).ok()).unwrap_or_default();
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match line.strip_prefix(b"#!") {
        Some(interpreter) => {
            format!("its interpreter {} is not", String::from_utf8_lossy(interpreter).trim())
        }
        None => "the loader that it names is not".to_owned(),
    }
}

/// Nothing is missing for us of what the first line names.
fn missing_interpreter_is_there(path: &Path) -> bool {
    let head = read_head(path).unwrap_or_default();
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return true };
    let words = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty());
    words.is_some_and(|word| Path::new(OsStr::from_bytes(word)).exists())
}

fn read_head(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(256).read_to_end(&mut head)?;
    Ok(head)
}

fn shown(text: &CStr) -> String {
    shortened(&text.to_string_lossy())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
