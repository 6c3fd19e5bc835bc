//! Shapes, figures and tables: the names of measurements in them, and what their expressions may cost.

use super::*;

#[test]
fn errors_name_the_measurements_and_values_there_are() {
    check_errors(&[
        (
            "goodput.upload.total",
            "goodput.uplaod.total",
            "it.toml:5:10: table.1: `goodput` has no `uplaod`; it has upload",
        ),
        (
            "goodput.upload.total",
            "goodputs.total",
            "it.toml:5:10: table.1: nothing is measured as `goodputs` here; there is backlog, ",
        ),
        (
            "goodput.upload.total",
            "ping.p51",
            "it.toml:5:10: table.1: `p51` is no number of `ping`; there is count, mean, sd, min, p10, ",
        ),
        (
            "says = \"fast is faster\"",
            "says = \"\"",
            "it.toml:57:8: shape.1.says: the shape in words is wanted",
        ),
        (
            "cell[\"fast\"]",
            "cell[\"fats\"]",
            "it.toml:58:9: shape.1.check: axis `rate` has no value `fats`; it has slow, fast",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.totl >",
            "it.toml:58:9: shape.1.check: `totl` is no number of `goodput`; there is count, ",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].pong.p50 >",
            "it.toml:58:9: shape.1.check: nothing is measured as `pong` here",
        ),
        (
            "cell[\"fast\"].goodput.total > cell[\"slow\"].goodput.total",
            "1 > 2",
            "it.toml:58:9: shape.1.check: it names no number: write e.g. cell[\"slow\"].ping.p50",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.total +",
            "it.toml:58:9: shape.1.check: it must say yes or no",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.total > x +",
            "it.toml:58:9: shape.1.check: Undeclared reference to 'x'",
        ),
        (
            "cell[\"fast\"].goodput.total >",
            "cell[\"fast\"].goodput.total > >",
            "it.toml:58:9: shape.1.check: the expression is not understood: at column ",
        ),
        (
            "[run]",
            "[[figure]]\nkind = \"bars\"\nshow = [\"goodput.uplod.total\"]\n[run]",
            "it.toml:9:9: figure.1.show.1: `goodput` has no `uplod`; it has upload",
        ),
        (
            "[run]",
            "[[figure]]\nkind = \"bars\"\nshow = [\"goodput\"]\n[run]",
            "it.toml:9:9: figure.1.show.1: `goodput` names no number: write e.g. ping.p50",
        ),
        (
            "[run]",
            "[[figure]]\nkind = \"box\"\nshow = [\"ping.p50\"]\n[run]",
            "it.toml:9:9: figure.1.show.1: `ping` has no `p50`; it has ping",
        ),
        (
            "table = [\"goodput.upload.total\"]",
            "table = [\"counters.retransmit\"]",
            "it.toml:5:10: table.1: nothing is counted as `retransmit`; there is fast_recoveries, ",
        ),
    ]);
}

/// An application that sends over a connection is measured as one, and a page's bytes are counted.
#[test]
fn figures_show_what_the_flows_will_have() {
    let flows = "[[flow]]\nname = \"voice\"\nkind = \"onoff\"\nover = \"tcp\"\nfrom = \"client\"\nto = \"server\"\nrate = \"64kbit\"\nsize = \"160b\"\non = \"1s\"\noff = \"1s\"\n\
                 [[flow]]\nname = \"pages\"\nkind = \"web\"\nfrom = \"client\"\nto = \"server\"\nobjects = 3\nsize = \"9kib\"\n";
    let shown = "show = [\"rtt.voice\", \"one_way.voice\", \"goodput.pages\", \"cwnd.upload-1\", \"backlog.router>server\"]";
    let figure = format!("[[figure]]\nkind = \"series\"\n{shown}\n");
    load(&format!("{GOOD}{flows}{figure}")).expect("all of it is measured");
}

/// The work and the memory of an expression grow exponentially with nesting.
#[test]
fn an_expression_that_would_take_too_long_is_refused() {
    let with = |check: &str| {
        GOOD.replace(
            "cell[\"fast\"].goodput.total > cell[\"slow\"].goodput.total",
            check,
        )
    };
    let nested = |depth: usize, pairs: usize| {
        let list = vec!["\"slow\", \"fast\""; pairs].join(", ");
        let open = format!("[{list}].all(x, ").repeat(depth);
        format!("{open}cell[x].goodput.total > 0.0{}", ")".repeat(depth))
    };
    let doubled = |times: usize| {
        let doubled = ".map(x, x + x)".repeat(times);
        format!("cell[\"slow\"].goodput.total > [[1.0]]{doubled}[0][0]")
    };
    for text in [nested(3, 1), doubled(3)] {
        load(&with(&text)).expect("a few steps");
    }
    for text in [nested(7, 4), doubled(18)] {
        let error = load(&with(&text)).expect_err("too many").message;
        assert!(error.contains("more than 100000 steps"), "{error}");
    }
}
