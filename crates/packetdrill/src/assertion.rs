//! The language of `%{ … }%`: `assert` and `print` over integer expressions, with Python's
//! operators and precedence. Names stand for fields of `struct tcp_info` and constants of
//! `linux/tcp.h`.

mod expression;
mod token;

use expression::Parser;
use token::tokens;

/// Looks a name up.
pub(crate) trait Names {
    /// The value of `name`, if it has one.
    fn value(&self, name: &str) -> Option<i64>;
}

/// Runs the statements of a block.
///
/// # Errors
/// The first assertion that is false, or a statement that is not understood.
pub(crate) fn run(block: &str, names: &impl Names) -> Result<(), String> {
    for statement in statements(block) {
        let Some(text) = statement.strip_prefix("assert") else {
            if statement.starts_with("print") || statement.starts_with("import") {
                continue;
            }
            return Err(format!("statement `{statement}` is not supported"));
        };
        let tokens = tokens(text)?;
        let mut parser = Parser::new(&tokens, names);
        if parser.expression()? == 0 {
            return Err(format!("false: {statement} (with {})", parser.seen()));
        }
        if !parser.is_at_end() && !parser.is_at_comma() {
            return Err(format!("`{statement}` does not end where it should"));
        }
    }
    Ok(())
}

/// Statements of a block: lines, or parts of lines between semicolons; a line within parentheses
/// continues.
fn statements(block: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut current = String::new();
    let mut depth = 0;
    for line in block.lines() {
        let line = line.split('#').next().unwrap_or(line);
        for character in line.chars().chain(['\n']) {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                ';' | '\n' if depth <= 0 => {
                    statements.push(current.trim().trim_end_matches('\\').to_owned());
                    current.clear();
                    continue;
                }
                _ => {}
            }
            current.push(character);
        }
    }
    statements.push(current.trim().to_owned());
    statements.retain(|statement| !statement.is_empty());
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl Names for Two {
        fn value(&self, name: &str) -> Option<i64> {
            (name == "two").then_some(2)
        }
    }

    fn holds(block: &str) -> bool {
        run(block, &Two).is_ok()
    }

    #[test]
    fn operators_bind_as_in_python() {
        assert!(holds("assert 1 + 2 * 3 == 7"));
        assert!(holds("assert 1 | 6 & 3 == 3"));
        assert!(holds("assert 1 < two <= 2 and not two > 2"));
        assert!(holds("assert two == 3 or two != 3"));
        assert!(holds("assert (two & 2) != 0, 'a message'"));
        assert!(holds("assert 7 // 2 == 3; assert -7 % 4 == 1"));
        assert!(holds("assert 7 // -2 == -4; assert -7 // -2 == 3"));
        assert!(holds(
            "assert 7 % -2 == -1; assert -7 % -2 == -1; assert 6 % -2 == 0"
        ));
        let error = run("assert 3 << 62 == 1", &Two).expect_err("more than 64 bits");
        assert_eq!(error, "a number is out of range");
        assert!(holds("assert 1 << 4 == 16 and 0x10 == 16"));
        assert!(holds("assert (two ==\n  2)\nprint(two)"));
        assert!(holds("assert abs(0 - 3) == 3 and max(1, two) == 2"));
    }

    #[test]
    fn a_false_assertion_shows_its_values() {
        let error = run("assert two == 3", &Two).expect_err("false");
        assert_eq!(error, "false: assert two == 3 (with two = 2)");
        assert!(!holds("assert three"));
        assert!(!holds("two = 3"));
    }
}
