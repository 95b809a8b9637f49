//! The guide: one page for each task of a program.
//!
//! | to | read |
//! |---|---|
//! | begin | [a first agent](first_agent) |
//! | write tools | [`#[tool]`](macro@crate::tool), [sets of them](crate::toolset), [what the model is told](crate::tool::ToolSchema) |
//! | show what happens | [streaming to a terminal](streaming), [a web server](crate::agent#conversations-for-a-web-server) |
//! | stop | [stopping a run](stopping) |
//! | ask a person | [asking before calls](approvals) |
//! | survive a bad network | [retries and fallbacks](crate::policy#a-failing-network) |
//! | spend no more than you want | [limits](crate::policy#limits) |
//! | survive the end of the process | [durable conversations](crate::journal) |
//! | go on for long | [long conversations](crate::context), [large results](crate::agent#large-results), [prompt caches](crate::provider#prompt-caches) |
//! | get values instead of words | [typed answers](crate::agent#get-a-value-in-place-of-words) |
//! | send and receive files | [documents, pictures and sound](crate::message) |
//! | serve many users | [one agent, many users](crate::agent#one-agent-many-users) |
//! | let agents work for agents | [agents that run agents](crate::agent#agents-that-run-agents) |
//! | use and serve tools by a protocol | [`mcp`](crate::mcp) |
//! | extend it | [a provider](own_provider), [a journal](own_journal) of your own |
//! | test | [testing](mod@testing) |
//! | run it | [what to log](logging), [what is trusted](security) |
//! | decide | [coming from another library](coming_from), [why it is built so](why) |
//!
//! The pages are also a book: `mdbook build harness/guide` in a copy of the repository.

macro_rules! pages {
    ($($name:ident $file:literal),+ $(,)?) => {
        $(
            #[doc = include_str!(concat!("../guide/", $file, ".md"))]
            pub mod $name {}
        )+
    };
}

pages! {
    first_agent "first-agent",
    streaming "streaming",
    stopping "stopping",
    approvals "approvals",
    own_provider "own-provider",
    own_journal "own-journal",
    testing "testing",
    logging "logging",
    security "security",
    coming_from "coming-from",
    why "why",
}
