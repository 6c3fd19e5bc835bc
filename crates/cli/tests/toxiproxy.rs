//! `tautline toxiproxy` over connections; `scripts/check-toxiproxy` runs toxiproxy's own tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// The program, killed on drop, and the address of its API.
struct Server(Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        let _already_over = self.0.kill();
        let _no_use_for_its_status = self.0.wait();
    }
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tautline"))
            .args(["toxiproxy", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let errors = child.stderr.take().expect("piped");
        let mut line = String::new();
        BufReader::new(errors).read_line(&mut line).expect("text");
        let address = line.split_once("http://").expect("an address").1;
        let address = address.split_once(';').expect("a hint").0.to_owned();
        Self(child, address)
    }

    /// The answer to a request with this content.
    fn ask(&self, first: &str, body: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.1).expect("it listens");
        let length = body.len();
        write!(
            stream,
            "{first} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let (head, content) = answer.split_once("\r\n\r\n").expect("HTTP");
        assert!(head.starts_with("HTTP/1.1 20"), "{first}: {answer}");
        serde_json::from_str(content).unwrap_or_default()
    }

    /// A client and a server joined by a new proxy with this toxic.
    fn joined(&self, name: &str, toxic: &str) -> (TcpStream, TcpStream) {
        let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = upstream.local_addr().expect("bound");
        let proxy = format!(r#"{{"name":"{name}","listen":"127.0.0.1:0","upstream":"{address}"}}"#);
        let made = self.ask("POST /proxies", &proxy);
        self.ask(&format!("POST /proxies/{name}/toxics"), toxic);
        let listen = made["listen"].as_str().expect("an address");
        let client = TcpStream::connect(listen).expect("it listens");
        (client, upstream.accept().expect("it connects").0)
    }
}

#[test]
fn toxics_limit_reset_and_close_connections() {
    let proxies = Server::start();
    let limit = r#"{"type":"limit_data","stream":"upstream","attributes":{"bytes":5}}"#;
    let (mut client, mut server) = proxies.joined("limit", limit);
    client.write_all(b"more than five").expect("taken");
    let mut received = Vec::new();
    server.read_to_end(&mut received).expect("closed");
    assert_eq!(received, b"more ");

    let (mut client, mut server) = proxies.joined("reset", r#"{"type":"reset_peer"}"#);
    server.write_all(b"x").expect("taken");
    let error = client.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    let toxic = r#"{"type":"timeout","name":"t","attributes":{"timeout":0}}"#;
    let (mut client, mut server) = proxies.joined("timeout", toxic);
    // The proxy has joined the two when the first byte arrives, and has read what the server wrote
    // before it passes the second.
    for answer in [&b""[..], b"discarded", b"discarded"] {
        server.write_all(answer).expect("taken");
        client.write_all(b"?").expect("taken");
        server.read_exact(&mut [0]).expect("passed on");
    }
    proxies.ask("DELETE /proxies/timeout/toxics/t", "");
    assert_eq!(client.read(&mut [0]).expect("closed"), 0);

    // Without a toxic one half may close before the other.
    let noop = r#"{"type":"noop"}"#;
    let (mut client, mut server) = proxies.joined("noop", noop);
    client.write_all(b"question").expect("taken");
    client.shutdown(std::net::Shutdown::Write).expect("open");
    let mut received = Vec::new();
    server.read_to_end(&mut received).expect("closed");
    server.write_all(b"answer").expect("taken");
    drop(server);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("closed");
    assert_eq!(
        (received, answer),
        (b"question".to_vec(), b"answer".to_vec())
    );

    // A disabled proxy ends its connections and frees its port.
    let (mut client, _server) = proxies.joined("gone", noop);
    proxies.ask("POST /proxies/gone", r#"{"enabled":false}"#);
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
}
