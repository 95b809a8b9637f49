//! Traits of the user that every type has, with methods that are called like those of the library.

include!("../support.rs");

use harness::tools;

macro_rules! for_all_types {
    ($module:ident $receiver:tt: $($name:ident)*) => {
        mod $module {$(
            #[allow(dead_code, non_camel_case_types)]
            pub trait $name {
                fn $name $receiver where Self: Sized {}
            }
            impl<T: ?Sized> $name for T {}
        )*}
        #[allow(unused_imports)]
        use $module::*;
    };
}
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order { Up, Down }
mod inner {
    use harness::{
        message::Arguments,
        tool,
        tool::{Reconciled, Review},
        toolset,
    };

    for_all_types!(by_value (self): take fits refusal unknown receiver run block get way is_send find_out
        answer answer_result failing form output_schema json is_shared is_injected holds takes
        new of from_millis from lend name tools call);
    for_all_types!(by_reference (&self): bind unique_in to_owned as_ref into clone write_str or or_json within
        long matching shown returning idempotent at_once reviewed reconciled titled any like);

    #[allow(dead_code)]
    trait Constants {
        const TOOL: () = ();
        const ORIGIN: () = ();
        const IS_NAME: () = ();
        const IS_PARSED: () = ();
    }
    impl<T: ?Sized> Constants for T {}

    use super::Order;
    const MOST: u8 = 9;

    /// All of a parameter.
    #[tool(side_effects = "none", title = "All", timeout = "3s", at_once = 2)]
    pub(crate) async fn all(/// A number
                 #[param(default = 1, range(0..=MOST))] number: u8, /// Which
                 #[param(default = Order::Up, example = Order::Down)] order: Order, /// Text
                 text: &str, /// Other text
                 #[param(default = "x", length(1..=4), pattern = "x")] other: &str, /// No text
                 none: Option<&str>, /// By order
                 by_order: std::collections::HashMap<Order, u8>) -> Result<Order, String> {
        let _ = (number, text, other, none, by_order);
        Ok(order)
    }
    /// Pays.
    #[tool(side_effects = "write", reconcile = was_paid, review = look, idempotent = false)]
    pub(crate) fn pay(/// To
           to: String, /// Order
           order: Order) -> Order { let _ = to; order }
    fn was_paid(_: String, order: Order) -> Reconciled<Order> { Reconciled::Happened(order) }
    fn look(_: &Arguments) -> Review { Review::pass() }
    pub(crate) struct Shop;
    #[toolset]
    impl Shop {
        /// Counts.
        #[tool(side_effects = "none", review = Self::look)]
        async fn count(&self, /// A
                       a: u8) -> u8 { a }
        /// Sorts.
        #[deprecated]
        #[tool(side_effects = "none")]
        fn sort(&self, /// Order
                order: Order) -> std::io::Result<Order> { Ok(order) }
        fn look(&self, _: &Arguments) -> Review { Review::pass() }
    }
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let list = tools![inner::all, inner::pay];
    said(&list[0], &cx, r#"{"text":"a","by_order":{"Up":1}}"#, r#"text Up"#).await;
    said(&list[1], &cx, r#"{"to":"a","order":"Down"}"#, r#"text Down"#).await;
    assert!(list[1].can_reconcile());
    let shop = std::sync::Arc::new(inner::Shop).tools();
    said(&shop[0], &cx, r#"{"a":3}"#, r#"json 3"#).await;
    said(&shop[1], &cx, r#"{"order":"Up"}"#, r#"text Up"#).await;
}
