//! [`ClassId`]: the name of a class or of a qdisc's handle, as `tc` writes it: `1:10`, `8001:`.

use core::error::Error;
use core::fmt;
use core::str::FromStr;

/// A class of a qdisc: the qdisc's handle (major) and the class's number in it (minor), both
/// written in hexadecimal. Minor 0 names the qdisc itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId {
    /// Handle of the qdisc.
    pub major: u16,
    /// Number of the class within it.
    pub minor: u16,
}

impl ClassId {
    /// The class `major:minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// The qdisc this class belongs to.
    pub const fn discipline(self) -> Self {
        Self {
            major: self.major,
            minor: 0,
        }
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            0 => write!(f, "{:x}:", self.major),
            minor => write!(f, "{:x}:{minor:x}", self.major),
        }
    }
}

/// A text that names no class. A program passes it on with `?`, as any error:
///
/// ```
/// use tautline_qdisc::ClassId;
///
/// fn leaf(text: &str) -> Result<ClassId, Box<dyn std::error::Error>> {
///     Ok(text.parse()?)
/// }
/// assert_eq!(leaf("1:10")?, ClassId::new(1, 0x10));
/// assert!(leaf("10").unwrap_err().to_string().ends_with("e.g. 1:10"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoClassId;

impl fmt::Display for NoClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no class: write handle and number in hexadecimal, e.g. 1:10")
    }
}

impl Error for NoClassId {}

impl FromStr for ClassId {
    type Err = NoClassId;

    fn from_str(text: &str) -> Result<Self, NoClassId> {
        let (major, minor) = text.split_once(':').ok_or(NoClassId)?;
        let number = |digits: &str| {
            let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !plain {
                return Err(NoClassId);
            }
            if digits.is_empty() {
                Ok(0)
            } else {
                u16::from_str_radix(digits, 16).map_err(|_| NoClassId)
            }
        };
        let class = Self {
            major: number(major)?,
            minor: number(minor)?,
        };
        if class == Self::default() {
            Err(NoClassId)
        } else {
            Ok(class)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_are_hexadecimal() {
        for (text, class) in [
            ("1:", ClassId::new(1, 0)),
            ("1:10", ClassId::new(1, 16)),
            ("ffff:fff1", ClassId::new(0xffff, 0xfff1)),
        ] {
            assert_eq!(text.parse(), Ok(class));
            assert_eq!(class.to_string(), text);
        }
        assert_eq!(":3".parse(), Ok(ClassId::new(0, 3)));
        for text in ["", ":", "1", "1:2:3", "g:1", "12345:1", "+1:2", "0:0"] {
            assert_eq!(text.parse::<ClassId>(), Err(NoClassId), "{text}");
        }
    }
}
