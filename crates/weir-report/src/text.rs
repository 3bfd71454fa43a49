//! Text for a terminal: width, line breaks and colours.

/// Returns the text in the colour of a class if `color` is set; other classes have none.
pub(crate) fn paint(class: &str, text: &str, color: bool) -> String {
    let code = match class {
        "strong" => 1,
        "open" => 2,
        "bad" => 31,
        "ok" => 32,
        "warn" => 33,
        _ => 0,
    };
    match color && code > 0 {
        true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}

/// Breaks a text that starts at column `at` into lines of `width`; further lines start there too.
pub(crate) fn wrap(text: &str, at: usize, width: usize) -> String {
    let room = width.saturating_sub(at).max(20);
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split_whitespace() {
        let size = length(word);
        if used > 0 && used + 1 + size > room {
            out.push_str(&format!("\n{:at$}", ""));
            used = 0;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += size;
    }
    out
}

pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

pub(crate) fn clip(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let start = text.chars().take(width.saturating_sub(1));
    start.chain(['…']).collect()
}
