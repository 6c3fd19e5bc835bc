//! Tokens of an expression.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Number(i64),
    Name(String),
    Text,
    Operator(&'static str),
}

/// Operators and brackets, longer ones first.
const OPERATORS: [&str; 22] = [
    "==", "!=", "<=", ">=", "<<", ">>", "//", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "(", ")", ",", "!",
];

/// Splits `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let len = if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(word(&rest[..end])?);
            end
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first).ok_or("a string lacks its end")?;
            tokens.push(Token::Text);
            end + 2
        } else {
            let found = OPERATORS
                .iter()
                .find(|operator| rest.starts_with(**operator));
            let operator = found.ok_or_else(|| format!("`{first}` means nothing"))?;
            tokens.push(Token::Operator(operator));
            operator.len()
        };
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}

fn word(text: &str) -> Result<Token, String> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Token::Name(text.to_owned()));
    }
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value
        .map(Token::Number)
        .map_err(|_| format!("`{text}` is not an integer"))
}
