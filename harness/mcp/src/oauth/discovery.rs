//! Finds the authorization server for an MCP server: RFC 9728 for the MCP server, RFC 8414 and OpenID Connect Discovery
//! for the authorization server.

use reqwest::Url;
use serde::{Deserialize, Deserializer};

use super::{AuthError, auth_http_client::AuthHttpClient, challenge::Challenge};
use harness_core::{error::ErrorKind, message::in_line, secret::beginning};

/// The metadata that an MCP server publishes about itself (RFC 9728).
#[derive(Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default, deserialize_with = "given")]
    authorization_servers: Vec<String>,
    #[serde(default, deserialize_with = "given")]
    scopes_supported: Vec<String>,
}

/// The metadata that an authorization server publishes about itself (RFC 8414).
#[derive(Deserialize)]
pub(super) struct IssuerMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default, deserialize_with = "given")]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Reads a value. `null`, which some servers send, becomes the default.
fn given<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// The authorization server that was found for an MCP server.
pub(super) struct AuthorizationServer {
    /// The `resource` of the tokens: the MCP server's name for itself (RFC 9728).
    pub(super) resource: String,
    /// The scopes that the MCP server lists.
    pub(super) scopes: Vec<String>,
    pub(super) metadata: IssuerMetadata,
}

/// The program's settings for the authorization.
pub(super) struct DiscoverySettings<'a> {
    /// The resource for which tokens are requested.
    pub(super) resource: Option<&'a str>,
    pub(super) issuer: Option<&'a str>,
}

/// Looks up the authorization server of the MCP server.
pub(super) async fn find(
    web: &AuthHttpClient,
    server: &Url,
    challenge: &Challenge,
    wanted: DiscoverySettings<'_>,
) -> Result<AuthorizationServer, AuthError> {
    let DiscoverySettings { resource: named, issuer } = wanted;
    let (resource, scopes, servers) = match resource(web, server, challenge, named).await? {
        Some(found) => (found.resource, found.scopes_supported, found.authorization_servers),
        // A server of the protocol version 2025-03-26 is its own authorization server. The resource name has no query,
        // because a query may be secret (RFC 8707, 2).
        None => {
            let resource = at(server, server.path()).to_string();
            let resource = named.map_or(resource, str::to_owned);
            (resource, Vec::new(), vec![server.origin().ascii_serialization()])
        }
    };
    let chosen = match issuer {
        Some(issuer) => servers.iter().find(|named| is_issuer(named, issuer)).ok_or_else(|| {
            let why = format!(
                "it does not take tokens of `{issuer}`, the issuer that the program has named"
            );
            (ErrorKind::Protocol, why)
        })?,
        None => servers.first().ok_or_else(|| {
            (
                ErrorKind::Protocol,
                "it does not say which authorization server gives tokens for it".to_owned(),
            )
        })?,
    };
    let metadata = metadata(web, chosen).await?;
    Ok(AuthorizationServer { resource, scopes, metadata })
}

