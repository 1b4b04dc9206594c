//! How much memory the tree of a template takes, by the capacities of its lists.

use super::ast::{Arg, ArgKind, Branch, Command, Ident, List, Node, Pipe};
use super::parser::Trees;

/// Heap memory of the trees in bytes.
pub(super) fn of_trees(trees: &Trees) -> usize {
    let named = trees.iter().map(|(name, list)| name.len() + of_list(list));
    trees.capacity() * size_of::<(Box<[u8]>, List)>() + named.sum::<usize>()
}

fn of_list(list: &List) -> usize {
    list.capacity() * size_of::<Node>() + list.iter().map(of_node).sum::<usize>()
}

fn of_node(node: &Node) -> usize {
    match node {
        Node::Text(text) => text.len(),
        Node::Field { action, .. } | Node::Action(action) => of_pipe(&action.pipe),
        Node::If(branch) | Node::With(branch) | Node::Range(branch) => of_branch(branch),
        Node::Template { quoted, name, pipe, .. } => {
            quoted.capacity() + name.len() + pipe.as_ref().map_or(0, of_pipe)
        }
        Node::Break | Node::Continue => 0,
    }
}

fn of_branch(branch: &Branch) -> usize {
    let lists = of_list(&branch.list) + branch.else_list.as_ref().map_or(0, of_list);
    of_pipe(&branch.pipe) + lists
}

fn of_pipe(pipe: &Pipe) -> usize {
    pipe.variables.capacity() * size_of::<Box<str>>()
        + pipe.variables.iter().map(|name| name.len()).sum::<usize>()
        + pipe.commands.capacity() * size_of::<Command>()
        + pipe.commands.iter().map(|command| of_args(&command.args)).sum::<usize>()
}

fn of_args(args: &Vec<Arg>) -> usize {
    args.capacity() * size_of::<Arg>() + args.iter().map(of_arg).sum::<usize>()
}

fn of_arg(arg: &Arg) -> usize {
    match &arg.kind {
        ArgKind::Bool(_) | ArgKind::Dot | ArgKind::Nil | ArgKind::Function(_) => 0,
        ArgKind::Number(number) => number.text.capacity(),
        ArgKind::Text { quoted, value } => quoted.capacity() + value.len(),
        ArgKind::Field(fields) => of_fields(fields),
        ArgKind::Variable { name, fields } => name.len() + of_fields(fields),
        ArgKind::Pipe(pipe) => size_of::<Pipe>() + of_pipe(pipe),
        ArgKind::Chain { base, fields } => size_of::<Arg>() + of_arg(base) + of_fields(fields),
    }
}

fn of_fields(fields: &Vec<Ident>) -> usize {
    let texts = fields.iter().map(|field| field.text.len());
    fields.capacity() * size_of::<Ident>() + texts.sum::<usize>()
}
