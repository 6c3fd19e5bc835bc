//! [`expand`]: a host with `copies = 10` becomes ten, named with a number behind the name, and so
//! do the cables, stations and ends of flows that name it.

use super::error::Fault;
use super::node::{Node, Value};

/// Most copies of a host.
const MOST_COPIES: i64 = 10_000;

/// Replaces every host of several copies by them.
pub(super) fn expand(root: &mut Node) -> Result<(), Fault> {
    let several = several(root)?;
    apart(root, &several)?;
    for (name, copies) in &several {
        each(root, "host", |host| {
            let mut host = host.clone();
            if host.get("name").and_then(Node::string) != Some(name) {
                return vec![host];
            }
            host.take("copies");
            copies.iter().map(|copy| host.with("name", copy)).collect()
        });
        each(root, "link", |link| {
            let ends = link
                .get("between")
                .and_then(Node::array)
                .unwrap_or_default();
            let Some(end) = ends.iter().position(|end| end.string() == Some(name)) else {
                return vec![link.clone()];
            };
            let between = |copy: &String| {
                let mut link = link.clone();
                if let Some(Value::Array(ends)) = link.value_mut("between") {
                    ends[end].value = Value::String(copy.clone());
                }
                link
            };
            copies.iter().map(between).collect()
        });
        for (part, keys) in [
            ("wifi", &["stations"][..]),
            ("lte", &["stations"]),
            ("flow", &["from", "to"]),
        ] {
            each(root, part, |entry| {
                let mut entry = entry.clone();
                keys.iter()
                    .for_each(|key| spread(&mut entry, key, name, copies));
                vec![entry]
            });
        }
    }
    Ok(())
}

/// Refuses a cable between hosts that both have copies: each with each would be a great many.
fn apart(root: &Node, several: &[(String, Vec<String>)]) -> Result<(), Fault> {
    let has_copies = |end: &Node| several.iter().any(|(name, _)| end.string() == Some(name));
    for link in root.get("link").and_then(Node::array).unwrap_or_default() {
        let Some(between) = link.get("between") else {
            continue;
        };
        let ends = between.array().unwrap_or_default();
        if ends.len() > 1 && ends.iter().all(has_copies) {
            let message = "both ends have copies: put a router between them";
            return Err(Fault::new(message)
                .at(between.place)
                .under("between")
                .under("link"));
        }
    }
    Ok(())
}

/// The hosts of several copies, with the names of the copies.
fn several(root: &Node) -> Result<Vec<(String, Vec<String>)>, Fault> {
    let Some(hosts) = root.get("host").and_then(Node::array) else {
        return Ok(Vec::new());
    };
    let mut several = Vec::new();
    for host in hosts {
        let (Some(copies), Some(name)) =
            (host.get("copies"), host.get("name").and_then(Node::string))
        else {
            continue;
        };
        let Value::Integer(count @ 1..=MOST_COPIES) = copies.value else {
            let message = format!("a number from 1 to {MOST_COPIES} is wanted");
            return Err(Fault::new(message)
                .at(copies.place)
                .under("copies")
                .under(name)
                .under("host"));
        };
        several.push((
            name.to_owned(),
            (1..=count)
                .map(|number| format!("{name}{number}"))
                .collect::<Vec<_>>(),
        ));
    }
    Ok(several)
}

/// Replaces every entry of the array `part` by those that `make` makes of it.
fn each(root: &mut Node, part: &str, make: impl Fn(&Node) -> Vec<Node>) {
    if let Some(Value::Array(entries)) = root.value_mut(part) {
        *entries = entries.iter().flat_map(make).collect();
    }
}

/// Replaces `name`, in or as the value of `key`, by the names of the copies.
fn spread(entry: &mut Node, key: &str, name: &str, copies: &[String]) {
    let Some(node) = entry.get(key) else { return };
    let place = node.place;
    let named = |copy: &String| Node {
        value: Value::String(copy.clone()),
        place,
    };
    let all = |node: &Node| -> Vec<Node> {
        if node.string() == Some(name) {
            copies.iter().map(named).collect()
        } else {
            vec![node.clone()]
        }
    };
    let value = match &node.value {
        Value::String(word) if word == name => Value::Array(all(node)),
        Value::Array(names) => Value::Array(names.iter().flat_map(all).collect()),
        _ => return,
    };
    if let Some(to) = entry.value_mut(key) {
        *to = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_their_cables_stations_and_flows_along() {
        let text = r#"
            host = [{ name = "ue", copies = 2, ring = 5 }, { name = "server" }]
            link = [{ between = ["enb", "ue"] }, { between = ["enb", "server"] }]
            lte = [{ stations = ["ue"] }]
            flow = [{ from = "ue", to = "server" }, { from = "server", to = ["ue", "server"] }]"#;
        let mut root = Node::parse(text, 0).expect("TOML");
        expand(&mut root).expect("good");
        let expanded = r#"
            host = [{ name = "ue1", ring = 5 }, { name = "ue2", ring = 5 }, { name = "server" }]
            link = [{ between = ["enb", "ue1"] }, { between = ["enb", "ue2"] }, { between = ["enb", "server"] }]
            lte = [{ stations = ["ue1", "ue2"] }]
            flow = [{ from = ["ue1", "ue2"], to = "server" }, { from = "server", to = ["ue1", "ue2", "server"] }]"#;
        assert_eq!(
            root.canonical(),
            Node::parse(expanded, 0).expect("TOML").canonical()
        );
    }

    #[test]
    fn several_hosts_have_copies() {
        let text = r#"
            host = [{ name = "a", copies = 2 }, { name = "b", copies = 1 }, { name = "c" }]
            flow = [{ from = "a", to = "b" }]"#;
        let mut root = Node::parse(text, 0).expect("TOML");
        expand(&mut root).expect("good");
        let expanded = r#"
            host = [{ name = "a1" }, { name = "a2" }, { name = "b1" }, { name = "c" }]
            flow = [{ from = ["a1", "a2"], to = ["b1"] }]"#;
        assert_eq!(
            root.canonical(),
            Node::parse(expanded, 0).expect("TOML").canonical()
        );
    }

    /// Ten thousand by ten thousand cables would fill the memory.
    #[test]
    fn a_cable_between_copies_is_refused() {
        let text = r#"
            host = [{ name = "a", copies = 10000 }, { name = "b", copies = 10000 }]
            link = [{ between = ["a", "b"] }]"#;
        let mut root = Node::parse(text, 0).expect("TOML");
        assert!(expand(&mut root).is_err());
    }

    #[test]
    fn no_copies_and_too_many_are_refused() {
        for copies in ["0", "-1", "10001", "\"2\""] {
            let mut root = Node::parse(
                &format!("host = [{{ name = \"ue\", copies = {copies} }}]"),
                0,
            )
            .expect("TOML");
            assert!(expand(&mut root).is_err(), "{copies}");
        }
    }
}
