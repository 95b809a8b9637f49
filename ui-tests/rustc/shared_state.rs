//! Parameters that are there to be shared: each call would read a new one.
//!
//! - at `Arc<Mutex<u32>>`: `a` cannot be `Arc<Mutex<u32>>`, which is there to be shared and changed
//! - at `AtomicU32`: `b` cannot be `AtomicU32`
//! - at `Counter`: `c` cannot be `Counter`
//! - at `Option<Arc<RwLock<String>>>`: `d` cannot be
//! - at `Vec<Mutex<u8>>`: `e` cannot be
//! - at `AtomicBool`: `f` cannot be
//! - at `Cell<u8>`: what calls share and change is taken as `State<T>`
//! - at `&RefCell<u8>`: what calls share and change is taken as `State<T>`
//! - at `Weak<String>`: `i` cannot be
//! - at `Mutex<Vec<u8>>`: `j` cannot be

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, Mutex, RwLock, Weak,
        atomic::{AtomicBool, AtomicU32},
    },
};

use harness::{State, tool, toolset};

type Counter = Option<Box<Mutex<u32>>>;
/// Does it.
#[tool(side_effects = "none")]
fn f(
    /** A */ a: Arc<Mutex<u32>>,
    /** B */ b: AtomicU32,
    /** C */ c: Counter,
    /** D */ d: Option<Arc<RwLock<String>>>,
    /** E */ e: Vec<Mutex<u8>>,
    /** F */ f: (u8, [AtomicBool; 2]),
    /** G */ g: Cell<u8>,
    /** H */ h: &RefCell<u8>,
    /** I */ i: Weak<String>,
) {
    let _ = (a, b, c, d, e, f, g, h, i);
}
struct S;
#[toolset]
impl S {
    /// Does it.
    #[tool(side_effects = "none")]
    fn m(&self, /** J */ j: Mutex<Vec<u8>>, shared: State<Mutex<u8>>) { let _ = (j, shared); }
}

fn main() {}
