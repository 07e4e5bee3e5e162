//! Objects that are read by what one of their members says.
//!
//! What comes before the tag is kept until the tag is known; what comes after it is read in passing.
//! Programs write the tag first, so hardly anything is kept.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};
use serde_json::Value;

use super::{join, nested};

/// A union whose members are told apart by the value of one field.
#[doc(hidden)]
pub trait Tagged: Sized {
    /// The field.
    const TAG: &'static str;

    /// Reads the rest of an object whose tag is this one.
    fn read<'de, D: Deserializer<'de>>(tag: &str, rest: D) -> Result<Self, D::Error>;
}

/// Reads a member of a union.
#[doc(hidden)]
pub fn tagged<'de, T: Tagged, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let (union, _) = deserializer.deserialize_map(Tags::<T>::beside(None))?;
    Ok(union)
}

/// Reads a member of a union that carries one field which is not the union's.
pub(crate) fn tagged_beside<'de, T: Tagged, O: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    beside: &'static str,
) -> Result<(T, Option<O>), D::Error> {
    let (union, found) = deserializer.deserialize_map(Tags::<T>::beside(Some(beside)))?;
    let Some(value) = found else {
        return Ok((union, None));
    };
    kept(beside, value, PhantomData::<Option<O>>).map(|other| (union, other))
}

/// The error for a tag that no member has.
#[doc(hidden)]
pub fn unknown_tag<E: de::Error>(tag: &str, found: &str, known: &[&str]) -> E {
    let known = known.join(", ");
    nested(
        tag,
        &format!("unknown value `{found}`, expected one of {known}"),
    )
}

/// Looks for the tag.
struct Tags<T> {
    beside: Option<&'static str>,
    union: PhantomData<T>,
}

impl<T> Tags<T> {
    const fn beside(beside: Option<&'static str>) -> Self {
        Self {
            beside,
            union: PhantomData,
        }
    }
}

impl<'de, T: Tagged> Visitor<'de> for Tags<T> {
    type Value = (T, Option<Value>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut before = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let value: Value = map.next_value()?;
            if name != T::TAG {
                before.push((name, value));
                continue;
            }
            let Value::String(tag) = value else {
                let found = format!("expected a string, found {value}");
                return Err(nested(T::TAG, &found));
            };
            let mut other = None;
            before.reverse();
            let rest = Rest {
                before,
                kept: None,
                map,
                beside: self.beside,
                other: &mut other,
            };
            let union = T::read(&tag, MapAccessDeserializer::new(rest))?;
            return Ok((union, other));
        }
        Err(de::Error::missing_field(T::TAG))
    }
}

/// An object without its tag and without what is beside it.
struct Rest<'a, A> {
    /// What came before the tag, the first at the end.
    before: Vec<(String, Value)>,
    /// The one of them whose name was read.
    kept: Option<(String, Value)>,
    map: A,
    beside: Option<&'static str>,
    other: &'a mut Option<Value>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some((name, value)) = self.before.pop() {
            if Some(name.as_str()) == self.beside {
                *self.other = Some(value);
                continue;
            }
            let key: StrDeserializer<'_, A::Error> = name.as_str().into_deserializer();
            let key = seed.deserialize(key);
            let key = key.map_err(|error| nested(&name, &error.to_string()))?;
            self.kept = Some((name, value));
            return Ok(Some(key));
        }
        let mut seed = Some(seed);
        loop {
            let name = Name {
                seed: &mut seed,
                beside: self.beside,
            };
            match self.map.next_key_seed(name)? {
                None => return Ok(None),
                Some(Named::Own(key)) => return Ok(Some(key)),
                Some(Named::Beside) => *self.other = Some(self.map.next_value()?),
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.kept.take() {
            Some((name, value)) => kept(&name, value, seed),
            None => self.map.next_value_seed(seed),
        }
    }
}

/// Reads a member that was kept.
fn kept<'de, S: DeserializeSeed<'de>, E: de::Error>(
    name: &str,
    value: Value,
    seed: S,
) -> Result<S::Value, E> {
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(value, &mut track);
    seed.deserialize(reader).map_err(|error| {
        let inside = super::unlocated(&error);
        let path = join(&track.path().to_string(), &inside.path);
        nested(&join(name, &path), &inside.message)
    })
}

/// The name of a member.
enum Named<T> {
    /// One that the union's member knows, or refuses.
    Own(T),
    /// The one that is not the union's.
    Beside,
}

/// Reads a name.
struct Name<'a, K> {
    /// Taken when the name is the union's.
    seed: &'a mut Option<K>,
    beside: Option<&'static str>,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Name<'_, K> {
    type Value = Named<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Name<'_, K> {
    type Value = Named<K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        if Some(name) == self.beside {
            return Ok(Named::Beside);
        }
        // There is one seed, and it goes with the first name that is the union's.
        let seed = self
            .seed
            .take()
            .ok_or_else(|| E::custom("a name too many"))?;
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        seed.deserialize(name).map(Named::Own)
    }
}