async fn resource(
    web: &AuthHttpClient,
    server: &Url,
    challenge: &Challenge,
    wanted: Option<&str>,
) -> Result<Option<ResourceMetadata>, AuthError> {
    let what = "the description of the server";
    let mut places = Vec::new();
    if let Some(named) = &challenge.metadata {
        places.push(web.address(what, named)?);
    }
    let path = server.path().trim_end_matches('/');
    for path in [path, ""] {
        let place = at(server, &format!("/.well-known/oauth-protected-resource{path}"));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    for place in places {
        let Some(found) = web.described::<ResourceMetadata>(what, &place).await? else { continue };
        // RFC 9728, 3.3. Without this check, one server could request tokens that are valid for another server, such as
        // the server of another tenant.
        if !is_resource(&found.resource, server, wanted) {
            let named = in_line(&found.resource);
            let named = beginning(&named, 200);
            let way_out = match wanted {
                Some(_) => "the program has named another one by `resource`",
                None => {
                    "if tokens for all of that may go to this server, name it by `McpAuth::resource`"
                }
            };
            let why = format!(
                "it says that tokens for it are made for another server or for more than itself, `{named}`; {way_out}"
            );
            return Err((ErrorKind::Protocol, why));
        }
        return Ok(Some(found));
    }
    Ok(None)
}

async fn metadata(web: &AuthHttpClient, issuer: &str) -> Result<IssuerMetadata, AuthError> {
    let what = "the description of the authorization server";
    let address = web.address("the authorization server", issuer)?;
    let path = address.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    for place in places {
        let place = at(&address, &place);
        let Some(found) = web.described::<IssuerMetadata>(what, &place).await? else { continue };
        if !is_issuer(&found.issuer, issuer) {
            let why = "the authorization server describes itself as another one than was asked for";
            return Err((ErrorKind::Protocol, why.to_owned()));
        }
        return Ok(found);
    }
    Err((ErrorKind::Protocol, "the authorization server does not describe itself".to_owned()))
}

/// The URL with another path, and without query and fragment.
fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Whether two issuer identifiers are equal. The final `/` of an empty path makes no difference.
pub(super) fn is_issuer(one: &str, other: &str) -> bool {
    let bare = |text: &str| -> String {
        let root = Url::parse(text).is_ok_and(|url| url.path() == "/" && url.query().is_none());
        if root { text.trim_end_matches('/') } else { text }.to_owned()
    };
    bare(one) == bare(other)
}

/// Whether tokens for this server may be requested for `resource`. The resource must be equal to `wanted`, or to the
/// server's URL if `wanted` is `None`. A final slash makes no difference.
pub(super) fn is_resource(resource: &str, server: &Url, wanted: Option<&str>) -> bool {
    let bare = |url: &Url| {
        let mut url = url.clone();
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        url
    };
    let wanted = wanted.map_or_else(|| Some(server.clone()), |wanted| Url::parse(wanted).ok());
    let resource = Url::parse(resource).ok();
    matches!((resource, wanted), (Some(one), Some(other)) if bare(&one) == bare(&other))
}

/// Whether the server's URL is equal to this resource, or below the resource's path.
pub(super) fn is_of(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (wide, narrow) = (resource.path().trim_end_matches('/'), server.path());
    let below =
        narrow.strip_prefix(wide).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin()
        && below
        && resource.fragment().is_none()
        && resource.username().is_empty()
        && resource.password().is_none()
        && (resource.query().is_none() || resource.query() == server.query())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_lies_in_what_tokens_are_made_for() {
        let server = Url::parse("https://h.example/a/mcp?x=1").expect("an address");
        for (resource, lies) in [
            ("https://h.example/a/mcp", true),
            ("https://h.example/a/mcp?x=1", true),
            ("https://h.example/a/", true),
            ("https://h.example", true),
            ("https://H.example:443/a", true),
            ("https://h.example/a/mc", false),
            ("https://h.example/a/mcp/b", false),
            ("https://h.example/a/mcp?x=2", false),
            ("https://h.example/a/mcp#f", false),
            ("https://u@h.example/a/mcp", false),
            ("https://u:p@h.example/a/mcp", false),
            ("http://h.example/a/mcp", false),
            ("https://h.example:444/a/mcp", false),
            ("https://h.example.evil/a/mcp", false),
            ("mcp", false),
        ] {
            assert_eq!(is_of(resource, &server), lies, "{resource}");
        }
    }

    #[test]
    fn tokens_are_made_for_the_server_itself() {
        let server = Url::parse("https://h.example/a/mcp").expect("an address");
        for (resource, wanted, is_it) in [
            ("https://h.example/a/mcp", None, true),
            ("https://H.example:443/a/mcp/", None, true),
            ("https://h.example/a", None, false),
            ("https://h.example", None, false),
            ("https://h.example/a/mcp?x", None, false),
            ("https://h.example/b/mcp", None, false),
            ("https://h.example", Some("https://h.example/"), true),
            ("https://h.example/a/mcp", Some("https://h.example/"), false),
            ("mcp", None, false),
        ] {
            assert_eq!(is_resource(resource, &server, wanted), is_it, "{resource} {wanted:?}");
        }
    }

    #[test]
    fn issuers_are_compared_letter_by_letter() {
        assert!(is_issuer("https://as.example", "https://as.example/"));
        for other in [
            "https://AS.example",
            "https://as.example:443",
            "https://as.example/a",
            "https://as.example?a",
        ] {
            assert!(!is_issuer("https://as.example", other), "{other}");
        }
        assert!(!is_issuer("https://as.example/a", "https://as.example/a/"));
    }
}
