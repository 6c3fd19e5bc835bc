use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Answers as a middlebox that knows one port, on a thread of its own, until a request to replace or
/// until no client is left.
fn serving(control: Control) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        // All of it: the socket disappears with the last part.
        let control = control;
        for Pending { work, reply } in control.requests.iter().flatten() {
            let Work::Request(request) = work else {
                continue;
            };
            let last = matches!(request, Request::Replace { .. });
            let answer = match request {
                Request::Show => Answer {
                    error: None,
                    ports: vec![port()],
                },
                Request::Change { words, .. } => Answer::of(Err(words)),
                Request::Replace { .. } => Answer::of(Ok(())),
                Request::Capture(_) => Answer::of(Err("not here".to_owned())),
            };
            reply.send(answer).expect("the client waits");
            if last {
                break;
            }
        }
    })
}

/// A client of a middlebox that knows one port.
pub(super) fn client() -> (Client, std::thread::JoinHandle<()>) {
    let (pair, control) = Pair::new("");
    let client = Client {
        pairs: Arc::new([pair]),
    };
    let wake = Arc::new(EventFd::new().expect("a descriptor"));
    control.attach(&wake, feed());
    (client, serving(control))
}

fn feed() -> Feed {
    Feed {
        clock: tautline_rt::Clock::start(),
        places: ["right".to_owned(), "left".to_owned()],
    }
}

fn port() -> State {
    State {
        interface: "eth\"0".to_owned(),
        kind: "fq_codel".to_owned(),
        drops: vec![("over the limit".to_owned(), 3)],
        sojourn_ns: vec![(1 << 20, 1)],
        lines: vec!["fq_codel 8001: limit 10240p".to_owned()],
        talkers: TopTalkers {
            hosts: vec![talkers::TopHost {
                address: "10.0.0.1".to_owned(),
                end: talkers::End::Destination,
                traffic: talkers::Counters {
                    bytes: 1500,
                    sojourn_sum_ns: 2_500_000,
                    ..Default::default()
                },
            }],
            flows: Vec::new(),
        },
        ..State::default()
    }
}

pub(super) fn replace() -> Request {
    replace_in(None)
}

fn replace_in(pair: Option<&str>) -> Request {
    Request::Replace {
        pair: pair.map(str::to_owned),
        way: Way::ToLeft,
        words: "pfifo".to_owned(),
    }
}

#[test]
fn requests_are_answered_and_the_socket_is_its_owners() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("control");
    let endpoints = Endpoints {
        socket: Some(&path),
        http: None,
    };
    let middlebox = serving(Control::listen(endpoints, None).expect("free"));
    let mode = std::fs::metadata(&path).expect("a socket").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    assert!(bind(&path).is_err(), "one middlebox for each socket");
    let file = directory.path().join("file");
    std::fs::write(&file, "kept").expect("room");
    assert!(
        bind(&file).is_err() && file.exists(),
        "no socket is replaced"
    );

    let shown = ask(&path, &Request::Show).expect("answered");
    assert_eq!(shown.ports, [port()]);
    let change = Request::Change {
        pair: None,
        way: Way::ToRight,
        words: "no such word".to_owned(),
    };
    let refused = ask(&path, &change).expect("answered");
    assert_eq!(refused.error.as_deref(), Some("no such word"));

    // Garbage is answered, and the conversation goes on.
    let stream = UnixStream::connect(&path).expect("it listens");
    (&stream)
        .write_all(b"{}\n\xff\xfe\n{\"command\":\"show\",\"way\":\"up\"}\n{\"command\":\"show\"}\n")
        .expect("taken");
    let lines: Vec<String> = BufReader::new(&stream)
        .lines()
        .take(4)
        .map(|line| line.expect("a line"))
        .collect();
    assert!(
        lines[..2].iter().all(|line| line.contains("error")),
        "{lines:?}"
    );
    assert!(lines[3].contains("ports"), "{lines:?}");

    assert_eq!(ask(&path, &replace()).expect("answered").error, None);
    middlebox.join().expect("no panic");
    assert!(!path.exists());
}

/// Those that are connected go on; one of them that ends makes room.
#[test]
fn one_client_too_many_is_told_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("control");
    let endpoints = Endpoints {
        socket: Some(&path),
        http: None,
    };
    let middlebox = serving(Control::listen(endpoints, None).expect("free"));
    let connected = || UnixStream::connect(&path).expect("it listens");
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connected()).collect();
    for _ in 0..3 {
        let refused = ask(&path, &Request::Show).expect("answered");
        let why = refused.error.expect("refused");
        assert!(why.contains("32 clients"), "{why}");
    }
    let last = clients.last().expect("32");
    let shown = client::converse(last, &Request::Show).expect("answered");
    assert_eq!(shown.ports, [port()]);
    clients.pop();
    let served = (0..1000).any(|_| {
        std::thread::yield_now();
        ask(&path, &replace()).expect("answered").error.is_none()
    });
    assert!(served, "room for another");
    middlebox.join().expect("no panic");
}

/// Whether it says nothing, or half a line byte by byte.
#[test]
fn a_client_that_sends_no_request_is_disconnected() {
    for words in ["", "{\"com"] {
        let (client, _middlebox) = client();
        let (server, mut silent) = UnixStream::pair().expect("sockets");
        let limit = Duration::from_millis(300);
        let clock = Clock::start();
        let serving = std::thread::spawn(move || client.converse(&server, limit));
        let mut answer = Vec::new();
        silent.set_read_timeout(Some(limit / 8)).expect("not zero");
        let mut words = words.bytes();
        loop {
            if let Some(byte) = words.next() {
                // It may have been disconnected.
                let _ = silent.write_all(&[byte]);
            }
            match silent.read_to_end(&mut answer) {
                Err(error) if is_late(&error) => {}
                ended => break assert!(ended.is_ok(), "{ended:?}"),
            }
            assert!(clock.now() - Instant::ZERO < 20 * limit, "still connected");
        }
        let said = String::from_utf8(answer).expect("text");
        assert!(
            said.contains("no whole request has come for 300ms"),
            "{said}"
        );
        serving.join().expect("no panic").expect("told");
    }
}

