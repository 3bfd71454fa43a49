//! Words that the project does not use, each with the word to write instead, and shapes of comments
//! and names that a reader has to decode.
//!
//! A line is matched without regard to case, with `_` as a blank and a blank between a lower-case
//! and an upper-case letter, so one pattern finds prose, `snake_case` and `CamelCase`.

use regex::{Regex, RegexSet};

/// Where a pattern applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Everywhere,
    /// Rust files of the crates.
    Crates,
    /// Rust files of crates that speak a protocol.
    Protocols,
}

/// Patterns, what to write instead, and where.
const WORDS: [(&str, &str, Scope); 41] = [
    (r"\bpatien(ce|t)\b", "timeout, deadline", Scope::Everywhere),
    (r"\bdoors?\b", "listener", Scope::Everywhere),
    (r"\bcrews?\b", "workers, agents, drivers", Scope::Everywhere),
    (r"\berrands?\b", "forwarded request", Scope::Everywhere),
    (r"\bcouriers?\b", "session writer", Scope::Everywhere),
    (
        r"\bwish(es|ed)?\b",
        "interest, subscription",
        Scope::Everywhere,
    ),
    (r"\btubes?\b", "pipe", Scope::Everywhere),
    (r"\bguests?\b|\bhall\b", "subscriber", Scope::Everywhere),
    (
        r"\b(storeys?|roof|stairs?)\b|\b(ground|room) crates?\b|\brooms never\b",
        "binary, products, tools, foundations",
        Scope::Everywhere,
    ),
    (
        r"\btold\b",
        "reported, advertised, configured",
        Scope::Everywhere,
    ),
    (
        r"\btell(s|ing)?\b",
        "report, return, send, distinguish",
        Scope::Everywhere,
    ),
    (r"\b(un)?hear(s|d|ing)?\b", "receive", Scope::Everywhere),
    (
        r"\blearn(s|ed|t)?\b",
        "backfill, register, record",
        Scope::Crates,
    ),
    (r"\bmails?\b", "event", Scope::Crates),
    (
        r"\b(somebody|anybody|everybody|nobody|whoever)\b",
        "name the actor: client, subscriber, peer",
        Scope::Everywhere,
    ),
    (
        r"\b(go|goes|going|gone|went) on\b",
        "continue, resume",
        Scope::Everywhere,
    ),
    (r"\banew\b", "again, from scratch", Scope::Everywhere),
    (r"\bbeside\b", "next to, alongside", Scope::Everywhere),
    (
        r"\b(at most|at least|of|for|after|with|up to|one of|than) so (many|much|long|often)\b",
        "name the parameter",
        Scope::Everywhere,
    ),
    (
        r"\breckon(s|ed|ing)?\b",
        "compute, estimate",
        Scope::Everywhere,
    ),
    (
        r"\b(farewell|good-?bye)s?\b|\bsigns? of life\b",
        "close_notify, END, LeaveGroup, heartbeat",
        Scope::Everywhere,
    ),
    (r"\bthere and back\b", "round trip", Scope::Everywhere),
    (
        r"\b(lied|honest(y)?|babbles?)\b",
        "impossible result, mismatch",
        Scope::Everywhere,
    ),
    (
        r"\blast words\b",
        "last log line, pending alert",
        Scope::Everywhere,
    ),
    (
        r"\b(strangers?|newcomers?)\b",
        "new client, unknown row",
        Scope::Everywhere,
    ),
    (r"\b(turned|sen[dt]) away\b", "reject", Scope::Everywhere),
    (r"\btroubles?\b", "error, problem", Scope::Everywhere),
    (r"\btime-outs?\b", "timeout", Scope::Everywhere),
    (r"\bcan not\b", "cannot", Scope::Everywhere),
    (r"\bfor ever\b", "forever", Scope::Everywhere),
    (r"\bprocessor time\b", "CPU time", Scope::Everywhere),
    (
        r"\bfor (a )?(people|person|persons)\b",
        "human-readable",
        Scope::Everywhere,
    ),
    (
        r"\bin vain\b",
        "name the failed condition",
        Scope::Everywhere,
    ),
    (
        r"\b(hold|holds|held|holding)( \w+){0,3} against\b",
        "compare with, relative to",
        Scope::Everywhere,
    ),
    (r"\bunopened\b", "without decoding", Scope::Everywhere),
    (
        r"\b(end|ends|ended|stop|stops|stopped) in order\b",
        "shut down cleanly",
        Scope::Everywhere,
    ),
    (
        r"\b(of late|ere|lest|henceforth|thereof)\b",
        "recently",
        Scope::Everywhere,
    ),
    (r"\bmend(s|ed|ing)?\b", "fix", Scope::Everywhere),
    (
        r"\bto be had\b|\bcan(not)? be had\b",
        "available",
        Scope::Everywhere,
    ),
    (r"\bseed reports?\b", "published report", Scope::Everywhere),
    (r"\banswers?\b", "response", Scope::Protocols),
];

