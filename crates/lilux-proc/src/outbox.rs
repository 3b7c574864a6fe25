//! What the client has not taken yet. Captured output is sent from where it lies, without another copy.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::io::Errno;

use crate::capture::Kept;
use crate::engine::Notice;
use crate::frames::encode_head;
use crate::protocol::{Event, MAX_PAYLOAD, Stream};
use crate::sys::region::Region;

/// Pieces handed to the kernel in one call.
const PIECES: usize = 16;

enum Piece {
    Bytes(Vec<u8>),
    Mapped(Rc<Region>, Range<usize>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Mapped(region, range) => &region[range.clone()],
        }
    }
}

/// Frames in order, written as far as the client takes them.
#[derive(Default)]
pub struct Outbox {
    pieces: VecDeque<Piece>,
    /// How much of the first piece is written.
    written: usize,
}

impl Outbox {
    /// The client has taken everything.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends the frames of one notice.
    pub fn push(&mut self, notice: Notice) {
        match notice {
            Notice::Event(event) => self.frame(&event, Vec::new()),
            Notice::Output { event, bytes } => self.frame(&event, vec![Piece::Bytes(bytes)]),
            Notice::Closed { id, result, kept } => {
                let fits =
                    kept.iter().flatten().map(|kept| kept.counts.kept).sum::<u64>() <= MAX_PAYLOAD as u64;
                let payload = if fits { all_pieces(*kept) } else { self.captured(id, *kept) };
                self.frame(&Event::Closed { id, result }, payload);
            }
        }
    }

    /// Output that does not fit the last frame goes ahead of it, in frames of its own.
    fn captured(&mut self, id: u64, kept: [Option<Kept>; 3]) -> Vec<Piece> {
        for (stream, kept) in Stream::ALL.into_iter().zip(kept) {
            for piece in kept.into_iter().flat_map(pieces_of) {
                self.frame(&Event::Captured { id, stream }, vec![piece]);
            }
        }
        Vec::new()
    }

    fn frame(&mut self, event: &Event, payload: Vec<Piece>) {
        let length = payload.iter().map(|piece| piece.bytes().len()).sum();
        self.pieces.push_back(Piece::Bytes(encode_head(event, length)));
        self.pieces.extend(payload.into_iter().filter(|piece| !piece.bytes().is_empty()));
    }

    /// Writes what the client takes; an error means that there is no client any more.
    pub fn write(&mut self, client: impl AsFd) -> Result<(), Errno> {
        while !self.pieces.is_empty() {
            let mut skip = self.written;
            let parts: Vec<IoSlice<'_>> = self
                .pieces
                .iter()
                .take(PIECES)
                .map(|piece| IoSlice::new(&piece.bytes()[std::mem::take(&mut skip)..]))
                .collect();
            match rustix::io::writev(&client, &parts) {
                Ok(count) => self.took(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn took(&mut self, count: usize) {
        self.written += count;
        while let Some(piece) = self.pieces.front() {
            let length = piece.bytes().len();
            if self.written < length {
                return;
            }
            self.written -= length;
            self.pieces.pop_front();
        }
    }
}

fn all_pieces(kept: [Option<Kept>; 3]) -> Vec<Piece> {
    kept.into_iter().flatten().flat_map(pieces_of).collect()
}

/// The kept bytes in pieces that fit a frame.
fn pieces_of(kept: Kept) -> Vec<Piece> {
    let Some(region) = kept.region else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    for range in kept.pieces {
        for start in range.clone().step_by(MAX_PAYLOAD) {
            pieces.push(Piece::Mapped(Rc::clone(&region), start..range.end.min(start + MAX_PAYLOAD)));
        }
    }
    pieces
}
