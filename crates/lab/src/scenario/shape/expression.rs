//! Walks over an expression: which names it holds, and whole numbers turned into numbers, for CEL
//! multiplies only like with like.

use std::collections::BTreeMap;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::CelDouble;

/// Calls `found` with every path of literal steps that begins with a name: `a["b"].c` is `a`, `b`,
/// `c`; a name whose steps are put together while it is computed is a path of one step. A variable
/// that runs over a list of literal texts represents each of them; `bound` holds the present ones.
pub(super) fn paths(
    of: &IdedExpr,
    bound: &mut BTreeMap<String, String>,
    found: &mut impl FnMut(Vec<String>),
) {
    if let Some(path) = path(&of.expr, bound) {
        found(path);
        return;
    }
    if let Expr::Comprehension(all) = &of.expr
        && let Some(texts) = texts(&all.iter_range)
    {
        for text in texts {
            let hidden = bound.insert(all.iter_var.clone(), text);
            [&all.accu_init, &all.loop_cond, &all.loop_step]
                .into_iter()
                .for_each(|part| paths(part, bound, found));
            match hidden {
                Some(text) => bound.insert(all.iter_var.clone(), text),
                None => bound.remove(&all.iter_var),
            };
        }
        return paths(&all.result, bound, found);
    }
    if let Expr::Ident(name) = &of.expr {
        return found(vec![name.clone()]);
    }
    parts(&of.expr)
        .into_iter()
        .for_each(|part| paths(part, bound, found));
}

/// The path that `expression` is, if it is one of more than one step.
fn path(expression: &Expr, bound: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let (mut steps, mut expression) = (Vec::new(), expression);
    loop {
        match expression {
            Expr::Ident(name) if !steps.is_empty() => {
                steps.push(name.clone());
                steps.reverse();
                return Some(steps);
            }
            Expr::Select(select) if !select.test => {
                steps.push(select.field.clone());
                expression = &select.operand.expr;
            }
            Expr::Call(call) if call.func_name == operators::INDEX => {
                let [of, step] = &call.args[..] else {
                    return None;
                };
                steps.push(match &step.expr {
                    Expr::Ident(name) => bound.get(name)?.clone(),
                    step => text(step)?,
                });
                expression = &of.expr;
            }
            _ => return None,
        }
    }
}

fn texts(list: &IdedExpr) -> Option<Vec<String>> {
    let Expr::List(list) = &list.expr else {
        return None;
    };
    list.elements
        .iter()
        .map(|element| text(&element.expr))
        .collect()
}

fn text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_owned()),
        _ => None,
    }
}

/// How deep `of` nests; a number or a name alone is one deep.
pub(super) fn depth(of: &IdedExpr) -> usize {
    let (mut deepest, mut open) = (0, vec![(of, 1)]);
    while let Some((of, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(parts(&of.expr).into_iter().map(|part| (part, depth + 1)));
    }
    deepest
}

/// Direct subexpressions.
pub(super) fn parts(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect(),
        Expr::Comprehension(all) => {
            vec![
                &all.iter_range,
                &all.accu_init,
                &all.loop_cond,
                &all.loop_step,
                &all.result,
            ]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| entry_parts(&entry.expr))
            .collect(),
        Expr::Struct(of) => of
            .entries
            .iter()
            .flat_map(|entry| entry_parts(&entry.expr))
            .collect(),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Turns every whole number into a number with a fraction, but for places in lists.
pub(super) fn whole_numbers_as_numbers(of: &mut IdedExpr) {
    match &mut of.expr {
        Expr::Literal(literal) => {
            if let LiteralValue::Int(whole) = literal {
                *literal = LiteralValue::Double(CelDouble::from(*whole.inner() as f64));
            }
        }
        Expr::Call(call) => {
            let place = call.func_name == operators::INDEX;
            let args = call
                .args
                .iter_mut()
                .enumerate()
                .filter(|(number, _)| !place || *number == 0);
            args.for_each(|(_, arg)| whole_numbers_as_numbers(arg));
            call.target
                .as_deref_mut()
                .into_iter()
                .for_each(whole_numbers_as_numbers);
        }
        Expr::Comprehension(all) => {
            let parts = [
                &mut all.iter_range,
                &mut all.accu_init,
                &mut all.loop_cond,
                &mut all.loop_step,
                &mut all.result,
            ];
            parts.into_iter().for_each(whole_numbers_as_numbers);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(whole_numbers_as_numbers),
        Expr::Select(select) => whole_numbers_as_numbers(&mut select.operand),
        Expr::Map(_) | Expr::Struct(_) | Expr::Ident(_) | Expr::Unspecified => {}
    }
}
