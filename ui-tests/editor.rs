//! What an editor offers inside and around a function with `#[tool]`, half-typed as it may be. It
//! asks rust-analyzer, and says that it was skipped where there is none. See README.md.

#[path = "editor/session.rs"]
mod session;

use session::Session;

/// The program that is edited: what begins with `$` is what is being typed. Its types are its own, for
/// the sources of the standard library need not be there.
const PROGRAM: &str = r"
use harness::tool;

/// What is evaluated.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Expression {
    pub terms: u8,
}

impl Expression {
    pub fn trim(&self) -> u8 {
        self.terms
    }
}

/// What comes of it.
#[derive(serde::Serialize)]
pub struct Answer {
    pub value: u8,
}

impl Answer {
    pub fn rounded(&self) -> u8 {
        self.value
    }
}

/// What is asked about.
pub fn each_sum(_: &harness::message::Arguments) -> harness::tool::Review {
    harness::tool::Review::pass()
}

/// Evaluates an expression.
$attribute
pub fn evaluate(/** What to evaluate. */ expression: Expression) -> Answer {
    $body
}

pub struct Calculator;

#[harness::toolset]
impl Calculator {
    fn each_product(&self, _: &harness::message::Arguments) -> harness::tool::Review {
        harness::tool::Review::pass()
    }

    /// Evaluates an expression.
    $attribute
    pub fn calculate(&self, /** What to evaluate. */ expression: Expression) -> Answer {
        $method
    }
}

pub fn caller(calculator: Calculator, expression: Expression) {
    $caller
}
";

const RIGHT: &str = r#"#[tool(side_effects = "read")]"#;

/// The attribute on its way, with the parentheses and quotes that an editor closes by itself.
const HALF_TYPED: [&str; 21] = [
    "#[tool",
    "#[tool()",
    r#"#[tool(side_effects = "rea")"#,
    "#[tool]",
    "#[tool()]",
    "#[tool(s)]",
    "#[tool(side_eff)]",
    "#[tool(side_effects)]",
    "#[tool(side_effects =)]",
    "#[tool(side_effects = )]",
    r#"#[tool(side_effects = "")]"#,
    r#"#[tool(side_effects = "rea")]"#,
    "#[tool(side_effects = [])]",
    r#"#[tool(side_effects = ["read", ])]"#,
    r#"#[tool(side_effects = ["read", "netw"])]"#,
    r#"#[tool(side_effects = "read", )]"#,
    r#"#[tool(side_effects = "read", time)]"#,
    r#"#[tool(side_effects = "read", review)]"#,
    r#"#[tool(side_effects = "read", review = )]"#,
    r#"#[tool(side_effects = "read", review = each)]"#,
    r#"#[tool(side_effects = "read", review = Self::)]"#,
];

/// What is behind `#[tool` or `#[inline` when nothing is closed.
const OPEN: [&str; 4] = ["(", "(side_eff", "(side_effects = ", "(side_effects = \"rea"];

/// Bodies on their way: the last statement or one before others, closed or not.
const HALF_TYPED_BODIES: [&str; 6] = [
    "let taken = expression;\n    taken.tri$0",
    "expression.$0",
    "expression.tri$0;",
    "let known = expression.$0\n    Answer { value: known }",
    "if expression.$0",
    "Answer { value: expression.tri$0",
];

/// Another parameter on its way, and its attribute.
const HALF_TYPED_PARAMETERS: [&str; 5] =
    [", oth", ", other:", ", other: Opt", ", #[par] other: u8", ", #[param(def)] other: u8"];

/// Where the cursor is: what is typed there takes the place of what is right.
#[derive(Clone, Copy, Debug)]
enum At {
    Body,
    Method,
    Caller,
}

/// The program, with this text at one place.
fn program(attribute: &str, at: At, text: &str) -> String {
    const RIGHT_BODY: &str = "Answer { value: expression.trim() }";
    let [body, method, caller] = match at {
        At::Body => [text, RIGHT_BODY, ""],
        At::Method => [RIGHT_BODY, text, ""],
        At::Caller => [RIGHT_BODY, RIGHT_BODY, text],
    };
    let program = PROGRAM.replace("$attribute", attribute).replace("$body", body);
    program.replace("$method", method).replace("$caller", caller)
}

/// Whether a name is among the labels, such as `trim()`.
fn is_among(offered: &[String], name: &str) -> bool {
    offered.iter().any(|label| label.split('(').next() == Some(name))
}

