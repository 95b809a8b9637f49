//! A method in a list, of a type without `#[toolset]`.

use harness::tools;

struct Notes;
impl Notes {
    fn read(&self) -> i64 { 3 }
}
fn list() -> Vec<harness::Tool> { tools![Notes::read] }

fn main() {}
