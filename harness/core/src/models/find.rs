//! Finds a model in the table by its name. Only the full name matches, because a model with a similar name can cost ten
//! times as much.

use std::cell::RefCell;

use super::{Model, Price, abilities, table};

/// A service that sets its own prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelHost {
    Anthropic,
    OpenAi,
    Google,
    XAi,
    Bedrock,
    DeepSeek,
    Mistral,
    Groq,
}

/// A model of the table.
#[derive(Debug)]
pub(super) struct ModelRow {
    pub(super) host: ModelHost,
    /// All names of the model at this host, without dates.
    pub(super) names: &'static [&'static str],
    /// The context window in tokens; 0 if the price list does not give it.
    pub(super) window: u64,
    pub(super) price: Price,
}

pub(super) const fn row(
    host: ModelHost,
    names: &'static [&'static str],
    window: u64,
    price: Price,
) -> ModelRow {
    ModelRow { host, names, window, price }
}

struct CachedLookup {
    provider: Box<str>,
    model: Box<str>,
    found: Model,
}

/// The number of look-up results that each thread keeps. A program uses few models, and the library looks up the model
/// of each answer several times.
const CACHED_LOOKUPS: usize = 16;

/// The result for a model name is kept only if the name has at most this many bytes. A server can send a name of any
/// length.
const LONGEST_CACHED_NAME: usize = 200;

thread_local! {
    /// The results of the last lookups, the oldest first.
    static LOOKUPS: RefCell<Vec<CachedLookup>> = const { RefCell::new(Vec::new()) };
}

/// The table's entry for a model at a provider.
pub(super) fn listed(provider: &str, model: &str) -> Model {
    if provider.len() > LONGEST_CACHED_NAME || model.len() > LONGEST_CACHED_NAME {
        return look_up(provider, model);
    }
    LOOKUPS.with_borrow_mut(|kept| {
        let same = |it: &&CachedLookup| *it.model == *model && *it.provider == *provider;
        if let Some(known) = kept.iter().find(same) {
            return known.found;
        }
        let found = look_up(provider, model);
        if kept.len() >= CACHED_LOOKUPS {
            kept.remove(0);
        }
        kept.push(CachedLookup { provider: provider.into(), model: model.into(), found });
        found
    })
}

fn look_up(provider: &str, model: &str) -> Model {
    let model = model.trim().to_ascii_lowercase();
    // If the provider is itself a host in the price list, every model name belongs to this host, even a name with a
    // slash.
    let own = host(provider).map(|host| (host, model.as_str()));
    let told = split_host(&model);
    let on_bedrock = match (own, told) {
        // Bedrock has its own prices, even if a request uses the vendor's name of the model.
        (Some((ModelHost::Bedrock, _)), Some((ModelHost::Anthropic, name))) => {
            format!("anthropic.{name}")
        }
        (Some((ModelHost::Bedrock, _)), Some((ModelHost::OpenAi, name))) => {
            format!("openai.{name}")
        }
        _ => String::new(),
    };
    let told = match on_bedrock.is_empty() {
        true => told,
        false => Some((ModelHost::Bedrock, on_bedrock.as_str())),
    };
    let named = own.into_iter().chain(told);
    let mut known = Model::default();
    for (host, name) in named {
        let row = row_of(host, name);
        let (price, window) = match row {
            Some(row) => (Some(row.price), (row.window > 0).then_some(row.window)),
            None => (None, None),
        };
        // In a row of Anthropic, all names mean the same model, so the abilities of the first known name apply. In a
        // row of another vendor, the names share only the price.
        let others = row.filter(|row| row.host == ModelHost::Anthropic).map(|row| row.names);
        let mut names = std::iter::once(name).chain(others.into_iter().flatten().copied());
        let able = names.find_map(abilities::of).unwrap_or_default();
        let request_tools = abilities::tools(host);
        known = known.over(Model { price, window, request_tools, ..Model::default() }).over(able);
    }
    match own {
        Some((host, _)) => {
            let window = known.window;
            known.over(abilities::at(host, window))
        }
        // Source: <https://learn.microsoft.com/azure/ai-foundry/openai/quotas-limits>.
        None if provider == "azure" => Model { request_images: Some(50), ..known },
        None => known,
    }
}

/// A maker whose models need a special request format on every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelMaker {
    /// Google.
    Google,
    /// DeepSeek.
    DeepSeek,
}

