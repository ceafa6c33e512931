//! One line of JSON, read straight into the slots of its columns: no tree, no allocation per row.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The value of one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Slot {
    #[default]
    Missing,
    Number(f64),
    Bool(bool),
    Text(String),
    /// An object or an array.
    Nested(&'static str),
}

impl Slot {
    /// The value for a message.
    pub(super) fn shown(&self) -> String {
        match self {
            Slot::Missing => "null".to_owned(),
            Slot::Number(value) => value.to_string(),
            Slot::Bool(value) => value.to_string(),
            Slot::Text(text) => text.clone(),
            Slot::Nested(what) => (*what).to_owned(),
        }
    }
}

/// What a line is; an object comes with its keys where those are asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape<K> {
    Object(K),
    /// With its length.
    Array(usize),
    Other(&'static str),
}

/// Where each key goes.
pub(super) struct Keys {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    wanted: Vec<bool>,
    /// The slot after the last one found: keys mostly come in the same order on every line.
    next: usize,
}

impl Keys {
    pub(super) fn named(names: &[String]) -> Self {
        let by_name = names.iter().cloned().zip(0..).collect();
        Self { names: names.to_vec(), by_name, wanted: vec![true; names.len()], next: 0 }
    }

    pub(super) fn positions(width: usize) -> Self {
        Self { names: Vec::new(), by_name: HashMap::new(), wanted: vec![true; width], next: 0 }
    }

    /// Values of other columns are passed over.
    pub(super) fn want_only(&mut self, columns: impl Iterator<Item = usize>) {
        self.wanted.fill(false);
        columns.for_each(|ix| self.wanted[ix] = true);
    }

    fn slot_of(&mut self, key: &str) -> Option<usize> {
        let ix = match self.names.get(self.next) {
            Some(name) if name == key => self.next,
            _ => *self.by_name.get(key)?,
        };
        self.next = ix + 1;
        self.wanted[ix].then_some(ix)
    }
}

/// The keys or the length of a line.
pub(super) fn read_header(line: &[u8]) -> Result<Shape<Vec<String>>, String> {
    whole(line, HeaderVisitor)
}

/// The keys of an object that have a number.
pub(super) fn keys_of_numbers(line: &[u8]) -> Vec<String> {
    let Ok(Shape::Object(names)) = read_header(line) else { return Vec::new() };
    let (mut keys, mut slots) = (Keys::named(&names), vec![Slot::Missing; names.len()]);
    let read = read_line(line, &mut keys, &mut slots);
    let is_number = |slot: &Slot| read.is_ok() && matches!(slot, Slot::Number(_) | Slot::Bool(_));
    names.into_iter().zip(slots).filter(|(_, slot)| is_number(slot)).map(|(name, _)| name).collect()
}

/// Puts the values of a line into `slots`.
pub(super) fn read_line(line: &[u8], keys: &mut Keys, slots: &mut [Slot]) -> Result<Shape<()>, String> {
    slots.fill(Slot::Missing);
    keys.next = 0;
    whole(line, RowVisitor { keys, slots })
}

/// The line must be one value and nothing more.
fn whole<'de, V: Visitor<'de>>(line: &'de [u8], visitor: V) -> Result<V::Value, String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let value = json.deserialize_any(visitor).map_err(|error| detail(&error))?;
    json.end().map_err(|error| detail(&error))?;
    Ok(value)
}

/// The parser's words with the place in this line: its own line number is always 1.
fn detail(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.split(" at line ").next().unwrap_or(&text);
    format!("{words} at character {}", error.column())
}

/// The answers of a visitor for values that are neither object nor array.
macro_rules! other_values {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object or an array")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Shape::Other("a boolean"))
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Shape::Other("a number"))
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Shape::Other("a number"))
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Shape::Other("a number"))
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Shape::Other("a string"))
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Shape::Other("null"))
        }
    };
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Shape<Vec<String>>;

    other_values!();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            names.push(name);
        }
        Ok(Shape::Object(names))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut length = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Shape::Array(length))
    }
}

struct RowVisitor<'a> {
    keys: &'a mut Keys,
    slots: &'a mut [Slot],
}

impl<'de> Visitor<'de> for RowVisitor<'_> {
    type Value = Shape<()>;

    other_values!();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(slot) = map.next_key_seed(KeySeed(self.keys))? {
            match slot {
                Some(ix) => self.slots[ix] = map.next_value()?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Shape::Object(()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        for (ix, slot) in self.slots.iter_mut().enumerate() {
            let value = match self.keys.wanted.get(ix) {
                Some(true) => seq.next_element::<Slot>()?,
                _ => seq.next_element::<IgnoredAny>()?.map(|_| Slot::Missing),
            };
            match value {
                Some(value) => *slot = value,
                None => return Ok(Shape::Array(ix)),
            }
        }
        let mut length = self.slots.len();
        while seq.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Shape::Array(length))
    }
}

/// Looks a key up without making a string of it.
struct KeySeed<'a>(&'a mut Keys);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.slot_of(key))
    }
}

impl<'de> Deserialize<'de> for Slot {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(SlotVisitor)
    }
}

struct SlotVisitor;

impl<'de> Visitor<'de> for SlotVisitor {
    type Value = Slot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Slot, E> {
        Ok(Slot::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Slot, E> {
        Ok(Slot::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Slot, E> {
        Ok(Slot::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Slot, E> {
        Ok(Slot::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Slot, E> {
        Ok(Slot::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Slot, E> {
        Ok(Slot::Missing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Slot, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Slot::Nested("an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Slot, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Slot::Nested("an array"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, names: &[&str]) -> (Result<Shape<()>, String>, Vec<Slot>) {
        let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
        let mut slots = vec![Slot::Missing; names.len()];
        let shape = read_line(line.as_bytes(), &mut Keys::named(&names), &mut slots);
        (shape, slots)
    }

    #[test]
    fn values_find_their_slots_in_any_order() {
        let (shape, slots) = read(r#"{"b": true, "z": [1], "a": -2.5, "c": "x\n"}"#, &["a", "b", "c", "d"]);
        assert_eq!(shape, Ok(Shape::Object(())));
        assert_eq!(slots, [Slot::Number(-2.5), Slot::Bool(true), Slot::Text("x\n".into()), Slot::Missing]);
    }

    #[test]
    fn arrays_are_counted_beyond_the_slots() {
        assert_eq!(read("[1, 2, 3]", &["a", "b"]).0, Ok(Shape::Array(3)));
        assert_eq!(read("[1]", &["a", "b"]).0, Ok(Shape::Array(1)));
    }

    #[test]
    fn what_is_no_row_is_told_apart() {
        assert_eq!(read("7", &["a"]).0, Ok(Shape::Other("a number")));
        assert_eq!(read("{\"a\": nan}", &["a"]).0, Err("expected ident at character 8".into()));
        assert_eq!(read("{\"a\": 1} 2", &["a"]).0, Err("trailing characters at character 10".into()));
    }

    #[test]
    fn the_keys_of_the_first_object_keep_their_order() {
        let shape = read_header(br#"{"b": 1, "a": {"x": 2}}"#).unwrap();
        assert_eq!(shape, Shape::Object(vec!["b".into(), "a".into()]));
    }
}
