//! Calls of the application: `name(arguments) = result ERROR (explanation)`.

use std::time::Duration;

use super::ParseError;
use super::cursor::Cursor;
use crate::syntax::{Call, Value};

/// Names that scripts combine with `|`, as Linux defines them on x86.
const FLAGS: [(&str, i64); 10] = [
    ("O_RDONLY", 0),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0x800),
    ("SOCK_NONBLOCK", 0x800),
    ("MSG_PEEK", 2),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_EOR", 0x80),
    ("MSG_NOSIGNAL", 0x4000),
    ("MSG_MORE", 0x8000),
    ("MSG_FASTOPEN", 0x2000_0000),
];

/// A call; `until` is how long it may take, from its time.
pub(super) fn call(cursor: &mut Cursor<'_>, until: Option<Duration>) -> Result<Call, ParseError> {
    let name = cursor.word().to_owned();
    if name.is_empty() {
        let rest = cursor.line();
        return Err(cursor.error(format!(
            "expected a packet, a call or a block, found `{rest}`"
        )));
    }
    cursor.expect("(")?;
    let mut arguments = Vec::new();
    while !cursor.take(")") {
        arguments.push(value(cursor)?);
        cursor.take(",");
        cursor.skip_blank();
    }
    cursor.expect("=")?;
    let result = if cursor.take("...") {
        None
    } else {
        Some(cursor.integer()?)
    };
    let error = cursor.word();
    let error = (!error.is_empty()).then(|| error.to_owned());
    if cursor.take("(") {
        cursor.take_while(|c| c != ')' && c != '\n');
        cursor.expect(")")?;
    }
    Ok(Call {
        name,
        arguments,
        until,
        result,
        error,
    })
}

fn value(cursor: &mut Cursor<'_>) -> Result<Value, ParseError> {
    cursor.skip_blank();
    if cursor.take("...") {
        return Ok(Value::Any);
    }
    match cursor.peek() {
        Some('"') => Ok(Value::Text(cursor.between("\"", "\"")?)),
        Some('[') => {
            cursor.advance(1);
            let mut items = Vec::new();
            while !cursor.take("]") {
                items.push(value(cursor)?);
                cursor.take(",");
                cursor.skip_blank();
            }
            Ok(Value::List(items))
        }
        Some('{') => {
            cursor.advance(1);
            structure(cursor)
        }
        Some(c) if c.is_ascii_digit() || c == '-' => Ok(Value::Number(cursor.integer()?)),
        _ => names(cursor),
    }
}

/// The fields of a structure after its `{`.
fn structure(cursor: &mut Cursor<'_>) -> Result<Value, ParseError> {
    let mut fields = Vec::new();
    while !cursor.take("}") {
        let first = value(cursor)?;
        match first {
            Value::Name(name) if cursor.take("=") => fields.push((name, value(cursor)?)),
            other => fields.push((String::new(), other)),
        }
        cursor.take(",");
        cursor.skip_blank();
    }
    Ok(Value::Struct(fields))
}

/// A name, or several names of flags joined by `|`.
fn names(cursor: &mut Cursor<'_>) -> Result<Value, ParseError> {
    let first = cursor.word();
    if first.is_empty() {
        let rest = cursor.line();
        return Err(cursor.error(format!("expected an argument, found `{rest}`")));
    }
    let known = |name: &str| {
        FLAGS
            .iter()
            .find(|(flag, _)| *flag == name)
            .map(|(_, bits)| *bits)
    };
    let Some(mut bits) = known(first) else {
        return Ok(Value::Name(first.to_owned()));
    };
    while cursor.take("|") {
        let next = cursor.word();
        bits |= known(next).ok_or_else(|| cursor.error(format!("flag `{next}` is not known")))?;
    }
    Ok(Value::Number(bits))
}
