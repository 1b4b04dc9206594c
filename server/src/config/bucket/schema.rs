//! `schema_config.configs`: which store counts from which day on.

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value;

use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, list, text};

/// An entry of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Period {
    /// The first day, as `2024-04-01`; empty: always.
    from: String,
    /// The type of the index; empty if nobody says.
    pub(super) index_type: String,
    /// The store of chunks; empty if nobody says.
    pub(super) object_store: String,
    /// The schema; empty if nobody says.
    pub(super) schema: String,
}

/// All entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Periods(Vec<Period>);

impl Meaning for Periods {
    const EMPTY: &'static str = "[]";
    const NOTATION: &'static str = "list of sections";

    fn of(json: &Value) -> Result<Periods, String> {
        list(json)?.iter().map(Period::of).collect::<Result<_, _>>().map(Periods)
    }

    fn shown(json: &Value) -> Value {
        json.clone()
    }
}

/// Types of indexes that Loki has or had; the entries of old days may still name one.
const INDEX_TYPES: [&str; 3] = ["tsdb", "boltdb-shipper", "boltdb"];

impl Period {
    fn of(json: &Value) -> Result<Period, String> {
        let mut period = Period::default();
        let known = ["from", "store", "object_store", "schema", "index", "chunks", "row_shards"];
        each(json, &known, |key, value| {
            match key {
                "from" => period.from = day(text(value)?)?,
                "store" => period.index_type = text(value)?,
                "object_store" => period.object_store = text(value)?,
                "schema" => period.schema = text(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(period)
    }

    /// Appends a text if the type of the index is none.
    fn check_index_type(&self, errors: &mut Vec<String>) {
        let index_type = &self.index_type;
        if !index_type.is_empty() && !INDEX_TYPES.contains(&index_type.as_str()) {
            errors
                .push(format!("unrecognized store (index) type {index_type}, choose one of: tsdb"));
        }
    }

    /// Appends a text for each thing that Loki could not keep structured metadata with.
    pub(super) fn check_metadata(&self, errors: &mut Vec<String>) {
        let remedy = "Set limits_config.allow_structured_metadata to false";
        let number = self.schema.strip_prefix('v').and_then(|number| number.parse::<u32>().ok());
        match number {
            _ if self.schema.is_empty() => {}
            None => errors.push(format!(
                "schema_config.configs: schema: {:?} is none such as v13",
                self.schema
            )),
            Some(number) if number < 13 => errors.push(format!(
                "CONFIG ERROR: schema v13 is required to store Structured Metadata and use native \
                 OTLP ingestion, your schema version is {}. {remedy}, or use schema v13",
                self.schema
            )),
            Some(_) => {}
        }
        if matches!(self.index_type.as_str(), "boltdb-shipper" | "boltdb") {
            errors.push(format!(
                "CONFIG ERROR: tsdb index type is required to store Structured Metadata and use \
                 native OTLP ingestion, your index type is {}. {remedy}, or use tsdb",
                self.index_type
            ));
        }
    }
}

impl Periods {
    /// The entry in force: the last one that has begun; or else the first one.
    pub(super) fn in_force(&self, now_s: i64) -> Option<&Period> {
        let today = match Timestamp::from_second(now_s) {
            Ok(now) => now.to_string().chars().take(10).collect(),
            // The clock is beyond all calendars.
            Err(_) => String::from("9999-12-31"),
        };
        let begun = self.0.iter().filter(|period| period.from <= today);
        let last = begun.max_by(|a, b| a.from.cmp(&b.from));
        last.or_else(|| self.0.iter().min_by(|a, b| a.from.cmp(&b.from)))
    }

    /// Appends a text for each entry with a type of index that is none.
    pub(super) fn check_index_types(&self, errors: &mut Vec<String>) {
        self.0.iter().for_each(|period| period.check_index_type(errors));
    }

    /// The stores that the entries name.
    pub(super) fn object_stores(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|period| &*period.object_store).filter(|name| !name.is_empty())
    }
}

fn day(text: String) -> Result<String, String> {
    match text.parse::<Date>() {
        Ok(day) => Ok(day.to_string()),
        Err(_) => Err(format!("{text:?} is not a day such as 2024-04-01")),
    }
}
