//! Reads values from a vendor's JSON without failing on a wrong type. Some servers violate the specification and send
//! `null`, numbers as text, or text as numbers. The types here are read only by [`reader`].

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

use super::{json_walk::JsonWalk, reader, surrogates};

/// A text. A number is read as its digits, and any other value as an empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TolerantText<'a>(pub(super) Cow<'a, str>);

impl TolerantText<'_> {
    /// The text; `None` if the text is empty.
    pub(super) fn some(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }

    /// The text as a `String`; `None` if the text is empty.
    pub(super) fn owned(&self) -> Option<String> {
        self.some().map(str::to_owned)
    }
}

impl std::ops::Deref for TolerantText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A text, or a list of parts of any kind. Any other value is read as empty.
#[derive(Clone, Debug, Default)]
pub(super) struct TextOrList<'a> {
    pub(super) text: TolerantText<'a>,
    pub(super) list: Vec<RawJson<'a>>,
}

/// The arguments of a call, or a fragment of the arguments: the content of a string, or the JSON of any other value.
#[derive(Clone, Debug)]
pub(super) struct RawArguments<'a>(pub(super) Cow<'a, str>);

impl<'a> RawArguments<'a> {
    fn of(RawJson(json): RawJson<'a>) -> Self {
        Self(match json.starts_with(['{', '[']) {
            true => surrogates::escaped(json),
            false => text_in(json),
        })
    }

    /// Reads the next value as arguments; `Some(None)` for `null`.
    pub(super) fn walk(walk: &mut JsonWalk<'a>) -> Option<Option<Self>> {
        match walk.next()? {
            b'"' => walk.text().map(|text| Some(Self(text))),
            b'n' => walk.literal("null").map(|()| None),
            _ => RawJson::walk(walk).map(|json| Some(Self::of(json))),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawArguments<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        RawJson::deserialize(from).map(Self::of)
    }
}

/// A count. A text of digits is read as the number, and any other value as unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TolerantCount(pub(super) Option<u64>);

impl TolerantCount {
    /// Reads the next value as a count. `None` if the value is neither a non-negative integer nor `null`.
    #[inline]
    pub(super) fn walk(walk: &mut JsonWalk<'_>) -> Option<Self> {
        walk.number_or_null().map(Self)
    }

    /// Reads the next value as an object with counts, and returns the counts with these names; `Some(None)` for `null`.
    pub(super) fn walk_all<const N: usize>(
        walk: &mut JsonWalk<'_>,
        names: [&str; N],
    ) -> Option<Option<[Self; N]>> {
        let mut counts = [Self::default(); N];
        let mut seen = [false; N];
        let is_one = walk.object_or_null(|walk, name| {
            let at = names.iter().position(|known| known.as_bytes() == name);
            let Some((at, seen)) = at.and_then(|at| Some((at, seen.get_mut(at)?))) else {
                return walk.skip();
            };
            if std::mem::replace(seen, true) {
                return None;
            }
            *counts.get_mut(at)? = Self::walk(walk)?;
            Some(())
        })?;
        Some(is_one.then_some(counts))
    }
}

/// An object. Any other value is read as missing.
#[derive(Clone, Debug)]
pub(super) struct TolerantObject<T>(pub(super) Option<T>);

impl<T> Default for TolerantObject<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A list. Any other value is read as empty.
#[derive(Clone, Debug)]
pub(super) struct TolerantList<T>(pub(super) Vec<T>);

impl<T> Default for TolerantList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The JSON of a value, unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawJson<'a>(&'a str);

impl<'a> RawJson<'a> {
    /// The JSON.
    pub(super) fn get(self) -> &'a str {
        self.0
    }

    /// Reads the JSON of the next value. `None` for a lone surrogate, which the module `surrogates` must replace first.
    pub(super) fn walk(walk: &mut JsonWalk<'a>) -> Option<Self> {
        let json = std::str::from_utf8(walk.value()?).ok()?;
        surrogates::marked(json).is_none().then_some(Self(json))
    }

    /// Reads the next value as a list; `null` is read as an empty list.
    pub(super) fn walk_list(walk: &mut JsonWalk<'a>) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        if walk.next()? != b'[' {
            return walk.literal("null").map(|()| all);
        }
        walk.list(|walk| {
            all.push(Self::walk(walk)?);
            Some(())
        })?;
        Some(all)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawJson<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_newtype_struct("RawJson", RawVisitor)
    }
}

/// Takes the JSON of a value. Only [`reader`] passes on the JSON.
struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawJson<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, json: &'de str) -> Result<RawJson<'de>, E> {
        Ok(RawJson(json))
    }
}

/// The members of an object, in order and unchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectMembers<'a>(pub(super) Vec<(Cow<'a, str>, RawJson<'a>)>);

impl<'a> ObjectMembers<'a> {
    /// The members of `json`; empty if `json` is not an object.
    pub(super) fn of(json: &'a str) -> Self {
        let walked = || {
            let mut walk = JsonWalk::new(json.as_bytes());
            let members = Self::read(&mut walk, |walk| {
                let start = walk.place();
                walk.skip()?;
                json.get(start..walk.place())
            })?;
            walk.end().map(|()| members)
        };
        let parsed = || reader::from_str::<TolerantObject<Self>>(json).ok()?.0;
        walked().or_else(parsed).unwrap_or_default()
    }

