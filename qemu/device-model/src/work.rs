//! The real work of one command, a slice at a time.
//!
//! A slice is bounded, some 16,000 instructions, whatever the command says, and says itself
//! how much it was, so that small ones can be done together. It faults at the
//! first page it may not touch, and then nothing more of the command is done.

use crate::Bus;
use crate::kernels::{self, Search};
use crate::signals::{self, Point};
use crate::space::{Fault, Space};
use fusee_accel_contract::{
    COEFFICIENTS_MAX, CONTEXTS, CopyEngines, EngineIndex, IMAGE_PIXELS, ImageSize, MATCH_BYTES, MatchResult, Memory,
    Operation, POINTS_MAX, SAMPLES_MAX, timing,
};

/// Bytes of a copy in a slice.
const COPY_SLICE: u64 = 4096;
/// Pixels of a gradient or shift in a slice, rounded down to rows, at least one row.
const PIXEL_SLICE: usize = 1024;
/// Comparisons of a block match in a slice, counting rows as [`Search::step`] does.
const COMPARISON_SLICE: usize = 2048;

/// Multiplications of a filter in a slice, with those that each sample counts as, rounded down to samples.
const FILTER_SLICE: usize = 2048;

/// How far a command has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Progress {
    /// This many slices are done.
    Slices(u64),
    /// All is done, or given up.
    Finished,
}

/// Instructions after which a poll does no further slice.
pub(crate) const ENOUGH: usize = 8000;

/// One slice: how far the command has come, and roughly how many instructions it took.
pub(crate) struct Slice {
    pub progress: Progress,
    pub instructions: usize,
}

/// One image, aligned so that a bus may fill it word by word.
#[repr(C, align(8))]
struct Image([u8; IMAGE_PIXELS]);

/// What the execution engine works on. Only one command at a time needs it.
pub(crate) struct Scratch {
    first: Image,
    second: Image,
    output: Image,
    search: Search,
    displacement: (i32, i32),
    signal: [i16; (SAMPLES_MAX + COEFFICIENTS_MAX) as usize],
    coefficients: [i16; COEFFICIENTS_MAX as usize],
    points: [Point; POINTS_MAX as usize],
    /// For each context.
    unfinished: [Unfinished; CONTEXTS],
}

/// A transform between two of its stages.
struct Unfinished {
    source: u64,
    destination: u64,
    points: u16,
    /// The stage that may follow; 0: there is none, or one is at work.
    next: u16,
    state: [Point; POINTS_MAX as usize],
}

impl Scratch {
    pub const EMPTY: Self = Self {
        first: Image([0; IMAGE_PIXELS]),
        second: Image([0; IMAGE_PIXELS]),
        output: Image([0; IMAGE_PIXELS]),
        search: Search::idle(),
        displacement: (0, 0),
        signal: [0; (SAMPLES_MAX + COEFFICIENTS_MAX) as usize],
        coefficients: [0; COEFFICIENTS_MAX as usize],
        points: [[0; 2]; POINTS_MAX as usize],
        unfinished: [const {
            Unfinished { source: 0, destination: 0, points: 0, next: 0, state: [[0; 2]; POINTS_MAX as usize] }
        }; CONTEXTS],
    };

    /// Makes place for what `operation` of a context leaves unfinished; `false` if it is to follow something that did not precede.
    pub fn begin(&mut self, context: usize, operation: &Operation) -> bool {
        let Operation::TransformStage { source, destination, points, stage } = *operation else { return true };
        let unfinished = &mut self.unfinished[context];
        let follows = (unfinished.source, unfinished.destination, unfinished.points, unfinished.next)
            == (source, destination, points, stage);
        if follows || stage == 0 {
            (unfinished.source, unfinished.destination, unfinished.points) = (source, destination, points);
            unfinished.next = 0;
        }
        follows || stage == 0
    }

    /// Forgets what a context has left unfinished.
    pub fn forget(&mut self, context: usize) {
        self.unfinished[context].next = 0;
    }
}

