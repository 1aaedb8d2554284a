//! The address spaces of all tasks, built once from the packed system.

use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use fusee_abi::call::rights;
use fusee_abi::environment::LOST_WORD;
use fusee_abi::image::{Engine, EngineUser, Mapping, Region, Supervision, System, feature, kind, mapping};
use fusee_bsp::board;
use fusee_kernel_core::id::{EngineId, EngineUserId, LoanId, RegionId, ThreadId};
use fusee_kernel_core::limits::{GATES, RESTARTS, SPATIAL, STREAMS, STREAMS_MAX, THREADS};

use crate::frame;
use crate::machine::{Board, Doorbell, Gate, Keyed, Shared};
use crate::translation::{
    self, Access, Behind, How, MapError, PAGE, Pool, Space, WINDOW, WINDOWS, direct, invalidation, physical,
};
use crate::{streams, trace};

/// The fault of the packed system, and its record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SpaceError {
    /// More tasks than the kernel has threads.
    TooManyTasks,
    /// There is no table left for a task's address space.
    OutOfTables,
    /// A mapping names no task.
    NoTask(usize),
    /// A mapping cannot be made.
    Mapping(usize, MapError),
    /// A mapping would give away memory of the kernel, or memory that is not there.
    Forbidden(usize),
    /// A mapping would give away a device of the kernel, which is named.
    Owned(usize, &'static str),
    /// The bytes a mapping is filled from are not in the image, or more than it holds.
    BadSource(usize),
    /// A handle is to a region that can be lent to its task, for which there is no place, or only a part of one.
    NoPlace(usize),
    /// An engine's user has words that the kernel cannot read.
    BadProbe(usize),
    /// An engine's user names no task.
    BadUser(usize),
}

/// Address-space number of the task with this index; zero belongs to no task.
const fn number(task: usize) -> u64 {
    task as u64 + 1
}

