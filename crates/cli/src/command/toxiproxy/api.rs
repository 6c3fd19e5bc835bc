//! The HTTP API of toxiproxy 2, as "HTTP API" in <https://github.com/Shopify/toxiproxy#readme> lists it.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::proxy::{Proxy, Route, Shown};
use super::refusal::{Refusal, status};
use super::toxic::Toxic;
use crate::http::{HttpRequest, JSON, PLAIN, Reply};

/// Version of the API.
const VERSION: &str = "2.5.0";

/// Every proxy, by name.
pub(super) struct Api {
    proxies: BTreeMap<String, Proxy>,
    /// Of random numbers.
    seed: u64,
    /// Where connections run.
    handle: Handle,
}

/// A client's description of a proxy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    name: String,
    listen: Option<String>,
    upstream: Option<String>,
    enabled: Option<bool>,
}

impl Wanted {
    /// Its route; what it does not say is as in `present`.
    fn route(&self, present: Route) -> Route {
        Route {
            listen: self.listen.clone().unwrap_or(present.listen),
            upstream: self.upstream.clone().unwrap_or(present.upstream),
            enabled: self.enabled.unwrap_or(present.enabled),
        }
    }

    /// Its route, if it is complete. `place`: added to the name of a missing field.
    fn complete(&self, place: &str) -> Result<Route, Refusal> {
        let missing = |field| Err(Refusal::missing(&format!("{field}{place}")));
        let route = self.route(Route {
            listen: String::new(),
            upstream: String::new(),
            enabled: true,
        });
        match (self.name.is_empty(), route.upstream.is_empty()) {
            (true, _) => missing("name"),
            (_, true) => missing("upstream"),
            _ => Ok(route),
        }
    }
}

/// The answer to `/populate`, which may have succeeded in part.
#[derive(Serialize)]
struct Populated {
    #[serde(flatten)]
    refusal: Option<Refusal>,
    proxies: Vec<Shown>,
}

impl Api {
    pub(super) fn new(seed: u64, handle: Handle) -> Self {
        Self {
            proxies: BTreeMap::new(),
            seed,
            handle,
        }
    }

    /// Carries out a request.
    pub(super) fn answer(&mut self, request: &HttpRequest) -> Reply {
        // A page in a browser must not reach it: a form can send any content as text.
        let agent = request.header("user-agent").unwrap_or_default();
        if agent.starts_with("Mozilla/") || request.header("origin").is_some() {
            return Reply::new(status(403), PLAIN, "User agent not allowed\n");
        }
        let path = request.path.trim_matches('/');
        let path: Vec<_> = path.split('/').map(decoded).collect();
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        // POST changes, as PATCH does since version 2.6.
        let method = match (request.method.as_str(), path.as_slice()) {
            ("PATCH", ["proxies", _] | ["proxies", _, "toxics", _]) => "POST",
            (method, _) => method,
        };
        self.route(method, &path, &request.body)
            .unwrap_or_else(|refusal| refusal.reply())
    }