/// Does the slice after `done` others of an operation of `context`; says how far the command has come.
pub(crate) fn slice(
    operation: &Operation,
    context: usize,
    engine: EngineIndex,
    done: u64,
    scratch: &mut Scratch,
    space: &Space,
    bus: &mut impl Bus,
) -> Result<Slice, Fault> {
    let more = |instructions| Ok(Slice { progress: Progress::Slices(done + 1), instructions });
    let last = |instructions| Ok(Slice { progress: Progress::Finished, instructions });
    let memory = space.copy_engines.operands();
    match *operation {
        Operation::Burn { .. } => last(0),
        Operation::Copy { source, destination, length } => {
            let (from, to) = match (engine, space.copy_engines) {
                (EngineIndex::CopyIn, CopyEngines::One) => match space.memory_of(bus, source)? {
                    Memory::System => (Memory::System, Memory::Local),
                    Memory::Local | Memory::Peer => (Memory::Local, Memory::System),
                },
                (EngineIndex::CopyIn, _) => (Memory::System, Memory::Local),
                (EngineIndex::CopyOut | EngineIndex::Execution, _) => (Memory::Local, Memory::System),
            };
            copy(space, bus, (destination, to), (source, from), length, done)
        }
        Operation::PeerCopy { source, destination, length } => {
            copy(space, bus, (destination, Memory::Local), (source, Memory::Peer), length, done)
        }
        Operation::Gradient { source, destination, size } => {
            let Scratch { first, output, .. } = scratch;
            let Some(row) = done.checked_sub(1) else {
                space.read(bus, source, memory, &mut first.0[..size.pixels()])?;
                return more(size.pixels());
            };
            if let Some(rows) = rows(size, row) {
                let pixels = rows.len() * usize::from(size.width);
                kernels::gradient_rows(&first.0, size, rows, &mut output.0);
                return more(17 * pixels);
            }
            space.write(bus, destination, memory, &output.0[..size.pixels()])?;
            last(size.pixels())
        }
        Operation::BlockMatch { reference, current, result, size, radius, stride } => {
            let Scratch { first, second, search, .. } = scratch;
            match done {
                0 => {
                    space.read(bus, reference, memory, &mut first.0[..size.pixels()])?;
                    more(size.pixels())
                }
                1 => {
                    space.read(bus, current, memory, &mut second.0[..size.pixels()])?;
                    *search = Search::new(radius, stride);
                    more(size.pixels())
                }
                _ => match search.step(&first.0, &second.0, size, COMPARISON_SLICE) {
                    None => more(9 * COMPARISON_SLICE),
                    Some(found) => {
                        space.write(bus, result, memory, &found.encode())?;
                        last(ENOUGH)
                    }
                },
            }
        }
        Operation::Shift { source, destination, displacement, size } => {
            let Scratch { first, output, displacement: moved, .. } = scratch;
            let Some(row) = done.checked_sub(1) else {
                let mut result = [0; MATCH_BYTES];
                space.read(bus, displacement, memory, &mut result)?;
                let result = MatchResult::decode(&result);
                *moved = (result.dx, result.dy);
                space.read(bus, source, memory, &mut first.0[..size.pixels()])?;
                return more(size.pixels());
            };
            if let Some(rows) = rows(size, row) {
                let pixels = rows.len() * usize::from(size.width);
                kernels::shift_rows(&first.0, size, *moved, rows, &mut output.0);
                return more(4 * pixels);
            }
            space.write(bus, destination, memory, &output.0[..size.pixels()])?;
            last(size.pixels())
        }
        Operation::MatrixProduct { left, right, product, order, .. } => {
            let Scratch { first, second, output, .. } = scratch;
            let row = 4 * usize::from(order);
            let all = row * usize::from(order);
            let Some(index) = done.checked_sub(1) else {
                space.read(bus, left, memory, &mut first.0[..all])?;
                space.read(bus, right, memory, &mut second.0[..all])?;
                return more(2 * all);
            };
            if index < u64::from(order) {
                let at = row * index as usize;
                kernels::matrix_row(&first.0[at..], &second.0, order, &mut output.0[at..]);
                return more(10 * all / 4);
            }
            space.write(bus, product, memory, &output.0[..all])?;
            last(all)
        }
        Operation::Filter { source, coefficients, destination, samples, length } => {
            let Scratch { first, output, signal, coefficients: response, .. } = scratch;
            let (samples, length) = (usize::from(samples), usize::from(length));
            let (signal, response) = (&mut signal[..samples + length - 1], &mut response[..length]);
            let Some(part) = done.checked_sub(1) else {
                for (address, numbers) in [(source, &mut *signal), (coefficients, response)] {
                    let bytes = &mut first.0[..2 * numbers.len()];
                    space.read(bus, address, memory, bytes)?;
                    signals::numbers(bytes, numbers);
                }
                return more(10 * (samples + 2 * length));
            };
            let at_once = FILTER_SLICE / (length + timing::FILTER_SAMPLE as usize);
            let begin = at_once * part as usize;
            if begin < samples {
                let end = samples.min(begin + at_once);
                signals::filter(&signal[begin..end + length - 1], response, &mut output.0[2 * begin..2 * end]);
                return more(5 * (end - begin) * (length + 4));
            }
            space.write(bus, destination, memory, &output.0[..2 * samples])?;
            last(2 * samples)
        }
        Operation::Transform { source, destination, points: count } => {
            let Scratch { first, output, points, .. } = scratch;
            let points = &mut points[..usize::from(count)];
            let bytes = 4 * points.len();
            let Some(stage) = done.checked_sub(1) else {
                space.read(bus, source, memory, &mut first.0[..bytes])?;
                signals::sorted(&first.0[..bytes], points);
                return more(20 * points.len());
            };
            if stage < u64::from(count.ilog2()) {
                signals::stage(points, stage as u32);
                return more(20 * points.len());
            }
            signals::spectrum(points, &mut output.0[..bytes]);
            space.write(bus, destination, memory, &output.0[..bytes])?;
            last(20 * points.len())
        }
        Operation::TransformStage { source, destination, points: count, stage } => {
            let Scratch { first, output, unfinished, .. } = scratch;
            let Unfinished { state, next, .. } = &mut unfinished[context];
            let points = &mut state[..usize::from(count)];
            let bytes = 4 * points.len();
            // Only the first stage reads.
            match done + u64::from(stage > 0) {
                0 => {
                    space.read(bus, source, memory, &mut first.0[..bytes])?;
                    signals::sorted(&first.0[..bytes], points);
                    more(20 * points.len())
                }
                1 => {
                    signals::stage(points, stage.into());
                    if stage + 1 == operation.stages() {
                        return more(20 * points.len());
                    }
                    *next = stage + 1;
                    last(20 * points.len())
                }
                _ => {
                    signals::spectrum(points, &mut output.0[..bytes]);
                    space.write(bus, destination, memory, &output.0[..bytes])?;
                    last(20 * points.len())
                }
            }
        }
    }
}

/// The slice of a copy of `length` bytes after `done` others.
fn copy(
    space: &Space,
    bus: &mut impl Bus,
    destination: (u64, Memory),
    source: (u64, Memory),
    length: u64,
    done: u64,
) -> Result<Slice, Fault> {
    let begin = done * COPY_SLICE;
    let bytes = (length - begin).min(COPY_SLICE);
    space.copy_part(bus, destination, source, begin, bytes)?;
    let progress = if begin + bytes < length { Progress::Slices(done + 1) } else { Progress::Finished };
    Ok(Slice { progress, instructions: bytes as usize })
}

/// The rows of slice number `index`, or `None` after the last.
fn rows(size: ImageSize, index: u64) -> Option<core::ops::Range<usize>> {
    let height = usize::from(size.height);
    let rows = (PIXEL_SLICE / usize::from(size.width)).max(1);
    let begin = rows * index as usize;
    (begin < height).then(|| begin..(begin + rows).min(height))
}
