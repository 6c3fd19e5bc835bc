//! [`Parser`]: evaluates an expression while it reads it, by precedence climbing.

use super::Names;
use super::token::Token;

/// Binary operators with their precedence, without comparisons, which chain.
const BINARY: [(&str, u8); 11] = [
    ("|", 1),
    ("^", 2),
    ("&", 3),
    ("<<", 4),
    (">>", 4),
    ("+", 5),
    ("-", 5),
    ("*", 6),
    ("/", 6),
    ("//", 6),
    ("%", 6),
];
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];
/// Most nested parentheses and unary operators: scripts are untrusted input.
const DEPTH: usize = 64;

/// Evaluates tokens; records the names it read, for the message of a failed assertion.
pub(super) struct Parser<'a, N> {
    tokens: &'a [Token],
    names: &'a N,
    seen: Vec<(String, i64)>,
    depth: usize,
}

impl<'a, N: Names> Parser<'a, N> {
    pub(super) fn new(tokens: &'a [Token], names: &'a N) -> Self {
        Self {
            tokens,
            names,
            seen: Vec::new(),
            depth: 0,
        }
    }

    /// Names and their values, as `a = 1, b = 2`.
    pub(super) fn seen(&self) -> String {
        let seen = self
            .seen
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        seen.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn is_at_comma(&self) -> bool {
        self.tokens.first() == Some(&Token::Operator(","))
    }

    /// `or` of `and` of `not` of comparisons.
    pub(super) fn expression(&mut self) -> Result<i64, String> {
        let mut value = self.conjunction()?;
        while self.take_word("or") {
            let right = self.conjunction()?;
            value = i64::from(value != 0 || right != 0);
        }
        Ok(value)
    }

    fn conjunction(&mut self) -> Result<i64, String> {
        let mut value = self.negation()?;
        while self.take_word("and") {
            let right = self.negation()?;
            value = i64::from(value != 0 && right != 0);
        }
        Ok(value)
    }

    fn negation(&mut self) -> Result<i64, String> {
        let mut negate = false;
        while self.take_word("not") {
            negate = !negate;
        }
        let value = self.comparison()?;
        Ok(if negate { i64::from(value == 0) } else { value })
    }

    fn comparison(&mut self) -> Result<i64, String> {
        let mut left = self.arithmetic(0)?;
        let mut outcome = None;
        while let Some(operator) = self.take_operator(&COMPARISONS) {
            let right = self.arithmetic(0)?;
            let holds = match operator {
                "==" => left == right,
                "!=" => left != right,
                "<=" => left <= right,
                ">=" => left >= right,
                "<" => left < right,
                _ => left > right,
            };
            outcome = Some(outcome.unwrap_or(true) && holds);
            left = right;
        }
        Ok(outcome.map_or(left, i64::from))
    }

    fn arithmetic(&mut self, least: u8) -> Result<i64, String> {
        let mut left = self.unary()?;
        while let Some(&Token::Operator(operator)) = self.tokens.first() {
            let precedence = BINARY
                .iter()
                .find(|(binary, _)| *binary == operator)
                .map(|(_, p)| *p);
            let Some(precedence) = precedence.filter(|precedence| *precedence > least) else {
                break;
            };
            self.tokens = &self.tokens[1..];
            let right = self.arithmetic(precedence)?;
            left = apply(operator, left, right).ok_or("a number is out of range")?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("expression is nested too deeply".into());
        }
        let value = match self.take_operator(&["-", "~", "!", "("]) {
            Some("-") => self
                .unary()?
                .checked_neg()
                .ok_or("a number is out of range")?,
            Some("~") => !self.unary()?,
            Some("!") => i64::from(self.unary()? == 0),
            Some(_) => {
                let value = self.expression()?;
                self.take_operator(&[")"]).ok_or("`)` is missing")?;
                value
            }
            None => self.primary()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn primary(&mut self) -> Result<i64, String> {
        let (first, rest) = self
            .tokens
            .split_first()
            .ok_or("an expression is missing")?;
        self.tokens = rest;
        match first {
            Token::Number(value) => Ok(*value),
            Token::Name(name) if self.take_operator(&["("]).is_some() => self.function(name),
            Token::Name(name) => {
                let value = self.names.value(name);
                let value = value.ok_or_else(|| format!("name `{name}` is not known"))?;
                self.seen.push((name.clone(), value));
                Ok(value)
            }
            other => Err(format!("{other:?} begins no expression")),
        }
    }

    /// `abs`, `min`, `max` after their `(`.
    fn function(&mut self, name: &str) -> Result<i64, String> {
        let mut arguments = vec![self.expression()?];
        while self.take_operator(&[","]).is_some() {
            arguments.push(self.expression()?);
        }
        self.take_operator(&[")"]).ok_or("`)` is missing")?;
        let value = match name {
            "abs" => arguments[0].checked_abs(),
            "min" => arguments.into_iter().min(),
            "max" => arguments.into_iter().max(),
            _ => return Err(format!("function `{name}` is not known")),
        };
        value.ok_or_else(|| "a number is out of range".into())
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.first(), Some(Token::Name(name)) if name == word);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn take_operator(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let Some(&Token::Operator(operator)) = self.tokens.first() else {
            return None;
        };
        operators.contains(&operator).then(|| {
            self.tokens = &self.tokens[1..];
            operator
        })
    }
}

/// Python's division rounds down, and its remainder has the sign of the divisor. A result beyond 64 bits
/// is `None`.
fn apply(operator: &str, left: i64, right: i64) -> Option<i64> {
    match operator {
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "<<" => u32::try_from(right)
            .ok()
            .and_then(|right| 1i64.checked_shl(right).filter(|factor| *factor > 0))
            .and_then(|factor| left.checked_mul(factor)),
        ">>" => u32::try_from(right)
            .ok()
            .and_then(|right| left.checked_shr(right)),
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "%" => {
            let rest = left.checked_rem(right)?;
            let is_off = rest != 0 && (rest < 0) != (right < 0);
            Some(if is_off { rest + right } else { rest })
        }
        _ => {
            let quotient = left.checked_div(right)?;
            let is_off = left % right != 0 && (left < 0) != (right < 0);
            Some(if is_off { quotient - 1 } else { quotient })
        }
    }
}
