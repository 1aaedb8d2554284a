//! The trace that a task sends over a serial line: how it is received, and whether what comes is what was kept.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;
use fusee_views::stream::Stream;

use fusee_host::{port, report};

/// A port from which nothing has come for so long has nothing more to say.
const SILENCE: Duration = Duration::from_secs(2);

/// The trace of `system` that is in a file, or comes from a port.
///
/// # Errors
/// There is no such file, no trace in it, or that of another system.
pub fn receive(from: &Path, system: &Resolved) -> Result<Trace> {
    let named = || from.display().to_string();
    let mut file = File::open(from).with_context(named)?;
    let kind = file.metadata()?.file_type();
    let mut bytes = Vec::new();
    if kind.is_file() {
        file.read_to_end(&mut bytes).with_context(named)?;
    } else {
        ensure!(kind.is_char_device() || kind.is_fifo(), "{} is neither a file nor a port", named());
        eprintln!("listening at {}, until it is silent for {} s", named(), SILENCE.as_secs());
        listen(file, &mut |part| bytes.extend_from_slice(part));
    }
    let stream = Stream::read(&bytes).with_context(named)?;
    if let Some(why) = stream.why.filter(|_| stream.spoilt > 0) {
        eprintln!(
            "{} {} frames did not come as they were sent; of the last, {why}",
            report::yellow("note:"),
            stream.spoilt
        );
    }
    let (cpus, trace) = (stream.written().len(), stream.trace());
    if cpus != system.cpus as usize {
        bail!(
            "{} is not of `{}`: {cpus} CPUs have written it, and the manifest has {}",
            named(),
            system.name,
            system.cpus
        );
    }
    let stranger = trace.records.iter().find(|record| usize::from(record.thread) > system.tasks.len());
    if let Some(record) = stranger {
        let (tasks, name) = (system.tasks.len(), &system.name);
        bail!("{} is not of `{name}`: it speaks of task {}, and the manifest has {tasks}", named(), record.thread);
    }
    Ok(trace)
}

/// Reads a port until it is silent, and gives what comes to `take`.
pub fn listen(port: File, take: &mut dyn FnMut(&[u8])) {
    let receiver = port::bytes_of(port);
    // The first may take its time.
    let mut next = receiver.recv().map_err(|_| RecvTimeoutError::Disconnected);
    while let Ok(part) = next {
        take(&part);
        next = receiver.recv_timeout(SILENCE);
    }
}
