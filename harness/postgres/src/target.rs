//! The address of the database, and its name in errors.

use std::{net::IpAddr, time::Duration};

use sha2::{Digest as _, Sha256};
use tokio_postgres::{
    Config,
    config::{Host, SslMode, SslNegotiation},
};

use super::{auth_guard::PlainPassword, tls::PostgresTls};
use harness_core::{
    error::{Error, ErrorKind},
    secret::Secrets,
    tls,
};

/// How often the operating system of each side checks the connection.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(15);

/// The address of the database, and how to connect to it.
pub(super) struct DatabaseAddress {
    pub(super) config: Config,
    /// `None` for a Unix socket.
    pub(super) connector: Option<PostgresTls>,
    /// The schema of the tables.
    pub(super) schema: String,
    /// The time limit of a call.
    pub(super) time_out: Duration,
    /// Host, port and database, for errors.
    pub(super) place: String,
    /// The secrets to remove from errors.
    pub(super) secrets: Secrets,
}

impl DatabaseAddress {
    pub(super) fn new(
        url: &str,
        schema: String,
        time_out: Duration,
        root_certificates: Option<&[u8]>,
        plain_password: PlainPassword,
    ) -> Result<Self, Error> {
        let mut config = parse(url)?;
        check_schema(&schema)?;
        let place = place(&config);
        let hosts = u32::try_from(config.get_hosts().len().max(config.get_hostaddrs().len()));
        if config.get_connect_timeout().is_none() {
            // If one host does not answer, there must be time left for the other hosts.
            config.connect_timeout(time_out / hosts.unwrap_or(u32::MAX).saturating_add(1));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(time_out);
        }
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(3);
        }
        if config.get_application_name().is_none() {
            config.application_name("harness");
        }
        let tls = match (config.get_ssl_mode(), root_certificates) {
            (SslMode::Disable, _) => None,
            (SslMode::Prefer, _) if is_local(&config) => None,
            (_, None) => Some(tls::shared()?),
            (_, Some(pem)) => Some(tls::trusting(pem)?),
        };
        let connector = if is_socket(&config) {
            if plain_password != PlainPassword::Anywhere {
                check_sockets(&config)?;
            }
            None
        } else {
            // The addresses become host names, so that certificates are checked against the addresses.
            if config.get_hosts().is_empty() {
                for address in config.get_hostaddrs().to_vec() {
                    config.host(address.to_string());
                }
            }
            Some(PostgresTls::new(&mut config, tls, plain_password))
        };
        let password = config.get_password().map(String::from_utf8_lossy).unwrap_or_default();
        let secrets = Secrets::default().with(password);
        Ok(Self { config, connector, schema, time_out, place, secrets })
    }

    /// The key of an advisory lock. All processes that use these tables compute the same key.
    pub(super) fn lock(&self, what: &str, name: &str) -> i64 {
        let named = format!("harness journal\0{}\0{what}\0{name}", self.schema);
        let mut bytes = [0; 8];
        for (byte, hashed) in bytes.iter_mut().zip(Sha256::digest(named.as_bytes())) {
            *byte = hashed;
        }
        i64::from_be_bytes(bytes)
    }
}

