//! Frames: `u32 header length │ u32 payload length │ JSON header │ payload`, big endian.
//!
//! Bytes are cut and requests parsed here, without any I/O. A stream that has lost its framing is an error for good; a
//! request that makes no sense costs only itself.

use serde::Deserialize;

use crate::error::{FrameError, RequestError};
use crate::protocol::{Event, MAX_HEADER, MAX_PAYLOAD, Request};

const PREFIX: usize = 8;

/// A frame's header as sent, ready to be followed by its payload.
pub fn encode_head(event: &Event, payload_length: usize) -> Vec<u8> {
    debug_assert!(payload_length <= MAX_PAYLOAD);
    let mut frame = vec![0; PREFIX];
    serde_json::to_writer(&mut frame, event).expect("events hold nothing that JSON cannot");
    let header_length = (frame.len() - PREFIX) as u32;
    frame[..4].copy_from_slice(&header_length.to_be_bytes());
    frame[4..PREFIX].copy_from_slice(&(payload_length as u32).to_be_bytes());
    frame
}

/// A request with its payload, or why that one request is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Incoming {
    pub id: u64,
    pub request: Result<Request, RequestError>,
    pub payload: Vec<u8>,
    /// How many descriptors came along with it.
    pub descriptors: usize,
}

#[derive(Deserialize)]
struct Envelope {
    id: u64,
    /// Also of a request that makes no sense: those of the next one must not be taken for its own.
    #[serde(default)]
    descriptors: Vec<serde::de::IgnoredAny>,
}

fn parse(header: &[u8], payload: &[u8]) -> Result<Incoming, FrameError> {
    let payload = payload.to_vec();
    match serde_json::from_slice::<Request>(header) {
        Ok(request) => {
            let descriptors = request.descriptors();
            Ok(Incoming { id: request.id(), request: Ok(request), payload, descriptors })
        }
        Err(error) => {
            // Without an id there is nobody to answer, so the frame itself counts as broken.
            let envelope: Envelope =
                serde_json::from_slice(header).map_err(|_| FrameError::Malformed(error.to_string()))?;
            let refusal = RequestError::new("invalid_request", "request", error.to_string());
            let descriptors = envelope.descriptors.len();
            Ok(Incoming { id: envelope.id, request: Err(refusal), payload, descriptors })
        }
    }
}

/// Cuts a stream of bytes into requests.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Takes whatever came, in whatever pieces.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub fn next(&mut self) -> Result<Option<Incoming>, FrameError> {
        let waiting = &self.buffer[self.start..];
        let Some((header_length, payload_length)) = lengths(waiting)? else {
            return Ok(None);
        };
        let (payload_start, end) = (PREFIX + header_length, PREFIX + header_length + payload_length);
        if waiting.len() < end {
            return Ok(None);
        }
        let incoming = parse(&waiting[PREFIX..payload_start], &waiting[payload_start..end]);
        self.start += end;
        self.release();
        incoming.map(Some)
    }

    /// Nothing of a further frame is there yet.
    pub fn is_between_frames(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// To be called at end of file: an unfinished frame is an error.
    pub fn finish(&self) -> Result<(), FrameError> {
        let waiting = &self.buffer[self.start..];
        let missing = match lengths(waiting)? {
            _ if waiting.is_empty() => return Ok(()),
            None => PREFIX - waiting.len(),
            Some((header, payload)) => PREFIX + header + payload - waiting.len(),
        };
        Err(FrameError::Truncated { missing })
    }

    /// One huge request must not leave its memory behind for good.
    fn release(&mut self) {
        if self.start == self.buffer.len() && self.buffer.capacity() > 1024 * 1024 {
            self.buffer = Vec::new();
            self.start = 0;
        }
    }
}

fn lengths(waiting: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let Some((prefix, _)) = waiting.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let [a, b, c, d, e, f, g, h] = *prefix;
    let (header, payload) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    for (part, found, limit) in [("header", header, MAX_HEADER), ("payload", payload, MAX_PAYLOAD)] {
        if found as usize > limit {
            return Err(FrameError::TooLarge { part, found, limit });
        }
    }
    Ok(Some((header as usize, payload as usize)))
}
