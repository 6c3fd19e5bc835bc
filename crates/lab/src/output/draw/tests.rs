use crate::output::fixture::{row, runs};
use crate::result::RowResult;

use super::*;

fn figure(text: &str) -> Figure {
    toml::from_str(text).expect("a figure")
}

fn drawn(text: &str) -> Vec<String> {
    figure(text).draw(&row(), &runs()).expect("drawn")
}

/// The words of a figure, in order.
fn words(svg: &str) -> Vec<&str> {
    svg.lines().filter(|line| !line.starts_with('<')).collect()
}

fn has(svg: &str, wanted: &[&str]) {
    let words = words(svg);
    for word in wanted {
        assert!(words.contains(word), "{word:?} in {words:?}");
    }
}

#[test]
fn the_last_axis_is_told_apart_by_color_and_the_other_stands_side_by_side() {
    let svg = drawn("kind = 'box'\nshow = ['ping']");
    assert_eq!(svg.len(), 1);
    has(
        &svg[0],
        &["Ping, ms", "TSQ", "NoTSQ", "L100M", "R100M", "2.1"],
    );
    let turned = drawn("kind = 'box'\nshow = ['ping']\ncolor = 'bottleneck'\nx = 'tsq'");
    let place = |svg: &str, word| words(svg).iter().position(|known| *known == word);
    assert!(
        place(&svg[0], "TSQ") < place(&svg[0], "L100M")
            && place(&turned[0], "L100M") < place(&turned[0], "TSQ")
    );
}

#[test]
fn an_axis_that_is_left_gets_a_panel_for_each_value() {
    let svg = drawn("kind = 'bars'\nshow = ['goodput.total']\nx = 'bottleneck'\npanel = 'tsq'");
    has(
        &svg[0],
        &["TSQ", "NoTSQ", "L100M", "Goodput, total, Mbit/s", "95"],
    );
    assert_eq!(
        words(&svg[0])
            .iter()
            .filter(|word| **word == "L100M")
            .count(),
        2,
        "in each panel"
    );
    let over_time = drawn("kind = 'series'\nshow = ['goodput', 'backlog.client']");
    assert_eq!(over_time.len(), 2, "one for each bottleneck");
    has(
        &over_time[1],
        &[
            "Goodput, Qdisc backlog of client · R100M",
            "Goodput, Mbit/s",
            "Qdisc backlog of client, packets",
            "TSQ",
        ],
    );
}

#[test]
fn a_chosen_cell_tells_its_flows_apart() {
    let svg =
        drawn("kind = 'series'\nshow = ['backlog']\nwhere = { bottleneck = 'L100M', tsq = 'TSQ' }");
    has(&svg[0], &["client", "router&gt;server"]);
    assert!(!words(&svg[0]).contains(&"NoTSQ"));
}

#[test]
fn counts_are_summed_up_from_the_beginning_and_states_are_not() {
    let mut runs = runs();
    let drops = Series {
        quantity: Quantity::Drops,
        of: "client".to_owned(),
        points: (1..=60).map(|i| (f64::from(i) / 10.0, 300.0)).collect(),
    };
    runs.iter_mut()
        .for_each(|run| run.series.push(drops.clone()));
    let draw = |cumulative: bool| {
        let text =
            format!("kind = 'series'\nshow = ['drops.client', 'cwnd']\ncumulative = {cumulative}");
        figure(&text).draw(&row(), &runs).expect("drawn").remove(0)
    };
    has(&draw(false), &["Drops of client, packets", "300"]);
    has(
        &draw(true),
        &[
            "Drops of client, summed up, packets",
            "Congestion window, packets",
            "20k",
        ],
    );
}

/// The point at its end stands for the interval before it, of one flow as of several.
#[test]
fn the_warm_up_is_in_no_distribution() {
    let (row, runs) = (row(), runs());
    let figure = figure("kind = 'cdf'\nshow = ['goodput']");
    let facets = Facets::new(&figure, &row, &runs);
    for named in ["goodput", "goodput.upload-1", "ping"] {
        let shown = Shown::read(named).expect("a quantity");
        let samples = samples(&facets.cells()[0], &shown);
        assert_eq!(
            samples.len(),
            2 * 50,
            "{named}: of two runs, from 1.1 s to 6 s"
        );
    }
}

