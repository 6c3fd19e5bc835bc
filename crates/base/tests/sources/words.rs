//! Names and prose use the field's words: one word for one thing, the one that an RFC, a manual
//! page or the standard library has.

use std::collections::HashSet;
use std::sync::LazyLock;

use proc_macro2::{Ident, TokenStream, TokenTree};
use regex::Regex;
use syn::visit::{self, Visit};

use crate::tree::{Findings, files, sources};

/// Parts of identifiers that have a better word.
const PARTS: [(&str, &str); 24] = [
    ("card", "nic or device"),
    ("cards", "nics or devices"),
    ("accident", "impairment"),
    ("accidents", "impairments"),
    ("complaint", "icmp_error"),
    ("complaints", "icmp_errors"),
    ("dice", "rng"),
    ("luck", "rng"),
    ("lucky", "rng"),
    ("obstacle", "blocked"),
    ("succession", "reuse"),
    ("whoever", "caller, peer, listener"),
    ("likelihood", "probability"),
    ("worded", "from_words"),
    ("shelf", "scenario_dir"),
    ("behaviour", "behavior"),
    ("colour", "color"),
    ("honour", "honor"),
    ("neighbour", "neighbor"),
    ("neighbours", "neighbors"),
    ("serialise", "serialize"),
    ("licence", "license"),
    ("acknowledgement", "acknowledgment"),
    ("acknowledgements", "acknowledgments"),
];

/// Names of types that mean nothing outside this project, or too many things.
const TYPES: [(&str, &str); 26] = [
    ("Agreed", "Negotiated"),
    ("Asked", "TsqRequest"),
    ("Bell", "EventFd"),
    ("Between", "the word of mio, polling or tokio"),
    ("Due", "Deferred"),
    ("Found", "LossReport"),
    ("Happened", "PendingEvents"),
    ("Heard", "AckSummary"),
    ("Held", "Blocked"),
    ("Known", "FlowInfo"),
    ("Line", "the word of mio, polling or tokio"),
    ("Newly", "NewMarks"),
    ("Notice", "the word of mio, polling or tokio"),
    ("Obstacle", "Blocked"),
    ("Place", "a qualified name, for example QueueLinks"),
    ("Remains", "TimeWaitState"),
    ("Shelf", "ScenarioDir"),
    ("Speed", "RateValue"),
    ("Standing", "a qualified name, for example EcnState"),
    ("ToldOf", "LocalDropReporting"),
    ("Turn", "the word of mio, polling or tokio"),
    ("Urgency", "AckUrgency"),
    ("Wishes", "EcnPolicy"),
    ("Worded", "FromWords"),
    ("Dice", "Rng"),
    ("Card", "Nic"),
];

/// Names of functions and methods that say too little.
const FUNCTIONS: [(&str, &str); 22] = [
    ("after", "reconcile"),
    ("give", "send"),
    ("look", "sample or parse"),
    ("make_way", "replace"),
    ("obey", "handle_command"),
    ("obstacle", "blocked"),
    ("on_complaint", "on_icmp_error"),
    ("pass", "run_to_end"),
    ("recurs", "recur_drop_due"),
    ("rolls", "should_drop"),
    ("settle_affairs", "notify_owner"),
    ("stand", "set_wait_cause"),
    ("standing", "backlog, occupancy or state"),
    ("steps", "advance"),
    ("take_in", "receive_frame"),
    ("take_text", "accept_payload"),
    ("tell", "notify, signal or wake"),
    ("told", "notified"),
    ("told_of", "local_drop_reporting"),
    ("told_to_sender", "reported_to_sender"),
    ("touch", "mark_runnable"),
    ("work", "service"),
];

