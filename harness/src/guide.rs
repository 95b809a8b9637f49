//! The guide: one page for each task of a program.
//!
#![doc = include_str!("../guide/links.txt")]
#![doc = include_str!("../guide/front.md")]
//!
//! The pages are also a book: `mdbook build harness/guide` in a copy of the repository.

macro_rules! pages {
    ($($name:ident $file:literal),+ $(,)?) => {
        $(
            #[doc = include_str!("../guide/links.txt")]
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
    servers "servers",
    changes "changes",
    own_provider "own-provider",
    own_journal "own-journal",
    testing "testing",
    logging "logging",
    security "security",
    coming_from "coming-from",
    why "why",
}
