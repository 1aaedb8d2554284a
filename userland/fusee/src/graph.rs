//! This task as a node of a graph: `[graphs.NAME]` of the manifest makes tasks nodes, and tells each of its edges, by [these entries](fusee_graph::names) of its environment.
//!
//! A node's job begins when its tokens are there: [`next_job`](crate::next_job) waits for that. It puts others when it ends. Memory that it hands on
//! has to be written before [`Node::end`]: each task released by that sees it.
//!
//! An *object* of the graph is such memory: a few frames, of which each job of its writer writes the next. A node that writes one calls
//! [`Node::begin`] first, which waits until that frame has no readers any more. Where the manifest leaves it to the analysis how many frames there
//! are, it never does. A writer that is not to wait for a reader writes over the frame that it still reads (`overwrite`), and the reader asks
//! afterwards whether it [has lost its frame](Node::is_lost).
//!
//! ```no_run
//! # use fusee::{environment, graph::Node, next_job};
//! let environment = environment();
//! let mut node = Node::of(&environment).expect("the task is a node");
//! let pictures = node.object(&environment, "picture").expect("the graph has this object");
//! loop {
//!     let job = next_job().expect("it has jobs");
//!     node.begin(&job);
//!     node.frame(&pictures, &job, 0).write_u64(0, 1);
//!     node.end(&job);
//! }
//! ```

use core::sync::atomic::{Ordering, fence};

use fusee_abi::environment::kind;
pub use fusee_graph::names;
use fusee_graph::names::words::{BEGAN, ENDED, STRIDE, WAITS};
use fusee_graph::names::{BACK, EDGE, FRAMES, Frames, NEXT, PLACE, Place, ROOM, ROOM_OF};
use fusee_graph::{Begun, Edge, NODES, Tokens, Words, begin, begin_job, end_job, give_back, is_lost};

use crate::environment::unpadded;
use crate::{Environment, Instant, JobInfo, Notification, Region, SharedBytes, Task};

/// Edges that a node is told of.
const EDGES: usize = 40;
/// The longest name of an entry.
const NAME: usize = 24;

/// This task, which is a node.
#[derive(Debug)]
pub struct Node {
    number: usize,
    edges: Edges,
    /// From readers to writers.
    back: Edges,
    words: Pages,
    next: [Option<Task>; NODES],
    room: Option<Notification>,
    rooms: [Option<Notification>; NODES],
    /// The node writes to objects whether or not they still have readers.
    overwrites: bool,
}

/// The node's parameters about edges of one kind.
#[derive(Debug)]
struct Edges {
    all: [Edge; EDGES],
    count: usize,
}

/// Frames of memory that jobs of one node write, and jobs of others read.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    memory: SharedBytes,
    /// How many there are.
    frames: u32,
    /// So many jobs back this task may look.
    back: u32,
    /// The node that writes over frames with readers.
    overwritten_by: Option<u16>,
    /// Where the device reaches it; zero: no device does.
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "tasks without devices have no device addresses"))]
    address: u64,
}

/// Why this task is no node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeError {
    /// Its environment does not say which.
    NoNode,
    /// The node has more edges than there is room for, or a parameter is none.
    BadEdges,
    /// The node neither writes nor reads an object of this name.
    NoObject,
}

/// The words of a graph's nodes: a page for each.
#[derive(Clone, Copy, Debug)]
struct Pages {
    /// To read.
    all: SharedBytes,
    /// The node's own, to write.
    own: SharedBytes,
}

impl Words for Pages {
    fn ended(&mut self, node: usize) -> u64 {
        let ended = self.all.read_u64(STRIDE * node + ENDED);
        fence(Ordering::Acquire);
        ended
    }

    fn end(&mut self, _: usize, job: u64) {
        fence(Ordering::Release);
        self.own.write_u64(ENDED, job);
        fence(Ordering::SeqCst);
    }

    fn waits(&mut self, node: usize) -> bool {
        self.all.read_u64(STRIDE * node + WAITS) != 0
    }

    fn say_waits(&mut self, _: usize, waits: bool) {
        self.own.write_u64(WAITS, waits.into());
        fence(Ordering::SeqCst);
    }
}

impl Begun for Pages {
    fn began(&mut self, node: usize) -> u64 {
        fence(Ordering::Acquire);
        self.all.read_u64(STRIDE * node + BEGAN)
    }

    fn say_began(&mut self, _: usize, job: u64) {
        self.own.write_u64(BEGAN, job);
        fence(Ordering::Release);
    }
}

