//! Removes the keys and tokens of a connection from the server's messages, before a model reads them.

use std::{borrow::Cow, sync::Arc};

use reqwest::Url;
use serde_json::Value;

use super::{oauth::Authorization, server_connection::ServerEndpoint};
use harness_core::secret::{Secrets, is_secret_name, is_telling};

/// The secrets to remove from a server's results. Only values whose names mark them as secret are removed, because a
/// model needs words such as `production`.
#[derive(Clone, Default)]
pub(super) struct KnownSecrets {
    /// The secrets in the program's settings.
    set: Secrets,
    authorization: Option<Arc<Authorization>>,
}

impl KnownSecrets {
    pub(super) fn of(endpoint: &ServerEndpoint) -> Self {
        let mut named: Vec<(String, String)> = Vec::new();
        let mut authorization = None;
        match endpoint {
            ServerEndpoint::Command(command) => named.extend(command.variables.clone()),
            ServerEndpoint::Address(address) => {
                authorization = address.authorization.clone();
                named.extend(address.headers.clone());
                if let Ok(url) = Url::parse(&address.url) {
                    let password = url.password().unwrap_or_default();
                    named.push(("password".to_owned(), password.to_owned()));
                    named.extend(url.query_pairs().into_owned());
                }
            }
        }
        named.retain(|(name, _)| is_secret_name(name));
        let values = named.iter().flat_map(|(_, value)| {
            // The value may be `Bearer`, followed by the key.
            let key = value.trim().split_once(' ').map(|(_, key)| key.trim());
            [Some(value.trim()), key]
        });
        let values = values.flatten().filter(|value| is_telling(value));
        Self { set: values.fold(Secrets::default(), Secrets::with), authorization }
    }

    /// Replaces the secrets in all texts of an answer.
    pub(super) fn hide(&self, answer: &mut Value) {
        let secrets = match &self.authorization {
            Some(authorization) => self.set.clone().and(&authorization.secrets()),
            None => self.set.clone(),
        };
        if !secrets.is_empty() {
            hide_in(answer, &secrets);
        }
    }
}

fn hide_in(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = secrets.hide(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_in(item, secrets)),
        Value::Object(members) => members.values_mut().for_each(|it| hide_in(it, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