#[test]
fn a_distribution_names_its_median_and_a_trade_its_cells() {
    let svg = drawn("kind = 'cdf'\nshow = ['ping']\nwhere = { bottleneck = 'L100M' }");
    has(&svg[0], &["TSQ (2.1)", "NoTSQ (126)", "Ping, ms"]);
    let svg = drawn("kind = 'trade'\nshow = ['goodput.total', 'ping.p50']");
    has(
        &svg[0],
        &[
            "L100M",
            "R100M",
            "Ping, median, ms",
            "Goodput, total, Mbit/s",
        ],
    );
}

#[test]
fn numbers_of_one_unit_share_a_figure_and_others_get_their_own() {
    let svg = drawn(
        "kind = 'bars'\nshow = ['ping.p50', 'ping.p90', 'goodput.total', 'goodput.fairness']\nwhere = { tsq = 'TSQ' }",
    );
    assert_eq!(svg.len(), 3);
    has(&svg[0], &["Ping, median", "Ping, 90th percentile"]);
    has(&svg[2], &["Goodput, fairness"]);
}

/// An axis that was named after the first entry would be wrong for the others.
#[test]
fn an_axis_that_several_share_is_named_after_what_they_have_in_common() {
    let svg = drawn("kind = 'box'\nshow = ['backlog.client', 'backlog.router>server']");
    has(&svg[0], &["Qdisc backlog, packets"]);
    let svg = drawn("kind = 'box'\nshow = ['ping', 'rtt']");
    has(&svg[0], &["Ping, TCP round trip, ms"]);
}

#[test]
fn distributions_of_different_units_get_their_own_figures_and_others_their_names() {
    let svg =
        drawn("kind = 'cdf'\nshow = ['ping', 'rtt', 'goodput']\nwhere = { bottleneck = 'L100M' }");
    assert_eq!(svg.len(), 2);
    has(
        &svg[0],
        &[
            "Ping, TCP round trip, ms",
            "TSQ Ping (2.1)",
            "TSQ TCP round trip (no samples)",
        ],
    );
    has(&svg[1], &["Goodput, Mbit/s", "TSQ (95)"]);
}

#[test]
fn dips_are_a_number_and_the_time_between_them_is_in_seconds() {
    let units = ["ping.dips", "ping.dip_gap", "ping.p50"]
        .map(|number| Shown::read(number).expect("a quantity").number_unit());
    assert_eq!(units, ["", "s", "ms"]);
}

#[test]
fn what_is_not_there_is_an_empty_place() {
    has(&drawn("kind = 'box'\nshow = ['one_way']")[0], &["–"]);
    has(
        &drawn("kind = 'series'\nshow = ['one_way']")[0],
        &["no samples"],
    );
    let nothing = RowResult {
        cells: Vec::new(),
        axes: Vec::new(),
        ..row()
    };
    for kind in ["box", "cdf", "series", "bars"] {
        let _ = figure(&format!("kind = '{kind}'\nshow = ['ping.p50']"))
            .draw(&nothing, &[])
            .expect("drawn");
    }
}

#[test]
fn a_row_that_states_none_gets_figures_of_what_it_has() {
    let kinds: Vec<Kind> = defaults(&row(), &runs())
        .iter()
        .map(|figure| figure.kind)
        .collect();
    assert_eq!(kinds, [Kind::Bars, Kind::Box, Kind::Series]);
    assert_eq!(defaults(&row(), &[]), []);
}

#[test]
fn mistakes_are_answered_with_what_there_is() {
    let error = |text| {
        figure(text)
            .check(&row().axes)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        error("kind = 'box'\nshow = ['ping']\nx = 'tsk'"),
        "figure.x = \"tsk\" is no axis of the row; it has bottleneck, tsq"
    );
    assert!(
        error("kind = 'box'\nshow = ['pong']")
            .starts_with("figure.show = \"pong\" names no quantity; there is goodput, ping,")
    );
    assert_eq!(
        error("kind = 'trade'\nshow = ['ping.p50']"),
        "a figure of kind trade shows two, not 1"
    );
    assert_eq!(
        error("kind = 'cdf'\nshow = ['ping']\nx = 'tsq'"),
        "a figure of kind cdf has no `x`; kinds with it: box, bars, trade"
    );
    assert_eq!(
        error("kind = 'box'\nshow = ['ping']\ncumulative = true"),
        "a figure of kind box has no `cumulative`; kinds with it: series"
    );
    assert_eq!(
        error("kind = 'box'\nshow = []"),
        "a figure of kind box shows at least one, not 0"
    );
    assert!(toml::from_str::<Figure>("kind = 'pie'\nshow = ['ping']").is_err());
}