/// Builds and fills the address spaces of all tasks, and points their frames to them.
///
/// # Errors
/// [`SpaceError`] for a forbidden request of the packed system.
///
/// # Safety
/// - Only the boot CPU runs; no frame and no `Board` is in use.
/// - `system` lies in memory that the kernel maps, and nothing outside the kernel's own memory and `system`
///   holds anything of value.
pub unsafe fn build(
    system: &System<'_>,
    pool: &mut Pool,
    kernel: &Range<u64>,
    board: &mut Board,
) -> Result<(), SpaceError> {
    if system.tasks().len() > THREADS {
        return Err(SpaceError::TooManyTasks);
    }
    for (index, task) in system.tasks().iter().enumerate() {
        let space = Space::new(pool).map_err(|_| SpaceError::OutOfTables)?;
        let Some(thread) = ThreadId::new(index) else { return Err(SpaceError::TooManyTasks) };
        let frame = frame::of(thread);
        // SAFETY: in bounds by the test above; no frame has a user yet: promised by our caller.
        unsafe { (*frame).translation = number(index) << 48 | space.base() };
        // SAFETY: as above.
        unsafe { frame::begin(thread, task.entry, task.stack_top, task.environment) };
        board.set_birth(thread, [task.entry, task.stack_top, task.environment]);
    }

    let mut reached = [None; STREAMS_MAX];
    for (place, _) in reached.iter_mut().zip(system.streams()).filter(|_| STREAMS) {
        *place = Some(Space::new(pool).map_err(|_| SpaceError::OutOfTables)?);
    }
    let image = physical(system.bytes().as_ptr());
    for (index, mapping) in system.mappings().iter().enumerate() {
        let of_stream = STREAMS && mapping.flags & mapping::STREAM != 0;
        let space = match of_stream {
            false => space_of(system, mapping.task),
            true => reached.get(mapping.task as usize).copied().flatten(),
        };
        let space = space.ok_or(SpaceError::NoTask(index))?;
        let to = target(system, image, mapping).ok_or(SpaceError::Forbidden(index))?;
        let bytes = to.end - to.start;
        let is_read = mapping.flags & !mapping::TRACE == mapping::READ && inside(&to, &trace::rings());
        let may_overlap =
            if mapping.flags & mapping::TRACE != 0 { is_read } else { mapping.flags & mapping::IN_IMAGE != 0 };
        if !may_overlap && overlaps(&to, kernel) {
            return Err(SpaceError::Forbidden(index));
        }
        if let Some(device) = board::owned_in(&to) {
            return Err(SpaceError::Owned(index, device));
        }
        if of_stream && (mapping.flags & !OF_STREAMS != 0 || !inside(&to, &board::MEMORY)) {
            return Err(SpaceError::Forbidden(index));
        }
        if mapping.flags & mapping::FILL != 0 {
            if !inside(&to, &board::MEMORY) {
                return Err(SpaceError::Forbidden(index));
            }
            // SAFETY: `to` is memory the kernel maps, outside its own and the image: the tests above. No other code
            // runs, and its contents are of no value: promised by our caller.
            unsafe { fill(system, mapping, &to) }.ok_or(SpaceError::BadSource(index))?;
        }
        if mapping.flags & (mapping::EXECUTE | mapping::UNCACHED) != 0 && inside(&to, &board::MEMORY) {
            translation::synchronise(to.start, bytes);
        }
        let access = Access::Task {
            write: mapping.flags & mapping::WRITE != 0,
            execute: mapping.flags & mapping::EXECUTE != 0,
            behind: match mapping.flags & (mapping::DEVICE | mapping::UNCACHED) {
                0 => Behind::Memory,
                mapping::UNCACHED => Behind::Uncached,
                _ => Behind::Device,
            },
        };
        let how = match mapping.flags & (mapping::HELD_BACK | mapping::LENT | mapping::SCRATCH) {
            0 => How::Shown,
            mapping::LENT if LoanId::EXISTS => How::Lent,
            mapping::SCRATCH if LoanId::EXISTS => How::Scratch,
            _ => How::HeldBack,
        };
        space
            .map(pool, mapping.address, to.start, mapping.pages * PAGE, access, how)
            .map_err(|error| SpaceError::Mapping(index, error))?;
        if !of_stream {
            board.set_end(mapping.address + mapping.pages * PAGE);
        }
    }

    for (index, region) in system.regions().iter().enumerate() {
        if let Some(id) = RegionId::new(index) {
            board.set_region(id, region.address, windows(region));
        }
    }
    for (index, handle) in system.handles().iter().enumerate() {
        if LoanId::EXISTS && handle.kind == kind::REGION && handle.rights & rights::LENT != 0 {
            let space = space_of(system, handle.task).ok_or(SpaceError::NoPlace(index))?;
            let region = system.regions().get(handle.object as usize).ok_or(SpaceError::NoPlace(index))?;
            let is_whole = space.window(region.address).is_some_and(|window| window.is_provided(windows(region)));
            is_whole.then_some(()).ok_or(SpaceError::NoPlace(index))?;
        }
    }
    let users = if EngineUserId::EXISTS { system.engine_users() } else { &[] };
    for (index, user) in users.iter().enumerate() {
        let space = space_of(system, user.task).ok_or(SpaceError::BadUser(index))?;
        let Some(leaf) = space.leaf(user.address) else { continue };
        let (submitted, progress) = probe(user).ok_or(SpaceError::BadProbe(index))?;
        // Each task with doorbells has one page that takes their place when their locks are taken away; its own, since another task
        // would read the words that one task leaves there.
        let earlier = system.engine_users().iter().take(index).position(|other| other.task == user.task);
        let replacement = match earlier.and_then(EngineUserId::new).and_then(|earlier| board.replacement(earlier)) {
            Some(page) => page,
            None => pool.page().map_err(|_| SpaceError::OutOfTables)?,
        };
        let lost = word(replacement + LOST_WORD).ok_or(SpaceError::OutOfTables)?;
        let [mapped, replaced] = leaf.descriptors(replacement);
        let invalidation = invalidation(number(user.task as usize), user.address);
        if let Some(id) = EngineUserId::new(index) {
            board.set_doorbell(id, Doorbell { leaf, invalidation, submitted, progress, mapped, replaced, lost });
        }
    }
    if GATES {
        build_shared(system, board)?;
    }
    if SPATIAL {
        build_keyed(system, board)?;
    }
    if let Some(streams) = board.streams().filter(|_| feature::STREAMS & system.header().features != 0) {
        check_faults(system, kernel)?;
        let nothing = pool.page().map_err(|_| SpaceError::OutOfTables)?;
        // SAFETY: the boot CPU alone, once: promised by our caller. Faults go where tasks have memory: it was checked.
        unsafe { streams::start(system, nothing, &reached, streams) };
    }
    if RESTARTS {
        for (index, task) in system.tasks().iter().enumerate() {
            if let Some(thread) = ThreadId::new(index).filter(|_| Supervision::of(task.supervision).is_dormant) {
                board.keep_shut(thread);
            }
        }
    }
    translation::publish();
    Ok(())
}

