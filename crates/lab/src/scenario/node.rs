//! [`Node`]: a TOML value that knows where it was written; merging of files and the settings of
//! axes work on it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Fault;
use super::source::Position;

/// A value and its position in the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Position,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Node>),
    Table(Table),
}

/// Keys with the places they stand at.
pub(crate) type Table = BTreeMap<String, (Position, Node)>;

impl Node {
    /// Reads file number `file`.
    pub(crate) fn parse(text: &str, file: usize) -> Result<Self, Fault> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Fault::new(error.message()).at(Position { file, at })
        })?;
        let place = Position { file, at: 0 };
        Ok(Self {
            value: Value::Table(read_table(table.into_inner(), file)?),
            place,
        })
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value {
            Some(table)
        } else {
            None
        }
    }

    pub(crate) fn array(&self) -> Option<&[Self]> {
        if let Value::Array(array) = &self.value {
            Some(array)
        } else {
            None
        }
    }

    pub(crate) fn string(&self) -> Option<&str> {
        if let Value::String(string) = &self.value {
            Some(string)
        } else {
            None
        }
    }

    /// The value of `key` of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.table()?.get(key).map(|(_, node)| node)
    }

    /// The value of `key` of a table, to be changed.
    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut Value> {
        let Value::Table(table) = &mut self.value else {
            return None;
        };
        table.get_mut(key).map(|(_, node)| &mut node.value)
    }

    /// The same with another word for `key`, which it has.
    pub(crate) fn with(&self, key: &str, word: &str) -> Self {
        let mut node = self.clone();
        if let Some(value) = node.value_mut(key) {
            *value = Value::String(word.to_owned());
        }
        node
    }

    /// Removes `key` from a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Table(table) = &mut self.value else {
            return None;
        };
        table.remove(key).map(|(_, node)| node)
    }

    /// Takes over from `base` what is not said here. Tables merge, and so do the entries of arrays
    /// under one of `by_name` that go by the same name; everything else is replaced.
    pub(crate) fn inherit(&mut self, base: Self, by_name: &[&str]) {
        let (Value::Table(own), Value::Table(base)) = (&mut self.value, base.value) else {
            return;
        };
        for (key, (place, node)) in base {
            let join = by_name.contains(&key.as_str());
            match own.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert((place, node));
                }
                Entry::Occupied(mut entry) => match &mut entry.get_mut().1 {
                    own if join && own.array().is_some() => own.join(node),
                    own => own.inherit(node, &[]),
                },
            }
        }
    }

    /// Takes over from the array `base` what is not said here of an entry of the same name, and
    /// entries of other names. The order is that of `base`, then of this.
    fn join(&mut self, base: Self) {
        let (Value::Array(own), Value::Array(base)) = (&mut self.value, base.value) else {
            return;
        };
        let mut mine: Vec<Option<Self>> = own.drain(..).map(Some).collect();
        for node in base {
            let name = node.name();
            let same = |mine: &&mut Option<Self>| {
                mine.as_ref()
                    .is_some_and(|mine| name.is_some() && mine.name() == name)
            };
            own.push(match mine.iter_mut().find(same).and_then(Option::take) {
                Some(mut mine) => {
                    mine.inherit(node, &[]);
                    mine
                }
                None => node,
            });
        }
        own.extend(mine.into_iter().flatten());
    }

    /// Sets what the dotted `path` names to `to`. A step into an array names one of its tables;
    /// steps into tables that do not exist make them. `place` is where `path` is written.
    pub(crate) fn set(&mut self, path: &str, place: Position, to: &Self) -> Result<(), Fault> {
        let (step, rest) = path
            .split_once('.')
            .map_or((path, None), |(step, rest)| (step, Some(rest)));
        if step.is_empty() {
            return Err(Fault::new(
                "an empty step between dots; write e.g. host.client.qdisc",
            ));
        }
        match &mut self.value {
            Value::Table(table) => match rest {
                None => {
                    table.insert(step.to_owned(), (place, to.clone()));
                    Ok(())
                }
                Some(rest) => {
                    let fresh = || {
                        (
                            place,
                            Self {
                                value: Value::Table(Table::new()),
                                place,
                            },
                        )
                    };
                    table
                        .entry(step.to_owned())
                        .or_insert_with(fresh)
                        .1
                        .set(rest, place, to)
                }
            },
            Value::Array(array) => {
                let names: Vec<String> = array.iter().filter_map(Self::name).collect();
                let Some(node) = array
                    .iter_mut()
                    .find(|node| node.name().as_deref() == Some(step))
                else {
                    return Err(Fault::new(format_args!(
                        "nothing is named `{step}`; names: {}",
                        listed(&names)
                    )));
                };
                match rest {
                    Some(rest) => node.set(rest, place, to),
                    None => Err(Fault::new(format_args!(
                        "name a key of `{step}`, e.g. {step}.rate"
                    ))),
                }
            }
            _ => Err(Fault::new(format_args!(
                "there is nothing below a plain value, so no `{step}`"
            ))),
        }
    }

    /// Name of a table in an array: its `name`, or for a link its two ends.
    pub(crate) fn name(&self) -> Option<String> {
        if let Some(name) = self.get("name") {
            return name.string().map(str::to_owned);
        }
        match self.get("between")?.array()? {
            [from, to] => Some(format!("{}-{}", from.string()?, to.string()?)),
            _ => None,
        }
    }

    /// The value at `path`.
    pub(crate) fn at(&self, path: &[Step<'_>]) -> Option<&Self> {
        path.iter().try_fold(self, |node, step| node.step(*step))
    }

    /// The place of what `path` leads to, or as far as it leads.
    pub(crate) fn place_of(&self, path: &[Step<'_>]) -> Position {
        let mut node = self;
        for step in path {
            let Some(next) = node.step(*step) else { break };
            node = next;
        }
        node.place
    }

    /// Name of `path` in errors: tables in arrays go by their names.
    pub(crate) fn key_of(&self, path: &[Step<'_>]) -> Vec<String> {
        let (mut node, mut key) = (Some(self), Vec::new());
        for step in path {
            node = node.and_then(|node| node.step(*step));
            key.push(match step {
                Step::Key(key) => (*key).to_owned(),
                Step::Number(number) => node
                    .and_then(Self::name)
                    .unwrap_or_else(|| (number + 1).to_string()),
            });
        }
        key
    }

    fn step(&self, step: Step<'_>) -> Option<&Self> {
        match step {
            Step::Key(key) => self.get(key),
            Step::Number(number) => self.array()?.get(number),
        }
    }

    /// The reverse of [`canonical`](Self::canonical). Places are not known: all are `place`.
    pub(crate) fn of_canonical(value: &serde_json::Value, place: Position) -> Result<Self, Fault> {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => return Err(Fault::new("null is no value")),
            Json::Bool(boolean) => Value::Boolean(*boolean),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Value::Integer(integer),
                (None, Some(float)) if number.is_f64() => Value::Float(float),
                _ => return Err(Fault::new("a whole number of up to 63 bits is wanted")),
            },
            Json::String(string) => Value::String(string.clone()),
            Json::Array(array) => Value::Array(
                array
                    .iter()
                    .map(|value| Self::of_canonical(value, place))
                    .collect::<Result<_, _>>()?,
            ),
            Json::Object(object) => {
                let read = |(key, value): (&String, _)| {
                    let node = Self::of_canonical(value, place)
                        .map_err(|fault| fault.under(key.as_str()))?;
                    Ok((key.clone(), (place, node)))
                };
                Value::Table(object.iter().map(read).collect::<Result<_, Fault>>()?)
            }
        };
        Ok(Self { value, place })
    }

    /// The value without places, equal for equal values.
    pub(crate) fn canonical(&self) -> serde_json::Value {
        match &self.value {
            Value::String(string) => string.as_str().into(),
            Value::Integer(integer) => (*integer).into(),
            Value::Float(float) => (*float).into(),
            Value::Boolean(boolean) => (*boolean).into(),
            Value::Array(array) => array.iter().map(Self::canonical).collect(),
            Value::Table(table) => table
                .iter()
                .map(|(key, (_, node))| (key.clone(), node.canonical()))
                .collect(),
        }
    }
}

