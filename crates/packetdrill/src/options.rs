//! TCP options between a script's values and bytes (RFC 9293 §3.2, 7323 §2 and §3, 2018 §2 and §3).

use crate::syntax::TcpOption;

/// The option of TCP Fast Open (RFC 7413 §4.1.1).
pub(crate) const FAST_OPEN: u8 = 34;

/// The options of AccECN: the counts begin with the bytes of ECT(0), or of ECT(1) (RFC 9768 §3.2.3).
pub(crate) const ACCURATE_ECN_0: u8 = 172;
pub(crate) const ACCURATE_ECN_1: u8 = 174;

/// Bytes of `options`, padded to a multiple of four.
///
/// # Errors
/// More than the 40 bytes that a header has for options, or a cookie that is not known.
pub(crate) fn encode(options: &[TcpOption]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for option in options {
        match option {
            TcpOption::Nop => bytes.push(1),
            TcpOption::End => bytes.push(0),
            TcpOption::Mss(size) => bytes.extend([&[2, 4][..], &size.to_be_bytes()].concat()),
            TcpOption::WindowScale(shift) => bytes.extend([3, 3, *shift]),
            TcpOption::SackPermitted => bytes.extend([4, 2]),
            TcpOption::Sack(blocks) => {
                bytes.extend([5, 2 + 8 * blocks.len() as u8]);
                let edges = blocks
                    .iter()
                    .flat_map(|(left, right)| [left.to_be_bytes(), right.to_be_bytes()]);
                bytes.extend(edges.flatten());
            }
            TcpOption::Timestamp(value, echo) => {
                bytes.extend([8, 10]);
                bytes.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
            }
            TcpOption::FastOpenCookie => {
                return Err("the stack has given no Fast Open cookie yet".into());
            }
            TcpOption::Other(kind, value) => {
                bytes.extend([*kind, 2 + value.len() as u8]);
                bytes.extend(value);
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    if bytes.len() > 40 {
        return Err(format!(
            "{} bytes of options; a header has 40 at most",
            bytes.len()
        ));
    }
    Ok(bytes)
}

/// The options in `bytes`, padding included.
///
/// # Errors
/// A length that does not fit.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<TcpOption>, String> {
    let mut options = Vec::new();
    let mut rest = bytes;
    while let Some((&kind, after)) = rest.split_first() {
        if kind < 2 {
            options.push(if kind == 1 {
                TcpOption::Nop
            } else {
                TcpOption::End
            });
            rest = after;
            continue;
        }
        let len = usize::from(*after.first().ok_or("an option lacks its length")?);
        let value = rest
            .get(2..len)
            .ok_or("an option is longer than the header")?;
        options.push(option(kind, value));
        rest = &rest[len..];
    }
    Ok(options)
}

fn option(kind: u8, value: &[u8]) -> TcpOption {
    let word =
        |at: usize| u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
    match (kind, value.len()) {
        (2, 2) => TcpOption::Mss(u16::from_be_bytes([value[0], value[1]])),
        (3, 1) => TcpOption::WindowScale(value[0]),
        (4, 0) => TcpOption::SackPermitted,
        (5, len) if len.is_multiple_of(8) => TcpOption::Sack(
            (0..len)
                .step_by(8)
                .map(|at| (word(at), word(at + 4)))
                .collect(),
        ),
        (8, 8) => TcpOption::Timestamp(word(0), word(4)),
        _ => TcpOption::Other(kind, value.to_vec()),
    }
}

/// The options in the form that is compared: without padding, each kind once, in the order of kinds.
pub(crate) fn canonical(options: &[TcpOption]) -> Vec<TcpOption> {
    let order = |option: &TcpOption| match option {
        TcpOption::Nop | TcpOption::End => 0,
        TcpOption::Mss(_) => 2,
        TcpOption::WindowScale(_) => 3,
        TcpOption::SackPermitted => 4,
        TcpOption::Sack(_) => 5,
        TcpOption::Timestamp(..) => 8,
        TcpOption::FastOpenCookie => u16::from(FAST_OPEN) + 256,
        TcpOption::Other(kind, _) => u16::from(*kind) + 256,
    };
    let mut kept: Vec<_> = options
        .iter()
        .filter(|option| order(option) > 0)
        .cloned()
        .collect();
    kept.sort_by_key(order);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        let options = vec![
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamp(1, 2),
            TcpOption::Nop,
            TcpOption::WindowScale(7),
        ];
        assert_eq!(
            decode(&encode(&options).expect("20 bytes")).expect("options"),
            options
        );
        let sack = vec![
            TcpOption::Nop,
            TcpOption::Nop,
            TcpOption::Sack(vec![(1, 2), (3, 4)]),
        ];
        assert_eq!(
            decode(&encode(&sack).expect("20 bytes")).expect("options"),
            sack
        );
    }

    #[test]
    fn a_length_beyond_the_header_is_an_error() {
        assert!(decode(&[2, 4, 5]).is_err());
        assert!(decode(&[2]).is_err());
        assert!(decode(&[8, 0, 0, 0]).is_err());
    }
}