/// What prose does not say, as a regular expression, and what it says instead.
const PHRASES: [(&str, &str); 37] = [
    (r"\baccidents?\b", "impairment"),
    (r"\bcards?\b", "NIC, device"),
    (r"\bcomplaints?\b|\bcomplains?\b", "ICMP error; reports"),
    (r"\bdice\b|\bluck(y|ily)?\b", "random number generator, RNG"),
    (r"\blikelihood\b", "probability"),
    (
        r"\bwhoever\b|\bwho asks\b|\bone who\b",
        "caller, peer, sender, receiver, listener",
    ),
    (r"\bunder way\b", "in flight, outstanding"),
    (
        r"\b(is|are|was|were) none\b",
        "not supported; there is no …",
    ),
    (
        r"\bhears? of\b|\bheard of\b|\btells? of\b|\btold of\b",
        "notify, signal, wake, report",
    ),
    (
        r"\b(held|hold|holds) (\w+ )?against\b",
        "validate, verify, compare with",
    ),
    (
        r"\bmoments? (comes?|has come)\b",
        "deadline, timer; expires",
    ),
    (r"\bagain and again\b", "on every poll, repeatedly"),
    (r"\blook(s|ed|ing)? at\b", "parse, classify, read, inspect"),
    (
        r"\bgives? up\b|\bgave up\b",
        "reset, clear, abort, discard, stop",
    ),
    (r"\bforg[eo]ts?\b", "discard, clear, omit"),
    (r"\bspeeds?\b", "bandwidth, rate, capacity"),
    (
        r"\btext of (a|the|this) (segment|stream)\b",
        "payload, data",
    ),
    (r"\bwhat stands\b|\bwhat waits\b", "backlog"),
    (r"\bof its([,.;:)]|$)", "its …"),
    (
        r"(?i)\bspec/(tcp|qdisc)",
        "the RFC's section, the paper's section, or the kernel's function",
    ),
    (
        r"\b(Linux|Windows|TCP|CUBIC|ss|iperf|tc)'(\s|$|[,.;:)])",
        "Linux's",
    ),
    (r"(?i)\bneighbour", "neighbor"),
    (r"(?i)\bbehaviour", "behavior"),
    (r"(?i)\bcolour", "color"),
    (r"(?i)\bhonour", "honor"),
    (r"(?i)\bfavour", "favor"),
    (r"(?i)\blicences?\b", "license"),
    (r"(?i)\backnowledgement", "acknowledgment, as RFC 9293"),
    (r"(?i)\bcentres?\b", "center"),
    (r"(?i)\bgrey\b", "gray"),
    (
        r"(?i)\b(seriali|initiali|normali|optimi|recogni|synchroni|utili|reali|minimi|maximi|organi|randomi|summari|generali|prioriti|emphasi|standardi|characteri|speciali|visuali|penali)s(e|es|ed|ing|er|ers|ation|ations)\b",
        "z: American spelling",
    ),
    (
        r"(?i)\b(cancell|travell|modell|labell|signall|channell|levell|totall)(ed|ing)\b",
        "one l: American spelling",
    ),
    (
        r"(?i)\bdefence\b|\boffence\b|\bpractise\b",
        "American spelling",
    ),
    (r"\bmetres?\b|\blitres?\b", "American spelling"),
    (r"\ba memory[.,;:)]|\bmemories\b", "buffer, allocation"),
    (r"\bmiddlemen\b|\bstrangers?\b", "third party, other crates"),
    (r"\bmend(s|ed|ing)?\b", "fix"),
];

/// Paths where `in the air` is meant: radio.
const RADIO: [&str; 4] = ["wifi", "lte", "air", "cell"];
/// This test lists the words, and tests of words quote them.
const QUOTES: [&str; 1] = ["crates/base/tests/sources/"];

struct Phrase {
    pattern: Regex,
    instead: &'static str,
}

static COMPILED: LazyLock<Vec<Phrase>> = LazyLock::new(|| {
    PHRASES
        .iter()
        .map(|&(pattern, instead)| Phrase {
            pattern: Regex::new(pattern).expect("a pattern"),
            instead,
        })
        .collect()
});
static DISCIPLINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)(queueing |queuing )?disciplines?\b").expect("a pattern"));
static AIR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bin the air\b").expect("a pattern"));
/// A relative clause or a bare pronoun as the subject of a description.
static OPENING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(What|Who|Whose|Whom|That|Whatever|Whichever) [^?]*$").expect("a pattern")
});
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"`[^`]*`|\]\([^)]*\)").expect("a pattern"));

pub(crate) fn names(findings: &mut Findings) {
    for source in sources() {
        if QUOTES
            .iter()
            .any(|quoting| source.path.starts_with(quoting))
        {
            continue;
        }
        let file = source.parse();
        let mut definitions = Definitions {
            path: &source.path,
            findings,
        };
        definitions.visit_file(&file);
        let tokens = source.text.parse::<TokenStream>().expect("Rust");
        let mut seen = HashSet::new();
        identifiers(tokens, &mut |ident| {
            let name = ident.to_string();
            if seen.contains(&name) {
                return;
            }
            let words: Vec<_> = parts(&name).collect();
            if let Some((_, instead)) = PARTS
                .iter()
                .find(|(part, _)| words.iter().any(|word| word == part))
            {
                let line = ident.span().start().line;
                findings.add(&source.path, line, format!("name `{name}`: {instead}"));
            }
            seen.insert(name);
        });
    }
}