/// A step of a path through a document: a key of a table, a number of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    Key(&'a str),
    Number(usize),
}

/// Words joined by commas; `none` for no word.
pub(crate) fn listed<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<_> = words
        .into_iter()
        .map(|word| word.as_ref().to_owned())
        .collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    }
}

fn read_table(table: DeTable<'_>, file: usize) -> Result<Table, Fault> {
    let read = |(key, node): (Spanned<_>, _)| {
        let place = Position {
            file,
            at: key.span().start,
        };
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        let node = read_value(node, file).map_err(|fault| fault.under(key.as_ref()))?;
        Ok((key.into_owned(), (place, node)))
    };
    table.into_iter().map(read).collect()
}

fn read_value(node: Spanned<DeValue<'_>>, file: usize) -> Result<Node, Fault> {
    let place = Position {
        file,
        at: node.span().start,
    };
    let refused = |what: &str| Fault::new(what).at(place);
    let value = match node.into_inner() {
        DeValue::String(string) => Value::String(string.into_owned()),
        DeValue::Integer(integer) => {
            let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
            Value::Integer(
                parsed.map_err(|_| refused("a whole number of up to 63 bits is wanted"))?,
            )
        }
        DeValue::Float(float) => {
            let parsed: f64 = float
                .as_str()
                .parse()
                .map_err(|_| refused("not a number"))?;
            if !parsed.is_finite() {
                return Err(refused("a finite number is wanted"));
            }
            Value::Float(parsed)
        }
        DeValue::Boolean(boolean) => Value::Boolean(boolean),
        DeValue::Datetime(_) => return Err(refused("no key takes a date")),
        DeValue::Array(array) => Value::Array(
            array
                .into_iter()
                .map(|node| read_value(node, file))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => Value::Table(read_table(table, file)?),
    };
    Ok(Node { value, place })
}
