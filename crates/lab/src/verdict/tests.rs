use proptest::prelude::*;

use super::*;
use crate::cell::Cell;
use crate::scenario::document::Variance;

fn cell(values: &[(&str, &str)], numbers: &[(&str, f64)]) -> CellResult {
    let cell = Cell(
        values
            .iter()
            .map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned()))
            .collect(),
    );
    let estimate = |value: f64| Estimate {
        mean: value,
        lo: value,
        hi: value,
        count: 1,
    };
    let numbers = numbers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), estimate(*value)))
        .collect();
    CellResult {
        cell,
        seeds: vec![1],
        numbers,
    }
}

fn cells() -> Vec<CellResult> {
    vec![
        cell(
            &[("b", "L100M"), ("t", "TSQ")],
            &[("ping.p50", 2.0), ("backlog.router>server.mean", 7.0)],
        ),
        cell(&[("b", "L100M"), ("t", "NoTSQ")], &[("ping.p50", 60.0)]),
    ]
}

fn judge(check: &str) -> ShapeResult {
    let expected = Expected {
        says: "so".into(),
        check: check.into(),
        paper: BTreeMap::new(),
        file: "f.toml".into(),
        line: 3,
    };
    Check::read(check)
        .unwrap_or_else(|error| panic!("{check}: {error}"))
        .judge(&expected, &cells(), &[])
}

