//! Our pages in a browser: on a wide and on a narrow screen all of each page can be reached.
//!
//! Pages are rendered with the style of a plain code hosting site: tables and blocks of code scroll in boxes of their
//! own, and pictures are as wide as the page at most. Pages of the book are rendered once more, as mdBook sets them with
//! the style and the script of `docs/book.css` and `docs/book.js`: there no table may need to be scrolled. One document
//! holds all pages at all widths, each in a frame, and its script measures them. `target/fusee/pages` keeps the pages for a look.
//!
//! Not here: the page of a trace (`trace`), where links lead (`docs`), the menu and the other styles of mdBook.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::docs;
use crate::markdown::Page;
use fusee_host::system;

/// The name of the check.
pub const PAGES: &str = "all pages, wide and narrow, in a browser";

/// Names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Settings of a page, with the widths of frames in pixels: the column of a code hosting site; the book in a window of 1,200 pixels, of
/// which its menu has 300; and a telephone.
const SETTINGS: [(Setting, [u32; 2]); 2] = [(Setting::Site, [838, 400]), (Setting::Book, [900, 400])];

/// Where the drawings of pages are.
const DRAWINGS: &str = "docs";

/// The beginning of the paths of pages of the book.
const BOOK: &str = "docs/";

/// How code hosting sites set pages.
const STYLE: &str = include_str!("browser.css");

/// The rules of mdBook 0.5 that decide how wide a page and its tables are, before the book's own.
const BOOK_BASE: &str = include_str!("book_base.css");

/// The book's own rules.
const BOOK_STYLE: &str = include_str!("../../../docs/book.css");

/// The book's own script.
const BOOK_SCRIPT: &str = include_str!("../../../docs/book.js");

/// How a page is set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Setting {
    /// By a code hosting site.
    Site,
    /// By mdBook; pages outside its folder are not in it.
    Book,
}

/// A check of the pages in the repository's folder, as the browser of this name shows them. Returns the faults.
pub type Check = fn(&Path, &str) -> Result<Vec<String>>;

/// Measures all frames, and lists faults.
const SCRIPT: &str = include_str!("browser.js");

/// The browser of this machine, if it has one.
pub fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()))
}

/// The document at `url` after its scripts have run.
pub fn document(browser: &str, url: &str) -> Result<String> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", url])
        .output()
        .with_context(|| browser.to_owned())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Opens all pages in `browser` at all widths. Returns the faults.
pub fn check_pages(root: &Path, browser: &str) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for page in docs::pages(root)? {
        let text = std::fs::read_to_string(root.join(&page)).with_context(|| page.clone())?;
        pages.push((page, text));
    }
    let mut drawings = Vec::new();
    for entry in std::fs::read_dir(root.join(DRAWINGS)).context(DRAWINGS)? {
        drawings.push(entry?.path());
    }
    drawings.retain(|path| path.extension().is_some_and(|extension| extension == "svg"));
    drawings.sort();
    let mut wrong = not_found(root, browser)?;
    wrong.extend(problems(root, browser, &pages, &drawings)?);
    Ok(wrong)
}

/// A page on which all is wrong; returns the faults that `browser` does not find.
fn not_found(root: &Path, browser: &str) -> Result<Vec<String>> {
    let drawing =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\"><rect width=\"12\" height=\"9\"/></svg>";
    let path = root.join("target/fusee/planted.svg");
    system::write(&path, drawing.as_bytes())?;
    let wide = "<div style=\"width: 900px\">wide</div>\n\n<img src=\"planted.svg\" style=\"margin-left: 800px; max-width: none\">";
    let text = format!("{wide}\n\n![no such picture](none.png)\n");
    // Two columns are no list, and a word of 60 letters in code is not broken by the rules of mdBook.
    let table = format!("| a | b |\n|---|---|\n| {0} | <pre>{0}</pre> |\n", "w".repeat(60));
    let planted = [("target/fusee/planted.md".to_owned(), text), (format!("{BOOK}planted.md"), table)];
    let found = problems(root, browser, &planted, &[path])?;
    let expected = [
        "planted.md in a window of 400 pixels: a table is cut off",
        "pixels wide: div wide",
        "no picture none.png",
        "picture planted.svg is cut off",
        "planted.svg is cut off: 3.0",
    ];
    let is_missing = |words: &&str| !found.iter().any(|line| line.contains(words));
    Ok(expected
        .iter()
        .filter(|words| is_missing(words))
        .map(|words| format!("{words:?} is not found: {found:?}"))
        .collect())
}

/// The faults of `pages`, each with its path from `root` and its text, and of `drawings`.
fn problems(root: &Path, browser: &str, pages: &[(String, String)], drawings: &[PathBuf]) -> Result<Vec<String>> {
    let folder = root.join("target/fusee/pages");
    let mut frames = String::new();
    let mut count = 0;
    for (path, text) in pages {
        let page = Page::parse(text);
        for (setting, widths) in SETTINGS {
            if setting == Setting::Book && !path.starts_with(BOOK) {
                continue;
            }
            let html = html(&root.join(path), &page, setting);
            let (file, name) = match setting {
                Setting::Site => (format!("{}.html", path.replace('/', "-")), path.clone()),
                Setting::Book => (format!("book-{}.html", path.replace('/', "-")), format!("the book's {path}")),
            };
            system::write(&folder.join(file), html.as_bytes())?;
            for width in widths {
                count += 1;
                let _ = writeln!(
                    frames,
                    "<iframe title=\"{name} in a window of {width} pixels\" width={width} height=600 srcdoc=\"{}\"></iframe>",
                    escaped(&html)
                );
            }
        }
    }
    for path in drawings {
        let drawing = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(root).unwrap_or(path).display();
        let _ = writeln!(frames, "<figure title=\"{name}\">{drawing}</figure>");
    }
    let all = format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<style>iframe {{ border: 0 }}</style>\n{frames}<output id=\"found\"></output>\n\
         <script>\n{SCRIPT}</script>\n"
    );
    let path = folder.join("all.html");
    system::write(&path, all.as_bytes())?;
    let document = document(browser, &format!("file://{}", path.display()))?;
    let found = document.split_once("<output id=\"found\">").and_then(|(_, rest)| rest.split_once("</output>"));
    let (found, _) = found.with_context(|| format!("{browser} does not show {}", path.display()))?;
    let mut lines = found.lines().map(|line| line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
    let measured = lines.next().unwrap_or_default();
    let expected = format!("{count} frames measured");
    let unmeasured = (measured != expected).then(|| format!("{measured:?}, not {expected:?}: {}", path.display()));
    Ok(unmeasured.into_iter().chain(lines).collect())
}

/// A page as a whole document; relative links count from where its source is.
fn html(path: &Path, page: &Page, setting: Setting) -> String {
    let (style, body) = match setting {
        Setting::Site => (STYLE.to_owned(), page.html()),
        Setting::Book => {
            // mdBook puts each table into a box that scrolls.
            let body = page
                .html()
                .replace("<table>", "<div class=\"table-wrapper\"><table>")
                .replace("</table>", "</table></div>");
            (
                format!("{BOOK_BASE}{BOOK_STYLE}"),
                format!(
                    "<div class=\"page-wrapper\"><div class=\"content\"><main>{body}</main></div></div>\n<script>\n{BOOK_SCRIPT}</script>"
                ),
            )
        }
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><base href=\"file://{}\">\n<style>\n{style}</style></head>\n\
         <body>\n{body}</body></html>\n",
        path.display(),
    )
}

/// `text` in an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;")
}
