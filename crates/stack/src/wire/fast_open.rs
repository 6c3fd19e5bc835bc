//! [`FastOpenCookie`]: the option of TCP Fast Open (RFC 7413 §4.1.1).

/// Most bytes of a cookie.
const MOST: usize = 16;
/// Least bytes of a cookie that is not empty.
const LEAST: usize = 4;

/// A cookie; an empty one asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FastOpenCookie {
    len: u8,
    bytes: [u8; MOST],
}

impl FastOpenCookie {
    /// Asks for a cookie.
    pub(crate) const REQUEST: Self = Self {
        len: 0,
        bytes: [0; MOST],
    };

    /// The option's value; `None` if its length is odd or out of range.
    pub(super) fn from_wire(value: &[u8]) -> Option<Self> {
        let is_allowed = value.is_empty() || (LEAST..=MOST).contains(&value.len());
        if !is_allowed || value.len() % 2 == 1 {
            return None;
        }
        let mut bytes = [0; MOST];
        bytes[..value.len()].copy_from_slice(value);
        let len = value.len() as u8;
        Some(Self { len, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(crate) fn is_request(&self) -> bool {
        self.len == 0
    }
}

/// A cookie of eight bytes, as Linux gives.
impl From<u64> for FastOpenCookie {
    fn from(value: u64) -> Self {
        let mut cookie = Self {
            len: 8,
            ..Self::REQUEST
        };
        cookie.bytes[..8].copy_from_slice(&value.to_be_bytes());
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_even_and_from_4_to_16_or_0() {
        let bytes = [7; 20];
        for len in 0..=20 {
            let cookie = FastOpenCookie::from_wire(&bytes[..len]);
            let is_allowed = [0, 4, 6, 8, 10, 12, 14, 16].contains(&len);
            assert_eq!(
                cookie.map(|cookie| cookie.bytes().len()),
                is_allowed.then_some(len)
            );
        }
    }
}
