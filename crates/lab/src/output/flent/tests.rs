use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::Value;

use crate::cell::{Backend, Cell};
use crate::quantity::Quantity;
use crate::recording::{Run, Series};

use super::*;

/// `uploads` uploads, `downloads` downloads, `pings` pings and a queue, sampled each 0.1 s from 0
/// to 12 s, measured from 2 s on.
fn run(uploads: usize, downloads: usize, pings: usize) -> Run {
    let every = |quantity, of: &str, value: fn(usize) -> f64| Series {
        quantity,
        of: of.to_owned(),
        points: (1..=120)
            .map(|i| (f64::from(i) / 10.0, value(i as usize)))
            .collect(),
    };
    let mut series = Vec::new();
    let numbered =
        |name: &str, count| -> Vec<String> { (1..=count).map(|i| format!("{name}-{i}")).collect() };
    // As a run sorts them: upload-10 before upload-2.
    let mut flows: Vec<String> = numbered("upload", uploads)
        .into_iter()
        .chain(numbered("download", downloads))
        .collect();
    flows.sort();
    for of in &flows {
        series.push(every(Quantity::Goodput, of, |i| 20.0 + (i % 5) as f64));
        series.push(every(Quantity::Cwnd, of, |i| 10.0 + (i % 50) as f64));
        series.push(every(Quantity::Rtt, of, |i| 15.0 + (i % 3) as f64));
        series.push(every(Quantity::PacingRate, of, |_| 25.0));
    }
    for of in numbered("ping", pings) {
        series.push(every(Quantity::Ping, &of, |i| 18.0 + (i % 7) as f64));
    }
    for (quantity, value) in [
        (Quantity::Backlog, (|i| (i % 40) as f64) as fn(usize) -> f64),
        (Quantity::BacklogBytes, |i| (i % 40) as f64 * 1514.0),
        (Quantity::Drops, |i| usize::from(i % 40 == 39) as f64),
        (Quantity::Marks, |_| 0.0),
        (Quantity::Sent, |_| 120_000.0),
        (Quantity::Sojourn, |i| (i % 40) as f64 * 0.12),
    ] {
        series.push(every(quantity, "router>server", value));
    }
    series.sort_by(|a, b| (a.quantity, &a.of).cmp(&(b.quantity, &b.of)));
    Run {
        scenario: "001-F4".to_owned(),
        point: String::new(),
        cell: Cell(vec![("tsq".to_owned(), "NoTSQ".to_owned())]),
        seed: 17,
        path: Backend::Sim,
        begin: 2.0,
        end: 12.0,
        series,
        counters: BTreeMap::new(),
    }
}

fn test(name: &str) -> FlentTest {
    FlentTest {
        test: name.to_owned(),
        ..FlentTest::default()
    }
}

