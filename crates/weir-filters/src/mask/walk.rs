//! Copies valid JSON and replaces some members.

/// Appends `text` to `out` with `replacement` for the value of each selected member. Returns `true`
/// if a value was replaced, `None` if the text is nested too deeply. `text` must be valid JSON.
pub(super) fn mask(
    text: &str,
    members: &[Vec<String>],
    replacement: &str,
    out: &mut Vec<u8>,
) -> Option<bool> {
    let mut masker = JsonMasker {
        bytes: text.as_bytes(),
        at: 0,
        copied: 0,
        members,
        replacement: replacement.as_bytes(),
        out,
        nesting: 0,
        is_too_deep: false,
    };
    masker.value(u64::MAX >> (64 - members.len()), 0);
    if masker.is_too_deep {
        return None;
    }
    let copied = masker.copied;
    out.extend_from_slice(&text.as_bytes()[copied..]);
    Some(copied > 0)
}

struct JsonMasker<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Position up to which bytes are copied or replaced.
    copied: usize,
    members: &'a [Vec<String>],
    replacement: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Number of objects and arrays around the position.
    nesting: usize,
    is_too_deep: bool,
}

impl JsonMasker<'_> {
    /// Processes one value. `candidates` has a bit for every member path whose first `depth` names
    /// match.
    fn value(&mut self, candidates: u64, depth: usize) {
        self.skip_blanks();
        if self.nesting == NESTING_MAX {
            // At the end of the text, all callers return.
            self.is_too_deep = true;
            self.at = self.bytes.len();
        }
        self.nesting += 1;
        match self.peek() {
            b'{' => self.object(candidates, depth),
            b'[' => self.array(candidates, depth),
            b'"' => self.string(),
            _ => self.scalar(),
        }
        self.nesting -= 1;
    }

    fn object(&mut self, candidates: u64, depth: usize) {
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.peek() {
                b'"' => {}
                b',' => {
                    self.at += 1;
                    continue;
                }
                // The end of the object, or the end of the text, which valid JSON excludes.
                _ => break self.at += 1,
            }
            let start = self.at;
            self.string();
            let (matched, is_whole) =
                self.match_name(&self.bytes[start..self.at], candidates, depth);
            self.skip_blanks();
            self.at += 1; // the colon
            self.skip_blanks();
            let start = self.at;
            // A masked value has no further members to mask.
            self.value(if is_whole { 0 } else { matched }, depth + 1);
            if is_whole {
                self.replace(start);
            }
        }
    }

    /// Returns the member paths that match `quoted`, and `true` if it is the last name of one.
    fn match_name(&self, quoted: &[u8], candidates: u64, depth: usize) -> (u64, bool) {
        if candidates == 0 {
            return (0, false);
        }
        let plain = &quoted[1..quoted.len() - 1];
        // A name can be escaped in several ways.
        let decoded = match plain.contains(&b'\\') {
            true => serde_json::from_slice::<String>(quoted).ok(),
            false => None,
        };
        let name = decoded.as_ref().map_or(plain, |name| name.as_bytes());
        let (mut matched, mut is_whole) = (0, false);
        for (bit, member) in self.members.iter().enumerate() {
            let wanted = member.get(depth).filter(|_| candidates & (1 << bit) != 0);
            if wanted.is_some_and(|wanted| wanted == "*" || wanted.as_bytes() == name) {
                matched |= 1 << bit;
                is_whole |= member.len() == depth + 1;
            }
        }
        (matched, is_whole)
    }

    fn array(&mut self, candidates: u64, depth: usize) {
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.peek() {
                b']' | END => break self.at += 1,
                b',' => self.at += 1,
                _ => self.value(candidates, depth),
            }
        }
    }

    fn string(&mut self) {
        self.at += 1;
        loop {
            match self.peek() {
                b'\\' => self.at += 2,
                b'"' | END => break self.at += 1,
                _ => self.at += 1,
            }
        }
    }

    fn scalar(&mut self) {
        while !matches!(self.peek(), b',' | b'}' | b']' | END) && !is_blank(self.peek()) {
            self.at += 1;
        }
    }

    fn replace(&mut self, start: usize) {
        self.out.extend_from_slice(&self.bytes[self.copied..start]);
        self.out.extend_from_slice(self.replacement);
        self.copied = self.at;
    }

    fn skip_blanks(&mut self) {
        while is_blank(self.peek()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(END)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Maximum nesting, because each level takes space on the stack. As in other JSON parsers.
const NESTING_MAX: usize = 128;
/// Returned at the end of the text. Valid JSON does not contain this byte.
const END: u8 = 0;

#[cfg(test)]
mod tests;
