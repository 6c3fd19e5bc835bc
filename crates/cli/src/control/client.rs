//! Clients of the control socket.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};

use super::capture::Wanted;
use super::request::{Answer, Request, write_line};
use crate::failure::Failure;

/// Sends `request` to the middlebox at `socket`.
///
/// # Errors
/// If no server listens there, or this version cannot parse the answer.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    converse(&UnixStream::connect(socket)?, request)
}

pub(super) fn converse(stream: &UnixStream, request: &Request) -> io::Result<Answer> {
    answer_to(stream, request, &mut BufReader::new(stream))
}

/// Sends `request`, and reads its answer. A server that takes no request may have said why.
fn answer_to(
    stream: &UnixStream,
    request: &Request,
    answers: &mut impl BufRead,
) -> io::Result<Answer> {
    let sent = write_line(stream, request);
    read_answer(answers).or_else(|error| sent.and(Err(error)))
}

fn read_answer(from: &mut impl BufRead) -> io::Result<Answer> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Writes the packets of the bridge at `socket` to `out` as pcapng until either end closes.
///
/// # Errors
/// If no server listens there, it refuses, or `out` cannot be written.
pub fn capture(socket: &Path, wanted: &Wanted, out: &mut File) -> Result<(), Failure> {
    let stream = UnixStream::connect(socket).map_err(Failure::file(socket))?;
    let request = Request::Capture(wanted.clone());
    let mut packets = BufReader::new(&stream);
    if let Some(why) = answer_to(&stream, &request, &mut packets)?.error {
        return Err(Failure::Refused(why));
    }
    while !packets.buffer().is_empty() || !is_closed(&stream, out)? {
        let bytes = packets.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        match out.write_all(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        let len = bytes.len();
        packets.consume(len);
    }
    Ok(())
}

/// Waits for packets; true if the reader of `out` is gone.
fn is_closed(packets: &UnixStream, out: &File) -> io::Result<bool> {
    let mut ends = [
        PollFd::new(packets, PollFlags::IN),
        PollFd::new(out, PollFlags::empty()),
    ];
    while ends.iter().all(|end| end.revents().is_empty()) {
        match poll(&mut ends, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ends[1].revents().contains(PollFlags::ERR))
}
