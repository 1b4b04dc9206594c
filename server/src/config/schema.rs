//! The JSON schema of the configuration file, made from the table of settings, for editors and for
//! checks before a file is rolled out.
//!
//! The schema never refuses a file that the server takes. It knows the shape of each value, and
//! not which values fit together. Values with variables of the environment (`${...}`) pass, for
//! they are known only where the server starts.

use serde_json::{Map, Value, json};

use super::Config;
use super::foreign;
use super::table::{SETTINGS, Setting};

/// The text of the schema.
pub(super) fn text() -> String {
    let mut root = section();
    for setting in SETTINGS {
        insert(&mut root, setting.path, setting_schema(setting));
    }
    for (path, reason) in foreign::keys() {
        let text = format!("No effect here: {reason}.");
        insert(&mut root, path, json!({"deprecated": true, "description": text}));
    }
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("Settings of logsvc");
    root["$defs"] = definitions();
    let mut text = serde_json::to_string_pretty(&root).expect("values are JSON");
    text.push('\n');
    text
}

/// A section without keys. A section without a value is one, too.
fn section() -> Value {
    json!({"type": ["object", "null"], "properties": {}, "additionalProperties": false})
}

fn insert(section_schema: &mut Value, path: &str, schema: Value) {
    let properties = section_schema["properties"].as_object_mut().expect("a section has keys");
    match path.split_once('.') {
        None => {
            // A setting wins over a foreign key, which may be the same as a section of settings.
            properties.entry(path).or_insert(schema);
        }
        Some((name, rest)) => {
            let inner = properties.entry(name).or_insert_with(section);
            // Below a foreign key everything is foreign.
            if inner.get("properties").is_some() {
                insert(inner, rest, schema);
            }
        }
    }
}

fn setting_schema(setting: &Setting) -> Value {
    let mut defaults = Config::default();
    let field = setting.field(&mut defaults);
    let notation = field.notation();
    let mut schema = match definition_of(notation) {
        Some(name) => json!({"$ref": format!("#/$defs/{name}")}),
        None if field.is_structured() => json!({"$ref": "#/$defs/structure"}),
        None if notation.contains('|') => {
            // Some have a default that none of the words says.
            let unsaid = field.print().is_empty().then_some("");
            let words: Vec<&str> = notation.split('|').chain(unsaid).collect();
            json!({"anyOf": [{"enum": words}, {"type": "null"}, {"$ref": "#/$defs/variable"}]})
        }
        None => json!({"$ref": "#/$defs/text"}),
    };
    schema["description"] = json!(setting.help);
    schema["default"] = json!(field.print());
    schema
}

fn definition_of(notation: &str) -> Option<&'static str> {
    Some(match notation {
        "true|false" => "bool",
        "count" | "port" => "count",
        "size" => "size",
        "duration" => "duration",
        "number" => "number",
        "list" | "label=field,..." => "list",
        "always|never|duration" => "sync",
        _ => return None,
    })
}

/// The forms of values, by their names.
fn definitions() -> Value {
    const DURATION: &str = r"^\s*(0|-?[+]?[0-9.]+(ns|us|µs|μs|ms|s|m|h|d|w|y)([0-9.]+(ns|us|µs|μs|ms|s|m|h|d|w|y))*)\s*$";
    let variable = json!({"type": "string", "pattern": r"\$\{"});
    let any_of = |forms: &[Value]| {
        let own = forms.iter().cloned();
        let others = [json!({"type": "null"}), json!({"$ref": "#/$defs/variable"})];
        json!({"anyOf": own.chain(others).collect::<Vec<Value>>()})
    };
    let pattern = |pattern: &str| json!({"type": "string", "pattern": pattern});
    let whole = json!({"type": "integer", "minimum": 0});
    let mut out = Map::new();
    out.insert("variable".to_owned(), variable);
    for (name, forms) in [
        ("bool", vec![json!({"type": "boolean"}), pattern(r"^\s*(true|false)\s*$")]),
        ("count", vec![whole.clone(), pattern(r"^\s*[0-9]+\s*$")]),
        ("size", vec![whole.clone(), pattern(r"(?i)^\s*[0-9]+\s*[kmgtpe]?i?b?\s*$")]),
        ("duration", vec![json!({"const": 0}), pattern(DURATION)]),
        ("sync", vec![pattern(r"^\s*(always|never)\s*$"), pattern(DURATION)]),
        (
            "number",
            vec![json!({"type": "number", "minimum": 0}), pattern(r"^\s*[+]?[0-9.eE+-]+\s*$")],
        ),
        (
            "list",
            vec![
                json!({"type": "array", "items": {"type": ["string", "null"]}}),
                json!({"type": ["string", "number", "boolean"]}),
            ],
        ),
        ("structure", vec![json!({"type": ["array", "object", "string"]})]),
        ("text", vec![json!({"type": ["string", "number", "boolean"]})]),
    ] {
        out.insert(name.to_owned(), any_of(&forms));
    }
    Value::Object(out)
}

/// Whether a document agrees with a part of the schema. It knows the words that the schema uses.
pub(super) fn agrees(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let empty = Map::new();
    for (word, rule) in schema.as_object().unwrap_or(&empty) {
        let holds = match word.as_str() {
            "$ref" => {
                let path = rule.as_str().unwrap_or("").trim_start_matches('#');
                let named = root.pointer(path).ok_or_else(|| format!("{path} is not there"))?;
                agrees(root, named, value)?;
                true
            }
            "anyOf" => {
                let mut forms = rule.as_array().into_iter().flatten();
                forms.any(|form| agrees(root, form, value).is_ok())
            }
            "enum" => rule.as_array().is_some_and(|words| words.contains(value)),
            "const" => rule == value,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| has_type(value, name)),
                name => has_type(value, name),
            },
            "minimum" => {
                value.as_f64().zip(rule.as_f64()).is_none_or(|(number, least)| number >= least)
            }
            "pattern" => match (value, rule) {
                (Value::String(text), Value::String(pattern)) => {
                    regex::Regex::new(pattern).map_err(|error| error.to_string())?.is_match(text)
                }
                _ => true,
            },
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    agrees(root, rule, item)?;
                }
                true
            }
            "properties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    match rule.get(key) {
                        Some(rule) => {
                            agrees(root, rule, inner).map_err(|fault| format!("{key}.{fault}"))?;
                        }
                        None => return Err(format!("{key}: unknown")),
                    }
                }
                true
            }
            "additionalProperties" => rule == &Value::Bool(false),
            "description" | "default" | "deprecated" | "title" | "$schema" | "$defs" => true,
            word => return Err(format!("the test does not know {word}")),
        };
        if !holds {
            return Err(format!("{value} breaks {word} {rule}"));
        }
    }
    Ok(())
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap_or("") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
