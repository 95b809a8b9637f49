//! Draws requests over time as an SVG: one panel for each way, with the served requests above the
//! refused ones, and the text below. Only the example `herd` uses it.

use std::time::Duration;

/// A request that came to the server.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    /// The time since the first request.
    pub(crate) at: Duration,
    pub(crate) served: bool,
}

/// One run of the herd.
pub(crate) struct Panel {
    pub(crate) name: &'static str,
    pub(crate) arrivals: Vec<Arrival>,
    /// The number of agents that were answered.
    pub(crate) answered: u32,
    /// The time from the first request to the last.
    pub(crate) took: Duration,
}

impl Panel {
    pub(crate) fn refused(&self) -> usize {
        self.arrivals.iter().filter(|arrival| !arrival.served).count()
    }

    /// The most requests within a tenth of a second, without the first request of each agent.
    pub(crate) fn crowd(&self, agents: u32) -> usize {
        let mut later: Vec<Duration> = self.arrivals.iter().map(|arrival| arrival.at).collect();
        later.sort_unstable();
        let later = later.split_off(later.len().min(agents as usize));
        let within = |from: &Duration| {
            let until = *from + Duration::from_millis(100);
            later.iter().filter(|at| (*from..until).contains(at)).count()
        };
        later.iter().map(within).max().unwrap_or(0)
    }

    /// How many were served and refused in each slice of time.
    fn slices(&self) -> Vec<(u32, u32)> {
        let mut slices = Vec::new();
        for arrival in &self.arrivals {
            let slice = usize::try_from(arrival.at.as_millis() / SLICE.as_millis()).unwrap_or(0);
            if slices.len() <= slice {
                slices.resize(slice + 1, (0, 0));
            }
            if let Some((served, refused)) = slices.get_mut(slice) {
                *(if arrival.served { served } else { refused }) += 1;
            }
        }
        slices
    }
}

const SLICE: Duration = Duration::from_millis(100);
const WIDTH: f64 = 960.0;
const LEFT: f64 = 50.0;
const PANEL: f64 = 110.0;
const PLOT: f64 = 70.0;
const TOP: f64 = 60.0;
/// The most characters in a line of the text.
const LINE: usize = 150;

/// Draws the picture.
pub(crate) fn draw(panels: &[Panel], text: &[String]) -> String {
    let longest = panels.iter().map(|panel| panel.took.as_secs_f64()).fold(1.0, f64::max).ceil();
    let slices = panels.iter().flat_map(Panel::slices);
    let tallest = slices.map(|(served, refused)| served + refused).max().unwrap_or(1).max(1);
    let lines: Vec<String> = text.iter().flat_map(|text| wrapped(text)).collect();
    let below = TOP + PANEL * panels.len() as f64;
    let height = below + 50.0 + 17.0 * lines.len() as f64;

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">Requests in each tenth of a second</text>\n\
         <rect x=\"{LEFT}\" y=\"34\" width=\"10\" height=\"10\" fill=\"{SERVED}\"/>\
         <text x=\"66\" y=\"43\">served</text>\
         <rect x=\"120\" y=\"34\" width=\"10\" height=\"10\" fill=\"{REFUSED}\"/>\
         <text x=\"136\" y=\"43\">refused with 429</text>\n"
    );
    let scale = (WIDTH - LEFT - 20.0) / longest;
    for (panel, place) in panels.iter().zip(0_u32..) {
        let top = TOP + PANEL * f64::from(place) + 18.0;
        svg += &one(panel, top, scale, f64::from(tallest), longest);
    }
    for (line, place) in lines.iter().zip(0_u32..) {
        let y = below + 30.0 + 17.0 * f64::from(place);
        svg += &format!("<text x=\"{LEFT}\" y=\"{y:.0}\">{}</text>\n", escaped(line));
    }
    svg + "</svg>\n"
}

const SERVED: &str = "#2a9d4e";
const REFUSED: &str = "#d1495b";

fn one(panel: &Panel, top: f64, scale: f64, tallest: f64, longest: f64) -> String {
    let bottom = top + PLOT;
    let title = format!(
        "{}: {} answered in {:.1} s, {} refused",
        panel.name,
        panel.answered,
        panel.took.as_secs_f64(),
        panel.refused()
    );
    let mut svg = format!(
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>\n\
         <line x1=\"{LEFT}\" y1=\"{bottom:.1}\" x2=\"{:.1}\" y2=\"{bottom:.1}\" \
         stroke=\"#888\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tallest}</text>\n",
        top - 5.0,
        escaped(&title),
        LEFT + longest * scale,
        LEFT - 6.0,
        top + 10.0,
    );
    let mut second = 0.0;
    while second <= longest {
        let x = LEFT + second * scale;
        svg += &format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#666\" font-size=\"10\">{second} s</text>\n",
            bottom + 11.0
        );
        second += 1.0;
    }
    let width = SLICE.as_secs_f64() * scale;
    for ((served, refused), slice) in panel.slices().into_iter().zip(0_u32..) {
        let x = LEFT + f64::from(slice) * width;
        let mut y = bottom;
        for (count, colour) in [(refused, REFUSED), (served, SERVED)] {
            let height = PLOT * f64::from(count) / tallest;
            y -= height;
            if count > 0 {
                svg += &format!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
                     fill=\"{colour}\"/>\n",
                    width * 0.85
                );
            }
        }
    }
    svg
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < LINE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
