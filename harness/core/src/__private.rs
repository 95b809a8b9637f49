//! The names that the expansions of `#[tool]`, `#[toolset]` and `tools![]` use. This module is not
//! part of the public API.

pub use std::{
    borrow::ToOwned, marker::PhantomData, option::Option, sync::Arc, time::Duration, vec::Vec,
};

pub use harness_macros::{Declare, a_taken_name_needs_handle_equals};
pub use harness_schema::{Length, Lengthy, Range, Ranged, Textual, pattern};
#[cfg(feature = "collect")]
pub use inventory;
pub use serde_json::Value;

#[cfg(feature = "collect")]
pub use crate::tool::collect::CollectedTool;

pub use crate::tool::{
    SideEffect, SideEffects, Tool, ToolDef,
    expand::{
        call::{CanBeSent, CarriedArguments, DeclaredCall, NotSent, SharedReceiver, share},
        declared::{DeclaredTool, ParamDef, SchemaCell, TypedParam, is_blank, param, rule},
        json::{ByName, JsonOf, list, value},
        literal::{
            BoolLiteral, CharLiteral, EmptyList, FloatLiteral, IntegerLiteral, ListLiteral,
            MixedList, TextLiteral,
        },
        output_schema::{
            OtherSchema, OwnSchema, ReturnTypeProbe, SchemaInResult, returned, returned_later,
        },
        param::{LentType, MapKeyProbe, OtherKey, OwnedForm, ToolParam},
        reconcile::{ArgumentTypes, argument_types},
        returned::{
            ErrorTypeProbe, InfallibleForm, NotAResult, ReturnKind, SameType, WithCauses,
            WithOwnForm, WithWords, is_send,
        },
        shared_state::{SharedStateProbe, WithoutSharedState, is_no},
    },
    review::review,
};
