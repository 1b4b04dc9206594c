//! Metric queries, and expressions in general.

use super::label_filter::literal;
use super::range::Range;
use super::{Node, Parser};
use crate::syntax::ast::{
    BinaryOp, BinaryOperation, Cardinality, Expr, Grouping, GroupingKind, LabelReplace,
    MatchingKind, MetricExpr, RangeAggregation, RangeFunction, VectorAggregation, VectorFunction,
    VectorMatching,
};
use crate::syntax::lexer::{Fixed, Kind};
use crate::syntax::{MAX_EXPR_DEPTH, ParseError, checker, go_regex};
use logsvc_proto::go::float::parse_float;

/// An operator whose right operand is still to come.
struct Pending {
    op: BinaryOp,
    return_bool: bool,
    matching: VectorMatching,
}

fn too_deep() -> ParseError {
    ParseError::new(format!("the query nests too deeply (more than {MAX_EXPR_DEPTH} levels)"))
}

impl Parser<'_> {
    /// Any expression, as far as it goes.
    pub(super) fn expr(&mut self) -> Result<Node, ParseError> {
        let first = self.operand()?;
        self.expr_after(first)
    }

    /// The rest of an expression whose first operand is known.
    fn expr_after(&mut self, first: Node) -> Result<Node, ParseError> {
        let mut operands = vec![first];
        let mut operators: Vec<Pending> = Vec::new();
        loop {
            let next = match self.peek()?.kind {
                Kind::Fixed(fixed) => fixed.binary_op(),
                _ => None,
            };
            while let Some(top) = operators.last() {
                let binds = next.is_none_or(|op| {
                    let (left, right) = (top.op.precedence(), op.precedence());
                    left > right || (left == right && !op.is_right_associative())
                });
                if !binds {
                    break;
                }
                reduce(&mut operands, &mut operators)?;
            }
            let Some(op) = next else {
                return Ok(operands.pop().expect("there is always an operand"));
            };
            self.next()?;
            operators.push(self.modifiers(op)?);
            operands.push(self.operand()?);
        }
    }

    /// `bool`, `on`, `ignoring`, `group_left`, `group_right` after an operator.
    fn modifiers(&mut self, op: BinaryOp) -> Result<Pending, ParseError> {
        let return_bool = self.take(Fixed::Bool)?;
        let mut matching = VectorMatching::default();
        if self.is(Fixed::On)? || self.is(Fixed::Ignoring)? {
            if self.next()?.kind == Kind::Fixed(Fixed::On) {
                matching.kind = MatchingKind::On;
            }
            matching.labels = self.names()?;
            if self.is(Fixed::GroupLeft)? || self.is(Fixed::GroupRight)? {
                let is_left = self.next()?.kind == Kind::Fixed(Fixed::GroupLeft);
                let has_list = self.is(Fixed::OpenParen)?;
                let labels = if has_list { self.names()? } else { Vec::new() };
                matching.cardinality = if is_left {
                    Cardinality::GroupLeft(labels)
                } else {
                    Cardinality::GroupRight(labels)
                };
            }
        }
        Ok(Pending { op, return_bool, matching })
    }

    pub(super) fn enter(&mut self) -> Result<(), ParseError> {
        self.nesting += 1;
        if self.nesting > MAX_EXPR_DEPTH { Err(too_deep()) } else { Ok(()) }
    }

    fn operand(&mut self) -> Result<Node, ParseError> {
        let kind = match &self.peek()?.kind {
            Kind::Number => {
                let token = self.next()?;
                return Ok(Node::leaf(MetricExpr::Literal(literal(token.text)?)));
            }
            Kind::RangeFn(function) => {
                let function = *function;
                self.next()?;
                return self.range_aggregation(function);
            }
            Kind::VectorFn(function) => {
                let function = *function;
                self.next()?;
                return self.vector_aggregation(function);
            }
            Kind::Fixed(fixed) => *fixed,
            _ => return Err(self.unexpected("")),
        };
        match kind {
            Fixed::OpenBrace => {
                let expr = Expr::Log(self.log_expr()?);
                Ok(Node { expr, depth: 1, problem: None })
            }
            Fixed::OpenParen => {
                self.next()?;
                self.enter()?;
                let node = self.expr()?;
                self.nesting -= 1;
                self.expect(Fixed::CloseParen, "")?;
                Ok(node)
            }
            sign @ (Fixed::Add | Fixed::Sub) => {
                self.next()?;
                Ok(Node::leaf(MetricExpr::Literal(self.signed_literal(sign, "NUMBER")?)))
            }
            Fixed::Vector => {
                self.next()?;
                self.vector()
            }
            Fixed::LabelReplace => {
                self.next()?;
                self.label_replace()
            }
            _ => Err(self.unexpected("")),
        }
    }

    /// An argument that must yield samples. The tokens behind it are not read.
    fn metric_argument(&mut self, first: Option<Node>) -> Result<Argument, ParseError> {
        self.enter()?;
        let node = match first {
            Some(first) => self.expr_after(first)?,
            None => self.expr()?,
        };
        self.nesting -= 1;
        let Expr::Metric(expr) = node.expr else { return Err(self.unexpected("")) };
        if node.depth == MAX_EXPR_DEPTH {
            return Err(too_deep());
        }
        Ok(Argument { expr: Box::new(expr), depth: node.depth + 1, problem: node.problem })
    }

    fn vector(&mut self) -> Result<Node, ParseError> {
        self.expect(Fixed::OpenParen, "(")?;
        if self.peek()?.kind != Kind::Number {
            return Err(self.unexpected("NUMBER"));
        }
        let value = parse_float(self.next()?.text);
        self.expect(Fixed::CloseParen, ")")?;
        Ok(match value {
            Ok(value) => Node::leaf(MetricExpr::Vector(value)),
            Err(error) => Node {
                problem: Some(ParseError::new(format!(
                    "unable to parse vectorExpr as a float: {error}"
                ))),
                ..Node::leaf(MetricExpr::Vector(0.0))
            },
        })
    }

    fn label_replace(&mut self) -> Result<Node, ParseError> {
        self.expect(Fixed::OpenParen, "(")?;
        let Argument { expr, depth, problem } = self.metric_argument(None)?;
        let mut strings = Vec::with_capacity(4);
        for _ in 0..4 {
            self.expect(Fixed::Comma, ",")?;
            strings.push(self.string("STRING")?);
        }
        self.expect(Fixed::CloseParen, ")")?;
        let regex = strings.pop().expect("four were pushed");
        let own = self.check_label_replace(&regex).err();
        let mut next = || strings.remove(0).into();
        let (dst, replacement, src) = (next(), next(), next());
        let node = LabelReplace { expr, dst, replacement, src, regex: regex.into() };
        Ok(Node {
            expr: Expr::Metric(MetricExpr::LabelReplace(node)),
            depth,
            problem: own.or(problem),
        })
    }

    fn check_label_replace(&mut self, regex: &[u8]) -> Result<(), ParseError> {
        // Loki compiles the anchored text as a whole.
        let anchored = [b"^(?:", regex, b")$"].concat();
        self.charge_regex(go_regex::translate(&anchored, go_regex::Purpose::Captures))
            .and_then(|_| go_regex::compile_capturing(&anchored).map_err(ParseError::new))
            .map(|_| ())
            .map_err(|error| {
                ParseError::new(format!("invalid regex in label_replace: {}", error.message))
            })
    }

    /// `by (...)` or `without (...)` if the next token begins one.
    fn grouping(&mut self) -> Result<Option<Grouping>, ParseError> {
        let kind = if self.take(Fixed::By)? {
            GroupingKind::By
        } else if self.take(Fixed::Without)? {
            GroupingKind::Without
        } else {
            return Ok(None);
        };
        Ok(Some(Grouping { kind, labels: self.names()? }))
    }

    fn vector_aggregation(&mut self, function: VectorFunction) -> Result<Node, ParseError> {
        let mut grouping = self.grouping()?;
        self.expect(Fixed::OpenParen, "(")?;
        let mut parameter = None;
        let mut first = None;
        if self.peek()?.kind == Kind::Number {
            let token = self.next()?;
            if self.take(Fixed::Comma)? {
                parameter = Some(token.text);
            } else {
                first = Some(Node::leaf(MetricExpr::Literal(literal(token.text)?)));
            }
        }
        let Argument { expr, depth, problem } = self.metric_argument(first)?;
        self.expect(Fixed::CloseParen, "")?;
        if grouping.is_none() {
            grouping = self.grouping()?;
        }
        let checked = checker::vector_parameter(function, parameter, grouping.as_ref());
        let (parameter, own) = match checked {
            Ok(parameter) => (parameter, None),
            Err(error) => (None, Some(error)),
        };
        let is_plain = |g: &Grouping| g.kind == GroupingKind::By && g.labels.is_empty();
        let grouping = grouping.filter(|g| !is_plain(g));
        let node = VectorAggregation { function, parameter, expr, grouping };
        Ok(Node {
            expr: Expr::Metric(MetricExpr::VectorAggregation(node)),
            depth,
            problem: own.or(problem),
        })
    }

    fn range_aggregation(&mut self, function: RangeFunction) -> Result<Node, ParseError> {
        self.expect(Fixed::OpenParen, "(")?;
        let mut parameter = None;
        if self.peek()?.kind == Kind::Number {
            parameter = Some(self.next()?.text);
            self.expect(Fixed::Comma, ",")?;
        }
        let range = match self.log_range()? {
            Range::Complete(range) => range,
            Range::Open { .. } => return Err(self.unexpected("")),
        };
        self.expect(Fixed::CloseParen, ")")?;
        let grouping = self.grouping()?;
        let has_unwrap = range.unwrap.is_some();
        let checked =
            checker::range_aggregation(function, parameter, has_unwrap, grouping.is_some());
        let (parameter, problem) = match checked {
            Ok(parameter) => (parameter, None),
            Err(error) => (None, Some(error)),
        };
        let node = RangeAggregation { function, parameter, range, grouping };
        let expr = Expr::Metric(MetricExpr::RangeAggregation(node));
        Ok(Node { expr, depth: 1, problem })
    }
}

