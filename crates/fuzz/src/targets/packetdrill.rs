//! Any text, and texts made of the language's pieces, as a packetdrill script; one that parses is
//! played, and may fail but neither panic nor spin.

use arbitrary::Arbitrary;
use tautline_packetdrill::{Rules, Script, run as play};

/// Pieces that make a text more likely to parse.
const PIECES: [&str; 24] = [
    "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n",
    "+0 bind(3, ..., ...) = 0\n",
    "+0 listen(3, 1) = 0\n",
    "+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>\n",
    "+0 > S. 0:0(0) ack 1 <...>\n",
    "+.1 < . 1:1(0) ack 1 win 257\n",
    "+0 accept(3, ..., ...) = 4\n",
    "+0 write(4, ..., 5000) = 5000\n",
    "+0 read(4, ..., 5000) = 0\n",
    "+0 > P. 1:5001(5000) ack 1\n",
    "* > . 1:1(0) ack 1 <...>\n",
    "+.1 < P. 1:101(100) ack 1 win 257 <nop,nop,sack 1001:2001>\n",
    "+.1 < F. 1:1(0) ack 1 win 257\n",
    "+.1 < R. 1:1(0) ack 1 win 257\n",
    "+0 %{ assert tcpi_snd_cwnd == 10 }%\n",
    "+0 shutdown(4, SHUT_WR) = 0\n",
    "+0 close(4) = 0\n",
    "+0 setsockopt(3, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0\n",
    "+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)\n",
    "+0...+.1 read(4, ..., 2000) = 500\n",
    "`sysctl -q net.ipv4.tcp_ecn=1`\n",
    "--ip_version=ipv6\n",
    "+.1 < icmp unreachable frag_needed mtu 1300 [1:1441(1440)]\n",
    "+0~+.5 > [ect0] . 1:1(0) ack 1\n",
];
/// Bytes that a script may move or expect in all: a script can ask for gigabytes.
const MOST_LEN: u32 = 100_000;

/// A case.
#[derive(Arbitrary, Debug)]
pub struct Input<'a> {
    ipv6: bool,
    pieces: Vec<Piece<'a>>,
}

#[derive(Arbitrary, Debug)]
enum Piece<'a> {
    Known(u8),
    Any(&'a str),
}

/// Runs one case.
pub fn run(input: Input<'_>) {
    let text: String = input
        .pieces
        .iter()
        .take(40)
        .map(|piece| match piece {
            Piece::Known(number) => PIECES[usize::from(*number) % PIECES.len()],
            Piece::Any(text) => text,
        })
        .collect();
    match Script::parse(&text) {
        Ok(script) if is_small(&text) => {
            let rules = Rules {
                ipv6: input.ipv6,
                ..Rules::default()
            };
            let _ = play(&script, &rules);
        }
        Ok(_) => {}
        Err(error) => {
            let lines = text.matches('\n').count() + 1;
            assert!(error.line <= lines, "an error beyond the text");
        }
    }
}

/// Whether no number in the text is large.
fn is_small(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit())
        .all(|digits| digits.is_empty() || digits.parse().is_ok_and(|n: u32| n <= MOST_LEN))
}
