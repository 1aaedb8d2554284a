//! Folders of runs: each run has one of its own, so that two at once never meet, and all that is looked at later is of one run.
//!
//! `target/fusee/runs/TIME-PROCESS` has a run's image, its manifest as it was, and its remains; `target/fusee/last` leads to that of the run
//! that began last. A folder is whole once it has the file `whole`, which says how many records it keeps. The newest few are kept.

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, test_kill_process};

use crate::project::Project;

/// All folders of runs.
const RUNS: &str = "runs";
/// Leads to the folder of the last run.
const LAST: &str = "last";
/// Says that a run is whole.
const WHOLE: &str = "whole";
/// Whole runs that stay.
const KEPT: usize = 5;

/// The folder of a run that is under way. Dropped before it is kept, it is removed.
pub struct Folder {
    /// The folder of all that is kept of the project.
    kept_in: PathBuf,
    path: PathBuf,
    is_whole: Cell<bool>,
}

impl Folder {
    /// Makes one, and gives the project that keeps its files there.
    ///
    /// # Errors
    /// The disk is full, or may not be written to.
    pub fn begin(project: &Project) -> Result<(Project, Folder)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let kept_in = project.kept_in.clone();
        let path = kept_in.join(RUNS).join(format!("{now}-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        sweep(&kept_in.join(RUNS), &path);
        let project = Project { kept_in: path.clone(), ..project.clone() };
        Ok((project, Folder { kept_in, path, is_whole: Cell::new(false) }))
    }

    /// Makes this the last run: an earlier run is not shown for it, however it ends.
    ///
    /// # Errors
    /// The disk is full, or may not be written to.
    pub fn announce(&self) -> Result<()> {
        let name = self.path.file_name().context("a run without a folder")?;
        let draft = self.kept_in.join(format!("{LAST}.{}", std::process::id()));
        let _ = std::fs::remove_file(&draft);
        std::os::unix::fs::symlink(Path::new(RUNS).join(name), &draft).with_context(|| draft.display().to_string())?;
        std::fs::rename(&draft, self.kept_in.join(LAST)).with_context(|| draft.display().to_string())
    }

    /// All files of the run are there, with so many records.
    ///
    /// # Errors
    /// The disk is full, or may not be written to.
    pub fn keep(&self, records: usize) -> Result<()> {
        let (draft, whole) = (self.path.join("draft"), self.path.join(WHOLE));
        std::fs::write(&draft, records.to_string()).with_context(|| draft.display().to_string())?;
        std::fs::rename(&draft, &whole).with_context(|| whole.display().to_string())?;
        self.is_whole.set(true);
        self.announce()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_whole.get() {
            // The next run removes the rest.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The project as its last run kept it, and how many records that run has.
///
/// # Errors
/// There is no run, or the last one was ended before all of it was kept.
pub fn last(project: &Project) -> Result<(Project, usize)> {
    let link = project.kept_in.join(LAST);
    let to = match std::fs::read_link(&link) {
        Ok(to) => to,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("there was no run yet"),
        Err(error) => return Err(error).with_context(|| link.display().to_string()),
    };
    let kept_in = project.kept_in.join(to);
    let records = match std::fs::read_to_string(kept_in.join(WHOLE)) {
        Ok(text) => text.parse().with_context(|| format!("{}: `{text}` is no number", kept_in.display()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("the last run is not whole: it goes on, or was ended before all of it was kept")
        }
        Err(error) => return Err(error).with_context(|| kept_in.display().to_string()),
    };
    Ok((Project { kept_in, ..project.clone() }, records))
}

/// Removes all runs but the newest few, `own`, and those that go on. A folder that cannot be removed stays.
fn sweep(runs: &Path, own: &Path) {
    let folders = std::fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.filter(|path| path != own).collect();
    folders.sort_unstable();
    folders.reverse();
    let (whole, others): (Vec<PathBuf>, Vec<PathBuf>) = folders.into_iter().partition(|path| path.join(WHOLE).exists());
    let old = whole.into_iter().skip(KEPT - 1);
    for path in old.chain(others.into_iter().filter(|path| !goes_on(path))) {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Whether the process that made this folder is still there.
fn goes_on(path: &Path) -> bool {
    let number = path.file_name().and_then(|name| name.to_str()?.rsplit_once('-')?.1.parse().ok());
    number.and_then(Pid::from_raw).is_some_and(|process| test_kill_process(process).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(name: &str) -> Project {
        let folder = std::env::temp_dir().join(format!("fusee-folders-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let project =
            Project::of(&serde_json::json!({ "workspace_root": folder, "target_directory": folder })).unwrap();
        Project { kept_in: folder, ..project }
    }

    fn why(project: &Project) -> String {
        last(project).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_run_is_shown_once_it_is_whole_and_no_other_in_its_place() {
        let project = project("whole");
        assert_eq!(why(&project), "there was no run yet");
        let (first, folder) = Folder::begin(&project).unwrap();
        folder.announce().unwrap();
        assert!(why(&project).contains("not whole"), "{}", why(&project));
        folder.keep(7).unwrap();
        drop(folder);
        let (shown, records) = last(&project).unwrap();
        assert_eq!((shown.kept_in.canonicalize().unwrap(), records), (first.kept_in.canonicalize().unwrap(), 7));
        let (_, second) = Folder::begin(&project).unwrap();
        second.announce().unwrap();
        drop(second);
        assert!(why(&project).contains("not whole"), "{}", why(&project));
        std::fs::remove_dir_all(&project.kept_in).unwrap();
    }

    #[test]
    fn runs_at_once_have_folders_of_their_own_and_the_newest_few_stay() {
        let project = project("few");
        let (one, first) = Folder::begin(&project).unwrap();
        let (other, second) = Folder::begin(&project).unwrap();
        assert_ne!(one.kept_in, other.kept_in);
        for (records, folder) in [second, first].into_iter().enumerate() {
            folder.keep(records).unwrap();
            assert_eq!(last(&project).unwrap().1, records);
        }
        for _ in 0..2 * KEPT {
            Folder::begin(&project).unwrap().1.keep(0).unwrap();
        }
        // That of a process that is gone.
        let left = project.kept_in.join(RUNS).join(format!("1-{}", i32::MAX));
        std::fs::create_dir(&left).unwrap();
        let (own, _folder) = Folder::begin(&project).unwrap();
        let there = std::fs::read_dir(project.kept_in.join(RUNS)).unwrap().count();
        assert_eq!((there, left.exists(), own.kept_in.exists()), (KEPT, false, true));
        std::fs::remove_dir_all(&project.kept_in).unwrap();
    }
}