/// Asserts that a name is offered at the `$0` in the text.
#[track_caller]
fn offers(session: &mut Session, attribute: &str, at: At, text: &str, name: &str) {
    let offered = session.completions(&program(attribute, at, text));
    assert!(
        is_among(&offered, name),
        "{attribute} {at:?} {text}: `{name}` is not offered, only {offered:?}"
    );
}

#[test]
fn an_editor_goes_on() {
    let Some(mut session) = Session::open() else { return skipped() };
    let session = &mut session;
    for attribute in std::iter::once(RIGHT).chain(HALF_TYPED) {
        for at in [At::Body, At::Method] {
            for body in HALF_TYPED_BODIES {
                offers(session, attribute, at, body, "trim");
            }
        }
        offers(session, attribute, At::Caller, "eval$0", "evaluate");
        offers(session, attribute, At::Caller, "evaluate(expression).$0", "rounded");
        offers(session, attribute, At::Caller, "calculator.$0", "calculate");
        offers(session, attribute, At::Caller, "calculator.calculate(expression).$0", "rounded");
        // The macro was asked: what it writes beside the function is there.
        offers(session, attribute, At::Caller, "evaluate::$0", "TOOL");

        let signature = "pub fn evaluate(expression: Expression) -> Answer";
        let shown = session.hover(&program(attribute, At::Caller, "evalu$0ate(expression);"));
        assert!(shown.contains(signature), "{attribute}: {shown}");
        let shown = session.signature(&program(attribute, At::Caller, "evaluate($0);"));
        assert_eq!(shown, "fn evaluate(expression: Expression) -> Answer", "{attribute}");
        let shown = session.signature(&program(attribute, At::Caller, "calculator.calculate($0);"));
        assert_eq!(shown, "fn calculate(&self, expression: Expression) -> Answer", "{attribute}");
    }
    for added in HALF_TYPED_PARAMETERS {
        for (at, text, name) in [
            (At::Body, "expression.$0", "trim"),
            (At::Method, "expression.$0", "trim"),
            (At::Caller, "evaluate::$0", "TOOL"),
            (At::Caller, "evaluate(expression).$0", "rounded"),
            (At::Caller, "calculator.$0", "calculate"),
            (At::Caller, "Calculator::$0", "tools"),
        ] {
            let program = program(RIGHT, at, text)
                .replace(": Expression) ->", &format!(": Expression{added}) ->"));
            let offered = session.completions(&program);
            assert!(is_among(&offered, name), "{added} {at:?} {text}: only {offered:?}");
        }
    }
    // The method that `#[toolset]` adds.
    offers(session, RIGHT, At::Caller, "Calculator::$0", "tools");
}

/// The name of a review is completed inside of the attribute.
#[test]
fn a_review_is_offered_where_it_is_named() {
    let Some(mut session) = Session::open() else { return skipped() };
    let begun = r#"#[tool(side_effects = "read", review = each$0)]"#;
    let of_type = r#"#[tool(side_effects = "read", review = Self::each$0)]"#;
    let whole = program(RIGHT, At::Caller, "");
    for (program, name) in [
        (whole.replacen(RIGHT, begun, 1), "each_sum"),
        (whole.replace(RIGHT, begun).replacen(begun, RIGHT, 1), "each_sum"),
        (whole.replace(RIGHT, of_type).replacen(of_type, RIGHT, 1), "each_product"),
    ] {
        let offered = session.completions(&program);
        assert!(is_among(&offered, name), "`{name}` is not offered, only {offered:?}");
    }
}

/// Without its parenthesis an attribute goes on to the end of the file, in the grammar itself: there is
/// no function then, and no macro is asked. What the editor makes of it is what it makes of an
/// attribute of the language; it is above the function that it goes on.
#[test]
fn an_open_parenthesis_is_no_worse_than_in_an_attribute_of_the_language() {
    let Some(mut session) = Session::open() else { return skipped() };
    for open in OPEN {
        for (at, text, name) in [
            (At::Body, "expression.tri$0", "trim"),
            (At::Method, "expression.tri$0", "trim"),
            (At::Caller, "eval$0", "evaluate"),
            (At::Caller, "calculator.$0", "calculate"),
        ] {
            let [ours, of_the_language] = ["#[tool", "#[inline"].map(|attribute| {
                let program = program(&format!("{attribute}{open}"), at, text);
                is_among(&session.completions(&program), name)
            });
            assert_eq!(ours, of_the_language, "{open} {at:?} {text}");
        }
        let above = program(&format!("#[tool{open}"), At::Body, "");
        let above = above.replacen("self.terms", "self.ter$0", 1);
        assert!(is_among(&session.completions(&above), "terms"), "{open}");
    }
}

fn skipped() {
    println!("skipped: there is no rust-analyzer (RUST_ANALYZER names one)");
}
