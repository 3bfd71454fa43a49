//! Lines of limited length from a pipe.

use std::io::{BufRead, BufReader, Read, Take};

pub(super) struct Lines<R> {
    input: Take<BufReader<R>>,
    bytes_max: u64,
}

/// Line, without its end.
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R, bytes_max: u64) -> Self {
        Self {
            input: BufReader::new(input).take(bytes_max),
            bytes_max,
        }
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = Line;

    /// Returns `None` at the end of the input; an incomplete last line is dropped.
    fn next(&mut self) -> Option<Line> {
        self.input.set_limit(self.bytes_max);
        let mut line = Vec::new();
        self.input.read_until(b'\n', &mut line).ok()?;
        match line.pop()? {
            b'\n' => Some(Line::Whole(line)),
            _ => (self.input.limit() == 0).then_some(Line::TooLong),
        }
    }
}
