//! The names that the expansions of `#[tool]`, `#[toolset]` and `tools![]` use. Nothing here is
//! part of the public API.

pub use harness_schema::{Length, Lengthy, Range, Ranged, Textual, pattern};

pub use std::{
    borrow::ToOwned, marker::PhantomData, option::Option, sync::Arc, time::Duration, vec::Vec,
};

pub use harness_macros::{Declare, a_taken_name_needs_handle_equals};
#[cfg(feature = "collect")]
pub use inventory;
pub use serde_json::Value;

#[cfg(feature = "collect")]
pub use crate::tool::collect::Collected;

pub use crate::tool::{
    SideEffect, SideEffects, Tool, ToolDef,
    expand::{
        call::{Call, Carried, NotSent, Sent, Shared, share},
        declared::{Declared, Param, ParamDef, SchemaCell, is_blank, param, rule},
        held::{Held, NotHeld, is_no},
        json::{ByName, JsonOf, list, value},
        literal::{Bool, Char, Empty, Float, Integer, List, Mixed, Text},
        output_schema::{
            OtherSchema, OwnSchema, Returned, SchemaInResult, returned, returned_later,
        },
        param::{Key, Lent, OtherKey, Owned, ToolParam},
        reconcile::{Taken, taken},
        returned::{
            Failing, Kind, Otherwise, Plain, Same, WithCauses, WithOwnForm, WithWords, is_send,
        },
    },
    review::review,
};