fn json(test: &FlentTest, run: &Run) -> Value {
    let mut bytes = Vec::new();
    test.write(run, &mut bytes).expect("written");
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

fn names(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn what_flent_cannot_do_without_is_there() {
    let file = json(&test("tcp_4up"), &run(4, 0, 1));
    assert_eq!(file["version"], 4);
    for (key, value) in [
        ("NAME", "tcp_4up"),
        ("TITLE", ""),
        ("HOST", "server"),
        ("LOCAL_HOST", "client"),
        ("T0", "2020-01-01T00:00:00.000000Z"),
        ("TIME", "2020-01-01T00:00:00.000000Z"),
    ] {
        assert_eq!(file["metadata"][key], value, "{key}");
    }
    for (key, value) in [("LENGTH", 10.0), ("TOTAL_LENGTH", 20.0), ("STEP_SIZE", 0.1)] {
        assert_eq!(file["metadata"][key].as_f64(), Some(value), "{key}");
    }
    let flows = [
        "TCP upload::1",
        "TCP upload::2",
        "TCP upload::3",
        "TCP upload::4",
    ];
    let queue = [
        "qdisc_stats_router-server",
        "qdisc_stats_router-server::dropped",
        "qdisc_stats_router-server::ecn_mark",
    ];
    let all: Vec<&str> = ["Ping (ms) ICMP"]
        .into_iter()
        .chain(flows)
        .chain(queue)
        .collect();
    assert_eq!(names(&file["results"]), all);
    assert_eq!(names(&file["raw_values"]), all);
    assert_eq!(
        file["metadata"]["TEST_PARAMETERS"]["qdisc_stats_hosts"],
        "router-server"
    );
    assert_eq!(
        file["metadata"]["TEST_PARAMETERS"]["qdisc_stats_interfaces"],
        "router>server"
    );
    let slots = file["x_values"].as_array().expect("an axis").len();
    assert!(
        file["results"]
            .as_object()
            .expect("series")
            .values()
            .all(|series| series.as_array().expect("values").len() == slots)
    );
}

#[test]
fn measured_time_begins_at_second_five() {
    let file = json(&test("tcp_1up"), &run(1, 0, 1));
    // The first sample of the run, at 0.1 s, is 1.9 s before the measured time.
    let first = &file["raw_values"]["TCP upload"][0];
    assert_eq!(first["t"], 1_577_836_803.1);
    assert_eq!(
        (
            &first["val"],
            &first["dur"],
            &first["tcp_cwnd"],
            &first["tcp_rtt"],
            &first["tcp_pacing_rate"]
        ),
        (
            &21.0.into(),
            &0.1.into(),
            &11.0.into(),
            &16.0.into(),
            &25.0.into()
        )
    );
    let result = file["results"]["TCP upload"].as_array().expect("values");
    assert_eq!(
        (&result[30], &result[31], &result[150]),
        (&Value::Null, &21.0.into(), &20.0.into())
    );
    assert_eq!(file["x_values"][150], 15.0);
    assert_eq!(result.len(), 151, "nothing is measured after that");
    assert_eq!(
        file["metadata"]["SERIES_META"]["TCP upload"]["MEAN_VALUE"]
            .as_f64()
            .map(|mean| (mean * 100.0).round()),
        Some(2200.0)
    );
}

#[test]
fn samples_of_a_queue_count_since_the_last_and_carry_its_delay() {
    let file = json(&test("tcp_1up"), &run(1, 0, 1));
    let samples = file["raw_values"]["qdisc_stats_router-server"]
        .as_array()
        .expect("samples");
    assert_eq!(
        samples
            .iter()
            .map(|sample| sample["dropped"].as_f64().expect("a number"))
            .sum::<f64>(),
        3.0
    );
    let third = &samples[2];
    assert_eq!(
        (
            &third["backlog_pkts"],
            &third["backlog_bytes"],
            &third["delay"]
        ),
        (&3.0.into(), &4542.0.into(), &0.36.into())
    );
}

#[test]
fn flows_are_numbered_in_order_and_counted_where_flent_asks() {
    let file = json(&test("tcp_nup"), &run(12, 0, 1));
    assert_eq!(file["metadata"]["TEST_PARAMETERS"]["upload_streams"], "12");
    assert!(file["raw_values"]["TCP upload::12"].is_array());
    let named = in_order(
        ["upload-10", "upload-2", "bulk"]
            .map(str::to_owned)
            .to_vec(),
    );
    assert_eq!(named, ["bulk", "upload-2", "upload-10"]);
    let down = json(&test("tcp_ndown"), &run(0, 3, 1));
    assert_eq!(down["metadata"]["TEST_PARAMETERS"]["download_streams"], "3");
}

#[test]
fn both_directions_and_four_pings_are_rrul() {
    let file = json(&test("rrul_be"), &run(4, 4, 4));
    let names = names(&file["results"]);
    for name in [
        "TCP upload BE",
        "TCP upload BE4",
        "TCP download BE2",
        "Ping (ms) UDP BE3",
        "Ping (ms) ICMP",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let classes = json(&test("rrul"), &run(4, 4, 4));
    assert!(classes["results"]["TCP download EF"].is_array());
}

#[test]
fn a_scenario_may_say_which_series_a_flow_is() {
    let series = [("TCP bbr 1", "upload-2"), ("TCP cubic 2", "upload-1")]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .into();
    let file = json(
        &FlentTest {
            series,
            ..test("tcp_4up_squarewave")
        },
        &run(2, 0, 0),
    );
    assert_eq!(names(&file["results"])[..2], ["TCP bbr 1", "TCP cubic 2"]);
    let one = FlentTest {
        upload: Some("upload-2".to_owned()),
        ping: Some("ping".to_owned()),
        ..test("tcp_1up")
    };
    assert_eq!(
        json(&one, &run(2, 0, 2))["raw_values"]["TCP upload"]
            .as_array()
            .map(Vec::len),
        Some(120)
    );
    let only = FlentTest {
        upload: Some("upload".to_owned()),
        ping: Some("ping-2".to_owned()),
        ports: vec!["none".to_owned()],
        ..test("tcp_1up")
    };
    assert!(matches!(
        only.write(&run(2, 0, 2), Vec::new()),
        Err(FlentError::Flows {
            wanted: 1,
            has: 2,
            ..
        })
    ));
}

#[test]
fn a_queue_alone_is_qdisc_stats() {
    let file = json(&test("qdisc-stats"), &run(1, 0, 1));
    let all = [
        "backlog_bytes",
        "backlog_pkts",
        "delay",
        "dropped",
        "ecn_mark",
    ]
    .map(|key| format!("qdisc-stats::{key}"));
    assert_eq!(names(&file["raw_values"]), all);
}

#[test]
fn mistakes_are_answered_with_a_remedy() {
    let error = |test: &FlentTest, run: &Run| {
        test.write(run, Vec::new())
            .expect_err("refused")
            .to_string()
    };
    let unknown = error(&test("tcp_5up"), &run(5, 0, 1));
    assert!(
        unknown.contains("tcp_5up") && unknown.contains("tcp_nup"),
        "{unknown}"
    );
    let few = error(&test("tcp_4up"), &run(3, 0, 1));
    assert!(
        few.contains("has 4 uploads, the run has 3: take tcp_nup"),
        "{few}"
    );
}

#[test]
fn equal_runs_are_equal_bytes_and_names_say_which() {
    let bytes = |seed| {
        let (mut out, run) = (
            Vec::new(),
            Run {
                seed,
                ..run(1, 0, 1)
            },
        );
        test("tcp_1up").write(&run, &mut out).expect("written");
        out
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
    assert_eq!(
        test("tcp_1up").file_name(&run(1, 0, 1)),
        "tcp_1up-2020-01-01T000000.000000.001-F4_NoTSQ_17.flent.gz"
    );
}

#[test]
fn an_axis_has_an_end() {
    let file = json(
        &test("tcp_1up"),
        &Run {
            end: 1e300,
            ..run(1, 0, 1)
        },
    );
    assert!(
        file["x_values"]
            .as_array()
            .is_some_and(|axis| axis.len() < 60_000)
    );
    assert_eq!(file["metadata"]["STEP_SIZE"], 10.0, "the widest");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The file is JSON with numeric samples for any input.
    #[test]
    fn any_samples_make_a_file(
        times in prop::collection::vec(prop_oneof![4 => 0.0..12.0f64, 1 => any::<f64>()], 0..20),
        values in prop::collection::vec(any::<f64>(), 20),
        begin in any::<f64>(),
        length in prop_oneof![Just(-1.0), Just(f64::NAN), 1.0..20.0f64],
    ) {
        let mut series = Vec::new();
        let points: Vec<(f64, f64)> = times.into_iter().zip(values).collect();
        for quantity in [Quantity::Goodput, Quantity::Ping, Quantity::Rtt, Quantity::Backlog, Quantity::Drops] {
            series.push(Series { quantity, of: "it".to_owned(), points: points.clone() });
        }
        let run = Run { begin, end: begin + length, series, ..run(0, 0, 0) };
        for name in ["tcp_nup", "qdisc-stats"] {
            let mut bytes = Vec::new();
            if test(name).write(&run, &mut bytes).is_ok() {
                let mut text = String::new();
                GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip");
                let file: Value = serde_json::from_str(&text).expect("JSON");
                for sample in file["raw_values"].as_object().expect("series").values().flat_map(|raw| raw.as_array().expect("samples")) {
                    prop_assert!(sample["t"].is_number() && !sample["val"].is_null() | sample["backlog_pkts"].is_number() | sample["dropped"].is_number(), "{}", sample);
                }
            }
        }
    }
}
