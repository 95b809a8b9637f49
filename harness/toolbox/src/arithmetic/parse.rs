//! Parses an expression into a tree, without computing anything.

use super::{
    error::CalcError,
    number::{ArithmeticOperator, Number},
};

/// The maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 1_000;
/// The maximum nesting depth of parentheses, signs and powers.
const MAX_DEPTH: usize = 64;
/// The maximum length of a number, in characters.
const MAX_DIGITS: usize = 64;

/// A parsed expression. The columns are the positions of the operators, for errors.
#[derive(Debug)]
pub(super) enum Expr {
    Number(Number),
    Negate { operand: Box<Expr>, column: usize },
    Apply { operator: ArithmeticOperator, left: Box<Expr>, right: Box<Expr>, column: usize },
}

/// Parses a complete expression.
pub(super) fn expression(text: &str) -> Result<Expr, CalcError> {
    if text.len() > MAX_LENGTH {
        let length = text.len();
        return Err(CalcError::new(
            1,
            format!(
                "the expression has {length} bytes, more than {MAX_LENGTH}; compute it in parts"
            ),
        ));
    }
    let mut reader = ExpressionParser { rest: text, column: 1, depth: 0 };
    let expr = reader.sum()?;
    match reader.peek() {
        None => Ok(expr),
        Some(')') => {
            Err(reader.fault("this `)` closes nothing; remove it or open it with `(` before"))
        }
        Some(_) => Err(reader.unexpected("an operator")),
    }
}

struct ExpressionParser<'t> {
    rest: &'t str,
    column: usize,
    depth: usize,
}

