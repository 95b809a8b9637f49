//! Stands in for OAuth in a program without the feature `mcp-oauth`: an authorization never exists.

use harness_core::{error::ErrorKind, secret::Secrets};

/// A type without values, because an authorization never exists.
pub(super) enum NoAuthorization {}

pub(super) use self::NoAuthorization as Authorization;

impl NoAuthorization {
    pub(super) fn secrets(&self) -> Secrets {
        match *self {}
    }

    pub(super) fn is_refused(&self) -> bool {
        match *self {}
    }

    pub(super) fn answered(&self) {
        match *self {}
    }

    pub(super) async fn token(&self, _: &str) -> Option<String> {
        match *self {}
    }

    pub(super) fn refused(&self, _: u16, _: &str, _: Option<&str>) {
        match *self {}
    }

    pub(super) async fn close(&self) {
        match *self {}
    }

    pub(super) async fn ready(&self) -> Result<(), (ErrorKind, String)> {
        match *self {}
    }
}
