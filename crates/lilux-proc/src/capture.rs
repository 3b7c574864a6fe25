//! What a tool wrote, within a cap: the first bytes and the last ones.
//!
//! A stream is always read to its end. Up to the cap everything is kept; beyond it the first half stays and the second half
//! becomes a ring that the newest bytes run through. Reading goes straight into that memory, so a flood is not copied.

use std::io::IoSliceMut;
use std::ops::Range;
use std::rc::Rc;

use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::protocol::{Sha256Sum, StreamCounts};
use crate::sys::region::{Pool, Region};

/// The captured bytes of one stream while it is being read.
pub struct Capture {
    cap: usize,
    region: Option<Region>,
    total: u64,
    digest: Option<Sha256>,
}

/// The kept bytes, as ranges of one block of memory, in order.
pub struct Kept {
    pub region: Option<Rc<Region>>,
    pub pieces: Vec<Range<usize>>,
    pub counts: StreamCounts,
}

impl Capture {
    /// Keeps at most `cap` bytes; `digested` ones are hashed, too.
    pub fn new(cap: u64, digested: bool) -> Self {
        Self {
            cap: usize::try_from(cap).unwrap_or(usize::MAX),
            region: None,
            total: 0,
            digest: digested.then(Sha256::new),
        }
    }

    /// Nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn head(&self) -> usize {
        self.cap / 2
    }

    /// Where the next byte goes.
    fn cursor(&self) -> usize {
        let (cap, head) = (self.cap as u64, self.head() as u64);
        let place = if self.total < cap { self.total } else { head + (self.total - cap) % (cap - head) };
        place as usize
    }

    /// Memory to read into, in the order it fills; `advance` says how much was read.
    pub fn spare(&mut self, pool: &Pool) -> Result<[IoSliceMut<'_>; 2], Errno> {
        let (cursor, head, cap) = (self.cursor(), self.head(), self.cap);
        let wraps = self.total >= cap as u64;
        if self.region.is_none() {
            self.region = Some(pool.take(cap)?);
        }
        let region = self.region.as_mut().ok_or(Errno::NOMEM)?;
        let (before, after) = region.split_at_mut(cursor);
        let second = if wraps { &mut before[head..] } else { &mut [] };
        Ok([IoSliceMut::new(after), IoSliceMut::new(second)])
    }

    /// Accounts for `count` bytes just read into `spare`, and shows where they are. Every byte passes here once, so the
    /// digest is that of the whole stream, also of what the ring overwrites.
    pub fn advance(&mut self, count: usize) -> [&[u8]; 2] {
        let start = self.cursor();
        let first = count.min(self.cap - start);
        let head = self.head();
        self.total += count as u64;
        let bytes: &[u8] = self.region.as_deref().unwrap_or_default();
        let parts = [&bytes[start..start + first], &bytes[head..head + (count - first)]];
        if let Some(digest) = &mut self.digest {
            parts.iter().for_each(|part| digest.update(part));
        }
        parts
    }

    /// Adds bytes that were read elsewhere.
    pub fn append(&mut self, pool: &Pool, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let mut taken = 0;
            for mut part in self.spare(pool)? {
                let count = part.len().min(bytes.len() - taken);
                part[..count].copy_from_slice(&bytes[taken..taken + count]);
                taken += count;
            }
            self.advance(taken);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// All that was written, from the start; only before anything was overwritten.
    pub fn whole(&self) -> &[u8] {
        debug_assert!(self.total <= self.cap as u64);
        let bytes: &[u8] = self.region.as_deref().unwrap_or_default();
        &bytes[..bytes.len().min(self.total as usize)]
    }

    /// Everything written so far is here, and not one byte more would fit.
    pub fn is_full(&self) -> bool {
        self.total == self.cap as u64
    }

    /// So many bytes more would not all fit.
    pub fn would_overflow(&self, count: usize) -> bool {
        self.total + count as u64 > self.cap as u64
    }

    /// Ends the capture. Cuts are moved so that no UTF-8 character is torn.
    pub fn finish(self) -> Kept {
        let pieces = self.pieces();
        let length = |pieces: &[Range<usize>]| pieces.iter().map(|piece| piece.len() as u64).sum();
        let kept = length(&pieces);
        let counts = StreamCounts {
            kept,
            head: pieces.first().map_or(0, |piece| piece.len() as u64),
            total: self.total,
            omitted: self.total - kept,
            sha256: self.digest.map(|digest| Sha256Sum(digest.finalize().into())),
            ..StreamCounts::default()
        };
        Kept { region: self.region.map(Rc::new), pieces, counts }
    }

    fn pieces(&self) -> Vec<Range<usize>> {
        let (cap, head, cursor) = (self.cap, self.head(), self.cursor());
        if self.total <= cap as u64 {
            let all = 0..self.total as usize;
            return vec![all];
        }
        let bytes: &[u8] = self.region.as_deref().unwrap_or_default();
        let end_of_head = whole_characters(&bytes[..head]);
        let torn = torn_start([&bytes[cursor..cap], &bytes[head..cursor]]);
        let first = (cursor + torn).min(cap)..cap;
        let second = head + (torn - (first.start - cursor))..cursor;
        vec![0..end_of_head, first, second]
    }
}

