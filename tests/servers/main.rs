//! Servers of language models as they are: what they refuse, which schemas they take, how they say that a window is full.

mod documented;
mod many_tools;
mod newcomer;
mod passed_on;
mod refusals;
mod schemas;
mod windows;
