//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod machine;
mod tidy;
mod transcript;