#[test]
fn every_pair_is_shown_and_the_named_one_is_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("control");
    let endpoints = Endpoints {
        socket: Some(&path),
        http: None,
    };
    let controls = Control::listen_for(endpoints, &["lan", "wan"], None).expect("free");
    let mut middleboxes: Vec<_> = controls.into_iter().map(serving).collect();
    let shown = || {
        let answer = ask(&path, &Request::Show).expect("answered");
        let pairs = answer.ports.into_iter().map(|port| port.pair);
        pairs.collect::<Vec<_>>()
    };
    assert_eq!(shown(), ["lan", "wan"]);
    for pair in [None, Some("dmz")] {
        let refused = ask(&path, &replace_in(pair)).expect("answered");
        let why = refused.error.expect("refused");
        assert!(why.contains("lan, wan"), "{why}");
    }
    let capture = Request::Capture(Wanted::default());
    let refused = ask(&path, &capture).expect("answered").error;
    assert!(refused.is_some_and(|why| why.contains("lan, wan")));

    // A replacement ends the thread of these tests: the other pair goes on.
    assert_eq!(
        ask(&path, &replace_in(Some("lan")))
            .expect("answered")
            .error,
        None
    );
    middleboxes.remove(0).join().expect("no panic");
    assert_eq!(shown(), ["wan"]);
    let over = ask(&path, &replace_in(Some("lan"))).expect("answered");
    assert!(over.error.is_some_and(|why| why.contains("ended")));
    assert!(path.exists());
    assert_eq!(
        ask(&path, &replace_in(Some("wan")))
            .expect("answered")
            .error,
        None
    );
    middleboxes.remove(0).join().expect("no panic");
    assert!(!path.exists());
}

#[test]
fn metrics_of_several_pairs_name_theirs() {
    let of = |pair: &str| State {
        pair: pair.to_owned(),
        ..port()
    };
    let page = metrics::text(&[of("lan"), of("w\"an")]);
    for line in [
        "node_qdisc_drops_total{device=\"eth\\\"0\",pair=\"lan\",kind=\"fq_codel\"} 3",
        "tautline_host_bytes_total{device=\"eth\\\"0\",pair=\"w\\\"an\",address=\"10.0.0.1\",end=\"destination\"} 1500",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn metrics_are_prometheus_text() {
    let page = metrics::text(&[port()]);
    for line in [
        "# TYPE node_qdisc_drops_total counter",
        "node_qdisc_drops_total{device=\"eth\\\"0\",kind=\"fq_codel\"} 3",
        "tautline_sojourn_seconds_bucket{device=\"eth\\\"0\",kind=\"fq_codel\",le=\"0.001048576\"} 0",
        "tautline_sojourn_seconds_bucket{device=\"eth\\\"0\",kind=\"fq_codel\",le=\"0.002097152\"} 1",
        "tautline_host_bytes_total{device=\"eth\\\"0\",address=\"10.0.0.1\",end=\"destination\"} 1500",
        "tautline_host_sojourn_seconds_total{device=\"eth\\\"0\",address=\"10.0.0.1\",end=\"destination\"} 0.0025",
        "tautline_sojourn_seconds_count{device=\"eth\\\"0\",kind=\"fq_codel\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn a_state_is_drawn_as_the_port_it_came_from() {
    let shown = port();
    let drawn = shown.clone().port();
    assert_eq!(drawn.sojourn.count(), 1);
    assert_eq!(drawn.drops, shown.drops);
    assert_eq!(drawn.qdisc.lines, shown.lines);
    assert_eq!(drawn.hosts[0].name, "10.0.0.1 (destination)");
}

/// Random edits of a valid message: bytes replaced, removed and repeated.
fn mutated(valid: &[u8], rng: &mut tautline_base::SplitMix64) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..=rng.next_u64() % 4 {
        let at = rng.next_u64() as usize % bytes.len().max(1);
        match rng.next_u64() % 4 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 => bytes.extend_from_slice(&valid[at.min(valid.len())..]),
            _ if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            _ => {}
        }
    }
    bytes
}

#[test]
fn mutated_messages_are_answered_or_refused() {
    let valid: [&[u8]; 5] = [
        br#"{"command":"show"}"#,
        br#"{"command":"change","way":"to_right","words":"target 10ms"}"#,
        br#"{"command":"capture","points":"leaving","snaplen":128}"#,
        b"POST /control HTTP/1.1\r\nHost: [::1]:9435\r\nContent-Type: application/json\r\nContent-Length: 2",
        b"GET /state HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1",
    ];
    let mut rng = tautline_base::SplitMix64::new(1985);
    let (mut parsed, mut refused) = (0, 0);
    for round in 0..100_000 {
        let message = mutated(valid[round % valid.len()], &mut rng);
        let is_understood = match serde_json::from_slice::<Request>(&message) {
            Ok(request) => {
                // What was understood can be said again.
                let again = serde_json::to_vec(&request).expect("plain fields");
                serde_json::from_slice::<Request>(&again).is_ok_and(|same| same == request)
            }
            Err(_) => crate::http::HttpRequest::parse(&message).is_some(),
        };
        if is_understood {
            parsed += 1;
        } else {
            refused += 1;
        }
    }
    assert!(parsed > 1000 && refused > 1000, "{parsed}, {refused}");
}