/// The maker of a model, by the model's name on any server, such as `google/gemini-..` or `deepseek-ai/DeepSeek-V4`.
pub fn maker(model: &str) -> Option<ModelMaker> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if name.starts_with("gemini-") {
        Some(ModelMaker::Google)
    } else if name.starts_with("deepseek-") && !name.contains("distill") {
        Some(ModelMaker::DeepSeek)
    } else {
        None
    }
}

/// Whether this is a name of one of Anthropic's models on Bedrock or Vertex.
pub fn is_of_cloud(model: &str) -> bool {
    let is_bedrocks = model.contains("anthropic.") || model.starts_with("arn:aws");
    is_bedrocks || model.starts_with("claude-") && model.contains('@')
}

/// The host in the price list that belongs to this provider.
fn host(provider: &str) -> Option<ModelHost> {
    Some(match provider {
        "anthropic" => ModelHost::Anthropic,
        "openai" => ModelHost::OpenAi,
        "google" | "gemini" | "vertex" => ModelHost::Google,
        "xai" | "x-ai" => ModelHost::XAi,
        "bedrock" | "aws" => ModelHost::Bedrock,
        "deepseek" => ModelHost::DeepSeek,
        "mistral" => ModelHost::Mistral,
        "groq" => ModelHost::Groq,
        _ => return None,
    })
}

/// The row whose name is the longest match for the model.
fn row_of(host: ModelHost, model: &str) -> Option<&'static ModelRow> {
    let shortened;
    let model = match host {
        ModelHost::Bedrock => {
            shortened = on_bedrock(model);
            shortened.as_str()
        }
        _ => model,
    };
    let names = table::ROWS
        .iter()
        .filter(|row| row.host == host)
        .flat_map(|row| row.names.iter().map(move |name| (*name, row)));
    let fits = |name: &str| {
        let googles = || model.strip_prefix(name).is_some_and(is_googles);
        is_of(model, name) || (host == ModelHost::Google && googles())
    };
    let fitting = names.filter(|(name, _)| fits(name));
    fitting.max_by_key(|(name, _)| name.len()).map(|(_, row)| row)
}

/// The host that a model name implies, and the model's name at that host.
fn split_host(model: &str) -> Option<(ModelHost, &str)> {
    let mut name = match model.strip_prefix("arn:aws") {
        Some(resource) => resource.rsplit('/').next()?,
        None => model,
    };
    if let Some((_, published)) = name.split_once("publishers/") {
        name = published;
    }
    while let Some((before, rest)) = name.split_once('/') {
        match before {
            "anthropic" | "openai" | "google" | "gemini" | "x-ai" | "xai" | "azure" | "bedrock"
            | "vertex_ai" | "openrouter" | "models" => name = rest,
            // Unknown publishers, and open models that many hosts serve, have no single price.
            _ => return None,
        }
    }
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let host = if begins(&["claude-"]) {
        ModelHost::Anthropic
    } else if begins(&["gpt-oss"]) {
        return None;
    } else if begins(&["gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"]) {
        ModelHost::OpenAi
    } else if begins(&["gemini-"]) {
        ModelHost::Google
    } else if begins(&["grok-"]) {
        ModelHost::XAi
    } else if is_on_bedrock(name) {
        ModelHost::Bedrock
    } else {
        return None;
    };
    Some((host, name))
}

/// The region prefixes of Bedrock names. All these regions have the same price; the prefix `global.` has a separate
/// price.
const REGIONS: [&str; 12] =
    ["us", "us-gov", "eu", "apac", "jp", "au", "ca", "sa", "in", "me", "af", "il"];

/// Whether a name has the form of Bedrock names: an optional region, a vendor and a model.
fn is_on_bedrock(name: &str) -> bool {
    let (first, rest) = name.split_once('.').unwrap_or((name, ""));
    let vendor = match first == "global" || REGIONS.contains(&first) {
        true => rest.split_once('.').map_or("", |(vendor, _)| vendor),
        false => first,
    };
    let start = format!("{vendor}.");
    let mut rows = table::ROWS.iter().filter(|row| row.host == ModelHost::Bedrock);
    !vendor.is_empty()
        && rows.any(|row| row.names.iter().any(|name| name.starts_with(start.as_str())))
}

