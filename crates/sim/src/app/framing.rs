//! Messages on a stream: each begins with a [header](HEADER) whose last four bytes are the length
//! of the message.

use tautline_base::Instant;

use super::AppError;
use super::traffic::stamp;

/// Bytes of a header: subject of the message (8), its number (4), its length with the header (4).
pub(super) const HEADER: usize = 16;

/// Writes the header of a message whose subject is its due time.
pub(super) fn stamp_message(message: &mut [u8], due: Instant, number: u64) {
    let label = number << 32 | message.len() as u64;
    stamp(message, due, label);
}

/// Parser state of a stream of messages.
#[derive(Debug, Default)]
pub(super) struct Reader {
    header: [u8; HEADER],
    /// Bytes of the header that were read.
    known: usize,
    /// Bytes of the message that are missing after its header.
    rest: usize,
}

impl Reader {
    /// Parses bytes of the stream in order, and calls `whole` with the header of each message that
    /// ends in them.
    pub(super) fn read(
        &mut self,
        mut data: &[u8],
        mut whole: impl FnMut(&[u8; HEADER]),
    ) -> Result<(), AppError> {
        while !data.is_empty() {
            if self.known < HEADER {
                let taken = data.len().min(HEADER - self.known);
                self.header[self.known..][..taken].copy_from_slice(&data[..taken]);
                self.known += taken;
                data = &data[taken..];
                if self.known < HEADER {
                    break;
                }
                let [.., a, b, c, d] = self.header;
                let short = AppError::Protocol("a message is shorter than its header");
                self.rest = (u32::from_be_bytes([a, b, c, d]) as usize)
                    .checked_sub(HEADER)
                    .ok_or(short)?;
            }
            let taken = data.len().min(self.rest);
            self.rest -= taken;
            data = &data[taken..];
            if self.rest == 0 {
                self.known = 0;
                whole(&self.header);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for (number, length) in [(0u64, 16usize), (1, 17), (2, 100)] {
            let mut message = vec![9; length];
            stamp_message(&mut message, Instant::from_nanos(5 + number), number);
            stream.extend(message);
        }
        for cut in [1, 15, 16, 17, 1000] {
            let (mut reader, mut due) = (Reader::default(), Vec::new());
            stream.chunks(cut).for_each(|part| {
                reader
                    .read(part, |header| due.push(header[7]))
                    .expect("messages")
            });
            assert_eq!(due, [5, 6, 7], "cut every {cut} bytes");
        }
        assert!(Reader::default().read(&[0; 16], |_| {}).is_err());
    }
}
