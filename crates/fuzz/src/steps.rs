//! [`Steps`]: the steps of a case.

use arbitrary::{Arbitrary, Result, Unstructured};

/// Steps until the bytes are used up. A `Vec` of random bytes ends after one step on average, since
/// every second byte says so.
#[derive(Debug)]
pub struct Steps<T>(pub Vec<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Steps<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let mut steps = Vec::new();
        while !bytes.is_empty() {
            steps.push(T::arbitrary(bytes)?);
        }
        Ok(Self(steps))
    }
}