/// The Bedrock name without region and version.
fn on_bedrock(name: &str) -> String {
    let (region, rest) = name.split_once('.').unwrap_or(("", name));
    let name = if REGIONS.contains(&region) { rest } else { name };
    let name = match name.rsplit_once(':') {
        Some((name, version)) if version.chars().all(|c| c.is_ascii_digit()) => name,
        _ => name,
    };
    let name = match name.rsplit_once("-v") {
        Some((name, version))
            if !version.is_empty() && version.chars().all(|c| c.is_ascii_digit()) =>
        {
            name
        }
        _ => name,
    };
    name.to_owned()
}

/// The vendor's own name for a model with this Bedrock name.
pub(super) fn without_vendor(name: &str) -> Option<String> {
    let name = on_bedrock(name);
    let name = name.strip_prefix("global.").unwrap_or(&name);
    ["anthropic.", "openai."].iter().find_map(|vendor| name.strip_prefix(vendor)).map(str::to_owned)
}

/// Whether `model` is `name` itself or a dated version of `name`.
pub(super) fn is_of(model: &str, name: &str) -> bool {
    !name.is_empty() && model.strip_prefix(name).is_some_and(is_version)
}

/// Whether this text after a name is a version suffix: empty, `@default`, or a date in a vendor's format. `-latest` is
/// no version, because its model and price change over time.
fn is_version(rest: &str) -> bool {
    rest.is_empty() || rest == "@default" || matches!(lengths(rest).as_slice(), [8] | [4, 2, 2])
}

/// Whether this is a version suffix of Google: three digits, or the date of a preview without the year
/// (`05-20`) or without the day (`09-2025`).
fn is_googles(rest: &str) -> bool {
    matches!(lengths(rest).as_slice(), [3] | [2, 2] | [2, 4])
}

/// The lengths of the groups of digits between hyphens. Empty if there are other characters.
fn lengths(rest: &str) -> Vec<usize> {
    let version = rest.strip_prefix(['-', '@']).unwrap_or_default();
    match version.chars().all(|c| c.is_ascii_digit() || c == '-') {
        true => version.split('-').map(str::len).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{
        CACHED_LOOKUPS, LONGEST_CACHED_NAME, LOOKUPS, ModelHost, is_of, listed, look_up, table,
    };

    #[test]
    fn the_table_says_of_each_name_one_thing_that_can_be() {
        let mut names = HashSet::new();
        for row in table::ROWS {
            assert!(!row.names.is_empty());
            for name in row.names {
                assert!(names.insert((format!("{:?}", row.host), *name)), "`{name}` stands twice");
                assert_eq!(*name, name.to_ascii_lowercase(), "names are compared so");
            }
            let price = row.price;
            let parts = [price.input, price.cache_read, price.cache_write, price.output];
            assert!(parts.iter().all(|part| *part > 0.0 && *part < 1_000.0), "{row:?}");
            assert!(price.cache_read <= price.input && price.input <= price.output, "{row:?}");
            if let Some(long) = price.long {
                assert!(long.input > price.input && long.output >= price.output, "{row:?}");
                assert!(row.window == 0 || long.above <= row.window, "{row:?}");
            }
        }
        assert!(table::ROWS.iter().any(|row| row.host == ModelHost::Anthropic));
    }

    #[test]
    fn a_result_that_is_kept_is_that_of_its_model_and_its_provider() {
        let names: Vec<&str> = table::ROWS
            .iter()
            .flat_map(|row| row.names)
            .copied()
            .take(3 * CACHED_LOOKUPS)
            .collect();
        for _ in 0..2 {
            for model in &names {
                for provider in ["anthropic", "bedrock", "a gateway"] {
                    let kept = listed(provider, model);
                    assert_eq!(kept, look_up(provider, model), "{provider} {model}");
                    assert_eq!(kept, listed(provider, model), "{provider} {model}");
                }
            }
        }
        listed("anthropic", &"m".repeat(1_000_000));
        LOOKUPS.with_borrow(|kept| {
            assert_eq!(kept.len(), CACHED_LOOKUPS);
            assert!(kept.iter().all(|it| it.model.len() <= LONGEST_CACHED_NAME));
        });
    }

    #[test]
    fn a_version_is_a_date_and_nothing_else() {
        let yes = ["", "-20260131", "@20260131", "-2026-01-31", "@default"];
        let no =
            ["-latest", "-mini", "-1", "-2026", "-20260131-v1", "20260131", "-", "@", "-2026-1-1"];
        for rest in yes {
            assert!(is_of(&format!("m{rest}"), "m"), "{rest}");
        }
        for rest in no {
            assert!(!is_of(&format!("m{rest}"), "m"), "{rest}");
        }
        assert!(!is_of("-20260131", ""));
    }
}
