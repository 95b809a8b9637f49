//! The measured figures. They are stored in a file, so that tables and pictures can be made from it
//! later.

use std::{fmt::Write as _, fs, path::PathBuf};

use crate::subject::Failure;

/// The measured values of one subject in one table.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The section of the measurements, such as `streams`.
    pub section: String,
    /// The table in the section, such as a wire.
    pub group: String,
    pub subject: String,
    /// Names and numbers.
    pub values: Vec<(String, f64)>,
}

impl Figure {
    pub fn new(section: &str, group: &str, subject: &str, values: &[(&str, f64)]) -> Self {
        Self {
            section: section.to_owned(),
            group: group.to_owned(),
            subject: subject.to_owned(),
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        }
    }

    /// The value with this name. `None` if it was not measured.
    pub fn value(&self, name: &str) -> Option<f64> {
        let value = self.values.iter().find(|(of, _)| of == name).map(|(_, value)| *value);
        value.filter(|value| !value.is_nan())
    }
}

/// All figures, grouped by section.
#[derive(Default)]
pub struct Figures(pub Vec<Figure>);

impl Figures {
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("figures.tsv")
    }

    pub fn read() -> Result<Self, Failure> {
        let text = fs::read_to_string(Self::path()).unwrap_or_default();
        let figure = |line: &str| -> Option<Figure> {
            let mut words = line.split('\t');
            let (section, group) = (words.next()?.to_owned(), words.next()?.to_owned());
            let subject = words.next()?.to_owned();
            let values = words.map(|word| {
                let (name, value) = word.split_once('=')?;
                Some((name.to_owned(), value.parse().ok()?))
            });
            Some(Figure { section, group, subject, values: values.collect::<Option<_>>()? })
        };
        let figures = text.lines().map(|line| figure(line).ok_or_else(|| line.to_owned()));
        let figures: Result<_, _> = figures.collect();
        Ok(Self(figures.map_err(|line| format!("figures.tsv: what does `{line}` say?"))?))
    }

    /// Replaces all figures of a section.
    pub fn replace(&mut self, section: &str, figures: Vec<Figure>) {
        self.0.retain(|figure| figure.section != section);
        self.0.extend(figures);
    }

    pub fn write(&self) -> Result<(), Failure> {
        let mut out = String::new();
        for Figure { section, group, subject, values } in &self.0 {
            let _ = write!(out, "{section}\t{group}\t{subject}");
            for (name, value) in values {
                let _ = write!(out, "\t{name}={}", (value * 1e3).round() / 1e3);
            }
            out.push('\n');
        }
        Ok(fs::write(Self::path(), out)?)
    }

    /// The tables of a section, each with its rows, in the order in which they were measured.
    pub fn groups(&self, section: &str) -> Vec<(&str, Vec<&Figure>)> {
        let mut groups: Vec<(&str, Vec<&Figure>)> = Vec::new();
        for figure in self.0.iter().filter(|figure| figure.section == section) {
            match groups.iter_mut().find(|(group, _)| *group == figure.group) {
                Some((_, rows)) => rows.push(figure),
                None => groups.push((&figure.group, vec![figure])),
            }
        }
        groups
    }
}

/// The value `name` of this subject in these rows.
pub fn value(rows: &[&Figure], subject: &str, name: &str) -> Option<f64> {
    rows.iter().find(|row| row.subject == subject)?.value(name)
}
