//! Files of pictures that a command is asked for by its options.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fusee_host::project::program;
use fusee_host::system;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Time};
use fusee_tool::values;
use fusee_views::schedule::Schedule;

use crate::picture::{Drawing, LEAST_WIDTH, WIDTH, picture};

/// The package of the program that draws pictures in pixels, which is built when one is first asked for.
const RASTER: &str = "fusee-raster";

/// Pictures of a schedule.
#[derive(Args)]
pub struct Pictures {
    /// Draw the schedule.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw it in pixels.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Where the picture begins; unless told otherwise at the first release.
    #[arg(long, value_parser = values::time)]
    from: Option<Time>,
    /// Where the picture ends.
    #[arg(long, value_parser = values::time)]
    until: Option<Time>,
    /// How wide it is, in pixels, 300 to 20000. Letters are as large in a narrow one.
    #[arg(long, default_value_t = WIDTH, value_parser = clap::value_parser!(u64).range(LEAST_WIDTH..=20_000))]
    width: u64,
}

impl Pictures {
    /// Whether there is one to draw.
    pub fn any(&self) -> bool {
        self.svg.is_some() || self.png.is_some()
    }

    /// Draws what is asked for, and says which files these are.
    pub fn draw(&self, trace: &Trace, manifest: &Manifest, title: &str) -> Result<Vec<PathBuf>> {
        if !self.any() {
            ensure!(self.from.is_none() && self.until.is_none(), "`--from` and `--until` are for `--svg` and `--png`");
            return Ok(Vec::new());
        }
        let schedule = Schedule::of(trace, &manifest.system);
        let window = self.window(&schedule.window(manifest.system.start));
        ensure!(window.start < window.end, "the picture would end before it begins");
        let drawing = Drawing { title, window, width: self.width };
        let svg = picture(&schedule, &manifest.system, &drawing);
        let mut written = Vec::new();
        if let Some(path) = &self.svg {
            system::write(path, svg.as_bytes())?;
            written.push(path.clone());
        }
        if let Some(path) = &self.png {
            let draft = path.with_extension("svg.draft");
            system::write(&draft, svg.as_bytes())?;
            let drawn = Command::new(program(RASTER)?).arg(&draft).arg(path).status();
            std::fs::remove_file(&draft)?;
            ensure!(drawn.context("`fusee-raster` does not start")?.success(), "no picture: {}", path.display());
            written.push(path.clone());
        }
        Ok(written)
    }

    /// The part to be drawn; what is not asked for is as `all` says.
    fn window(&self, all: &Range<u64>) -> Range<u64> {
        let from = self.from.map_or(all.start, |from| from.0);
        let length = all.end - all.start;
        from..self.until.map_or(from + length, |until| until.0)
    }
}