impl<'t> ExpressionParser<'t> {
    /// `product (("+" | "-") product)*`
    fn sum(&mut self) -> Result<Expr, CalcError> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => ArithmeticOperator::Add,
                Some('-') => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            left = self.apply(operator, left, Self::product)?;
        }
    }

    /// `signed (("*" | "/" | "//" | "%") signed)*`
    fn product(&mut self) -> Result<Expr, CalcError> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.peek() {
                Some('*') => ArithmeticOperator::Multiply,
                Some('/') if self.rest.starts_with("//") => ArithmeticOperator::FloorDivide,
                Some('/') => ArithmeticOperator::Divide,
                Some('%') => ArithmeticOperator::Remainder,
                _ => return Ok(left),
            };
            left = self.apply(operator, left, Self::signed)?;
        }
    }

    /// `("-" | "+") signed | power`: a sign binds weaker than the power to its right, so `-2^2` is `-(2^2)`.
    fn signed(&mut self) -> Result<Expr, CalcError> {
        match self.peek() {
            Some('-') => {
                let column = self.column;
                self.skip_one();
                let operand = Box::new(self.deeper(Self::signed)?);
                Ok(Expr::Negate { operand, column })
            }
            Some('+') => {
                self.skip_one();
                self.deeper(Self::signed)
            }
            _ => self.power(),
        }
    }

    /// `atom (("^" | "**") signed)?`: the power is right-associative, and the exponent may have a sign.
    fn power(&mut self) -> Result<Expr, CalcError> {
        let base = self.atom()?;
        let is_power = self.peek() == Some('^') || self.rest.starts_with("**");
        match is_power {
            true => {
                self.apply(ArithmeticOperator::Power, base, |reader| reader.deeper(Self::signed))
            }
            false => Ok(base),
        }
    }

    /// `number | "(" sum ")"`
    fn atom(&mut self) -> Result<Expr, CalcError> {
        match self.peek() {
            Some('(') => {
                let opened = self.column;
                self.skip_one();
                let inner = self.deeper(Self::sum)?;
                match self.peek() {
                    Some(')') => {
                        self.skip_one();
                        Ok(inner)
                    }
                    Some(_) => Err(self.unexpected("an operator or `)`")),
                    None => Err(CalcError::new(
                        opened,
                        "this `(` is never closed; add a `)` at the end of it",
                    )),
                }
            }
            Some('0'..='9' | '.') => self.number(),
            _ => Err(self.unexpected("a number or `(`")),
        }
    }

    fn apply(
        &mut self,
        operator: ArithmeticOperator,
        left: Expr,
        right: impl FnOnce(&mut Self) -> Result<Expr, CalcError>,
    ) -> Result<Expr, CalcError> {
        let column = self.column;
        let letters =
            if self.rest.starts_with("**") || self.rest.starts_with("//") { 2 } else { 1 };
        (0..letters).for_each(|_| self.skip_one());
        let right = Box::new(right(self)?);
        Ok(Expr::Apply { operator, left: Box::new(left), right, column })
    }

    /// Parses a nested rule, and limits the nesting depth. Every recursion of the parser goes through this method.
    fn deeper(
        &mut self,
        rule: impl FnOnce(&mut Self) -> Result<Expr, CalcError>,
    ) -> Result<Expr, CalcError> {
        if self.depth == MAX_DEPTH {
            return Err(self.fault(format!(
                "more than {MAX_DEPTH} parentheses, signs and powers inside each other; compute it \
                 in parts"
            )));
        }
        self.depth += 1;
        let expr = rule(self);
        self.depth -= 1;
        expr
    }

    /// Digits, then optionally a point and digits, then optionally `e` and an integer exponent.
    fn number(&mut self) -> Result<Expr, CalcError> {
        let (whole, column) = (self.rest, self.column);
        self.digits();
        let mut is_integer = true;
        if self.rest.starts_with('.') {
            is_integer = false;
            self.skip_one();
            self.some_digits("after the point")?;
        }
        if self.rest.starts_with(['e', 'E']) {
            is_integer = false;
            self.skip_one();
            if self.rest.starts_with(['+', '-']) {
                self.skip_one();
            }
            self.some_digits("in the exponent after the `e`")?;
        }
        let text = whole.strip_suffix(self.rest).unwrap_or(whole);
        if text.len() > MAX_DIGITS {
            return Err(CalcError::new(
                column,
                format!("this number has more than {MAX_DIGITS} characters; write it as `1.5e70`"),
            ));
        }
        let number = if is_integer {
            text.parse().map(Number::Integer).map_err(|_| {
                "this number does not fit into a 128-bit integer; write it as a decimal, such as \
                 `1.5e40`, if about 16 digits are enough"
            })
        } else {
            match text.parse::<f64>() {
                Ok(float) if float.is_finite() => Ok(Number::Float(float)),
                _ => Err("this number is larger than any decimal (1.8e308); write a smaller one"),
            }
        };
        number.map(Expr::Number).map_err(|fault| CalcError::new(column, fault))
    }

    fn some_digits(&mut self, place: &str) -> Result<(), CalcError> {
        let before = self.rest.len();
        self.digits();
        if self.rest.len() == before {
            return Err(self.fault(format!("a digit is missing {place}; write one, such as `0`")));
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            self.skip_one();
        }
    }

    /// The next character that is no whitespace.
    fn peek(&mut self) -> Option<char> {
        while self.rest.starts_with(char::is_whitespace) {
            self.skip_one();
        }
        self.rest.chars().next()
    }

    fn skip_one(&mut self) {
        let mut rest = self.rest.chars();
        if rest.next().is_some() {
            self.rest = rest.as_str();
            self.column += 1;
        }
    }

    fn fault(&self, fault: impl Into<String>) -> CalcError {
        CalcError::new(self.column, fault)
    }

    /// The error for an unexpected character. It names the character and says what to write instead.
    fn unexpected(&self, expected: &str) -> CalcError {
        let Some(found) = self.rest.chars().next() else {
            return self.fault(format!("the expression ends where {expected} is expected"));
        };
        if found.is_alphabetic() || found == '_' {
            let name: String =
                self.rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            return self.fault(format!(
                "`{name}` is a name; there are no variables, functions or units here: write its \
                 value (a square root is `^ 0.5`)"
            ));
        }
        let way_out = match found {
            '×' | '·' | '∙' | '⋅' => "write `*`",
            '÷' | '∕' | ':' => "write `/`",
            '−' | '–' => "write `-`",
            '²' => "write `^2`",
            '³' => "write `^3`",
            '[' | ']' | '{' | '}' => "group with `(` and `)`",
            ',' | '\'' | '_' => "write numbers without separators, and decimals with a point",
            '=' | '<' | '>' | '!' | '&' | '|' | '~' => "this computes numbers and compares nothing",
            '(' | '0'..='9' | '.' => "write `*` between two numbers that are multiplied",
            _ => "remove it",
        };
        self.fault(format!("`{found}` cannot stand here, {expected} is expected; {way_out}"))
    }
}