/// Flags of mappings for devices.
const OF_STREAMS: u32 = mapping::READ | mapping::WRITE | mapping::UNCACHED | mapping::STREAM;

/// The page for DMA faults is a region, and no memory of the kernel.
#[inline(never)]
fn check_faults(system: &System<'_>, kernel: &Range<u64>) -> Result<(), SpaceError> {
    let page = system.header().dma_faults;
    let index = system.regions().iter().position(|region| region.physical == page && region.bytes == PAGE);
    let to = page..page.saturating_add(PAGE);
    let is_fit = index.is_some() && page.is_multiple_of(PAGE) && inside(&to, &board::MEMORY) && !overlaps(&to, kernel);
    if page == 0 || is_fit { Ok(()) } else { Err(SpaceError::Forbidden(system.mappings().len())) }
}

/// Finds the doorbells of clients without a lock, and the gates of engines.
#[inline(never)]
fn build_shared(system: &System<'_>, board: &mut Board) -> Result<(), SpaceError> {
    for (index, user) in system.shared_users().iter().enumerate() {
        board.set_shared(index, shared(system, user).ok_or(SpaceError::BadUser(index))?);
    }
    for (index, engine) in system.engines().iter().enumerate() {
        if let Some(id) = EngineId::new(index).filter(|_| engine.shared_longest != 0) {
            board.set_gate_words(id, gate(engine).ok_or(SpaceError::BadProbe(index))?);
        }
    }
    Ok(())
}

/// Finds the words of users of engines with devices that decide.
#[inline(never)]
fn build_keyed(system: &System<'_>, board: &mut Board) -> Result<(), SpaceError> {
    for (index, user) in system.engine_users().iter().enumerate().filter(|(_, user)| user.key != 0) {
        let words = keyed(user).ok_or(SpaceError::BadProbe(index))?;
        if let Some(id) = EngineUserId::new(index) {
            board.set_keyed(id, words);
        }
    }
    Ok(())
}

fn keyed(user: &EngineUser) -> Option<Keyed> {
    Some(Keyed { key: word(user.key)?, occupied: word(user.occupied)? })
}

fn shared(system: &System<'_>, user: &EngineUser) -> Option<Shared> {
    let space = space_of(system, user.task)?;
    let leaf = space.leaf_of(user.address)?;
    // Its shadow is the next page, which is held back there for good. A client that no server decides on has none, and needs none.
    let shadow = space.leaf_of(user.address + PAGE).unwrap_or(leaf);
    let [[mapped, _], [shadow, _]] = [leaf.descriptors(0), shadow.descriptors(0)];
    let invalidation = invalidation(number(user.task as usize), user.address);
    Some(Shared { engine: EngineId::new(user.engine as usize)?, leaf, invalidation, mapped, shadow })
}