#[test]
fn comparisons_hold_or_do_not_and_show_what_they_compared() {
    let verdict = judge(r#"cell["L100M"]["NoTSQ"].ping.p50 > 10 * cell["L100M"]["TSQ"].ping.p50"#);
    assert_eq!(verdict.judged, Judgment::Holds);
    let seen: Vec<_> = verdict
        .seen
        .iter()
        .map(|seen| (seen.name.as_str(), seen.value.mean))
        .collect();
    assert_eq!(
        seen,
        [("L100M.NoTSQ.ping.p50", 60.0), ("L100M.TSQ.ping.p50", 2.0)]
    );
    assert_eq!(
        judge(r#"cell["L100M"]["TSQ"].ping.p50 == 3"#).judged,
        Judgment::DoesNotHold
    );
    assert_eq!(
        judge(r#"cell["L100M"]["TSQ"].backlog["router>server"].mean >= 7"#).judged,
        Judgment::Holds
    );
    assert_eq!(
        judge(r#"cell.L100M.TSQ.ping.p50 / 4 < 0.6 && 1 - 2 == -1 && size([1, 2]) == 2"#).judged,
        Judgment::Holds
    );
}

#[test]
fn a_variable_over_a_list_names_each_of_its_numbers() {
    let verdict = judge(r#"["L100M"].all(b, ["TSQ", "NoTSQ"].all(t, cell[b][t].ping.p50 > 1))"#);
    assert_eq!((verdict.judged, verdict.seen.len()), (Judgment::Holds, 2));
    let one = judge(r#"["TSQ", "NoTSQ"].exists_one(t, cell["L100M"][t].ping.p50 > 10)"#);
    assert_eq!((one.judged, one.seen.len()), (Judgment::Holds, 2));
}

#[test]
fn what_cannot_be_computed_is_an_error_with_its_reason() {
    let missing = judge(r#"cell["L100M"]["TSQ"].ping.p99 > 1"#).judged;
    assert_eq!(
        missing,
        Judgment::Error("there is no number `p99`: nothing was measured".to_owned())
    );
    assert!(
        matches!(judge(r#"cell["L100M"]["TSQ"].ping.p50"#).judged, Judgment::Error(why) if why.contains("yes or no"))
    );
    assert!(matches!(
        judge(r#"cell["L100M"]["TSQ"].ping > 1"#).judged,
        Judgment::Error(_)
    ));
    for text in ["", "cell[", "1 +", "cell..x", "\"", "a b"] {
        assert!(Check::read(text).is_err(), "{text}");
    }
    assert!(Check::read(&"(".repeat(100)).is_err() && Check::read(&"1+".repeat(5000)).is_err());
    // Within the limits of length and brackets, and too deep for the stack when it is computed.
    for [begin, more] in [["cell.a > 1", " + 1"], ["cell.a", ".abs()"]] {
        let long = |count: usize| Check::read(&(begin.to_owned() + &more.repeat(count)));
        assert!(long(10).is_ok(), "{more}");
        let why = long(300).expect_err("it nests too deep");
        assert!(why.contains("at most 64 deep"), "{why}");
    }
}

/// An expression that used up the stack would end the process. The thread of a test has two megabytes;
/// brackets in strings hide others from the first count.
#[test]
fn what_nests_is_refused_before_the_stack_ends() {
    let deep = |open: &str, count: usize, close: &str| {
        format!("{}cell.a > 1{}", open.repeat(count), close.repeat(count))
    };
    for text in [
        deep("(", 100_000, ")"),
        deep("(", 2000, ")"),
        deep("[1].all(x, ", 300, ")"),
        deep("(\")\" == \"\" || ", 150, ")"),
        deep("(r'\\' == '' || ')' == '' || ", 120, ")"),
        deep("[1][\"]\" == ", 200, "]"),
        deep("true ? 1 : ", 300, ""),
        format!("cell.a > 1{}", "+1".repeat(2000)),
        format!("cell{} > 1", ".a".repeat(2000)),
        format!("cell{} > 1", "[0]".repeat(1300)),
        format!("cell{} > 1", ".a()".repeat(1000)),
        format!("{}true", "!(".repeat(2000)),
    ] {
        let why = Check::read(&text).expect_err("it nests too deep");
        assert!(!why.is_empty());
    }
    // A row of signs is a loop.
    let _ = Check::read(&format!("{}1 < cell.a", "-".repeat(4000)));
    let _ = Check::read(&format!("{}true", "!".repeat(4000)));
}

/// A shape reports all its numbers, including those that short-circuit evaluation skips.
#[test]
fn a_shape_that_looks_at_a_cell_that_was_not_run_is_not_judged() {
    let mut cells = cells();
    cells[1] = CellResult {
        seeds: Vec::new(),
        numbers: BTreeMap::new(),
        ..cells[1].clone()
    };
    let judge = |check: &str| {
        let expected = Expected {
            says: "so".into(),
            check: check.into(),
            paper: BTreeMap::new(),
            file: "f.toml".into(),
            line: 3,
        };
        Check::read(check)
            .unwrap_or_else(|error| panic!("{check}: {error}"))
            .judge(&expected, &cells, &[])
            .judged
    };
    assert_eq!(
        judge(r#"cell["L100M"]["TSQ"].ping.p50 < 10"#),
        Judgment::Holds
    );
    assert_eq!(
        judge(r#"cell["L100M"]["TSQ"].ping.p50 > 10"#),
        Judgment::DoesNotHold
    );
    let not_run = Judgment::NotRun(vec!["L100M_NoTSQ".to_owned()]);
    for check in [
        r#"cell["L100M"]["NoTSQ"].ping.p50 > 10 * cell["L100M"]["TSQ"].ping.p50"#,
        r#"cell["L100M"]["TSQ"].ping.p50 < 10 || cell["L100M"]["NoTSQ"].ping.p50 < 10"#,
        r#"["TSQ", "NoTSQ"].exists(t, cell["L100M"][t].ping.p50 < 10)"#,
        r#"cell["L100M"]["TSQ"].ping.p50 < 10 && cell["L100M"].all(t, cell["L100M"][t].ping.p50 < 10)"#,
        r#"cell["L100M"]["TSQ"].ping.p50 < 10 && cell.all(b, cell[b]["TSQ"].ping.p50 < 10)"#,
        r#"cell["L100M"]["TSQ"].ping.p50 < 10 && ["TSQ"].all(t, cell["L100M"]["No" + t].ping.p50 > 10)"#,
        "anova.p < 0.05",
    ] {
        assert_eq!(judge(check), not_run, "{check}");
    }
}

#[test]
fn the_analysis_of_variance_is_fishers() {
    // Groups 6 8 4 5 3 4, 8 12 9 11 6 8, 13 9 11 8 7 12: F(2, 15) = 9.3, F-crit 3.68 at 0.05, p =
    // 0.0024.
    let groups = [
        [6.0, 8.0, 4.0, 5.0, 3.0, 4.0],
        [8.0, 12.0, 9.0, 11.0, 6.0, 8.0],
        [13.0, 9.0, 11.0, 8.0, 7.0, 12.0],
    ];
    let cells: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|value| cell(&[("x", value)], &[]))
        .collect();
    let wanted = Variance {
        metric: "ping.mean".into(),
        over: "x".into(),
        alpha: 0.05,
    };
    let analyses = variance(&wanted, &cells, |number, _| groups[number].to_vec());
    let [anova] = &analyses[..] else {
        panic!("one analysis")
    };
    assert!((anova.f - 9.264_705_882).abs() < 1e-6, "{anova:?}");
    assert!(
        (anova.f_crit - 3.682_320_344).abs() < 1e-3 && (anova.p - 0.002_398_777).abs() < 1e-6,
        "{anova:?}"
    );
    assert_eq!(
        variance(&wanted, &cells, |_, _| vec![1.0]),
        [],
        "one repetition says nothing of chance"
    );
    assert_eq!(
        variance(&wanted, &cells, |_, _| vec![1.0, 1.0]),
        [],
        "nothing varies"
    );
}

#[test]
fn shapes_see_the_analysis_of_the_other_axes_values() {
    let at = vec![("streams".to_owned(), "16".to_owned())];
    let (metric, over, groups) = ("ping".to_owned(), "aqm".to_owned(), Vec::new());
    let anova = Anova {
        metric,
        over,
        at,
        groups,
        f: 9.0,
        f_crit: 3.0,
        p: 0.01,
        alpha: 0.05,
    };
    let check = r#"anova["16"].p < 0.05 && anova["16"].f > anova["16"].f_crit"#;
    let expected = Expected {
        says: "so".into(),
        check: check.into(),
        paper: BTreeMap::new(),
        file: "f.toml".into(),
        line: 3,
    };
    let verdict = Check::read(check)
        .expect("it is right")
        .judge(&expected, &cells(), &[anova]);
    assert_eq!(verdict.judged, Judgment::Holds);
    let seen: Vec<_> = verdict
        .seen
        .iter()
        .map(|seen| (seen.name.as_str(), seen.value.mean))
        .collect();
    assert_eq!(
        seen,
        [
            ("anova.16.p", 0.01),
            ("anova.16.f", 9.0),
            ("anova.16.f_crit", 3.0)
        ]
    );
    assert!(
        Check::read("anova.q > 1")
            .expect("it is read")
            .suits(&[], &[], true)
            .is_err()
    );
}

proptest! {
    #[test]
    fn no_expression_panics(text in prop_oneof![
        ".{0,60}",
        "[a-z0-9\\[\\]().\"'+*/<>=&|!?:, -]{0,60}",
        "(cell\\[\"L100M\"\\]|cell|1|\\(|\\)|\\.all\\(t, |\\.ping|\\.p50| > | \\+ | && |\\[|\\]|\"TSQ\"|,|'|\"){0,12}",
    ]) {
        if let Ok(check) = Check::read(&text) {
            let expected = Expected { says: String::new(), check: text, paper: BTreeMap::new(), file: String::new(), line: 1 };
            let _verdict = check.judge(&expected, &cells(), &[]);
        }
    }
}