impl Node {
    /// The node that the manifest makes of this task. Consumers that have their tokens at the start are released.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn of(environment: &Environment) -> Result<Node, NodeError> {
        let number = environment.parameter(names::NODE).ok_or(NodeError::NoNode)? as usize;
        let region = |name| environment.region(name).map_err(|_| NodeError::NoNode);
        let (all, own) = (region(names::GRAPH)?, region(names::OWN)?);
        Node::made(number, [&all, &own], entries(environment))
    }

    fn made(number: usize, [all, own]: [&Region; 2], entries: impl Iterator<Item = Said>) -> Result<Node, NodeError> {
        let words = Pages { all: all.shared(), own: own.shared() };
        let mut node = Node {
            number,
            edges: Edges::NONE,
            back: Edges::NONE,
            words,
            next: [const { None }; NODES],
            room: None,
            rooms: [const { None }; NODES],
            overwrites: false,
        };
        for entry in entries {
            match entry {
                Said::Edge(word) => node.edges.add(word)?,
                Said::Back(word) => node.back.add(word)?,
                Said::Room(None, room) => node.room = Some(room),
                Said::Room(Some(number), room) => {
                    *node.rooms.get_mut(number).ok_or(NodeError::BadEdges)? = Some(room);
                }
                Said::Frames(frames) => node.overwrites |= frames.overwritten_by.map(usize::from) == Some(number),
                Said::Next(number, task) => *node.next.get_mut(number).ok_or(NodeError::BadEdges)? = Some(task),
            }
        }
        let others = node.edges.all().iter().chain(node.back.all()).flat_map(|edge| [edge.from, edge.to]);
        let pages = others.chain([number]).max().unwrap_or(0) + 1;
        if number >= NODES || words.all.len() < STRIDE * pages || words.own.len() < STRIDE {
            return Err(NodeError::NoNode);
        }
        let next = &node.next;
        begin(node.edges.all(), &mut { words }, number, |consumer, upto| credit(next, consumer, upto));
        Ok(node)
    }

    /// Before the job `job` writes to objects: waits until their frames are free, and says how often it had to. With fewer frames than the analysis wants, that may be until the reader that is last has ended its job.
    pub fn begin(&mut self, job: &JobInfo) -> u32 {
        let mut words = self.words;
        let job = self.whole_number(job);
        let mut waited = 0;
        while !begin_job(self.back.all(), &mut words, self.number, job) {
            waited += 1;
            let Some(room) = &self.room else { break };
            // An error leaves the frame as it is, and the next look finds that out.
            let _ = room.wait(Instant::NEVER);
        }
        if waited > 0 {
            words.say_waits(self.number, false);
        }
        if self.overwrites {
            words.say_began(self.number, job);
        }
        waited
    }

    /// Whether the frame that [`Node::frame`] gives for the same job and `back` was lost, to a reader that has read it: its writer, which does not wait for readers (`overwrite` of
    /// the manifest), has gone on so far that it may have written over it. Words that were read then are of no frame. Never, where the writer waits.
    #[must_use]
    pub fn is_lost(&self, object: &Object, job: &JobInfo, back: u32) -> bool {
        let read = self.whole_number(job).saturating_sub(back.into());
        object.overwritten_by.is_some_and(|writer| is_lost(&mut { self.words }, writer.into(), read, object.frames))
    }

    /// The object with this name that the graph has, if this node writes or reads it.
    ///
    /// # Errors
    /// [`NodeError::NoObject`].
    pub fn object(&self, environment: &Environment, name: &str) -> Result<Object, NodeError> {
        let word = of_object(environment, name, FRAMES).ok_or(NodeError::NoObject)?;
        let Frames { count: frames, back, overwritten_by } = Frames::decode(word);
        if overwritten_by.is_some_and(|writer| STRIDE * (usize::from(writer) + 1) > self.words.all.len()) {
            return Err(NodeError::NoObject);
        }
        let region = |name| environment.region(name).map(|region| region.shared()).map_err(|_| NodeError::NoObject);
        let (memory, address) = match of_object(environment, name, PLACE) {
            None => (region(name)?, 0),
            Some(word) => {
                let Place { offset, frame } = Place::decode(word);
                let base = environment.parameter(names::OBJECTS_AT).ok_or(NodeError::NoObject)?;
                (region(names::OBJECTS)?.part(offset as usize, frame as usize * frames as usize), base + offset)
            }
        };
        if frames == 0 || frames as usize > memory.len() {
            return Err(NodeError::NoObject);
        }
        Ok(Object { memory, frames, back: back.into(), overwritten_by, address })
    }

    /// The frame of `object` of the job that is `back` jobs before `job`: to its writer and with 0 the one to write, to readers the one written by
    /// that job. Before the writer's first job there was none; that frame is of zeros.
    ///
    /// # Panics
    /// If a reader looks further back than the manifest says, by `delay` and `history`.
    #[must_use]
    #[track_caller]
    pub fn frame(&self, object: &Object, job: &JobInfo, back: u32) -> SharedBytes {
        let (place, bytes) = self.place(object, job, back);
        object.memory.part(place, bytes)
    }

    /// The frame of [`Node::frame`] as a buffer of the device that the graph's objects are on; empty if no device reaches this one. A frame that is
    /// read may be borrowed by several pieces of work, and one that this node alone writes by one.
    ///
    /// # Panics
    /// As [`Node::frame`].
    #[cfg(feature = "gpu")]
    #[must_use]
    #[track_caller]
    pub fn buffer(&self, object: &Object, job: &JobInfo, back: u32) -> crate::gpu::Buffer {
        let (place, bytes) = self.place(object, job, back);
        let there = if object.address == 0 { 0 } else { bytes };
        crate::gpu::Buffer::of_frame(object.address + place as u64, object.memory.part(place, there))
    }

    /// Where in an object's memory that frame begins, and how many bytes it has.
    #[track_caller]
    fn place(&self, object: &Object, job: &JobInfo, back: u32) -> (usize, usize) {
        assert!(back <= object.back, "the manifest says how far a reader looks back");
        let (frames, bytes) = (u64::from(object.frames), object.memory.len() / object.frames as usize);
        let place = (self.whole_number(job) + frames - u64::from(back)) % frames;
        (place as usize * bytes, bytes)
    }

    /// The number of a job, of which the kernel keeps the lower half.
    fn whole_number(&self, job: &JobInfo) -> u64 {
        let before = { self.words }.ended(self.number);
        before + u64::from((job.number as u32).wrapping_sub(before as u32))
    }

    /// Puts the tokens of `job`: its writes are seen by the tasks that this releases.
    pub fn end(&mut self, job: &JobInfo) {
        let mut words = self.words;
        let ended = self.whole_number(job);
        let next = &self.next;
        end_job(self.edges.all(), &mut words, self.number, ended, |consumer, upto| credit(next, consumer, upto));
        let rooms = &self.rooms;
        give_back(self.back.all(), &mut words, self.number, |writer| {
            if let Some(room) = rooms.get(writer).and_then(Option::as_ref) {
                let _ = room.signal(1);
            }
        });
    }
}