/// Parses the address. Errors do not quote the address: it contains the password, and in a malformed address the
/// password may be anywhere.
fn parse(url: &str) -> Result<Config, Error> {
    let unreadable = |fault: &str| {
        Error::new(
            ErrorKind::Configuration,
            format!(
                "the address of the PostgreSQL database cannot be read: {fault}. Write it as \
                 `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `%40` for `@`, `%2F` for `/` and \
                 so on in the password; options follow after `?`, such as `sslmode=require`"
            ),
        )
    };
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    if !is_url && !url.contains('=') {
        return Err(unreadable("it does not begin with `postgres://`"));
    }
    let config: Config = url.parse().map_err(|err: tokio_postgres::Error| {
        let cause = err.into_source().map(|cause| cause.to_string()).unwrap_or_default();
        let known =
            OPTIONS.iter().find(|name| cause == format!("invalid value for option `{name}`"));
        match known {
            Some(&"sslmode") => unreadable(
                "`sslmode` is one of `disable`, `prefer` and `require`, which checks the \
                 certificate and the name of the server",
            ),
            Some(name) => unreadable(&format!("the value of `{name}` is not valid")),
            None if cause.starts_with("unknown option") => {
                unreadable("an option in it is not known here")
            }
            None => unreadable("its parts cannot be recognized"),
        }
    })?;
    // The password ends at the first `@`. If the address has another `@`, the parsed host or database may contain the
    // rest of the password.
    let is_rest = |host: &Host| matches!(host, Host::Tcp(host) if host.contains('@'));
    let in_database = config.get_dbname().is_some_and(|database| database.contains('@'));
    if is_url && (config.get_hosts().iter().any(is_rest) || in_database) {
        return Err(unreadable("it has more than one `@`"));
    }
    let (hosts, addresses) = (config.get_hosts().len(), config.get_hostaddrs().len());
    if hosts + addresses == 0 {
        return Err(unreadable("it names no host"));
    }
    if hosts > 0 && addresses > 0 && hosts != addresses {
        return Err(unreadable("its numbers of `host` and of `hostaddr` differ"));
    }
    if config.get_ports().len() > 1 && config.get_ports().len() != hosts.max(addresses) {
        return Err(unreadable("its numbers of ports and of hosts differ"));
    }
    let mut sockets = config.get_hosts().iter().map(is_unix);
    if sockets.clone().any(|it| it) && (!sockets.all(|it| it) || addresses > 0) {
        return Err(unreadable("it names both Unix sockets and hosts"));
    }
    if config.get_ssl_mode() == SslMode::Prefer
        && config.get_ssl_negotiation() == SslNegotiation::Direct
    {
        return Err(unreadable("`sslnegotiation=direct` needs `sslmode=require`"));
    }
    Ok(config)
}

/// The options whose values can be invalid.
const OPTIONS: [&str; 13] = [
    "sslmode",
    "sslnegotiation",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];

fn check_schema(schema: &str) -> Result<(), Error> {
    // PostgreSQL silently cuts longer names.
    if (1..=63).contains(&schema.len()) && !schema.contains('\0') {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Configuration,
        "the name of a schema has 1 to 63 bytes, and no NUL character",
    ))
}

fn is_unix(host: &Host) -> bool {
    !matches!(host, Host::Tcp(_))
}

/// Whether the server is behind a Unix socket. An address with a Unix socket has no other hosts.
fn is_socket(config: &Config) -> bool {
    config.get_hosts().first().is_some_and(is_unix)
}

/// On a Unix socket, every form of password request is allowed, because the owner of the folder decides who can be the
/// server. So the folder must not allow every user to create sockets.
#[cfg(unix)]
fn check_sockets(config: &Config) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;

    if config.get_password().is_none() {
        return Ok(());
    }
    for host in config.get_hosts() {
        let Host::Unix(folder) = host else { continue };
        let is_open =
            std::fs::metadata(folder).is_ok_and(|it| it.permissions().mode() & 0o002 != 0);
        if is_open {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "the password of the PostgreSQL database was not sent to a socket in `{}`: every \
                     user of this machine can make one there and would learn the password. Let the \
                     server put its socket elsewhere (`unix_socket_directories`), connect over TCP, or \
                     call `allow_plain_password_without_tls`",
                    folder.display()
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_sockets(_: &Config) -> Result<(), Error> {
    Ok(())
}

/// Whether all connections stay on this machine.
fn is_local(config: &Config) -> bool {
    let is_loopback = |host: &str| {
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let hosts = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(host) => is_loopback(host),
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    let addresses = config.get_hostaddrs();
    match addresses.is_empty() {
        true => hosts,
        false => addresses.iter().all(IpAddr::is_loopback),
    }
}

/// The hosts with their ports, and the database, as text.
fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
    let host = |(at, host): (usize, &Host)| match host {
        Host::Tcp(host) => format!("{host}:{}", port(at)),
        #[cfg(unix)]
        Host::Unix(folder) => format!("{}/.s.PGSQL.{}", folder.display(), port(at)),
    };
    let mut hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    if hosts.is_empty() {
        let addresses = config.get_hostaddrs().iter().enumerate();
        hosts.extend(addresses.map(|(at, address)| format!("{address}:{}", port(at))));
    }
    match config.get_dbname() {
        Some(database) => format!("{}, database `{database}`", hosts.join(", ")),
        None => hosts.join(", "),
    }
}