    fn route(&mut self, method: &str, path: &[&str], body: &[u8]) -> Result<Reply, Refusal> {
        match (method, path) {
            ("GET", ["version"]) => Ok(Reply::new(status(200), PLAIN, VERSION)),
            ("POST", ["reset"]) => self.reset(),
            ("POST", ["populate"]) => self.populate(body),
            ("GET", ["proxies"]) => {
                let proxies = self.proxies.iter();
                let proxies = proxies.map(|(name, proxy)| (name, proxy.shown()));
                Ok(json(200, &proxies.collect::<BTreeMap<_, _>>()))
            }
            ("POST", ["proxies"]) => self.create(body),
            ("GET", ["proxies", name]) => Ok(json(200, &self.get(name)?.shown())),
            ("POST", ["proxies", name]) => self.update(name, body),
            ("DELETE", ["proxies", name]) => {
                self.proxies.remove(*name).ok_or(Refusal::NO_PROXY)?;
                Ok(nothing())
            }
            ("GET", ["proxies", name, "toxics"]) => Ok(json(200, &self.get(name)?.toxics())),
            ("POST", ["proxies", name, "toxics"]) => {
                let toxic = Toxic::parse(body)?;
                self.get(name)?.change(|toxics| {
                    if toxics.iter().any(|present| present.name == toxic.name) {
                        return Err(Refusal::TOXIC_EXISTS);
                    }
                    toxics.push(toxic.clone());
                    Ok(json(200, &toxic))
                })
            }
            ("GET", ["proxies", name, "toxics", toxic]) => {
                let toxics = self.get(name)?.toxics();
                let found = toxics.iter().find(|present| present.name == *toxic);
                Ok(json(200, found.ok_or(Refusal::NO_TOXIC)?))
            }
            ("POST", ["proxies", name, "toxics", toxic]) => self.get(name)?.change(|toxics| {
                let found = toxics.iter_mut().find(|present| present.name == *toxic);
                let found = found.ok_or(Refusal::NO_TOXIC)?;
                found.update(body)?;
                Ok(json(200, found))
            }),
            ("DELETE", ["proxies", name, "toxics", toxic]) => self.get(name)?.change(|toxics| {
                let at = toxics.iter().position(|present| present.name == *toxic);
                toxics.remove(at.ok_or(Refusal::NO_TOXIC)?);
                Ok(nothing())
            }),
            _ => Err(Refusal::of(404, "no such path or method")),
        }
    }

    fn get(&self, name: &str) -> Result<&Proxy, Refusal> {
        self.proxies.get(name).ok_or(Refusal::NO_PROXY)
    }

    /// Enables every proxy and removes every toxic.
    fn reset(&mut self) -> Result<Reply, Refusal> {
        for proxy in self.proxies.values_mut() {
            proxy.start()?;
            proxy.change(|toxics| {
                toxics.clear();
                Ok(())
            })?;
        }
        Ok(nothing())
    }

    /// Creates the proxies of a list, and replaces those of the same name and another route. Stops at
    /// the first that fails.
    pub(super) fn populate(&mut self, body: &[u8]) -> Result<Reply, Refusal> {
        let wanted: Vec<Wanted> = serde_json::from_slice(body).map_err(Refusal::bad_body)?;
        let numbered = wanted.iter().zip(1..);
        let complete = numbered.map(|(proxy, number)| {
            let route = proxy.complete(&format!(" at proxy {number}"))?;
            Ok((proxy.name.as_str(), route))
        });
        let complete: Vec<(&str, Route)> = complete.collect::<Result<_, Refusal>>()?;
        let (mut proxies, mut refusal) = (Vec::new(), None);
        for (name, route) in complete {
            match self.place(name, &route) {
                Ok(shown) => proxies.push(shown),
                Err(why) => {
                    refusal = Some(why);
                    break;
                }
            }
        }
        let code = refusal.as_ref().map_or(201, |refusal| refusal.status);
        Ok(json(code, &Populated { refusal, proxies }))
    }

    fn place(&mut self, name: &str, route: &Route) -> Result<Shown, Refusal> {
        match self.proxies.get(name) {
            Some(present) if present.has_route(route) => Ok(present.shown()),
            _ => {
                // It may have the address.
                self.proxies.remove(name);
                self.add(name, route)
            }
        }
    }

    fn create(&mut self, body: &[u8]) -> Result<Reply, Refusal> {
        let wanted: Wanted = serde_json::from_slice(body).map_err(Refusal::bad_body)?;
        let route = wanted.complete("")?;
        if self.proxies.contains_key(&wanted.name) {
            return Err(Refusal::PROXY_EXISTS);
        }
        self.add(&wanted.name, &route)
            .map(|shown| json(201, &shown))
    }

    fn add(&mut self, name: &str, route: &Route) -> Result<Shown, Refusal> {
        let mut proxy = Proxy::new(name, route, self.seed, &self.handle);
        proxy.set_route(route)?;
        let shown = proxy.shown();
        self.proxies.insert(name.to_owned(), proxy);
        Ok(shown)
    }

