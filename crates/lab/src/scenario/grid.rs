//! [`extend`]: axes that are given beside the file, for a sweep: `tcp.tsq=1ms,2ms,off`.

use serde_json::{Value, json};

use super::error::Fault;
use super::node::{self, Node};
use super::source::{Position, Sources};

/// Keys that refer to a row's own cells, which a sweep does not have.
const OF_A_ROW: [&str; 5] = ["shape", "anova", "figure", "table", "flent"];
/// Most characters of a value's name.
const LONGEST: usize = 64;

/// Puts `axes` behind those of `root`, and removes what would judge or show it.
pub(super) fn extend(root: &mut Node, axes: &[String], sources: &mut Sources) -> Result<(), Fault> {
    for key in OF_A_ROW {
        root.take(key);
    }
    for words in axes {
        let place = Position {
            file: sources.add_option(format!("--set {words}")),
            at: 0,
        };
        let axis = axis(words).map_err(|message| Fault::new(message).at(place))?;
        let node::Value::Table(table) = &mut root.value else {
            continue;
        };
        let empty = || {
            (
                place,
                Node {
                    value: node::Value::Array(Vec::new()),
                    place,
                },
            )
        };
        let (_, all) = table.entry("axis".to_owned()).or_insert_with(empty);
        // Anything but an array of axes is refused when the axes are parsed.
        if let node::Value::Array(all) = &mut all.value {
            all.push(Node::of_canonical(&axis, place)?);
        }
    }
    Ok(())
}

/// The axis that `words`, `[NAME:]KEY=VALUE,VALUE…`, means, as the file would have it. Values that
/// hold commas come as an array of JSON: `KEY=["a,b","c"]`.
fn axis(words: &str) -> Result<Value, String> {
    let usage = "write --set KEY=VALUE,VALUE… or NAME:KEY=VALUE,VALUE…, e.g. --set tcp.tsq=1ms,off";
    let (key, values) = words.split_once('=').ok_or(usage)?;
    let last = || key.rsplit('.').next().unwrap_or_default();
    let (name, key) = key.split_once(':').unwrap_or_else(|| (last(), key));
    let values = if values.trim_start().starts_with('[') {
        serde_json::from_str::<Vec<Value>>(values)
            .map_err(|error| format!("no array of JSON: {error}; {usage}"))?
    } else {
        values
            .split(',')
            .map(|value| scalar(value.trim()))
            .collect()
    };
    let value = |value: Value| {
        let named = label(&value);
        json!({ "name": named, "set": { key: value } })
    };
    Ok(json!({ "name": name, "value": values.into_iter().map(value).collect::<Vec<_>>() }))
}

/// A number or a truth value, if it is one; a string.
fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => text.into(),
    }
}

/// Name of a value: the value itself, with `-` for characters that a file name cannot have.
fn label(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-') {
            c
        } else {
            '-'
        }
    };
    let text: String = text.chars().map(allowed).collect();
    text.trim_matches('-').chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_an_axis() {
        let expected = json!({ "name": "count", "value": [
            { "name": "1", "set": { "flow.upload.count": 1 } }, { "name": "16", "set": { "flow.upload.count": 16 } },
        ] });
        assert_eq!(axis("flow.upload.count=1,16"), Ok(expected));
        let expected = json!({ "name": "aqm", "value": [
            { "name": "pfifo-limit-100", "set": { "host.client.qdisc": "pfifo limit 100" } },
            { "name": "fq-codel", "set": { "host.client.qdisc": "fq_codel" } },
        ] });
        assert_eq!(
            axis(r#"aqm:host.client.qdisc=["pfifo limit 100", "fq_codel"]"#),
            Ok(expected.clone())
        );
        assert_eq!(
            axis("aqm:host.client.qdisc=pfifo limit 100, fq_codel"),
            Ok(expected)
        );
        assert_eq!(
            axis("tcp.tsq=off").expect("an axis")["value"][0]["set"]["tcp.tsq"],
            "off"
        );
        for wrong in ["", "tcp.tsq", "tcp.tsq=[1", "x:=["] {
            assert!(axis(wrong).expect_err(wrong).contains("--set"), "{wrong}");
        }
    }
}
