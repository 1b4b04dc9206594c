//! Which labels a template reads.

use super::ast::{Arg, ArgKind, Branch, List, Node, Pipe};
use super::parser::Trees;

/// Calls `visit` with every name that may be that of a label; false when any label
/// may be read, because the whole set is used as a value.
pub(super) fn for_each_name(trees: &Trees, visit: &mut impl FnMut(&str)) -> bool {
    trees.iter().all(|(_, list)| in_list(list, visit))
}

fn in_list(list: &List, visit: &mut impl FnMut(&str)) -> bool {
    list.iter().all(|node| match node {
        Node::Text(_) | Node::Break | Node::Continue => true,
        Node::Field { action, .. } | Node::Action(action) => in_pipe(&action.pipe, visit),
        Node::If(branch) | Node::With(branch) | Node::Range(branch) => in_branch(branch, visit),
        Node::Template { pipe, .. } => pipe.as_ref().is_none_or(|pipe| in_pipe(pipe, visit)),
    })
}

fn in_branch(branch: &Branch, visit: &mut impl FnMut(&str)) -> bool {
    in_pipe(&branch.pipe, visit)
        && in_list(&branch.list, visit)
        && branch.else_list.as_ref().is_none_or(|list| in_list(list, visit))
}

fn in_pipe(pipe: &Pipe, visit: &mut impl FnMut(&str)) -> bool {
    pipe.commands.iter().flat_map(|command| &command.args).all(|arg| in_arg(arg, visit))
}

fn in_arg(arg: &Arg, visit: &mut impl FnMut(&str)) -> bool {
    match &arg.kind {
        ArgKind::Bool(_)
        | ArgKind::Nil
        | ArgKind::Number(_)
        | ArgKind::Text { .. }
        | ArgKind::Function(_) => true,
        ArgKind::Dot => false,
        ArgKind::Field(fields) => {
            fields.iter().for_each(|field| visit(&field.text));
            true
        }
        ArgKind::Variable { name, fields } => {
            fields.iter().for_each(|field| visit(&field.text));
            &**name != "$" || !fields.is_empty()
        }
        ArgKind::Pipe(pipe) => in_pipe(pipe, visit),
        ArgKind::Chain { base, fields } => {
            let is_known = in_arg(base, visit);
            fields.iter().for_each(|field| visit(&field.text));
            is_known
        }
    }
}
