//! The measured figures. They are stored in a file, so that tables and pictures can be made from it
//! later.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf, process::Command};

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

/// The commit at which a section was measured, and the day of the commit.
pub struct MeasuredAt {
    pub commit: String,
    pub day: String,
}

impl MeasuredAt {
    /// The commit of the working tree. Files that changed since the commit make it `COMMIT+changes`.
    fn now() -> Result<Self, Failure> {
        let git = |words: &[&str]| -> Result<String, Failure> {
            let output = Command::new("git").args(words).output()?;
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let head = git(&["log", "-1", "--format=%h %cs"])?;
        let (commit, day) = head.split_once(' ').ok_or("figures need a git commit")?;
        // The figures themselves change with each section.
        let changed = git(&["status", "--porcelain", "--", ":/*.rs", ":/*.toml"])?;
        let changes = if changed.is_empty() { "" } else { "+changes" };
        Ok(Self { commit: format!("{commit}{changes}"), day: day.to_owned() })
    }
}

/// The first word of a line that says at which commit a section was measured.
const MEASURED_AT: &str = "measured at";

/// All figures, grouped by section, and the commit of each section.
#[derive(Default)]
pub struct Figures {
    all: Vec<Figure>,
    pub measured_at: BTreeMap<String, MeasuredAt>,
}

impl Figures {
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("figures.tsv")
    }

    pub fn read() -> Result<Self, Failure> {
        let text = fs::read_to_string(Self::path()).unwrap_or_default();
        let mut figures = Self::default();
        for line in text.lines() {
            figures
                .read_line(line)
                .ok_or_else(|| format!("figures.tsv: what does `{line}` say?"))?;
        }
        Ok(figures)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split('\t');
        let mut word = || Some(words.next()?.to_owned());
        let (section, group, subject) = (word()?, word()?, word()?);
        if section == MEASURED_AT {
            self.measured_at.insert(group, MeasuredAt { commit: subject, day: word()? });
            return Some(());
        }
        let values = words.map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        self.all.push(Figure { section, group, subject, values: values.collect::<Option<_>>()? });
        Some(())
    }

    /// Replaces all figures of a section by those of the current commit.
    pub fn replace(&mut self, section: &str, figures: Vec<Figure>) -> Result<(), Failure> {
        self.all.retain(|figure| figure.section != section);
        self.all.extend(figures);
        self.measured_at.insert(section.to_owned(), MeasuredAt::now()?);
        Ok(())
    }

    pub fn write(&self) -> Result<(), Failure> {
        let mut out = String::new();
        for (section, MeasuredAt { commit, day }) in &self.measured_at {
            let _ = writeln!(out, "{MEASURED_AT}\t{section}\t{commit}\t{day}");
        }
        for Figure { section, group, subject, values } in &self.all {
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
        for figure in self.all.iter().filter(|figure| figure.section == section) {
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
