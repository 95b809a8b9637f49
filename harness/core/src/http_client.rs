//! The HTTP client for all requests, and the system proxy through which the client sends them.

use std::{env, net::IpAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::{Client, ClientBuilder, Proxy, Url, redirect, retry};
use rustls::ClientConfig;

/// A client that never retries a request by itself and follows no redirect, because a redirect would send the API key
/// to another address.
pub fn builder(connect: Duration, tls: ClientConfig) -> ClientBuilder {
    let proxies = SystemProxy::read();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .retry(retry::never())
        .redirect(redirect::Policy::none())
        .connect_timeout(connect)
        .proxy(Proxy::custom(move |url| proxies.address(url)))
}

/// A phrase for error messages that names the proxy for this URL by host and port. Empty if the URL needs no proxy.
pub fn through_proxy(url: &Url) -> String {
    let Some(proxy) = SystemProxy::read().of(url) else { return String::new() };
    let host = proxy.uri().host().unwrap_or_default();
    let port = proxy.uri().port().map(|port| format!(":{port}")).unwrap_or_default();
    format!(" through the proxy `{host}{port}`")
}

/// Decodes percent-encoding. U+FFFD replaces invalid UTF-8.
pub fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits =
            behind.get(..2).filter(|it| *first == b'%' && it.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a URL points to this machine: `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host.eq_ignore_ascii_case("localhost") || ip(host).is_some_and(|ip| ip.is_loopback())
}

fn ip(host: &str) -> Option<IpAddr> {
    let ip: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    Some(ip.to_canonical())
}

/// Whether the URL can only mean this machine, so that no proxy can reach the target. `0.0.0.0` counts, because
/// programs often write that address for a server that listens on all addresses.
fn is_only_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    is_loopback(url)
        || name == "localhost"
        || name.ends_with(".localhost")
        || ip(host).is_some_and(|ip| ip.is_unspecified())
}

/// The proxies from the environment and from the system's settings.
struct SystemProxy {
    matcher: Matcher,
    /// The `NO_PROXY` entries with a port, which `Matcher` does not support. Each element has the entry's port, and a
    /// matcher that uses a proxy for every host except the entry's host.
    excepted: Vec<(u16, Matcher)>,
}

impl SystemProxy {
    fn read() -> Self {
        let excepted = ["NO_PROXY", "no_proxy"].iter().find_map(|name| env::var(name).ok());
        Self::new(Matcher::from_system(), &excepted.unwrap_or_default())
    }

    fn new(matcher: Matcher, excepted: &str) -> Self {
        let entries = excepted.split(',').filter_map(|entry| {
            let (host, port) = entry.trim().rsplit_once(':')?;
            let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            // An IPv6 address without brackets has no port: the text after the last colon belongs to the address.
            let host = inner.or_else(|| (!host.contains(':')).then_some(host))?;
            let matcher = Matcher::builder().all("http://proxy").no(host.to_owned()).build();
            Some((port.parse().ok()?, matcher))
        });
        Self { matcher, excepted: entries.collect() }
    }

    /// The proxy for requests to this URL; `None` means a direct connection.
    fn of(&self, url: &Url) -> Option<Intercept> {
        let uri: Uri = url.as_str().parse().ok()?;
        let port = url.port_or_known_default();
        let mut excepted = self.excepted.iter().filter(|(of, _)| Some(*of) == port);
        if is_only_here(url) || excepted.any(|(_, matcher)| matcher.intercept(&uri).is_none()) {
            return None;
        }
        self.matcher.intercept(&uri)
    }

    /// The address of the proxy for requests to this URL, with user and password.
    fn address(&self, url: &Url) -> Option<Url> {
        let proxy = self.of(url)?;
        let mut address = Url::parse(&proxy.uri().to_string()).ok()?;
        let basic = || {
            let basic = proxy.basic_auth()?.to_str().ok()?.strip_prefix("Basic ")?;
            let basic = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
            basic.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
        };
        let raw = proxy.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned()));
        if let Some((user, password)) = raw.or_else(basic) {
            // User and password are already decoded here, and the client decodes them once more from the URL. `%` is
            // escaped so that the second decoding changes nothing.
            let [user, password] = [user, password].map(|text| text.replace('%', "%25"));
            address.set_username(&user).ok()?;
            address.set_password(Some(&password)).ok()?;
        }
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(excepted: &str) -> SystemProxy {
        let matcher = Matcher::builder().all("http://ann:p%40ss@proxy.example:3128");
        SystemProxy::new(matcher.no(excepted.to_owned()).build(), excepted)
    }

    fn is_direct(excepted: &str, url: &str) -> bool {
        proxies(excepted).of(&Url::parse(url).unwrap()).is_none()
    }

    #[test]
    fn what_is_on_this_machine_is_never_sent_to_a_proxy() {
        for here in [
            "http://localhost:11434/v1",
            "http://LOCALHOST/",
            "http://localhost./",
            "http://model.localhost/",
            "http://127.0.0.1:1/",
            "https://127.8.9.1/",
            "http://[::1]:8080/",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0:8000/",
            "http://[::]/",
        ] {
            assert!(is_direct("", here), "{here}");
        }
        for other in
            ["http://localhost.example/", "http://10.0.0.1/", "http://128.0.0.1/", "https://a.b/"]
        {
            assert!(!is_direct("", other), "{other}");
        }
    }

    #[test]
    fn exceptions_are_hosts_suffixes_networks_ports_and_all() {
        for (excepted, url, expected) in [
            ("model.lan", "http://model.lan/", true),
            ("model.lan", "http://a.model.lan:9/", true),
            ("model.lan", "http://notmodel.lan/", false),
            (".lan", "https://model.lan/", true),
            ("a.b, .lan", "https://model.lan/", true),
            ("10.0.0.0/8", "http://10.2.3.4:8000/", true),
            ("10.0.0.0/8", "http://11.2.3.4:8000/", false),
            ("fd00::/8", "http://[fd00::5]/", true),
            ("*", "https://a.b/", true),
            ("model.lan:8000", "http://model.lan:8000/", true),
            ("model.lan:8000", "http://a.model.lan:8000/", true),
            ("model.lan:8000", "http://model.lan:8001/", false),
            ("model.lan:443", "https://model.lan/", true),
            ("10.0.0.0/8:80", "http://10.2.3.4/", true),
            ("[fd00::5]:80", "http://[fd00::5]/", true),
            ("fd00::5", "http://[fd00::5]:5/", true),
            ("fd00::80", "http://[fd00::]/", false),
        ] {
            assert_eq!(is_direct(excepted, url), expected, "{excepted} {url}");
        }
    }

    #[test]
    fn the_proxy_gets_its_user_and_password() {
        for proxy in [
            "http://ann:p%40ss@proxy.example:3128/",
            "http://a%25b:100%2541@proxy.example:3128/",
            "socks5h://a%25b:100%2541@proxy.example:3128/",
        ] {
            let proxies = SystemProxy::new(Matcher::builder().all(proxy).build(), "");
            let address = proxies.address(&Url::parse("http://a.b/").unwrap()).unwrap();
            assert_eq!(address.as_str(), proxy);
        }
    }
}
