//! [`Refusal`]: error responses with toxiproxy's status codes and messages.

use std::borrow::Cow;

use serde::Serialize;

use crate::http::{JSON, Reply};

/// An error response; serialized as toxiproxy does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Refusal {
    pub(super) error: Cow<'static, str>,
    pub(super) status: u16,
}

impl Refusal {
    pub(super) const INVALID_STREAM: Self = Self::of(
        400,
        "stream was invalid, can be either upstream or downstream",
    );
    pub(super) const INVALID_TYPE: Self = Self::of(400, "invalid toxic type");
    pub(super) const NO_PROXY: Self = Self::of(404, "proxy not found");
    pub(super) const NO_TOXIC: Self = Self::of(404, "toxic not found");
    pub(super) const PROXY_EXISTS: Self = Self::of(409, "proxy already exists");
    pub(super) const TOXIC_EXISTS: Self = Self::of(409, "toxic already exists");

    /// A refusal with this status code.
    pub(super) const fn of(status: u16, error: &'static str) -> Self {
        let error = Cow::Borrowed(error);
        Self { error, status }
    }

    /// The body of the request cannot be parsed.
    pub(super) fn bad_body(why: impl std::fmt::Display) -> Self {
        let error = format!("bad request body: {why}").into();
        Self { error, status: 400 }
    }

    /// A field is missing or empty.
    pub(super) fn missing(field: &str) -> Self {
        let error = format!("missing required field: {field}").into();
        Self { error, status: 400 }
    }

    /// The operating system refused.
    pub(super) fn failed(why: String) -> Self {
        let error = why.into();
        Self { error, status: 500 }
    }

    /// The response.
    pub(super) fn reply(&self) -> Reply {
        let body = serde_json::to_string(self).unwrap_or_default();
        Reply::new(status(self.status), JSON, body)
    }
}

/// The status line of a code.
pub(super) fn status(code: u16) -> &'static str {
    match code {
        200 => "200 OK",
        201 => "201 Created",
        204 => "204 No Content",
        400 => "400 Bad Request",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        409 => "409 Conflict",
        _ => "500 Internal Server Error",
    }
}