/// Shapes of a line of Rust that is not normalised.
const SHAPES: [(&str, &str); 4] = [
    (
        r"^\s*//[/!] (What|Who|Whoever|Whatever)\b",
        "a doc comment begins with a verb or a noun phrase",
    ),
    (r"^\s*/// Whether\b", "write: Returns `true` if"),
    (
        r"\bkept_\w+|\w+_kept\b|\bKept\b",
        "name the state: stored, retained",
    ),
    (BARE_NAMES, "a type name must make sense without its module"),
];

const BARE_NAMES: &str = r"(?x)\b(struct|enum|trait)\ (Answer|Basis|Busy|Context|Core|Crew|Demand
    |Desk|Door|Doors|Due|End|Entry|Errand|Fate|Fault|Form|Found|Front|Guard|Guest|Hall|Held|Hold|How
    |Identity|Job|Kept|Kind|Known|Learned|Left|Limit|Limits|Link|Look|Mail|Mark|Member|Meter|Next
    |Node|Offer|Outbox|Outcome|Over|Overrides|Pace|Part|Pass|Patience|Pick|Place|Post|Reason|Refusal
    |Rest|Role|Room|Row|Seen|Settings|Shared|Shown|Side|Slot|Source|State|Step|Stop|Stream|Table
    |Tally|Target|Told|Tools|Tried|Tube|Urgency|Via|Walk|Wanted|Watch|Way|Wish|Work)\b";

/// A virtual machine shares its host with other guests, and .NET has a property of this name.
const EXCEPTIONS: [&str; 5] = [
    "another guest",
    "other guests",
    "guests of",
    "guest took",
    "TotalProcessorTime",
];

/// The patterns, compiled.
pub(crate) struct WordTest {
    /// All words at once: few lines contain one.
    any: RegexSet,
    words: Vec<(Regex, &'static str, Scope)>,
    shapes: Vec<(Regex, &'static str)>,
    case: Regex,
}

impl WordTest {
    pub(crate) fn new() -> Self {
        let compile = |pattern: &str| Regex::new(pattern).expect("the pattern is valid");
        let words = WORDS.iter().map(|(pattern, instead, scope)| {
            (compile(&format!("(?i){pattern}")), *instead, *scope)
        });
        let any = WORDS.iter().map(|(pattern, ..)| format!("(?i){pattern}"));
        let shapes = SHAPES.iter();
        Self {
            any: RegexSet::new(any).expect("the patterns are valid"),
            words: words.collect(),
            shapes: shapes
                .map(|(shape, rule)| (compile(shape), *rule))
                .collect(),
            case: compile("([a-z])([A-Z])"),
        }
    }

    /// Returns what is wrong with each line of a file.
    pub(crate) fn findings(&self, path: &str, text: &str) -> Vec<String> {
        let is_crate = path.starts_with("crates/") && path.ends_with(".rs");
        let is_protocol = [
            "filters", "kafka", "net", "proxy", "rules", "sasl", "security", "wire",
        ]
        .iter()
        .any(|name| path.starts_with(&format!("crates/weir-{name}/")));
        let applies = |scope: Scope| match scope {
            Scope::Everywhere => true,
            Scope::Crates => path.starts_with("crates/"),
            Scope::Protocols => is_protocol,
        };
        let mut findings = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let blanks = line.replace('_', " ");
            let normal = self.case.replace_all(&blanks, "$1 $2");
            let is_exception = EXCEPTIONS.iter().any(|words| line.contains(words));
            let words = self.words.iter().filter(|(_, _, scope)| applies(*scope));
            let has_word = !is_exception && self.any.is_match(&normal);
            for (word, instead, _) in words.filter(|_| has_word) {
                if let Some(found) = word.find(&normal) {
                    let found = found.as_str();
                    findings.push(format!("{path}:{number}: \"{found}\", write: {instead}"));
                }
            }
            for (shape, rule) in self.shapes.iter().filter(|_| is_crate) {
                if shape.is_match(line) {
                    findings.push(format!("{path}:{number}: {rule}"));
                }
            }
        }
        findings
    }
}

#[test]
fn words_are_found_in_prose_and_names() {
    let test = WordTest::new();
    for line in [
        "A patient client.",
        "let max_patience = 1;",
        "struct ClientPatience;",
    ] {
        assert_eq!(
            test.findings("crates/weir/src/x.rs", line).len(),
            1,
            "{line}"
        );
    }
    assert_eq!(
        test.findings("crates/weir-net/src/x.rs", "an answer").len(),
        1
    );
    for line in [
        "intelligible",
        "heartbeat",
        "shall",
        "troubleshooting",
        "other guests",
    ] {
        assert_eq!(test.findings("docs/x.md", line), [""; 0], "{line}");
    }
    assert_eq!(test.findings("docs/x.md", "an answer"), [""; 0]);
    let shapes = "/// What it is.\n/// Whether it is.\nstruct Kind;\nlet kept_bytes = 1;\n";
    assert_eq!(test.findings("crates/weir/src/x.rs", shapes).len(), 4);
}
