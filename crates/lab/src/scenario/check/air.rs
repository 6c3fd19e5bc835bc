//! Cells: an access point or base station that is a router, and stations, hosts or routers with a
//! cable to it, each in one cell.

use super::super::error::Fault;
use super::super::node::{Step, listed};
use super::network::is_node;
use super::{Subject, check_name};

use Step::{Key, Number};

pub(super) fn check(subject: &Subject<'_>) -> Result<(), Fault> {
    let document = subject.document;
    let wifi = document.wifi.iter();
    let wifi = wifi.map(|cell| (&cell.name, &cell.access_point, &cell.stations));
    let lte = document.lte.iter();
    let lte = lte.map(|cell| (&cell.name, &cell.base, &cell.stations));
    let mut placed: Vec<&String> = Vec::new();
    for (kind, role, cells) in [
        ("wifi", "access_point", wifi.collect::<Vec<_>>()),
        ("lte", "base", lte.collect()),
    ] {
        for (number, (name, base, stations)) in cells.into_iter().enumerate() {
            let at = |key| [Key(kind), Number(number), Key(key)];
            check_name(subject, name, &at("name"))?;
            let routers = || listed(document.router.iter().map(|router| &router.name));
            let known = document.router.iter().any(|router| router.name == *base);
            subject.require(
                known,
                &at(role),
                format_args!("no router is named `{base}`; routers: {}", routers()),
            )?;
            subject.require(
                !stations.is_empty(),
                &at("stations"),
                "at least one host or router is wanted",
            )?;
            for (station, name) in stations.iter().enumerate() {
                let path = [Key(kind), Number(number), Key("stations"), Number(station)];
                subject.require(
                    is_node(document, name),
                    &path,
                    format_args!("`{name}` is neither host nor router"),
                )?;
                subject.require(
                    !placed.contains(&name),
                    &path,
                    format_args!("`{name}` is in a cell already"),
                )?;
                let joined = document.link.iter().any(|link| {
                    let (one, other) = (&link.between.0, &link.between.1);
                    (one == base && other == name) || (one == name && other == base)
                });
                subject.require(
                    joined,
                    &path,
                    format_args!("no [[link]] is between `{base}` and `{name}`"),
                )?;
                one_ring(subject, base, name)?;
                placed.push(name);
            }
        }
    }
    Ok(())
}

/// In a cell the air decides which station sends next, so neither end of a cable into one has a
/// ring for each access category.
fn one_ring(subject: &Subject<'_>, base: &str, station: &str) -> Result<(), Fault> {
    for (number, link) in subject.document.link.iter().enumerate() {
        let ends = [link.between.0.as_str(), link.between.1.as_str()];
        if ends != [base, station] && ends != [station, base] {
            continue;
        }
        let at = [Key("link"), Number(number)];
        let back = link.back.as_ref().map(|back| back.port());
        for (port, path) in [
            (Some(link.port()), at.to_vec()),
            (back, [at.as_slice(), &[Key("back")]].concat()),
        ] {
            subject.require(
                port.is_none_or(|port| port.access_categories.is_none()),
                &[path.as_slice(), &[Key("access_categories")]].concat(),
                format_args!(
                    "`{station}` is in the cell of `{base}`, whose cables have one ring at each end: leave it out"
                ),
            )?;
        }
    }
    Ok(())
}
