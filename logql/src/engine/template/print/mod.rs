//! Values as Go's `fmt` prints them.

mod format;
mod number;
mod text;

use logsvc_proto::Labels;

use super::json::Json;
use super::out::Out;
use super::value::Value;

pub(super) use format::sprintf;

/// Prints one value like `%v`.
///
/// # Errors
/// When the output becomes too long.
pub(super) fn print(out: &mut Out<'_>, value: &Value<'_>) -> Result<(), String> {
    if let Value::Text(text) = value {
        return out.push(text.bytes());
    }
    Printer::new(out).print_arg(value, 'v')
}

/// `fmt.Sprint`: spaces between operands when neither is a string.
///
/// # Errors
/// When the output becomes too long.
pub(super) fn sprint(out: &mut Out<'_>, values: &[Value<'_>]) -> Result<(), String> {
    let mut previous_is_text = true;
    for (i, value) in values.iter().enumerate() {
        let value = value.clone().unwrapped();
        let is_text = matches!(value, Value::Text(_));
        if i > 0 && !is_text && !previous_is_text {
            out.push(b" ")?;
        }
        print(out, &value)?;
        previous_is_text = is_text;
    }
    Ok(())
}

/// `fmt.Sprintln`: spaces between operands, and a line feed.
///
/// # Errors
/// When the output becomes too long.
pub(super) fn sprintln(out: &mut Out<'_>, values: &[Value<'_>]) -> Result<(), String> {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b" ")?;
        }
        print(out, &value.clone().unwrapped())?;
    }
    out.push(b"\n")
}

/// Longest text of a time.
const TIME_MAX_BYTES: usize = 1 << 10;

/// The flags, width and precision of one verb.
#[derive(Clone, Copy, Default, Debug)]
struct Spec {
    width: Option<usize>,
    precision: Option<usize>,
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%#v`
    sharp_v: bool,
}

/// Prints values under one [`Spec`].
struct Printer<'p, 'o> {
    out: &'p mut Out<'o>,
    spec: Spec,
}

impl<'p, 'o> Printer<'p, 'o> {
    fn new(out: &'p mut Out<'o>) -> Self {
        Self { out, spec: Spec::default() }
    }

    fn print_arg(&mut self, value: &Value<'_>, verb: char) -> Result<(), String> {
        if verb == 'T' {
            return self.pad_text(value.clone().unwrapped().type_name().as_bytes());
        }
        match value {
            Value::Nothing if verb == 'v' => self.pad_text(b"<nil>"),
            Value::Nothing => self.bad_verb(value, verb),
            value => self.print_value(value, verb),
        }
    }

