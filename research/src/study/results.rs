//! The file of results: a line about their origin, then a line for each item, in order.
//!
//! # Invariants
//!
//! 1. Lines are appended in the order of items, each as a whole. A line without its end is of a run that was killed: it is dropped.
//! 2. The bytes depend on the first line only, not on the number of workers or of runs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::costs::Named;
use super::grid::{Found, Grid};

/// An open file of results.
pub struct Results {
    file: File,
    /// The results of all items in it, in order.
    pub found: Vec<Found>,
}

/// The first line: a number that changes with the meaning of lines, the grid, the seed, and the costs with their rules.
pub fn heading(grid: &Grid, seed: u64, costs: &[Named]) -> String {
    let digest = |one: &Named| {
        let text = format!("{:?} {:?} {:?}", one.costs, one.rules, one.speeds);
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        format!("{}:{hash:016x}", one.name.replace(' ', "_"))
    };
    let costs: Vec<String> = costs.iter().map(digest).collect();
    format!("study 3 {} seed {seed} costs {}", grid.name, costs.join(" "))
}

impl Results {
    /// Opens a file to append to it. Without `resume` it begins anew.
    ///
    /// # Errors
    /// The file cannot be written, or is of another study.
    pub fn open(path: &Path, heading: &str, resume: bool) -> Result<Results> {
        let shown = || path.display().to_string();
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).with_context(shown)?;
        let mut text = String::new();
        if resume {
            file.read_to_string(&mut text).with_context(shown)?;
        }
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let found = match lines.next() {
            None => Vec::new(),
            Some(first) if first == heading => lines.map(parse).collect::<Result<_>>().with_context(shown)?,
            Some(first) => bail!("{}: it has results of `{first}`, and this is `{heading}`", shown()),
        };
        file.set_len(whole as u64).with_context(shown)?;
        file.seek(SeekFrom::End(0)).with_context(shown)?;
        if whole == 0 {
            file.write_all(format!("{heading}\n").as_bytes()).with_context(shown)?;
        }
        Ok(Results { file, found })
    }

    /// Appends the results of the next item.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, found: Found) -> Result<()> {
        self.file.write_all(line(&found).as_bytes()).context("the file of results")?;
        self.found.push(found);
        Ok(())
    }
}

/// The line of an item: the number of tests, then for each costs the numbers of accepted targets.
fn line(found: &Found) -> String {
    let of = |accepted: &Vec<u64>| accepted.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let costs: Vec<String> = found.accepted.iter().map(of).collect();
    format!("{};{}\n", found.tests, costs.join(";"))
}

fn parse(line: &str) -> Result<Found> {
    let mut parts = line.split(';');
    let tests = parts.next().unwrap_or_default().parse().context("number of tests")?;
    let numbers = |part: &str| part.split(' ').map(|word| word.parse().context("number of targets")).collect();
    let accepted = parts.map(numbers).collect::<Result<Vec<Vec<u64>>>>()?;
    ensure!(accepted.windows(2).all(|pair| pair[0].len() == pair[1].len()), "lines of costs differ in length");
    Ok(Found { accepted, tests })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tests: u64) -> Found {
        Found { accepted: vec![vec![1, 2, tests], vec![0, 0, 7]], tests }
    }

    #[test]
    fn a_file_that_was_cut_anywhere_goes_on_to_the_same_bytes() {
        let folder = std::env::temp_dir().join(format!("fusee-study-results-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("cut");
        let mut results = Results::open(&path, "study of a test", false).unwrap();
        (0..3).for_each(|number| results.append(found(number)).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut results = Results::open(&path, "study of a test", true).unwrap();
            for number in results.found.len() as u64..3 {
                results.append(found(number)).unwrap();
            }
            assert_eq!(results.found, (0..3).map(found).collect::<Vec<_>>());
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {length}");
        }
        let other = Results::open(&path, "study of another test", true).err().unwrap().to_string();
        assert!(other.contains("study of a test"), "{other}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
