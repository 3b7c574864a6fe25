//! The tool's descriptors as the supervisor sees them: streams that are read, and the input that is written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::capture::{Capture, Kept};
use crate::error::{RequestError, SpawnError};
use crate::protocol::{INPUT_WINDOW, MAX_PAYLOAD, RunRequest, SpoolRequest, Stream, StreamCounts};
use crate::sys::fd;
use crate::sys::region::Pool;
use crate::text::OsText;

/// Takes a stream that outgrows its cap, whole.
pub struct Spool {
    directory: OwnedFd,
    name: &'static str,
    file: Option<File>,
    begun: bool,
    room: u64,
    spooled: u64,
    lost: u64,
}

impl Spool {
    /// Looks at the directory now, so that a run does not start with a spool that cannot work.
    pub fn open(request: &SpoolRequest, stream: Stream) -> Result<Self, SpawnError> {
        let OsText(path) = &request.dir;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path.as_slice(), flags, Mode::empty()).map_err(|errno| {
            let message = format!("spool directory {}: {errno}", request.dir.shown());
            SpawnError::new("spool_failed", "spool", Some(errno), message)
        })?;
        let room = request.max_bytes;
        Ok(Self { directory, name: stream.name(), file: None, begun: false, room, spooled: 0, lost: 0 })
    }

    /// The first bytes beyond the cap: the file is made and gets all that came before.
    fn begin(&mut self, before: &[u8]) {
        self.begun = true;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.directory, self.name, flags, Mode::RUSR | Mode::WUSR);
        // Without a file nothing can be kept, and `lost` says how much that was.
        self.file = opened.ok().map(File::from);
        if self.file.is_none() {
            self.room = 0;
        }
        self.write(before);
    }

    fn write(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let written = self.file.as_mut().map_or(0, |file| write_most(file, &bytes[..fits]));
        self.spooled += written as u64;
        self.lost += (bytes.len() - written) as u64;
        // After a gap nothing may follow: the file is the beginning of the stream, without holes.
        self.room = if written < bytes.len() { 0 } else { self.room - written as u64 };
    }
}

/// Writes until the disk is full; how much that was.
fn write_most(file: &mut File, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(count) if count > 0 => written += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    written
}

/// Output on its way to a client that watches. What does not fit is skipped and counted.
#[derive(Default)]
pub struct Pending {
    pub bytes: Vec<u8>,
    pub skipped_before: u64,
    skipped_after: u64,
}

impl Pending {
    fn push(&mut self, bytes: &[u8]) {
        let room = if self.skipped_after > 0 { 0 } else { MAX_PAYLOAD - self.bytes.len() };
        let taken = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.skipped_after += (bytes.len() - taken) as u64;
    }

    /// At most `most` bytes, and how many are missing before them.
    pub fn take(&mut self, most: usize) -> (Vec<u8>, u64) {
        let rest = self.bytes.split_off(most.min(self.bytes.len()));
        let taken = std::mem::replace(&mut self.bytes, rest);
        let skipped = std::mem::take(&mut self.skipped_before);
        if self.bytes.is_empty() {
            self.skipped_before = std::mem::take(&mut self.skipped_after);
        }
        (taken, skipped)
    }
}

/// What one look at a stream brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    Some,
    /// Nothing there right now.
    Nothing,
    EndOfFile,
}

/// One stream of the tool, from its pipe to memory, file and client.
pub struct Output {
    pub pipe: Option<OwnedFd>,
    pub pending: Option<Pending>,
    /// Every byte goes to the client: no read brings more than one event can carry.
    pub whole: bool,
    /// Nobody looks at the pipe until there is credit again.
    pub held: bool,
    capture: Capture,
    spool: Option<Spool>,
}

impl Output {
    /// A stream that has just been connected.
    pub fn new(pipe: OwnedFd, request: &RunRequest, spool: Option<Spool>) -> Self {
        let watch = request.stream.as_ref();
        Self {
            pipe: Some(pipe),
            pending: watch.map(|_| Pending::default()),
            whole: watch.is_some_and(|watch| watch.whole),
            held: false,
            capture: Capture::new(request.max_output, request.digests),
            spool,
        }
    }

    /// Reads once. The first piece, and the one that outgrows the cap, come through `scratch`: a silent stream needs no
    /// memory of its own, and the spool gets the beginning before the ring overwrites it.
    pub fn read(&mut self, pool: &Pool, scratch: &mut [u8]) -> ReadOutcome {
        let Some(pipe) = &self.pipe else {
            return ReadOutcome::EndOfFile;
        };
        let through_scratch =
            self.whole || self.capture.is_empty() || (self.capture.is_full() && !self.spooling());
        let result = if through_scratch {
            read_retrying(pipe, &mut [IoSliceMut::new(scratch)])
        } else {
            self.capture.spare(pool).and_then(|mut spare| read_retrying(pipe, &mut spare))
        };
        match result {
            Ok(0) => ReadOutcome::EndOfFile,
            Ok(count) if through_scratch => self.accept(pool, &scratch[..count]),
            Ok(count) => {
                for bytes in self.capture.advance(count) {
                    deliver(&mut self.spool, &mut self.pending, bytes);
                }
                ReadOutcome::Some
            }
            Err(Errno::AGAIN) => ReadOutcome::Nothing,
            // A pipe that cannot be read, or no memory to read it into: it ends here, and the counts show what there was.
            Err(_) => ReadOutcome::EndOfFile,
        }
    }