    fn print_value(&mut self, value: &Value<'_>, verb: char) -> Result<(), String> {
        match value {
            Value::Nothing | Value::Element(Json::Null) => self.out.push(b"<nil>"),
            Value::Element(_) => self.print_value(&value.clone().unwrapped(), verb),
            Value::Bool(truth) => match verb {
                't' | 'v' => self.pad_text(if *truth { b"true" } else { b"false" }),
                _ => self.bad_verb(value, verb),
            },
            Value::Int(number) | Value::Int64(number) => self.print_int(value, *number, verb),
            Value::Byte(number) => self.print_int(value, i64::from(*number), verb),
            Value::Float(number) => self.print_float(value, *number, verb),
            Value::Complex(real, imaginary) => self.print_complex(value, (*real, *imaginary), verb),
            Value::Text(text) => self.print_text(value, text.bytes(), verb),
            Value::Time(time) => {
                let mut text = Vec::new();
                time.write_string(&mut Out::new(&mut text, TIME_MAX_BYTES, self.out.meter()))?;
                self.out.meter().release(text.capacity());
                self.print_stringer(value, &text, verb)
            }
            Value::Month(number) => self.print_named(value, time_name(value), *number, verb),
            Value::Weekday(number) => self.print_named(value, time_name(value), *number, verb),
            Value::Duration(duration_ns) => {
                if matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') {
                    let text = logsvc_proto::go::duration::format_go_duration(*duration_ns);
                    return self.print_text(value, text.as_bytes(), verb);
                }
                self.print_int(value, *duration_ns, verb)
            }
            Value::Labels(labels) => {
                self.begin(value, b"map[", verb)?;
                for (i, (name, label)) in labels.pairs().enumerate() {
                    self.separate(i, verb)?;
                    self.print_value(&Value::text(name), verb)?;
                    self.out.push(b":")?;
                    self.print_value(&Value::text(label), verb)?;
                }
                self.finish(verb)
            }
            Value::Object(fields) => {
                self.begin(value, b"map[", verb)?;
                for (i, (key, field)) in fields.iter().enumerate() {
                    self.separate(i, verb)?;
                    self.print_value(&Value::Text(super::value::Text::Shared(key.clone())), verb)?;
                    self.out.push(b":")?;
                    self.print_element(field, verb)?;
                }
                self.finish(verb)
            }
            Value::Array(items) => {
                self.begin(value, b"[", verb)?;
                for (i, item) in items.iter().enumerate() {
                    self.separate(i, verb)?;
                    self.print_element(item, verb)?;
                }
                self.finish(verb)
            }
            Value::Map(labels) => self.print_labels(labels, value, verb),
            Value::Arguments(args) => {
                self.begin(value, b"map[", verb)?;
                for (i, (key, arg)) in Value::sorted_arguments(args).iter().enumerate() {
                    self.separate(i, verb)?;
                    self.out.push(key.as_bytes())?;
                    self.out.push(b":")?;
                    self.print_value(arg, verb)?;
                }
                self.finish(verb)
            }
            Value::Alert(data) => {
                self.out.push(b"{")?;
                self.print_labels(data.labels, &Value::Map(data.labels), verb)?;
                self.out.push(b" ")?;
                self.print_labels(data.external_labels, &Value::Map(data.external_labels), verb)?;
                self.out.push(b" ")?;
                self.print_value(&Value::text(data.external_url.as_bytes()), verb)?;
                self.out.push(b" ")?;
                self.print_float(&Value::Float(data.value), data.value, verb)?;
                self.out.push(b"}")
            }
            Value::Sample((labels, number)) => {
                self.out.push(b"{")?;
                self.print_labels(labels, &Value::Map(labels), verb)?;
                self.out.push(b" ")?;
                self.print_float(&Value::Float(*number), *number, verb)?;
                self.out.push(b"}")
            }
            Value::Samples(samples) => {
                self.begin(value, b"[", verb)?;
                for (i, sample) in samples.iter().enumerate() {
                    self.separate(i, verb)?;
                    // Go prints the sample's address here, which says nothing.
                    self.print_value(&Value::Sample(sample), verb)?;
                }
                self.finish(verb)
            }
        }
    }

    fn print_labels(
        &mut self,
        labels: &Labels,
        value: &Value<'_>,
        verb: char,
    ) -> Result<(), String> {
        self.begin(value, b"map[", verb)?;
        for (i, (name, label)) in labels.iter().enumerate() {
            self.separate(i, verb)?;
            self.print_value(&Value::text(name.as_bytes()), verb)?;
            self.out.push(b":")?;
            self.print_value(&Value::text(label.as_bytes()), verb)?;
        }
        self.finish(verb)
    }

    fn print_element(&mut self, json: &Json, verb: char) -> Result<(), String> {
        if *json == Json::Null && self.is_go_syntax(verb) {
            return self.out.push(b"interface {}(nil)");
        }
        self.print_value(&Value::Element(json.clone()), verb)
    }

    fn is_go_syntax(&self, verb: char) -> bool {
        self.spec.sharp_v && verb == 'v'
    }

    fn begin(&mut self, value: &Value<'_>, opening: &[u8], verb: char) -> Result<(), String> {
        if self.is_go_syntax(verb) {
            self.out.push(value.type_name().as_bytes())?;
            return self.out.push(b"{");
        }
        self.out.push(opening)
    }

    fn separate(&mut self, index: usize, verb: char) -> Result<(), String> {
        match index {
            0 => Ok(()),
            _ if self.is_go_syntax(verb) => self.out.push(b", "),
            _ => self.out.push(b" "),
        }
    }

    fn finish(&mut self, verb: char) -> Result<(), String> {
        self.out.push(if self.is_go_syntax(verb) { b"}" } else { b"]" })
    }

    /// A type with a `String` method.
    fn print_stringer(&mut self, value: &Value<'_>, text: &[u8], verb: char) -> Result<(), String> {
        match verb {
            'v' | 's' | 'q' | 'x' | 'X' => self.print_text(value, text, verb),
            _ => self.bad_verb(value, verb),
        }
    }

    /// An integer type with names.
    fn print_named(
        &mut self,
        value: &Value<'_>,
        name: &str,
        number: u8,
        verb: char,
    ) -> Result<(), String> {
        match verb {
            'v' | 's' | 'q' | 'x' | 'X' => self.print_text(value, name.as_bytes(), verb),
            _ => self.print_int(value, i64::from(number), verb),
        }
    }

    /// `%!d(string=1500)`
    fn bad_verb(&mut self, value: &Value<'_>, verb: char) -> Result<(), String> {
        self.out.push(b"%!")?;
        self.out.push_char(verb)?;
        self.out.push(b"(")?;
        match value {
            Value::Nothing => self.out.push(b"<nil>")?,
            value => {
                self.out.push(value.type_name().as_bytes())?;
                self.out.push(b"=")?;
                self.print_value(value, 'v')?;
            }
        }
        self.out.push(b")")
    }

    /// Padding of the width that is left, on either side.
    fn pad(&mut self, text: &[u8]) -> Result<(), String> {
        let Some(width) = self.spec.width.filter(|width| *width > 0) else {
            return self.out.push(text);
        };
        let missing = width.saturating_sub(rune_count(text));
        if self.spec.minus {
            self.out.push(text)?;
            self.fill(missing)
        } else {
            self.fill(missing)?;
            self.out.push(text)
        }
    }

    fn pad_text(&mut self, text: &[u8]) -> Result<(), String> {
        self.pad(text)
    }

    fn fill(&mut self, count: usize) -> Result<(), String> {
        let byte = if self.spec.zero && !self.spec.minus { b'0' } else { b' ' };
        self.out.fill(byte, count)
    }

    fn without_zero(
        &mut self,
        print: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let zero = std::mem::take(&mut self.spec.zero);
        let result = print(self);
        self.spec.zero = zero;
        result
    }
}

/// The name of a month or a day of the week.
fn time_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Month(month) => super::time::month_name(*month),
        Value::Weekday(day) => super::time::weekday_name(*day),
        _ => "",
    }
}

/// Characters of a text; every byte that is not UTF-8 counts as one.
pub(super) fn rune_count(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

#[cfg(test)]
mod tests;
