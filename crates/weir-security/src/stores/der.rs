//! Reader of DER, as far as key stores and certificates need it. Lengths are checked against the
//! bytes that are present.

/// Error of a DER structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DerError;

/// Remaining bytes of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const BMP_STRING: u8 = 0x1e;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Returns the tag of a constructed, context-specific element.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

impl<'a> Der<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tag of the next element.
    pub(super) fn peek(self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Reads the next element: tag, content, and the whole with its header.
    pub(super) fn any(&mut self) -> Result<(u8, Self, &'a [u8]), DerError> {
        let whole = self.0;
        let (&tag, rest) = whole.split_first().ok_or(DerError)?;
        let (&first, mut rest) = rest.split_first().ok_or(DerError)?;
        if tag & 0x1f == 0x1f {
            return Err(DerError); // tags of several bytes do not occur
        }
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let count = usize::from(first & 0x7f);
            // 0 is the indefinite length of BER.
            if !(1..=4).contains(&count) {
                return Err(DerError);
            }
            let bytes = rest.get(..count).ok_or(DerError)?;
            rest = &rest[count..];
            length = bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        }
        let content = rest.get(..length).ok_or(DerError)?;
        self.0 = &rest[length..];
        let end = whole.len() - self.0.len();
        Ok((tag, Der(content), &whole[..end]))
    }

    /// Reads the next element, which must have this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<Self, DerError> {
        match self.any()? {
            (found, content, _) if found == tag => Ok(content),
            _ => Err(DerError),
        }
    }

    /// Reads the next element if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Self>, DerError> {
        match self.peek() {
            Some(found) if found == tag => self.expect(tag).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads a non-negative integer that fits 32 bits.
    pub(super) fn unsigned(&mut self) -> Result<u32, DerError> {
        let bytes = self.expect(INTEGER)?.0;
        let negative = bytes.first().is_none_or(|first| first & 0x80 != 0);
        let significant = bytes.iter().skip_while(|byte| **byte == 0);
        if negative || significant.clone().count() > 4 {
            return Err(DerError);
        }
        Ok(significant.fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }

    /// Reads an AlgorithmIdentifier: its object identifier and its parameters.
    pub(super) fn algorithm(&mut self) -> Result<(&'a [u8], Self), DerError> {
        let mut algorithm = self.expect(SEQUENCE)?;
        Ok((algorithm.expect(OID)?.0, algorithm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked() {
        let mut der = Der(&[0x30, 0x03, 0x02, 0x01, 0x05, 0xff]);
        let mut inner = der.expect(SEQUENCE).expect("a sequence");
        assert_eq!(inner.unsigned(), Ok(5));
        assert!(inner.is_empty());
        assert_eq!(der.0, [0xff]);
        for bad in [
            &[0x30, 0x04, 0x02, 0x01, 0x05][..],
            &[0x30, 0x80, 0x00, 0x00],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0x85, 0, 0, 0, 0, 0],
            &[0x1f, 0x81, 0x00],
            &[0x30],
            &[],
        ] {
            assert_eq!(Der(bad).any(), Err(DerError), "{bad:?}");
        }
        assert_eq!(Der(&[0x02, 0x01, 0x80]).unsigned(), Err(DerError));
        assert_eq!(Der(&[0x02, 0x02, 0x00, 0x80]).unsigned(), Ok(128));
        assert_eq!(Der(&[0x02, 0x00]).unsigned(), Err(DerError));
    }
}