/// A metric expression that became an argument.
struct Argument {
    expr: Box<MetricExpr>,
    /// Depth of the node that holds it.
    depth: usize,
    problem: Option<ParseError>,
}

/// Joins the last two operands by the last operator.
fn reduce(operands: &mut Vec<Node>, operators: &mut Vec<Pending>) -> Result<(), ParseError> {
    let Pending { op, return_bool, matching } = operators.pop().expect("the caller saw it");
    let right = operands.pop().expect("an operator has a right operand");
    let left = operands.pop().expect("an operator has a left operand");
    let depth = 1 + left.depth.max(right.depth);
    let own = checker::binary_operands(op, &left.expr, &right.expr).err();
    let problem = own.or(left.problem).or(right.problem);
    // A log query is a problem already; the tree only needs something in its place.
    let metric = |expr| match expr {
        Expr::Metric(expr) => expr,
        Expr::Log(_) => MetricExpr::Vector(0.0),
    };
    let (left, right) = (metric(left.expr), metric(right.expr));
    let node = match (&left, &right) {
        (MetricExpr::Literal(a), MetricExpr::Literal(b)) if problem.is_none() => {
            Node::leaf(MetricExpr::Literal(checker::fold(op, *a, *b)))
        }
        _ => {
            if depth > MAX_EXPR_DEPTH {
                return Err(too_deep());
            }
            let (left, right) = (Box::new(left), Box::new(right));
            let operation = BinaryOperation { op, return_bool, matching, left, right };
            let expr = Expr::Metric(MetricExpr::BinaryOperation(operation));
            Node { expr, depth, problem }
        }
    };
    operands.push(node);
    Ok(())
}