    /// Reads the next value as an object. Returns the JSON and the members. `None` for a lone surrogate, which the
    /// module `surrogates` must replace first.
    pub(super) fn walk(walk: &mut JsonWalk<'a>) -> Option<(&'a [u8], Self)> {
        walk.next();
        let start = walk.place();
        let members = Self::read(walk, |walk| RawJson::walk(walk).map(RawJson::get))?;
        Some((walk.since(start)?, members))
    }

    fn read(
        walk: &mut JsonWalk<'a>,
        mut value: impl FnMut(&mut JsonWalk<'a>) -> Option<&'a str>,
    ) -> Option<Self> {
        let mut all = Vec::with_capacity(8);
        walk.object(|walk, name| {
            let name = std::str::from_utf8(name).ok()?;
            walk.next();
            all.push((Cow::Borrowed(name), RawJson(value(walk)?)));
            Some(())
        })?;
        Some(Self(all))
    }

    /// The JSON of the last member with this name. Most JSON parsers also use the last of several equal names.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(member, _)| member == name).map(|(_, value)| value.get())
    }
}

/// The text in this JSON, read as [`TolerantText`].
pub(super) fn text_of(json: Option<&str>) -> String {
    json.map(text_in).unwrap_or_default().into_owned()
}

/// The text in this JSON, copied only if it contains escapes.
pub(super) fn text_in(json: &str) -> Cow<'_, str> {
    let mut walk = JsonWalk::new(json.as_bytes());
    if let Some(text) = walk.text().filter(|_| walk.end().is_some()) {
        return text;
    }
    reader::from_str::<TolerantText<'_>>(json).map(|text| text.0).unwrap_or_default()
}

/// The elements of a list, unchanged; empty if `json` is not a list.
pub(super) fn elements(json: &str) -> Vec<&str> {
    let list = reader::from_str::<TolerantList<RawJson<'_>>>(json).unwrap_or_default();
    list.0.into_iter().map(RawJson::get).collect()
}

/// Builds the JSON of an object with these members; `None` if there are no members.
pub(super) fn join<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut out = String::new();
    for (name, value) in members {
        out.push(if out.is_empty() { '{' } else { ',' });
        quote(&mut out, name);
        out.push(':');
        out.push_str(value);
    }
    (!out.is_empty()).then(|| {
        out.push('}');
        out
    })
}

/// Appends a text as a JSON string.
pub(super) fn quote(out: &mut String, text: &str) {
    let is_plain = |byte: u8| !matches!(byte, b'"' | b'\\' | ..0x20);
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::json!(text).to_string());
    }
}

/// A value that is read from JSON of any type. Each method takes JSON of one type. By default, the JSON is ignored, and
/// the value is the default value.
trait AnyJson<'de>: Default {
    fn text(_: Cow<'de, str>) -> Self {
        Self::default()
    }

    fn whole(_: u64) -> Self {
        Self::default()
    }

    fn negative(_: i64) -> Self {
        Self::default()
    }

    fn float(_: f64) -> Self {
        Self::default()
    }

    fn list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_seq(list).map(|_| Self::default())
    }

    fn object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_map(object).map(|_| Self::default())
    }
}

struct AnyVisitor<T>(PhantomData<T>);

impl<'de, T: AnyJson<'de>> Visitor<'de> for AnyVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<T, E> {
        Ok(T::text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<T, E> {
        Ok(T::text(Cow::Owned(text)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Ok(T::whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Ok(T::negative(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Ok(T::float(number))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::object(object)
    }
}

impl<'de> AnyJson<'de> for TolerantText<'de> {
    fn text(text: Cow<'de, str>) -> Self {
        Self(text)
    }

    fn whole(number: u64) -> Self {
        Self(number.to_string().into())
    }

    fn negative(number: i64) -> Self {
        Self(number.to_string().into())
    }

    fn float(number: f64) -> Self {
        Self(number.to_string().into())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TolerantText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyVisitor(PhantomData))
    }
}

impl<'de> AnyJson<'de> for TextOrList<'de> {
    fn text(text: Cow<'de, str>) -> Self {
        Self { text: TolerantText(text), list: Vec::new() }
    }

    fn list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        let TolerantList(list) = TolerantList::list(list)?;
        Ok(Self { text: TolerantText::default(), list })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextOrList<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyVisitor(PhantomData))
    }
}

impl<'de> AnyJson<'de> for TolerantCount {
    fn text(text: Cow<'de, str>) -> Self {
        Self(text.trim().parse().ok())
    }

    fn whole(number: u64) -> Self {
        Self(Some(number))
    }

    fn negative(number: i64) -> Self {
        Self(u64::try_from(number).ok())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    fn float(number: f64) -> Self {
        Self((0.0..9.0e15).contains(&number).then_some(number as u64))
    }
}

impl<'de> Deserialize<'de> for TolerantCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> AnyJson<'de> for TolerantObject<T> {
    fn object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|value| Self(Some(value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TolerantObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> AnyJson<'de> for TolerantList<T> {
    fn list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TolerantList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyVisitor(PhantomData))
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = ObjectMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectMembers<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some((name, value)) = map.next_entry::<TolerantText<'de>, RawJson<'de>>()? {
            all.push((name.0, value));
        }
        Ok(ObjectMembers(all))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ObjectMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MembersVisitor)
    }
}
