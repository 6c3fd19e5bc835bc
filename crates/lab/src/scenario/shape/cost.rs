//! Upper bounds of the work and the memory that an expression takes. Both grow exponentially with
//! nesting: `all` in `all` multiplies the elements of their lists, and each
//! `.map(x, x + x)` behind another doubles its list.

use std::collections::HashMap;

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr};

use super::expression::parts;

/// Elements of a list or map that is computed from numbers: more than an axis has values.
const COMPUTED: u64 = 32;

/// Upper bounds, saturating.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Subexpressions computed, repetitions included.
    pub(super) steps: u64,
    /// Elements of the value, those of lists in lists included.
    pub(super) size: u64,
    /// Elements that `all` or `map` would visit.
    length: u64,
}

/// The cost of `of`, by names of variables and the sizes of their values.
pub(super) fn cost<'a>(of: &'a IdedExpr, variables: &mut HashMap<&'a str, u64>) -> Cost {
    let (known, length) = match &of.expr {
        Expr::Comprehension(all) => return repeated(all, variables),
        Expr::Ident(name) => {
            let known = variables.get(name.as_str()).copied().unwrap_or(COMPUTED);
            (known, known)
        }
        Expr::List(list) => (1, list.elements.len() as u64),
        _ => (1, 0),
    };
    let own = Cost {
        steps: 1,
        size: known,
        length,
    };
    let is_list = matches!(of.expr, Expr::List(_));
    parts(&of.expr).into_iter().fold(own, |sum, part| {
        let part = cost(part, variables);
        Cost {
            steps: sum.steps.saturating_add(part.steps),
            size: sum.size.saturating_add(part.size),
            // The elements of a literal list are counted; a sum of lists has those of both.
            length: if is_list {
                sum.length
            } else {
                sum.length.saturating_add(part.length)
            },
        }
    })
}

/// The cost of `all`, `exists`, `map` and their kind.
fn repeated<'a>(all: &'a ComprehensionExpr, variables: &mut HashMap<&'a str, u64>) -> Cost {
    let range = cost(&all.iter_range, variables);
    let accumulated = cost(&all.accu_init, variables);
    let outer = [
        variables.insert(&all.iter_var, range.size),
        variables.insert(&all.accu_var, 0),
    ];
    let (condition, step) = (
        cost(&all.loop_cond, variables),
        cost(&all.loop_step, variables),
    );
    let result = cost(&all.result, variables);
    for (name, outer) in [&all.iter_var, &all.accu_var].into_iter().zip(outer) {
        match outer {
            Some(size) => variables.insert(name, size),
            None => variables.remove(name.as_str()),
        };
    }
    let each = condition.steps.saturating_add(step.steps);
    Cost {
        steps: range
            .steps
            .saturating_add(accumulated.steps)
            .saturating_add(range.length.saturating_mul(each))
            .saturating_add(result.steps),
        size: range.length.saturating_mul(step.size),
        length: range.length,
    }
}
