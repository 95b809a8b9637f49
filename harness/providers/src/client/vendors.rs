//! The differences between the vendors' servers with Chat Completions, chosen by host. To support a new vendor, add one
//! entry.

use std::borrow::Cow;

use harness_schema::StrictForm;

use super::{address, credentials};
use crate::wire::chat::{CallIds, ThoughtReplay};
use harness_core::{
    error::{Error, ErrorKind},
    models::{self, ModelMaker},
};

#[derive(Clone, Debug)]
pub(super) struct VendorProfile {
    /// The name of the vendor in replies, records and the table of models; `None` for an unknown server.
    pub(super) name: Option<&'static str>,
    /// The suffix of the host names of the vendor's servers.
    host: &'static str,
    /// The base URL if the program sets only the vendor's key.
    base: Option<&'static str>,
    /// The environment variable with the vendor's key.
    pub(super) key: Option<&'static str>,
    /// The path before `/chat/completions`, for a base URL without a path.
    pub(super) version: &'static str,
    pub(super) thought: ThoughtReplay,
    pub(super) call_ids: CallIds,
    pub(super) max_completion_tokens: bool,
    pub(super) counts_unasked: bool,
    pub(super) done_is_enough: bool,
    /// Whether the vendor refuses a conversation without alternating turns.
    pub(super) strict_turns: bool,
    /// The member of a call that contains the signature for Gemini's models.
    pub(super) signed_calls: Option<&'static str>,
    pub(super) strict_form: StrictForm,
    /// Whether the key is also sent in the header `api-key`.
    pub(super) api_key_header: bool,
    /// Whether, on the Messages protocol, the vendor refuses a turn that has calls and no thinking. The vendor does not
    /// sign the thinking of such turns.
    pub(super) unsigned_thinking: bool,
    /// Whether the vendor accepts a token budget for thinking.
    pub(super) thinking_budget: bool,
}

const UNKNOWN: VendorProfile = VendorProfile {
    name: None,
    host: "",
    base: None,
    key: None,
    version: "/v1",
    thought: ThoughtReplay::SameField,
    call_ids: CallIds::Plain,
    max_completion_tokens: false,
    counts_unasked: false,
    done_is_enough: false,
    strict_turns: false,
    signed_calls: None,
    strict_form: StrictForm::Common,
    api_key_header: false,
    unsigned_thinking: false,
    thinking_budget: false,
};

/// Moonshot, whose models are called Kimi. Its servers refuse a turn that has calls and no thinking.
const MOONSHOT: VendorProfile = VendorProfile {
    name: Some("moonshot"),
    host: "moonshot.ai",
    key: Some("MOONSHOT_API_KEY"),
    thought: ThoughtReplay::Field(Cow::Borrowed("reasoning_content")),
    unsigned_thinking: true,
    ..UNKNOWN
};

const VENDORS: [VendorProfile; 16] = [
    VendorProfile {
        name: Some("openrouter"),
        host: "openrouter.ai",
        base: Some("https://openrouter.ai/api/v1"),
        key: Some("OPENROUTER_API_KEY"),
        version: "/api/v1",
        thought: ThoughtReplay::Details,
        thinking_budget: true,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("groq"),
        host: "groq.com",
        base: Some("https://api.groq.com/openai/v1"),
        key: Some("GROQ_API_KEY"),
        version: "/openai/v1",
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("deepseek"),
        host: "deepseek.com",
        base: Some("https://api.deepseek.com/v1"),
        key: Some("DEEPSEEK_API_KEY"),
        // DeepSeek refuses a turn that has calls and no thinking.
        thought: ThoughtReplay::Field(Cow::Borrowed("reasoning_content")),
        unsigned_thinking: true,
        ..UNKNOWN
    },
    MOONSHOT,
    VendorProfile { host: "moonshot.cn", ..MOONSHOT },
    VendorProfile { host: "kimi.com", ..MOONSHOT },
    VendorProfile {
        name: Some("mistral"),
        host: "mistral.ai",
        base: Some("https://api.mistral.ai/v1"),
        key: Some("MISTRAL_API_KEY"),
        thought: ThoughtReplay::Off,
        call_ids: CallIds::Nine,
        strict_turns: true,
        counts_unasked: true,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("google"),
        host: "generativelanguage.googleapis.com",
        key: Some("GEMINI_API_KEY"),
        version: "/v1beta/openai",
        thought: ThoughtReplay::Off,
        signed_calls: Some("google"),
        strict_form: StrictForm::Gemini,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("vertex"),
        host: "aiplatform.googleapis.com",
        thought: ThoughtReplay::Off,
        signed_calls: Some("vertex"),
        strict_form: StrictForm::Gemini,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("xai"),
        host: "x.ai",
        base: Some("https://api.x.ai/v1"),
        key: Some("XAI_API_KEY"),
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("azure"),
        host: "azure.com",
        key: Some("AZURE_OPENAI_API_KEY"),
        version: "/openai/v1",
        thought: ThoughtReplay::Off,
        max_completion_tokens: true,
        strict_form: StrictForm::OpenAI,
        api_key_header: true,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("openai"),
        host: "openai.com",
        key: Some("OPENAI_API_KEY"),
        thought: ThoughtReplay::Off,
        max_completion_tokens: true,
        strict_form: StrictForm::OpenAI,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("vercel"),
        host: "vercel.sh",
        thought: ThoughtReplay::Details,
        ..UNKNOWN
    },
    VendorProfile {
        name: Some("bedrock"),
        host: "amazonaws.com",
        version: "/openai/v1",
        ..UNKNOWN
    },
    VendorProfile { name: Some("bedrock"), host: "api.aws", ..UNKNOWN },
    VendorProfile {
        name: Some("snowflake"),
        host: "snowflakecomputing.com",
        done_is_enough: true,
        ..UNKNOWN
    },
];