    fn update(&mut self, name: &str, body: &[u8]) -> Result<Reply, Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or(Refusal::NO_PROXY)?;
        let wanted: Wanted = serde_json::from_slice(body).map_err(Refusal::bad_body)?;
        let route = wanted.route(proxy.route());
        proxy.set_route(&route)?;
        Ok(json(200, &proxy.shown()))
    }
}

fn json(code: u16, content: &impl Serialize) -> Reply {
    let body = serde_json::to_string(content).unwrap_or_default();
    Reply::new(status(code), JSON, body)
}

fn nothing() -> Reply {
    Reply::new(status(204), JSON, "")
}

/// A part of a path without percent-encoding (RFC 3986 §2.1).
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(api: &mut Api, first: &str, body: &str) -> (String, String) {
        let head = format!("{first} HTTP/1.1\r\nUser-Agent: test");
        let mut request = HttpRequest::parse(head.as_bytes()).expect("well-formed");
        request.body = body.as_bytes().to_vec();
        let reply = api.answer(&request);
        (reply.status[..3].to_owned(), reply.body)
    }

    #[test]
    fn proxies_and_toxics_are_made_changed_and_removed() {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let mut api = Api::new(1, runtime.handle().clone());
        let proxy = r#"{"name":"a b","listen":"127.0.0.1:0","upstream":"127.0.0.1:9"}"#;
        for (request, body, status, part) in [
            ("GET /version", "", "200", "2.5.0"),
            ("GET /proxies", "", "200", "{}"),
            ("POST /proxies", "{}", "400", "missing required field: name"),
            (
                "POST /proxies",
                r#"{"name":"x"}"#,
                "400",
                "missing required field: upstream",
            ),
            ("POST /proxies", proxy, "201", r#""enabled":true"#),
            ("POST /proxies", proxy, "409", "proxy already exists"),
            ("GET /proxies/a%20b", "", "200", r#""toxics":[]"#),
            ("GET /proxies/other", "", "404", "proxy not found"),
            (
                "POST /proxies/a%20b/toxics",
                r#"{"type":"latency"}"#,
                "200",
                r#""latency_downstream""#,
            ),
            (
                "POST /proxies/a%20b/toxics",
                r#"{"type":"latency"}"#,
                "409",
                "toxic already exists",
            ),
            (
                "PATCH /proxies/a%20b/toxics/latency_downstream",
                r#"{"attributes":{"latency":7}}"#,
                "200",
                r#""latency":7"#,
            ),
            (
                "DELETE /proxies/a%20b/toxics/other",
                "",
                "404",
                "toxic not found",
            ),
            (
                "POST /proxies/a%20b",
                r#"{"enabled":false}"#,
                "200",
                r#""enabled":false"#,
            ),
            ("POST /reset", "", "204", ""),
            ("GET /proxies", "", "200", r#""enabled":true,"toxics":[]"#),
            ("DELETE /proxies/a%20b", "", "204", ""),
            ("DELETE /proxies/a%20b", "", "404", "proxy not found"),
            ("PATCH /proxies", "", "404", "no such path"),
            (
                "POST /populate",
                r#"[{"name":"x","upstream":"y"},{}]"#,
                "400",
                "name at proxy 2",
            ),
            (
                "POST /populate",
                r#"[{"name":"x","listen":"127.0.0.1:0","upstream":"y"},{"name":"z","listen":"q","upstream":"y"}]"#,
                "500",
                r#""proxies":[{"name":"x""#,
            ),
        ] {
            let (found, answer) = ask(&mut api, request, body);
            assert_eq!(found, status, "{request}: {answer}");
            assert!(answer.contains(part), "{request}: {answer}");
        }
    }

    #[test]
    fn browsers_are_refused() {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let mut api = Api::new(1, runtime.handle().clone());
        for line in ["User-Agent: Mozilla/5.0", "Origin: http://evil.example"] {
            let head = format!("GET /proxies HTTP/1.1\r\n{line}");
            let request = HttpRequest::parse(head.as_bytes()).expect("well-formed");
            assert_eq!(api.answer(&request).status, "403 Forbidden");
        }
    }
}
