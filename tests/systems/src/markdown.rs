//! Pages as a reader sees them: their headings' anchors, where their links lead, and their HTML.
//!
//! Anchors are those that code hosting sites and mdBook give to headings: small letters, `-` for blanks, and no other
//! punctuation; a second heading of the same words ends in `-1`.
//!
//! Not here: whether links lead somewhere (`docs`), how a page looks (`browser`).

use std::collections::HashMap;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// A page.
pub struct Page<'a> {
    events: Vec<Event<'a>>,
}

impl<'a> Page<'a> {
    /// Reads the text of a page.
    pub fn parse(text: &'a str) -> Page<'a> {
        let mut events: Vec<Event> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for at in 0..events.len() {
            let words = heading(&events[at..]);
            if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
                let anchor = anchor(&words);
                let count = seen.entry(anchor.clone()).or_default();
                *id = Some(CowStr::from(if *count == 0 { anchor } else { format!("{anchor}-{count}") }));
                *count += 1;
            }
        }
        Page { events }
    }

    /// Where links can lead to in this page.
    pub fn anchors(&self) -> Vec<&str> {
        self.found(|event| if let Event::Start(Tag::Heading { id, .. }) = event { id.as_deref() } else { None })
    }

    /// Where its links lead, and where its pictures are.
    pub fn links(&self) -> Vec<&str> {
        self.found(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
            _ => None,
        })
    }

    fn found<'b>(&'b self, wanted: impl Fn(&'b Event<'a>) -> Option<&'b str>) -> Vec<&'b str> {
        self.events.iter().filter_map(wanted).collect()
    }

    /// The page as a browser shows it, without head and body.
    pub fn html(&self) -> String {
        let mut text = String::new();
        html::push_html(&mut text, self.events.iter().cloned());
        text
    }
}

/// The words of the heading with which `events` begin.
fn heading(events: &[Event]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside
        .filter_map(|event| if let Event::Text(text) | Event::Code(text) = event { Some(&**text) } else { None })
        .collect()
}

fn anchor(words: &str) -> String {
    let kept = words.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_that_links_name() {
        let page = Page::parse("# The `uses` of it, all\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n");
        assert_eq!(page.anchors(), ["the-uses-of-it-all", "twice", "twice-1"]);
        assert!(page.html().contains("<h2 id=\"twice-1\">"));
    }

    #[test]
    fn links_and_pictures_are_found_and_code_is_not() {
        let page = Page::parse("[a](b.md#c) `[d](e)`\n\n![f](g.svg)\n\n[h]\n\n[h]: i.md\n");
        assert_eq!(page.links(), ["b.md#c", "g.svg", "i.md"]);
    }
}