impl Edges {
    const NONE: Edges = Edges { all: [Edge { from: 0, to: 0, tokens: Tokens::ONE }; EDGES], count: 0 };

    /// One more, by its parameter.
    fn add(&mut self, word: u64) -> Result<(), NodeError> {
        let place = self.all.get_mut(self.count).ok_or(NodeError::BadEdges)?;
        *place = Edge::decode(word).ok_or(NodeError::BadEdges)?;
        self.count += 1;
        Ok(())
    }

    fn all(&self) -> &[Edge] {
        &self.all[..self.count]
    }
}

impl Object {
    /// Frames that there are.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames
    }
}

/// The parameter of an object that is called as it is, and so.
fn of_object(environment: &Environment, name: &str, what: &str) -> Option<u64> {
    let mut longer = [0; NAME];
    let whole = longer.get_mut(..name.len() + what.len())?;
    whole[..name.len()].copy_from_slice(name.as_bytes());
    whole[name.len()..].copy_from_slice(what.as_bytes());
    environment.parameter(core::str::from_utf8(whole).ok()?)
}

/// An entry of the environment for a node.
enum Said {
    Edge(u64),
    Next(usize, Task),
    Back(u64),
    /// Frames of an object.
    Frames(Frames),
    /// The notification of free frames of the node with this number, or one's own.
    Room(Option<usize>, Notification),
}

fn entries(environment: &Environment) -> impl Iterator<Item = Said> + '_ {
    environment.entries().iter().filter_map(|entry| {
        let name = core::str::from_utf8(unpadded(&entry.name)).ok()?;
        if name.starts_with(EDGE) && entry.kind == kind::PARAMETER {
            return Some(Said::Edge(entry.address));
        }
        if name.starts_with(BACK) && entry.kind == kind::PARAMETER {
            return Some(Said::Back(entry.address));
        }
        if name.ends_with(FRAMES) && entry.kind == kind::PARAMETER {
            return Some(Said::Frames(Frames::decode(entry.address)));
        }
        if name == ROOM {
            return environment.notification(name).ok().map(|room| Said::Room(None, room));
        }
        if let Some(number) = names::number(name, ROOM_OF) {
            return environment.notification(name).ok().map(|room| Said::Room(Some(number), room));
        }
        let number = names::number(name, NEXT)?;
        environment.task(name).ok().map(|task| Said::Next(number, task))
    })
}

/// Tells a consumer that it may have jobs up to this one. A consumer that has ended, or has a full queue, is told again with the next job.
fn credit(next: &[Option<Task>; NODES], consumer: usize, upto: u64) {
    if let Some(task) = next.get(consumer).and_then(Option::as_ref) {
        let _ = task.credit(upto as u32);
    }
}
