//! Makes a book of the guide, as a preprocessor of mdBook; with `write`, makes `llms.txt` and the skill for coding
//! agents.

mod docs;
mod pages;

use std::{
    error::Error,
    fs,
    io::{Read as _, Write as _},
    path::Path,
};

use docs::Docs;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match std::env::args().nth(1).as_deref() {
        // mdBook asks whether the preprocessor is for this kind of output.
        Some("supports") => Ok(()),
        Some("write") => {
            let (readme, pages) = (fs::read_to_string(root.join("README.md"))?, read(&root)?);
            fs::write(root.join("llms.txt"), pages::llms_txt(&readme, &pages))?;
            fs::write(root.join("harness/guide/skill/SKILL.md"), pages::skill(&pages))?;
            Ok(())
        }
        Some(other) => Err(format!(
            "`{other}` is not known: write `guide write`, or `mdbook build harness/guide`"
        )
        .into()),
        None => book(),
    }
}

/// The pages, in reading order.
fn read(root: &Path) -> Result<Vec<(pages::Page, String)>, Box<dyn Error>> {
    let folder = root.join("harness/guide");
    let summary = fs::read_to_string(folder.join("SUMMARY.md"))?;
    let with_text = |page: pages::Page| {
        let text = fs::read_to_string(folder.join(&page.file))?;
        Ok((page, text))
    };
    pages::contents(&summary).into_iter().map(with_text).collect()
}

/// Changes the chapters that mdBook gives on standard input, as its guide says:
/// <https://rust-lang.github.io/mdBook/for_developers/preprocessors.html>.
fn book() -> Result<(), Box<dyn Error>> {
    let mut given = String::new();
    std::io::stdin().read_to_string(&mut given)?;
    let (context, mut book): (Value, Value) = serde_json::from_str(&given)?;
    let text = |at: &str| context.pointer(at).and_then(Value::as_str);
    let url = text("/config/preprocessor/guide/docs").unwrap_or("../doc");
    let build_dir = text("/config/build/build-dir").unwrap_or("book");
    let mut built = Path::new(text("/root").unwrap_or(".")).join(build_dir);
    // The folder of the book may not be there yet, so that the system cannot follow `..` behind it.
    for part in url.split('/') {
        match part {
            ".." => _ = built.pop(),
            part => built.push(part),
        }
    }
    let docs = Docs::new(url, html(&built.join("harness"))?);
    change(&mut book, &docs);
    std::io::stdout().write_all(serde_json::to_string(&book)?.as_bytes())?;
    Ok(())
}

/// The pages of `cargo doc` below this folder: the path of each, and its text. None if there are no docs.
fn html(root: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let name = path.strip_prefix(root)?.display().to_string().replace('\\', "/");
                found.push((name, fs::read_to_string(&path)?));
            }
        }
    }
    Ok(found)
}

fn change(part: &mut Value, docs: &Docs) {
    if let Some(content) = part.pointer_mut("/Chapter/content") {
        *content = pages::for_book(content.as_str().unwrap_or_default(), docs).into();
    }
    match part {
        Value::Object(members) => members.values_mut().for_each(|part| change(part, docs)),
        Value::Array(parts) => parts.iter_mut().for_each(|part| change(part, docs)),
        _ => {}
    }
}
