//! [`read`]: a typed value from a [`Node`], through serde. An error knows the place and the key of
//! the innermost value at fault.

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::Fault;
use super::node::{Node, Value};
use super::source::Position;

/// Reads a `T` from `node`.
pub(crate) fn read<'de, T: Deserialize<'de>>(node: &'de Node) -> Result<T, Fault> {
    T::deserialize(Reader(node))
}

struct Reader<'de>(&'de Node);

impl<'de> serde::Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let done = match &self.0.value {
            Value::String(string) => visitor.visit_borrowed_str(string),
            Value::Integer(integer) => visitor.visit_i64(*integer),
            Value::Float(float) => visitor.visit_f64(*float),
            Value::Boolean(boolean) => visitor.visit_bool(*boolean),
            Value::Array(array) => visitor.visit_seq(Elements {
                rest: array.iter(),
                number: 0,
            }),
            Value::Table(table) => visitor.visit_map(Entries {
                rest: table.iter(),
                next: None,
            }),
        };
        done.map_err(|fault| fault.at(self.0.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let place = self.0.place;
        match self.0.string() {
            Some(word) => visitor.visit_enum(Word(word)),
            None => Err(Fault::new("a word is wanted")),
        }
        .map_err(|fault| fault.at(place))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Elements<'de> {
    rest: std::slice::Iter<'de, Node>,
    number: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.rest.next() else {
            return Ok(None);
        };
        self.number += 1;
        let called = || node.name().unwrap_or_else(|| self.number.to_string());
        seed.deserialize(Reader(node))
            .map(Some)
            .map_err(|fault| fault.under(called()))
    }
}

struct Entries<'de> {
    rest: std::collections::btree_map::Iter<'de, String, (Position, Node)>,
    next: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, (place, node))) = self.rest.next() else {
            return Ok(None);
        };
        self.next = Some((key, node));
        let key: serde::de::value::StrDeserializer<'_, Fault> = key.as_str().into_deserializer();
        seed.deserialize(key)
            .map(Some)
            .map_err(|fault| fault.at(*place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (key, node) = self.next.take().expect("serde asks for the key first");
        seed.deserialize(Reader(node))
            .map_err(|fault| fault.under(key))
    }
}

struct Word<'de>(&'de str);

impl<'de> EnumAccess<'de> for Word<'de> {
    type Error = Fault;
    type Variant = Plain;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Plain), Fault> {
        let word: serde::de::value::StrDeserializer<'_, Fault> = self.0.into_deserializer();
        Ok((seed.deserialize(word)?, Plain))
    }
}

/// The content of a unit variant.
struct Plain;

impl<'de> VariantAccess<'de> for Plain {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value, Fault> {
        Err(Fault::new("a plain word is wanted"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value, Fault> {
        Err(Fault::new("a plain word is wanted"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Fault> {
        Err(Fault::new("a plain word is wanted"))
    }
}