    fn accept(&mut self, pool: &Pool, bytes: &[u8]) -> ReadOutcome {
        if let Some(spool) = self.spool.as_mut()
            && !spool.begun
            && self.capture.would_overflow(bytes.len())
        {
            spool.begin(self.capture.whole());
        }
        deliver(&mut self.spool, &mut self.pending, bytes);
        match self.capture.append(pool, bytes) {
            Ok(()) => ReadOutcome::Some,
            Err(_) => ReadOutcome::EndOfFile,
        }
    }

    /// There is something that a watching client has not seen.
    pub fn has_pending(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.bytes.is_empty())
    }

    fn spooling(&self) -> bool {
        self.spool.as_ref().is_none_or(|spool| spool.begun)
    }

    /// Ends it: what is kept, and what became of the rest.
    pub fn finish(self) -> Kept {
        let mut kept = self.capture.finish();
        if let Some(spool) = self.spool {
            let StreamCounts { spooled, lost, .. } = &mut kept.counts;
            (*spooled, *lost) = (spool.spooled, spool.lost);
        }
        kept
    }
}

fn deliver(spool: &mut Option<Spool>, pending: &mut Option<Pending>, bytes: &[u8]) {
    if let Some(spool) = spool.as_mut().filter(|spool| spool.begun) {
        spool.write(bytes);
    }
    if let Some(pending) = pending {
        pending.push(bytes);
    }
}

fn read_retrying(pipe: &OwnedFd, parts: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    loop {
        match rustix::io::readv(pipe, parts) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Standard input on its way to the tool.
pub struct Input {
    pub pipe: Option<OwnedFd>,
    queue: VecDeque<u8>,
    /// Nothing more will come.
    complete: bool,
    uncredited: usize,
    /// Bytes the client has sent and not been credited for.
    in_flight: usize,
}

impl Input {
    /// `first` came with the request; `complete` says that it was all.
    pub fn new(pipe: OwnedFd, first: &[u8], complete: bool) -> Self {
        let queue = first.iter().copied().collect();
        Self { pipe: Some(pipe), queue, complete, uncredited: 0, in_flight: first.len() }
    }

    /// The next piece from the client.
    pub fn push(&mut self, bytes: &[u8], eof: bool) -> Result<(), RequestError> {
        if self.complete {
            let message = "this run's standard input has already ended";
            return Err(RequestError::new("invalid_request", "input", message));
        }
        self.in_flight += bytes.len();
        if self.in_flight > INPUT_WINDOW {
            let message =
                format!("more than {INPUT_WINDOW} bytes of input are on their way; wait for credit");
            return Err(RequestError::new("input_overrun", "input", message));
        }
        self.queue.extend(bytes);
        self.complete = eof;
        Ok(())
    }

    /// Writes what the pipe takes; true when it should be called again as soon as the pipe takes more.
    pub fn write(&mut self) -> bool {
        while let Some(pipe) = self.pipe.as_ref().filter(|_| !self.queue.is_empty()) {
            match rustix::io::write(pipe, self.queue.as_slices().0) {
                Ok(count) => self.took(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                // EPIPE: the tool does not want to read. That is its right, and what else comes is thrown away.
                Err(_) => self.pipe = None,
            }
        }
        if self.pipe.is_none() {
            self.took(self.queue.len());
        }
        if self.complete {
            self.pipe = None;
        }
        false
    }

    fn took(&mut self, count: usize) {
        self.queue.drain(..count);
        self.uncredited += count;
    }

    /// Credit to give back, in pieces that are worth an event.
    pub fn credit(&mut self) -> Option<u64> {
        let worthwhile = self.uncredited >= INPUT_WINDOW / 8 || self.queue.is_empty();
        if self.complete || self.uncredited == 0 || !worthwhile {
            return None;
        }
        let credit = std::mem::take(&mut self.uncredited);
        self.in_flight -= credit;
        Some(credit as u64)
    }
}

/// The pipes of one run: what the supervisor keeps, and what it gives to the tool.
pub fn output_pipe(stream: Stream) -> Result<(OwnedFd, OwnedFd), SpawnError> {
    fd::output_pipe().map_err(|errno| SpawnError::resources(stream.name(), errno))
}

/// As `output_pipe`, the other way round: `(the tool's end, ours)`.
pub fn input_pipe() -> Result<(OwnedFd, OwnedFd), SpawnError> {
    fd::input_pipe().map_err(|errno| SpawnError::resources("stdin", errno))
}

/// The descriptor that this process itself reads from.
pub fn own_input() -> Result<OwnedFd, SpawnError> {
    let own = fd::above_fixed_places(rustix::stdio::stdin());
    own.map_err(|errno| SpawnError::resources("stdin", errno))
}