impl VendorProfile {
    /// The profile of the vendor with this host.
    pub(super) fn at(host: &str) -> Self {
        let is = |vendor: &&Self| {
            // Other hosts below Bedrock's domain are servers of its customers.
            let is_other = vendor.name == Some("bedrock") && !host.starts_with("bedrock");
            // Vertex has hosts such as `us-east1-aiplatform.googleapis.com`.
            !is_other
                && host.strip_suffix(vendor.host).is_some_and(|rest| {
                    rest.is_empty()
                        || rest.ends_with('.')
                        || (vendor.name == Some("vertex") && rest.ends_with('-'))
                })
        };
        VENDORS.iter().find(is).cloned().unwrap_or(UNKNOWN)
    }

    /// Adds the requirements of this model if the server's vendor is unknown. Such a server may pass the request on to
    /// the vendor of the model.
    pub(super) fn with_model(self, model: &str) -> Self {
        match models::maker(model).filter(|_| self.name.is_none()) {
            Some(ModelMaker::Google) => {
                Self { thought: ThoughtReplay::Off, strict_form: StrictForm::Gemini, ..self }
            }
            Some(ModelMaker::DeepSeek) => {
                let thought = ThoughtReplay::Field(Cow::Borrowed("reasoning_content"));
                Self { thought, ..self }
            }
            None => self,
        }
    }
}

/// The name of the vendor at this URL; `None` if the vendor is unknown.
pub(super) fn name_at(url: &str) -> Option<&'static str> {
    VendorProfile::at(&address::host(url)).name
}

/// Whether the host of this URL is this domain or below it.
pub(super) fn is_at(url: &str, domain: &str) -> bool {
    let host = address::host(url);
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The base URL that the environment selects: the base URL of the vendor whose key is set, or else the URL of the
/// server on this machine.
pub(super) fn base_in_env() -> Result<String, Error> {
    let mut found: Vec<(&str, String)> = VENDORS
        .iter()
        .filter_map(|vendor| {
            let (key, base) = (vendor.key?, vendor.base?);
            credentials::variable(key).map(|_| (key, base.to_owned()))
        })
        .collect();
    if let Some(base) = credentials::variable("AZURE_OPENAI_ENDPOINT") {
        found.push(("AZURE_OPENAI_ENDPOINT", base));
    }
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        return Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "the environment names several vendors ({}): set `CHAT_COMPLETIONS_BASE_URL` to \
                 choose one",
                names.join(", ")
            ),
        ));
    }
    Ok(match found.pop() {
        Some((_, base)) => base,
        None => ollama(credentials::variable("OLLAMA_HOST").as_deref()),
    })
}

/// The URL for `OLLAMA_HOST`. The variable may lack a scheme and a port, and may contain the address on which Ollama
/// listens.
fn ollama(host: Option<&str>) -> String {
    let host = host.unwrap_or("127.0.0.1:11434").trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = rest.replace("0.0.0.0", "127.0.0.1");
    let named = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match named || scheme == "https" {
        true => format!("{scheme}://{rest}"),
        false => format!("{scheme}://{rest}:11434"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_are_known_by_their_address() {
        assert_eq!(VendorProfile::at("api.mistral.ai").call_ids, CallIds::Nine);
        assert!(VendorProfile::at("api.mistral.ai").strict_turns);
        assert_eq!(VendorProfile::at("openrouter.ai").thought, ThoughtReplay::Details);
        assert_eq!(VendorProfile::at("notmistral.ai").call_ids, CallIds::Plain);
        assert_eq!(VendorProfile::at("127.0.0.1").thought, ThoughtReplay::SameField);
        assert_eq!(VendorProfile::at("127.0.0.1").name, None);
        assert_eq!(VendorProfile::at("api.groq.com").name, Some("groq"));
        assert_eq!(VendorProfile::at("us-east1-aiplatform.googleapis.com").name, Some("vertex"));
        assert_eq!(
            VendorProfile::at("generativelanguage.googleapis.com").signed_calls,
            Some("google")
        );
        assert_eq!(VendorProfile::at("not-mistral.ai").name, None);
        assert_eq!(VendorProfile::at("api.groq.com").strict_form, StrictForm::Common);
        assert_eq!(VendorProfile::at("me.openai.azure.com").strict_form, StrictForm::OpenAI);
        let gemini = VendorProfile::at("generativelanguage.googleapis.com");
        assert_eq!(gemini.strict_form, StrictForm::Gemini);
        let unsigned = [
            "api.deepseek.com",
            "api.moonshot.ai",
            "api.moonshot.cn",
            "api.kimi.com",
            "openai.com",
        ]
        .map(|host| VendorProfile::at(host).unsigned_thinking);
        assert_eq!(unsigned, [true, true, true, true, false]);
    }

    #[test]
    fn ollamas_variable_may_be_short() {
        assert_eq!(ollama(None), "http://127.0.0.1:11434");
        assert_eq!(ollama(Some("0.0.0.0")), "http://127.0.0.1:11434");
        assert_eq!(ollama(Some("box:8080/")), "http://box:8080");
        assert_eq!(ollama(Some("https://box.test")), "https://box.test");
    }
}
