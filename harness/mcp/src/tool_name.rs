//! The names by which a model calls the tools of servers: `server__tool`, the same after each start.

use hmac_sha256::Hash as Sha256;

/// The maximum length of a tool's name, in characters. Vendors refuse longer names.
const LONGEST: usize = 64;

/// The maximum length of a server's name, in characters. The rest of the name is for the server's tool.
const LONGEST_SERVER: usize = 32;

/// The fault of a name that the program gives to a server; `None` if the name is valid.
pub(super) fn fault(server: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match server {
        _ if server.is_empty() || server.len() > LONGEST_SERVER || !server.chars().all(fits) => {
            Some(format!("it must have 1 to {LONGEST_SERVER} characters of `A-Z`, `a-z`, `0-9`, `_` and `-`"))
        }
        _ if server.contains("__") || server.ends_with('_') => {
            Some("two underscores stand between server and tool, so it has no `__` and no `_` at its end".to_owned())
        }
        _ => None,
    }
}

/// The name for this tool of this server. A name that has to be changed ends with a hash of the original names, so that
/// no two tools get the same name.
pub(super) fn of(server: &str, tool: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let whole = format!("{server}__{tool}");
    if whole.len() <= LONGEST && tool.chars().all(fits) {
        return whole;
    }
    let mark = hash(&[server, tool]);
    let mark: String = mark.chars().take(10).collect();
    let kept = whole.chars().map(|c| if fits(c) { c } else { '_' });
    let kept: String = kept.take(LONGEST - mark.len() - 1).collect();
    format!("{kept}_{mark}")
}

/// The SHA-256 of these texts in hexadecimal. The lengths are hashed too, so that two different lists never give the
/// same bytes.
pub(super) fn hash(texts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&text.len().to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    Sha256::hash(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stable_fits_and_is_told_apart() {
        assert_eq!(of("files", "read_file"), "files__read_file");
        let dotted = of("files", "read.file");
        assert_eq!(dotted, of("files", "read.file"));
        assert!(dotted.starts_with("files__read_file_"), "{dotted}");
        assert_ne!(dotted, of("files", "read file"));
        let long = "x".repeat(200);
        for tool in [long.as_str(), "größe", "../../etc", "a b", &"y".repeat(60)] {
            let name = of("files", tool);
            assert!(name.len() <= LONGEST, "{name}");
            assert!(
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
                "{name}"
            );
        }
        assert_ne!(of("files", &format!("{long}a")), of("files", &format!("{long}b")));
    }

    #[test]
    fn the_name_of_a_server_is_checked() {
        assert_eq!(fault("files-2"), None);
        for wrong in ["", "a__b", "a_", "a b", "ä", &"x".repeat(33)] {
            assert!(fault(wrong).is_some(), "{wrong}");
        }
    }
}