fn gate(engine: &Engine) -> Option<Gate> {
    Some(Gate { shut: word(engine.gate)?, progress: word(engine.shared_progress)? })
}

/// How many windows a place for `region` has: at most those up to the next GiB, where a second-level table ends.
fn windows(region: &Region) -> u64 {
    let left = WINDOWS - region.address / WINDOW % WINDOWS;
    region.bytes.div_ceil(WINDOW).min(left)
}

/// The address space of a task, if there is such a task; only once `build` has made them all.
#[cfg_attr(feature = "sharing", inline(never))]
fn space_of(system: &System<'_>, task: u32) -> Option<Space> {
    let index = task as usize;
    system.tasks().get(index)?;
    let frame = frame::of(ThreadId::new(index)?);
    // SAFETY: in bounds: `build` has tested the number of tasks. Boot is alone with the frames: its caller
    // promised.
    let base = unsafe { (*frame).translation };
    // SAFETY: `build` put the base of the task's address space there, before any call.
    Some(unsafe { Space::from_base(base) })
}

/// The physical addresses a mapping is about, if they make sense.
fn target(system: &System<'_>, image: u64, mapping: &Mapping) -> Option<Range<u64>> {
    let bytes = mapping.pages.checked_mul(PAGE)?;
    let bytes = if mapping.flags & mapping::SCRATCH == 0 { bytes } else { PAGE };
    if mapping.flags & mapping::IN_IMAGE == 0 {
        let base = if mapping.flags & mapping::TRACE != 0 { trace::rings().start } else { 0 };
        let start = mapping.physical.checked_add(base)?;
        return Some(start..start.checked_add(bytes)?);
    }
    let end = mapping.physical.checked_add(bytes)?;
    // The image's last page may be shared with nothing but padding.
    let length = (system.bytes().len() as u64).next_multiple_of(PAGE);
    (end <= length).then(|| image + mapping.physical..image + end)
}

/// Copies the initial bytes of `mapping` to `to`, and zeroes the rest.
///
/// # Safety
/// `to` is memory the kernel maps, without a user.
unsafe fn fill(system: &System<'_>, mapping: &Mapping, to: &Range<u64>) -> Option<()> {
    let start = usize::try_from(mapping.source_offset).ok()?;
    let length = usize::try_from(mapping.source_bytes).ok()?;
    let source = system.bytes().get(start..start.checked_add(length)?)?;
    // SAFETY: mapped, ours alone, and any bytes are a valid `[u8]`: promised by our caller.
    let pages = unsafe { slice::from_raw_parts_mut(direct::<u8>(to.start), (to.end - to.start) as usize) };
    let (head, tail) = pages.split_at_mut_checked(length)?;
    head.copy_from_slice(source);
    tail.fill(0);
    Some(())
}

/// Where the kernel reads an engine's idle probe.
fn probe(user: &EngineUser) -> Option<(NonNull<u32>, NonNull<u64>)> {
    Some((word(user.doorbell)?, word(user.progress)?))
}

/// Where the kernel finds the word at a physical address, if it maps it.
fn word<T>(address: u64) -> Option<NonNull<T>> {
    bytes(address, size_of::<T>() as u64).map(NonNull::cast)
}

/// Finds `bytes` bytes, as above, that lie at a multiple of as many.
#[cfg_attr(feature = "sharing", inline(never))]
fn bytes(address: u64, bytes: u64) -> Option<NonNull<u8>> {
    let range = address..address.checked_add(bytes)?;
    let mapped = inside(&range, &board::MEMORY) || inside(&range, &board::DEVICES);
    if address.is_multiple_of(bytes) && mapped { NonNull::new(direct(address)) } else { None }
}

fn inside(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn overlaps(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