/// Words of an identifier in snake or camel case, in lower case.
fn parts(name: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::new();
    for character in name.chars() {
        if character.is_uppercase() {
            spaced.push('_');
        }
        spaced.extend(character.to_lowercase());
    }
    let words: Vec<_> = spaced.split('_').map(str::to_owned).collect();
    words.into_iter()
}

fn identifiers(tokens: TokenStream, each: &mut impl FnMut(&Ident)) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => each(&ident),
            TokenTree::Group(group) => identifiers(group.stream(), each),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Names of the types and functions that a file defines.
struct Definitions<'a> {
    path: &'a str,
    findings: &'a mut Findings,
}

impl Definitions<'_> {
    fn check(&mut self, ident: &syn::Ident, words: &[(&str, &str)]) {
        if let Some((word, instead)) = words.iter().find(|(word, _)| ident == word) {
            let line = ident.span().start().line;
            self.findings
                .add(self.path, line, format!("name `{word}`: {instead}"));
        }
    }
}

impl<'ast> Visit<'ast> for Definitions<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.check(&item.ident, &TYPES);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check(&item.ident, &TYPES);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.check(&item.ident, &TYPES);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig.ident, &FUNCTIONS);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig.ident, &FUNCTIONS);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check(&item.sig.ident, &FUNCTIONS);
        visit::visit_trait_item_fn(self, item);
    }
}

pub(crate) fn prose(findings: &mut Findings) {
    for source in sources() {
        check_comments(&source.path, &source.text, "//", findings);
    }
    for (path, text) in files(&["toml", "sh", "py", ""]) {
        if path.ends_with(".toml") && path.contains("/scenarios/") {
            check_all(&path, &text, findings);
        } else if !path.starts_with("LICENSE") {
            check_comments(&path, &text, "#", findings);
        }
    }
    for (path, text) in files(&["md"]) {
        check_all(&path, &outside_fences(&text), findings);
    }
}

/// The text with fenced code blanked, line by line.
fn outside_fences(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Checks a block of comment lines as one text, for phrases break over lines.
fn check_comments(path: &str, text: &str, mark: &str, findings: &mut Findings) {
    let mut block: Vec<(usize, &str)> = Vec::new();
    let mut kind = "";
    let mut fenced = false;
    for (index, line) in text.lines().chain([""]).enumerate() {
        let trimmed = line.trim_start();
        let comment = trimmed.strip_prefix(mark).map(|rest| {
            let body = rest.trim_start_matches(['/', '!']);
            (&rest[..rest.len() - body.len()], body.trim())
        });
        let same = comment.is_some_and(|(found, body)| found == kind && !body.is_empty());
        if !same || fenced {
            check_block(path, &block, kind == "/" || kind == "!", findings);
            block.clear();
        }
        let Some((found, body)) = comment else {
            (kind, fenced) = ("", false);
            continue;
        };
        kind = found;
        if body.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !body.is_empty() {
            block.push((index + 1, body));
        }
    }
}

/// Checks every paragraph of a document.
fn check_all(path: &str, text: &str, findings: &mut Findings) {
    let mut block: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().chain([""]).enumerate() {
        if line.trim().is_empty() {
            check_block(path, &block, false, findings);
            block.clear();
        } else {
            block.push((index + 1, line.trim()));
        }
    }
}

/// Checks one paragraph: its lines with their numbers. `documentation`: a doc comment's.
fn check_block(path: &str, lines: &[(usize, &str)], documentation: bool, findings: &mut Findings) {
    let Some(&(first, _)) = lines.first() else {
        return;
    };
    if QUOTES.iter().any(|quoting| path.starts_with(quoting)) {
        return;
    }
    let joined = lines
        .iter()
        .map(|(_, line)| *line)
        .collect::<Vec<_>>()
        .join(" ");
    let text = CODE.replace_all(&joined, "‹›");
    for phrase in &*COMPILED {
        for found in phrase.pattern.find_iter(&text) {
            let what = format!("“{}”: {}", found.as_str().trim(), phrase.instead);
            findings.add(path, first, what);
        }
    }
    for found in DISCIPLINE.captures_iter(&text) {
        if found.get(1).is_none() {
            findings.add(
                path,
                first,
                "“discipline” alone: qdisc, or queueing discipline",
            );
        }
    }
    if AIR.is_match(&text) && !RADIO.iter().any(|radio| path.contains(radio)) {
        findings.add(path, first, "“in the air” is for radio: in flight");
    }
    let sentence = text.split(['.', ';', ':']).next().unwrap_or(&text);
    if documentation && OPENING.is_match(sentence) {
        findings.add(path, first, format!("“{sentence}”: begin with the subject"));
    }
}