/// The length of `bytes` without a character that is cut off at its end.
fn whole_characters(bytes: &[u8]) -> usize {
    let length = bytes.len();
    for back in 1..=length.min(3) {
        let byte = bytes[length - back];
        if is_continuation(byte) {
            continue;
        }
        let needed = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if needed > back { length - back } else { length };
    }
    length
}

/// How many bytes at the start belong to a character whose beginning is gone.
fn torn_start(parts: [&[u8]; 2]) -> usize {
    parts.into_iter().flatten().take(3).take_while(|byte| is_continuation(**byte)).count()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_of(capture: Capture) -> (Vec<u8>, StreamCounts) {
        let kept = capture.finish();
        let region = kept.region;
        let bytes: &[u8] = region.as_ref().map_or(&[], |region| region);
        let joined = kept.pieces.iter().flat_map(|piece| bytes[piece.clone()].to_vec()).collect();
        (joined, kept.counts)
    }

    /// What the rule says, computed the simple way.
    fn expected(written: &[u8], cap: usize) -> Vec<u8> {
        if written.len() <= cap {
            return written.to_vec();
        }
        let head = &written[..cap / 2];
        let tail = &written[written.len() - (cap - cap / 2)..];
        [&head[..whole_characters(head)], &tail[torn_start([tail, &[]])..]].concat()
    }

    #[test]
    fn head_and_tail_are_kept_whatever_the_pieces() {
        let text: Vec<u8> = "aż€😀".bytes().cycle().take(997).collect();
        for cap in [8, 9, 10, 64, 500, 996, 997, 998] {
            for piece in [1, 2, 3, 7, 64, 997] {
                for length in [0, 1, cap - 1, cap.min(997), (cap + 1).min(997), 997] {
                    let mut capture = Capture::new(cap as u64, true);
                    let pool = Pool::default();
                    for part in text[..length.min(997)].chunks(piece) {
                        capture.append(&pool, part).expect("memory");
                    }
                    let (bytes, counts) = kept_of(capture);
                    assert_eq!(bytes, expected(&text[..length.min(997)], cap), "{cap} {piece} {length}");
                    assert_eq!(counts.omitted + counts.kept, counts.total);
                    assert_eq!(counts.total, length.min(997) as u64);
                    let all = Sha256::digest(&text[..length.min(997)]);
                    assert_eq!(counts.sha256, Some(Sha256Sum(all.into())), "{cap} {piece} {length}");
                }
            }
        }
    }

    #[test]
    fn a_cut_never_tears_a_character() {
        for shift in 0..8 {
            let text = format!("{}{}", "x".repeat(shift), "😀ż".repeat(200));
            let mut capture = Capture::new(65, false);
            capture.append(&Pool::default(), text.as_bytes()).expect("memory");
            let head = capture.finish().counts.head as usize;
            assert!(text.is_char_boundary(head));
            let mut again = Capture::new(65, false);
            again.append(&Pool::default(), text.as_bytes()).expect("memory");
            let (bytes, _) = kept_of(again);
            assert!(std::str::from_utf8(&bytes).is_ok(), "shift {shift}");
        }
    }

    #[test]
    fn binary_output_is_counted_exactly() {
        let mut capture = Capture::new(32, false);
        capture.append(&Pool::default(), &[0x80; 1000]).expect("memory");
        let counts = capture.finish().counts;
        assert_eq!((counts.total, counts.kept + counts.omitted), (1000, 1000));
        assert_eq!(counts.sha256, None, "nobody asked for it");
    }
}
