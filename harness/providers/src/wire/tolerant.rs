//! Reads values from a vendor's JSON without failing on a wrong type. Some servers violate the specification and send
//! `null`, numbers as text, or text as numbers.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

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
        <&RawValue>::deserialize(from).map(|value| Self(value.get()))
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

/// Implements the visitor methods that read a value of a wrong type as a missing value.
macro_rules! ignoring {
    ($($rest:item)*) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }
        $($rest)*
    };
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = TolerantText<'de>;

    ignoring! {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText(Cow::Borrowed(text)))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText(Cow::Owned(text.to_owned())))
        }
        fn visit_string<E: Error>(self, text: String) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText(Cow::Owned(text)))
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText(Cow::Owned(number.to_string())))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText(Cow::Owned(number.to_string())))
        }
        fn visit_f64<E: Error>(self, number: f64) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText(Cow::Owned(number.to_string())))
        }
        fn visit_bool<E: Error>(self, _: bool) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText::default())
        }
        fn visit_unit<E: Error>(self) -> Result<TolerantText<'de>, E> {
            Ok(TolerantText::default())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TolerantText<'de>, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(TolerantText::default())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TolerantText<'de>, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(TolerantText::default())
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TolerantText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor)
    }
}

struct TextOrListVisitor;

impl<'de> Visitor<'de> for TextOrListVisitor {
    type Value = TextOrList<'de>;

    ignoring! {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList { text: TolerantText(Cow::Borrowed(text)), list: Vec::new() })
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList { text: TolerantText(Cow::Owned(text.to_owned())), list: Vec::new() })
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList::default())
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList::default())
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList::default())
        }
        fn visit_bool<E: Error>(self, _: bool) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList::default())
        }
        fn visit_unit<E: Error>(self) -> Result<TextOrList<'de>, E> {
            Ok(TextOrList::default())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TextOrList<'de>, A::Error> {
            let mut list = Vec::new();
            while let Some(value) = seq.next_element()? {
                list.push(value);
            }
            Ok(TextOrList { text: TolerantText::default(), list })
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextOrList<'de>, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(TextOrList::default())
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextOrList<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextOrListVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = TolerantCount;

    ignoring! {
        fn visit_u64<E: Error>(self, number: u64) -> Result<TolerantCount, E> {
            Ok(TolerantCount(Some(number)))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<TolerantCount, E> {
            Ok(TolerantCount(u64::try_from(number).ok()))
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        fn visit_f64<E: Error>(self, number: f64) -> Result<TolerantCount, E> {
            Ok(TolerantCount((0.0..9.0e15).contains(&number).then_some(number as u64)))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<TolerantCount, E> {
            Ok(TolerantCount(text.trim().parse().ok()))
        }
        fn visit_bool<E: Error>(self, _: bool) -> Result<TolerantCount, E> {
            Ok(TolerantCount(None))
        }
        fn visit_unit<E: Error>(self) -> Result<TolerantCount, E> {
            Ok(TolerantCount(None))
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TolerantCount, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(TolerantCount(None))
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TolerantCount, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(TolerantCount(None))
        }
    }
}

impl<'de> Deserialize<'de> for TolerantCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CountVisitor)
    }
}

struct ObjVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjVisitor<T> {
    type Value = TolerantObject<T>;

    ignoring! {
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TolerantObject<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(|value| TolerantObject(Some(value)))
        }
        fn visit_str<E: Error>(self, _: &str) -> Result<TolerantObject<T>, E> {
            Ok(TolerantObject(None))
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<TolerantObject<T>, E> {
            Ok(TolerantObject(None))
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<TolerantObject<T>, E> {
            Ok(TolerantObject(None))
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<TolerantObject<T>, E> {
            Ok(TolerantObject(None))
        }
        fn visit_bool<E: Error>(self, _: bool) -> Result<TolerantObject<T>, E> {
            Ok(TolerantObject(None))
        }
        fn visit_unit<E: Error>(self) -> Result<TolerantObject<T>, E> {
            Ok(TolerantObject(None))
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TolerantObject<T>, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(TolerantObject(None))
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TolerantObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ObjVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = TolerantList<T>;

    ignoring! {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TolerantList<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(value) = seq.next_element()? {
                all.push(value);
            }
            Ok(TolerantList(all))
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TolerantList<T>, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(TolerantList(Vec::new()))
        }
        fn visit_str<E: Error>(self, _: &str) -> Result<TolerantList<T>, E> {
            Ok(TolerantList(Vec::new()))
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<TolerantList<T>, E> {
            Ok(TolerantList(Vec::new()))
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<TolerantList<T>, E> {
            Ok(TolerantList(Vec::new()))
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<TolerantList<T>, E> {
            Ok(TolerantList(Vec::new()))
        }
        fn visit_bool<E: Error>(self, _: bool) -> Result<TolerantList<T>, E> {
            Ok(TolerantList(Vec::new()))
        }
        fn visit_unit<E: Error>(self) -> Result<TolerantList<T>, E> {
            Ok(TolerantList(Vec::new()))
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TolerantList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListVisitor(PhantomData))
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
