//! [`Object`], [`Verb`] and [`Position`]: the first words of a `tc` command, before the kind.

use tautline_qdisc::ClassId;

use crate::words::{ParseError, Word, Words, parse_class};

/// The subject of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Qdisc,
    Class,
    Filter,
}

impl Object {
    /// Reads `tc` (also `sudo tc`, `/sbin/tc`), if it is there, and what follows it; `None` for a
    /// command that begins otherwise.
    pub(crate) fn read(words: &mut Words<'_>) -> Option<Self> {
        words.accept("sudo");
        if words
            .peek()
            .is_some_and(|word| word.text == "tc" || word.text.ends_with("/tc"))
        {
            words.word();
        }
        let all = [
            ("qdisc", Self::Qdisc),
            ("class", Self::Class),
            ("filter", Self::Filter),
        ];
        all.into_iter()
            .find_map(|(name, object)| words.accept(name).then_some(object))
    }
}

/// The verb of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `add`, or nothing said.
    #[default]
    Add,
    Replace,
    Change,
    Delete,
}

/// Device, parent and name of a qdisc, a class or a filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position<'a> {
    pub(crate) verb: Option<(Word<'a>, Verb)>,
    pub(crate) device: Option<Word<'a>>,
    pub(crate) root: Option<Word<'a>>,
    pub(crate) parent: Option<(Word<'a>, ClassId)>,
    pub(crate) handle: Option<(Word<'a>, u16)>,
    pub(crate) classid: Option<(Word<'a>, ClassId)>,
}

const CLASS: &str = "a class, e.g. 1:10";
const HANDLE: &str = "a handle, e.g. 1:";

impl<'a> Position<'a> {
    /// Reads the words of the position, up to the first other word.
    ///
    /// # Errors
    /// If a name is missing or cannot be read.
    pub(crate) fn read(words: &mut Words<'a>) -> Result<Self, ParseError> {
        let mut place = Self::default();
        place.read_verb(words);
        let mut ahead = words.clone();
        while let Some(word) = ahead.word()
            && place.set(word, &mut ahead)?
        {
            *words = ahead.clone();
        }
        Ok(place)
    }

    /// Reads the verb and finds the words of the position among those before a filter's kind, where
    /// they may stand in any order.
    ///
    /// # Errors
    /// If a name is missing or cannot be read.
    pub(crate) fn of_filter(words: &mut Words<'a>) -> Result<Self, ParseError> {
        let mut place = Self::default();
        place.read_verb(words);
        let mut ahead = words.clone();
        while let Some(word) = ahead.word() {
            match filter_word(word.text) {
                "dev" | "parent" | "root" => {
                    place.set(word, &mut ahead)?;
                }
                "protocol" | "preference" | "priority" | "handle" => {
                    ahead.word();
                }
                _ => break,
            }
        }
        Ok(place)
    }

    /// The class, whose name may lack the number of its qdisc: it is the parent's, or `root`
    /// (`tc_ctl_tclass` in Linux).
    pub(crate) fn class(&self, root: u16) -> Option<(Word<'a>, ClassId)> {
        let (word, id) = self.classid?;
        let major = match (id.major, self.parent) {
            (0, Some((_, parent))) if parent.major > 0 => parent.major,
            (0, _) => root,
            (major, _) => major,
        };
        Some((word, ClassId::new(major, id.minor)))
    }

    fn read_verb(&mut self, words: &mut Words<'a>) {
        let verbs = [
            ("add", Verb::Add),
            ("replace", Verb::Replace),
            ("change", Verb::Change),
            ("del", Verb::Delete),
            ("delete", Verb::Delete),
        ];
        let Some(word) = words.peek() else { return };
        if let Some((_, verb)) = verbs.into_iter().find(|(name, _)| *name == word.text) {
            words.word();
            self.verb = Some((word, verb));
        }
    }

    /// Sets what `word` names; false if it is no word of a position.
    fn set(&mut self, word: Word<'a>, words: &mut Words<'a>) -> Result<bool, ParseError> {
        match word.text {
            "root" => self.root = Some(word),
            "dev" => {
                let name = words.peek();
                words.value(word, |_| Some(()), "a device's name")?;
                self.device = name;
            }
            "parent" => self.parent = Some(named(word, words, parse_class, CLASS)?),
            "classid" => self.classid = Some(named(word, words, parse_class, CLASS)?),
            "handle" => self.handle = Some(named(word, words, parse_handle, HANDLE)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The word of a filter's position that `text` means: these three may be cut short, as in `tc`.
pub(crate) fn filter_word(text: &str) -> &str {
    let shortened = ["preference", "priority", "protocol"];
    let full = shortened.into_iter().find(|full| full.starts_with(text));
    full.unwrap_or(text)
}

/// A name and the word it is read from.
fn named<'a, T>(
    option: Word<'a>,
    words: &mut Words<'a>,
    parse: impl FnOnce(&str) -> Option<T>,
    expected: &'static str,
) -> Result<(Word<'a>, T), ParseError> {
    let word = words.peek().unwrap_or(option);
    Ok((word, words.value(option, parse, expected)?))
}

/// `1:`, also `1` or `1:0`.
fn parse_handle(text: &str) -> Option<u16> {
    let (major, minor) = text.split_once(':').unwrap_or((text, ""));
    let name = parse_class(&[major, ":"].concat())?;
    matches!(minor, "" | "0").then_some(name.major)
}
