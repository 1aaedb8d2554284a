//! Results by content: a check whose inputs are those of an earlier run that passed has passed.
//!
//! A run with counted instructions is a function of its image, the emulator, its arguments and its expectations; a campaign is one of its program and
//! its seed. Only checks that passed are kept, in `target/systems/known`; a clean clone has none, and `--afresh` asks for none.
//!
//! Not here: systems on several threads of the host, which always run.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::case::Found;

/// Whether earlier results count.
static IS_AFRESH: AtomicBool = AtomicBool::new(false);

/// Lets every check run, with any known results.
pub fn forget() {
    // Relaxed: set before any check begins.
    IS_AFRESH.store(true, Ordering::Relaxed);
}

/// A digest of all inputs of a check.
#[derive(Clone, Debug)]
pub struct Inputs([DefaultHasher; 2]);

impl Inputs {
    /// The inputs that all checks have: this program, and the name of the check.
    pub fn of(name: &str) -> Self {
        let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
        // Two digests of 64 bits, of which the second begins elsewhere.
        1_u8.hash(&mut hashers[1]);
        let mut inputs = Inputs(hashers);
        inputs.add(&*PROGRAM);
        inputs.add(&name);
        inputs
    }

    /// Adds a value.
    pub fn add(&mut self, value: &impl Hash) {
        self.0.iter_mut().for_each(|hasher| value.hash(hasher));
    }

    /// Adds the bytes of a file; each file is read once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn file(&mut self, path: &Path) -> Result<()> {
        self.add(&digest(path)?);
        Ok(())
    }

    fn name(&self) -> String {
        let [one, other] = self.0.clone().map(|hasher| hasher.finish());
        format!("{one:016x}{other:016x}")
    }
}

/// The digest of this program.
static PROGRAM: LazyLock<[u64; 2]> =
    LazyLock::new(|| std::env::current_exe().ok().and_then(|path| digest(&path).ok()).unwrap_or_default());

/// The digest of a file, and when it was written: a file that has not changed since is not read again.
fn digest(path: &Path) -> Result<[u64; 2]> {
    type Seen = (std::time::SystemTime, u64, [u64; 2]);
    static SEEN: Mutex<BTreeMap<PathBuf, Seen>> = Mutex::new(BTreeMap::new());
    let data = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    let written = data.modified().with_context(|| path.display().to_string())?;
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, _, digest)) = seen().get(path).filter(|(at, length, _)| *at == written && *length == data.len()) {
        return Ok(*digest);
    }
    let digest = of_bytes(&std::fs::read(path).with_context(|| path.display().to_string())?);
    seen().insert(path.to_owned(), (written, data.len(), digest));
    Ok(digest)
}

fn of_bytes(bytes: &[u8]) -> [u64; 2] {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        bytes.hash(&mut hasher);
        hasher.finish()
    })
}

/// The digest of all files that git knows below a folder and that `is_read` wants, with their changes.
///
/// # Errors
/// A file cannot be read.
pub fn tree(root: &Path, folder: &Path, is_read: fn(&str) -> bool) -> Result<[u64; 2]> {
    let mut command = std::process::Command::new("git");
    command.args(["ls-files", "-co", "--exclude-standard", "--"]).arg(folder).current_dir(root);
    let output = command.output().context("git does not start")?;
    let mut hashers = Inputs::of("tree");
    for name in String::from_utf8_lossy(&output.stdout).lines().filter(|name| is_read(name)) {
        let path = root.join(name);
        if path.is_file() {
            hashers.add(&name);
            hashers.file(&path)?;
        }
    }
    Ok(hashers.0.map(|hasher| hasher.finish()))
}

fn folder() -> Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut folder = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    if folder.is_none() {
        let made = fusee_host::project::Project::fusee()?.target.join("systems/known");
        std::fs::create_dir_all(&made).with_context(|| made.display().to_string())?;
        *folder = Some(made);
    }
    Ok(folder.clone().unwrap_or_default())
}

/// Runs a check, unless it passed before with the same inputs.
///
/// # Errors
/// The check fails to run, or its result cannot be kept.
pub fn unless(inputs: &Inputs, check: impl FnOnce() -> Result<Found>) -> Result<Found> {
    unless_in(&folder()?, IS_AFRESH.load(Ordering::Relaxed), inputs, check)
}

fn unless_in(folder: &Path, is_afresh: bool, inputs: &Inputs, check: impl FnOnce() -> Result<Found>) -> Result<Found> {
    let path = folder.join(inputs.name());
    if let (false, Ok(words)) = (is_afresh, std::fs::read_to_string(&path)) {
        let words = Some(words).filter(|words| !words.is_empty());
        return Ok(Found { words, is_known: true, ..Found::default() });
    }
    let found = check()?;
    if found.problems.is_empty() && found.skipped.is_none() {
        let draft = path.with_extension(format!("{:?}", std::thread::current().id()));
        std::fs::write(&draft, found.words.as_deref().unwrap_or_default())?;
        std::fs::rename(&draft, &path)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passed_with_the_same_inputs_is_known() {
        let folder = std::env::temp_dir().join(format!("fusee-known-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let inputs = |text: &str| {
            let mut inputs = Inputs::of("a check");
            inputs.add(&text);
            inputs
        };
        let good = || Ok(Found::with_words("7 jobs".to_owned(), Vec::new()));
        let bad = || Ok(Found::from(vec!["wrong".to_owned()]));
        let run =
            |text: &str, check: &dyn Fn() -> Result<Found>| unless_in(&folder, false, &inputs(text), check).unwrap();
        assert!(!run("one", &bad).is_known);
        assert!(!run("one", &good).is_known, "a failure is not kept");
        let again = run("one", &bad);
        assert!(again.is_known && again.words.as_deref() == Some("7 jobs"), "a success is");
        assert!(!run("two", &good).is_known, "other inputs are another check");
        assert!(!unless_in(&folder, true, &inputs("one"), good).unwrap().is_known, "afresh");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
