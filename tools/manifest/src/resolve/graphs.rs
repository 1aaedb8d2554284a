//! Graphs: `[graphs.NAME]` becomes periods of tasks, handles between them, a region and parameters.
//!
//! All of it happens before names are resolved, so the rest of the crate knows no graphs. An added entry stands in the file where
//! the edge does that it comes from. The source keeps its period; the periods of the other nodes follow from the tokens
//! ([`fusee_graph::rate`]). The names in a node's environment are in [`fusee_graph::names`].

use std::collections::BTreeMap;
use std::iter::once;
use std::ops::{Range, RangeInclusive};

use fusee_accel_contract::space;
use fusee_graph::names::{
    self, BACK, EDGE, FRAMES, Frames, MEMORY, NEXT, OBJECTS, OBJECTS_AT, OBJECTS_OF, PLACE, Place, ROOM, ROOM_OF, words,
};
use fusee_graph::{Edge, NODES, Rate, RateError, Tokens, starved};
use toml::Spanned;

use super::object_of;
use crate::error::Reason;
use crate::layout::PAGE;
use crate::quantity::{Bytes, Time};
use crate::read::Mistake;
use crate::schema;

/// Releases that queue for a node, unless its task has another limit.
const BACKLOG: u32 = 8;
/// The most tokens that a job moves, and that there may be.
const AT_ONCE: u32 = fusee_graph::edge::AT_ONCE;
const THERE: u32 = fusee_graph::edge::THERE;
/// Jobs that a reader looks back at most, and replicas.
const MOST: u32 = 64;
/// Each frame that a device reaches begins at a multiple of so many bytes.
const FRAME: u64 = 64;

/// A graph of tasks.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The name of the graph.
    pub name: String,
    /// The nodes of the graph, the source first: indices of tasks, and how often each runs.
    pub nodes: Vec<(usize, Rate)>,
    /// Edges between nodes, by their places.
    pub edges: Vec<Edge>,
    /// The longest time from a release of the source until the end of the last job that works on its tokens; to be proved.
    pub latency: Option<Time>,
    /// The place of that entry in the file.
    pub(super) place: Range<usize>,
    /// The objects in memory that its nodes hand on.
    pub objects: Vec<Object>,
}

/// Memory that a job of one node writes and jobs of others read, so often that they do not wait for each other.
#[derive(Clone, Debug)]
pub struct Object {
    /// The name of the object.
    pub name: String,
    /// The place of the node that writes it.
    pub writer: usize,
    /// The nodes that read the object, and how many jobs before its own each looks back at most.
    pub readers: Vec<(usize, u32)>,
    /// The number of jobs of the writer that may be under way until all readers have ended that work on the first of them.
    pub replicas: u32,
    /// Bytes of a frame.
    pub frame: u64,
    /// The beginning of the object among those that the graph's device reaches; `None`: tasks alone reach it.
    pub offset: Option<u64>,
    /// The writer does not wait for readers.
    pub overwrites: bool,
    /// The reason why its writer may have to wait for a frame, if it may.
    pub(crate) short: Option<String>,
    /// The place of its entry in the file.
    pub(crate) at: Range<usize>,
}

impl Object {
    /// Frames of memory: one for each job under way, and those that readers look back to.
    #[must_use]
    pub fn frames(&self) -> u32 {
        let oldest = self.readers.iter().map(|(_, back)| *back).max().unwrap_or(0);
        self.replicas.max(1).saturating_add(oldest)
    }
}

/// The number of replicas of objects, by graph and object, or the reason why it is unknown.
pub(crate) type Replicas = BTreeMap<(String, String), Result<u32, String>>;

impl Graph {
    /// The edges from a node on which nothing is at the start: those that lead on.
    pub fn forward(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.from == node && edge.tokens.initial() == 0)
    }

    /// Whether paths end at a node.
    #[must_use]
    pub fn ends_at(&self, node: usize) -> bool {
        self.forward(node).next().is_none()
    }
}

/// Makes the entries of each graph a part of the tasks that it names.
pub(crate) fn expand(file: &mut schema::File, replicas: &Replicas) -> Result<Vec<Graph>, Vec<Mistake>> {
    let graphs = std::mem::take(&mut file.graphs);
    let mut expanded = Vec::new();
    let mut mistakes = Vec::new();
    for (number, (name, graph)) in graphs.0.iter().enumerate() {
        match one(file, (number, name), graph, replicas) {
            Ok(graph) => expanded.push(graph),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() { Ok(expanded) } else { Err(mistakes) }
}

/// A node: its task, and its rate once that is known.
struct Node {
    task: usize,
    rate: Option<Rate>,
}

impl Node {
    /// The name of its task.
    fn name<'a>(&self, file: &'a schema::File) -> &'a str {
        file.tasks.0[self.task].0.get_ref()
    }
}

/// An edge with its name, or that of its object.
type NamedEdge<'a> = (&'a Spanned<String>, Edge);

/// An entry of a task's handles: its name in the task, its object, and the place where that is written.
type Handle = (String, String, Range<usize>);

/// A graph while it is read, and until all its entries are passed on to tasks.
struct Draft<'a> {
    /// The place of the graph among the graphs.
    number: usize,
    name: &'a Spanned<String>,
    nodes: Vec<Node>,
    edges: Vec<NamedEdge<'a>>,
    /// Edges from readers of objects to their writers.
    back: Vec<NamedEdge<'a>>,
    objects: Vec<Object>,
    /// The device that some of the objects are for, and where that is written.
    device: Option<(usize, &'a Spanned<String>)>,
    /// Bytes of these objects.
    device_bytes: u64,
}

fn one<'a>(
    file: &mut schema::File,
    (number, name): (usize, &'a Spanned<String>),
    graph: &'a schema::Graph,
    replicas: &Replicas,
) -> Result<Graph, Mistake> {
    let mut draft = Draft::new(file, (number, name), graph)?;
    draft.read_edges(file, graph)?;
    draft.read_objects(file, graph, replicas)?;
    draft.check(file)?;
    rates(file, name, &mut draft.nodes, &draft.edges)?;
    // Before the number of frames is known, no node waits for a frame.
    let back_known = if replicas.is_empty() { &[] } else { draft.back.as_slice() };
    goes_on(file, name, &draft.nodes, draft.edges.iter().chain(back_known))?;
    let period = source_period(file, &graph.source, draft.nodes[0].task)?;
    draft.release_nodes(file, period)?;
    let address = space::objects(file.devices.0.len());
    draft.tell_nodes(file, address);
    draft.add_regions(file, address)?;
    draft.add_notifications(file);
    Ok(Graph {
        objects: draft.objects,
        name: name.get_ref().clone(),
        nodes: draft.nodes.iter().map(|node| (node.task, node.rate.unwrap_or(Rate::SOURCE))).collect(),
        edges: draft.edges.iter().map(|(_, edge)| *edge).collect(),
        latency: graph.latency.as_ref().map(|latency| *latency.get_ref()),
        place: graph.latency.as_ref().map_or(name.span(), Spanned::span),
    })
}

//--- Contents of a graph

impl<'a> Draft<'a> {
    /// A graph of its source alone.
    fn new(
        file: &schema::File,
        (number, name): (usize, &'a Spanned<String>),
        graph: &'a schema::Graph,
    ) -> Result<Self, Mistake> {
        let device = graph.device.as_ref().map(|of| Ok((index_of(&file.devices, "device", of)?, of))).transpose()?;
        let nodes = vec![Node { task: task(file, &graph.source)?, rate: Some(Rate::SOURCE) }];
        let (edges, back, objects) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Draft { number, name, nodes, edges, back, objects, device, device_bytes: 0 })
    }

    /// The node that a task is; a new one if it has not been named before.
    fn node(&mut self, file: &schema::File, of: &Spanned<String>) -> Result<usize, Mistake> {
        let task = task(file, of)?;
        let known = self.nodes.iter().position(|node| node.task == task);
        Ok(known.unwrap_or_else(|| {
            self.nodes.push(Node { task, rate: None });
            self.nodes.len() - 1
        }))
    }

    fn read_edges(&mut self, file: &schema::File, graph: &'a schema::Graph) -> Result<(), Mistake> {
        for (name, edge) in &graph.edges.0 {
            let (from, to) = (self.node(file, &edge.from)?, self.node(file, &edge.to)?);
            self.edges.push((name, Edge { from, to, tokens: tokens(name, edge)? }));
        }
        Ok(())
    }

    /// Objects, and where they are if the graph's device reaches them.
    fn read_objects(
        &mut self,
        file: &schema::File,
        graph: &'a schema::Graph,
        replicas: &Replicas,
    ) -> Result<(), Mistake> {
        for (name, object) in &graph.objects.0 {
            let known = replicas.get(&(self.name.get_ref().clone(), name.get_ref().clone()));
            let mut found = self::object(name, object, known, &mut |of| self.node(file, of))?;
            if let Some(key) = object.on_device.as_ref().filter(|key| *key.get_ref()) {
                if self.device.is_none() {
                    let (of, needs) = (self.name.get_ref().clone(), "a `device`, as it has objects on one");
                    return Err((key.span(), Reason::Needs { what: "graph", of, needs }));
                }
                found.frame = object.bytes.get_ref().0.next_multiple_of(FRAME);
                found.offset = Some(self.device_bytes);
                self.device_bytes += found.frame * u64::from(found.frames());
            }
            self.connect(name, &found, object);
            self.objects.push(found);
        }
        Ok(())
    }

    /// The edges of an object: from its writer to each reader, and back.
    fn connect(&mut self, name: &'a Spanned<String>, found: &Object, object: &schema::GraphObject) {
        let token = |initial| Tokens::new(1, 1, 1, initial).unwrap_or(Tokens::ONE);
        for ((reader, oldest), (_, keys)) in found.readers.iter().zip(&object.readers.0) {
            let newest = keys.delay.as_ref().map_or(0, |delay| *delay.get_ref());
            let edge = Edge { from: found.writer, to: *reader, tokens: token(newest) };
            if !self.edges.iter().any(|(_, known)| *known == edge) {
                self.edges.push((name, edge));
            }
            if found.overwrites {
                continue;
            }
            let edge = Edge { from: *reader, to: found.writer, tokens: token(found.frames() - oldest) };
            // If an edge has several bounds of frames, the fewest count.
            match self.back.iter_mut().find(|(_, known)| (known.from, known.to) == (edge.from, edge.to)) {
                Some((_, known)) if known.tokens.initial() > edge.tokens.initial() => *known = edge,
                Some(_) => {}
                None => self.back.push((name, edge)),
            }
        }
    }

    /// Refuses a graph whose region has the name of another one, that has too many nodes, or whose source is no source.
    fn check(&self, file: &schema::File) -> Result<(), Mistake> {
        let name = self.name;
        if file.regions.0.iter().any(|(region, _)| region.get_ref() == name.get_ref()) {
            return Err((name.span(), Reason::DefinedTwice { kind: "region", name: name.get_ref().clone() }));
        }
        if self.nodes.len() > NODES {
            return Err((name.span(), Reason::TooMany { what: "tasks of one graph", limit: NODES }));
        }
        if let Some((edge, _)) = self.edges.iter().find(|(_, edge)| edge.to == 0) {
            let (what, of, with) = ("an edge to the source", edge.get_ref().clone(), "its release by the clock");
            return Err((edge.span(), Reason::Excludes { what, of, with }));
        }
        Ok(())
    }
}

//--- Entries for nodes

impl Draft<'_> {
    /// Lets all nodes but the source be released by tokens, with the periods that follow from that of the source.
    fn release_nodes(&self, file: &mut schema::File, source: Time) -> Result<(), Mistake> {
        for (number, node) in self.nodes.iter().enumerate().skip(1) {
            let (name, task) = &mut file.tasks.0[node.task];
            let given = [
                ("release", task.release.as_ref().map(Spanned::span)),
                ("period", task.period.as_ref().map(Spanned::span)),
                ("phase", task.phase.as_ref().map(Spanned::span)),
            ];
            if let Some((what, Some(key))) = given.into_iter().find(|(_, key)| key.is_some()) {
                let (of, with) = (name.get_ref().clone(), "its place in a graph");
                return Err((key, Reason::Excludes { what, of, with }));
            }
            let place = self.place(number);
            let rate = node.rate.unwrap_or(Rate::SOURCE);
            task.release = Some(Spanned::new(place.clone(), schema::Release::Sporadic));
            task.period = Some(Spanned::new(place.clone(), Time(rate.period(source.0))));
            task.backlog.get_or_insert(Spanned::new(place, BACKLOG));
            task.is_released_by_tokens = true;
        }
        Ok(())
    }

    /// Gives each node its entries; `address` is where the device reaches objects.
    fn tell_nodes(&self, file: &mut schema::File, address: u64) {
        for (number, node) in self.nodes.iter().enumerate() {
            let place = self.place(number);
            let handles = self.handles(file, number);
            let task = &mut file.tasks.0[node.task].1;
            for (entry, value) in self.parameters(number, address) {
                let value = Spanned::new(place.clone(), value as i64);
                task.parameters.0.push((Spanned::new(place.clone(), entry), value));
            }
            for (entry, text, place) in handles {
                task.handles.0.push((Spanned::new(place.clone(), entry), Spanned::new(place, text)));
            }
        }
    }

    /// The place of the entry that makes a task a node: its first edge, or the graph.
    fn place(&self, node: usize) -> Range<usize> {
        let mut edges = self.edges.iter();
        edges.find(|(_, edge)| edge.to == node || edge.from == node).map_or(self.name.span(), |(name, _)| name.span())
    }

    /// The parameters of a node.
    fn parameters(&self, node: usize, address: u64) -> Vec<(String, u64)> {
        // The numbers of all edges are in range.
        let word = |edge: &Edge| edge.encode().unwrap_or(0);
        let mut parameters = vec![(names::NODE.to_owned(), node as u64)];
        let back = self.back.iter().filter(|(_, edge)| edge.to == node || edge.from == node);
        parameters.extend(back.enumerate().map(|(place, (_, edge))| (format!("{BACK}{place}"), word(edge))));
        let objects = self.objects.iter().filter(|object| object.concerns(node));
        parameters.extend(objects.flat_map(|object| object.parameters(node)));
        if self.has_on_device(node) {
            parameters.push((OBJECTS_AT.to_owned(), address));
        }
        let edges = self.edges.iter().filter(|(_, edge)| edge.to == node || self.edge(node, edge.to).is_some());
        parameters.extend(edges.enumerate().map(|(place, (_, edge))| (format!("{EDGE}{place}"), word(edge))));
        parameters
    }

    /// The handles of a node: to the graph's words, its consumers, the notifications signalled when frames are free, and memory.
    fn handles(&self, file: &schema::File, node: usize) -> Vec<Handle> {
        let (words, own) = (format!("region {}: read", self.name.get_ref()), self.page(node));
        let own = format!("region {own}: read write");
        let mut handles =
            vec![(names::GRAPH.to_owned(), words, self.name.span()), (names::OWN.to_owned(), own, self.name.span())];
        for (consumer, of) in self.nodes.iter().enumerate() {
            if let Some(at) = self.edge(node, consumer) {
                let to = format!("task {}: credit", of.name(file));
                handles.push((format!("{NEXT}{consumer}"), to, at.span()));
            }
        }
        if let Some(at) = self.waits(node) {
            let room = self.room(file, node);
            handles.push((ROOM.to_owned(), format!("notification {room}: wait"), at.span()));
        }
        for (at, edge) in self.back.iter().filter(|(_, edge)| edge.from == node) {
            let room = self.room(file, edge.to);
            handles.push((format!("{ROOM_OF}{}", edge.to), format!("notification {room}: signal"), at.span()));
        }
        handles.extend(self.memory(node));
        handles
    }

    /// A node's handles to objects: to all together that the device reaches, and to each other one.
    fn memory(&self, node: usize) -> Vec<Handle> {
        let graph = self.name.get_ref();
        let mut handles = Vec::new();
        if self.has_on_device(node) {
            handles.push((OBJECTS.to_owned(), format!("region {graph}.{OBJECTS}: read write"), self.name.span()));
        }
        let apart = self.objects.iter().filter(|object| object.offset.is_none() && object.concerns(node));
        handles.extend(apart.map(|object| {
            let rights = if object.writer == node { "read write" } else { "read" };
            (object.name.clone(), format!("region {graph}.{}: {rights}", object.name), object.at.clone())
        }));
        handles
    }

    /// The name of the first edge from one node to another, if there is one.
    fn edge(&self, from: usize, to: usize) -> Option<&Spanned<String>> {
        self.edges.iter().find(|(_, edge)| edge.from == from && edge.to == to).map(|(name, _)| *name)
    }

    /// The first object for whose frames a node may wait.
    fn waits(&self, writer: usize) -> Option<&Spanned<String>> {
        self.back.iter().find(|(_, edge)| edge.to == writer).map(|(name, _)| *name)
    }

    /// The name of the page with the words of a node: no other part of a graph has a name of three parts.
    fn page(&self, node: usize) -> String {
        format!("{}.words.{node}", self.name.get_ref())
    }

    /// The name of the notification by which a writer waits for frames.
    fn room(&self, file: &schema::File, writer: usize) -> String {
        format!("{}.{}", self.name.get_ref(), self.nodes[writer].name(file))
    }

    /// Whether a node writes or reads objects that the device reaches.
    fn has_on_device(&self, node: usize) -> bool {
        self.objects.iter().any(|object| object.offset.is_some() && object.concerns(node))
    }
}

//--- Further objects of a graph

impl Draft<'_> {
    /// The regions of the graph: of its words, of each object that tasks alone reach, and of all others together.
    fn add_regions(&self, file: &mut schema::File, address: u64) -> Result<(), Mistake> {
        let region = |bytes: u64, place: Range<usize>| schema::Region {
            bytes: Some(Spanned::new(place, Bytes(bytes.next_multiple_of(PAGE)))),
            ..schema::Region::default()
        };
        let called = |what: &str, place: Range<usize>| Spanned::new(place, format!("{}.{what}", self.name.get_ref()));
        let pages = words::STRIDE as u64 * self.nodes.len() as u64;
        file.regions.0.push((self.name.clone(), region(pages, self.name.span())));
        for node in 0..self.nodes.len() {
            let start = (words::STRIDE * node) as u64;
            let part_of = Some((self.name.get_ref().clone(), start));
            let page = schema::Region { part_of, ..region(words::STRIDE as u64, self.name.span()) };
            file.regions.0.push((Spanned::new(self.name.span(), self.page(node)), page));
        }
        for object in self.objects.iter().filter(|object| object.offset.is_none()) {
            let bytes = object.frame * u64::from(object.frames());
            file.regions.0.push((called(&object.name, object.at.clone()), region(bytes, object.at.clone())));
        }
        let Some((device, key)) = self.device.filter(|_| self.device_bytes > 0) else { return Ok(()) };
        if self.device_bytes > space::OBJECTS_PAGES * PAGE {
            let what = "pages of objects on a device";
            return Err((key.span(), Reason::TooMany { what, limit: space::OBJECTS_PAGES as usize }));
        }
        file.regions.0.push((called(OBJECTS, key.span()), region(self.device_bytes, key.span())));
        self.tell_driver(file, (device, key), address)
    }

    /// Gives the driver of a device the places of the graph's objects, and the clients that reach them by it.
    fn tell_driver(
        &self,
        file: &mut schema::File,
        (device, key): (usize, &Spanned<String>),
        address: u64,
    ) -> Result<(), Mistake> {
        let driver = file.devices.0[device].1.driver.as_ref();
        let driver = driver.ok_or_else(|| (key.span(), Reason::MissingKey("driver".to_owned())))?;
        let driver = task(file, driver)?;
        let clients = self.nodes.iter().filter(|node| is_client(file, node.task, key));
        let clients: Vec<String> = clients.map(|node| node.name(file).to_owned()).collect();
        let spanned = |text: String| Spanned::new(self.name.span(), text);
        let value = |number: u64| Spanned::new(self.name.span(), number as i64);
        let driver = &mut file.tasks.0[driver].1;
        let region = format!("region {}.{OBJECTS}: physical", self.name.get_ref());
        driver.handles.0.push((spanned(format!("{MEMORY}{}", self.number)), spanned(region)));
        for client in clients {
            driver.parameters.0.push((spanned(format!("{OBJECTS_OF}{client}")), value(self.number as u64)));
        }
        if !driver.parameters.0.iter().any(|(known, _)| known.get_ref() == OBJECTS_AT) {
            driver.parameters.0.push((spanned(OBJECTS_AT.to_owned()), value(address)));
        }
        Ok(())
    }

    /// A notification for each node that may wait for frames.
    fn add_notifications(&self, file: &mut schema::File) {
        for writer in 0..self.nodes.len() {
            if let Some(at) = self.waits(writer) {
                let called = Spanned::new(at.span(), self.room(file, writer));
                file.notifications.0.push((called, schema::Notification::default()));
            }
        }
    }
}

//--- Tasks and devices by their names

fn task(file: &schema::File, name: &Spanned<String>) -> Result<usize, Mistake> {
    index_of(&file.tasks, "task", name)
}

/// The place of the entry with this name.
fn index_of<T>(table: &schema::Named<T>, kind: &'static str, name: &Spanned<String>) -> Result<usize, Mistake> {
    let known = &table.0;
    known.iter().position(|(key, _)| key.get_ref() == name.get_ref()).ok_or_else(|| {
        let choices = known.iter().map(|(key, _)| key.get_ref().clone()).collect();
        (name.span(), Reason::Unknown { kind, name: name.get_ref().clone(), choices })
    })
}

/// Whether a task has an engine of this device.
fn is_client(file: &schema::File, task: usize, device: &Spanned<String>) -> bool {
    let is_of = |engine: &schema::Engine| engine.device.as_ref().is_some_and(|of| of.get_ref() == device.get_ref());
    let engines: Vec<&str> =
        file.engines.0.iter().filter(|(_, engine)| is_of(engine)).map(|(name, _)| name.get_ref().as_str()).collect();
    let named = |handle: &Spanned<String>| {
        object_of(handle.get_ref()).is_some_and(|(kind, name)| kind == "engine" && engines.contains(&name))
    };
    file.tasks.0[task].1.handles.0.iter().any(|(_, handle)| named(handle))
}

//--- Objects and edges by themselves

impl Object {
    /// Whether a node writes or reads it.
    fn concerns(&self, node: usize) -> bool {
        self.writer == node || self.readers.iter().any(|(reader, _)| *reader == node)
    }

    /// The parameters of the object for a node that writes or reads it.
    fn parameters(&self, node: usize) -> impl Iterator<Item = (String, u64)> {
        let back = self.readers.iter().find(|(reader, _)| *reader == node).map_or(0, |(_, back)| *back as u16);
        let overwritten_by = self.overwrites.then_some(self.writer as u16);
        let frames = Frames { count: self.frames(), back, overwritten_by };
        let frames = (format!("{}{FRAMES}", self.name), frames.encode());
        let place = self.offset.map(|offset| {
            // A place that does not fit belongs to an object with too many pages.
            let word = Place { offset, frame: self.frame }.encode().unwrap_or(0);
            (format!("{}{PLACE}", self.name), word)
        });
        once(frames).chain(place)
    }
}

fn object(
    name: &Spanned<String>,
    object: &schema::GraphObject,
    known: Option<&Result<u32, String>>,
    node: &mut impl FnMut(&Spanned<String>) -> Result<usize, Mistake>,
) -> Result<Object, Mistake> {
    let of = || name.get_ref().clone();
    if object.bytes.get_ref().0 == 0 {
        return Err((object.bytes.span(), Reason::Zero { what: "number of bytes", of: of() }));
    }
    if object.readers.0.is_empty() {
        return Err((name.span(), Reason::Needs { what: "object", of: of(), needs: "somebody in `readers`" }));
    }
    let writer = node(&object.writer)?;
    let mut readers = Vec::new();
    for (reader, keys) in &object.readers.0 {
        let reader_node = node(reader)?;
        if reader_node == writer {
            let what = "reader";
            return Err((reader.span(), Reason::Excludes { what, of: of(), with: "being its `writer`" }));
        }
        let delay = number(&keys.delay, "`delay`", name, 0..=MOST)?.unwrap_or(0);
        let history = number(&keys.history, "`history`", name, 0..=MOST)?.unwrap_or(0);
        readers.push((reader_node, delay + history));
    }
    // At first nothing is known, and no node waits: then none does, if there are as many frames as follow from that.
    let needed = match (known, &object.replicas) {
        (None, _) => 1,
        (Some(Ok(needed)), _) => *needed,
        (Some(Err(_)), Some(_)) => u32::MAX,
        // Readers that are late for ever lose frames, however many there are.
        (Some(Err(_)), None) if object.overwrite.as_ref().is_some_and(|key| *key.get_ref()) => 2,
        (Some(Err(why)), None) => return Err((name.span(), Reason::NoReplicas { object: of(), why: why.clone() })),
    };
    let replicas = number(&object.replicas, "`replicas`", name, 1..=MOST)?.unwrap_or(needed);
    let overwrites = object.overwrite.as_ref().is_some_and(|key| *key.get_ref());
    let short = (replicas < needed && !overwrites).then(|| match known {
        Some(Err(why)) => format!("it may wait for a frame of `{}`, as nothing says how many are enough: {why}", of()),
        _ => format!("it may wait for a frame of `{}`, which would need {needed} `replicas`", of()),
    });
    let frame = object.bytes.get_ref().0.next_multiple_of(PAGE);
    Ok(Object { name: of(), writer, readers, replicas, frame, offset: None, overwrites, short, at: name.span() })
}

fn tokens(name: &Spanned<String>, edge: &schema::GraphEdge) -> Result<Tokens, Mistake> {
    let produced = number(&edge.produces, "`produces`", name, 1..=AT_ONCE)?.unwrap_or(1);
    let consumed = number(&edge.consumes, "`consumes`", name, 1..=AT_ONCE)?.unwrap_or(1);
    let threshold = number(&edge.threshold, "`threshold`", name, consumed..=THERE)?.unwrap_or(consumed);
    let initial = number(&edge.initial, "`initial`", name, 0..=THERE)?.unwrap_or(0);
    // All of them are in range.
    Tokens::new(produced, consumed, threshold, initial)
        .map_err(|_| (name.span(), Reason::Zero { what: "number of tokens", of: name.get_ref().clone() }))
}

/// The number in a key of `of`, if it is there.
fn number(
    key: &Option<Spanned<u32>>,
    what: &'static str,
    of: &Spanned<String>,
    range: RangeInclusive<u32>,
) -> Result<Option<u32>, Mistake> {
    match key {
        Some(key) if !range.contains(key.get_ref()) => {
            let (of, from, to) = (of.get_ref().clone(), *range.start(), *range.end());
            Err((key.span(), Reason::OutOfRange { what, of, from, to }))
        }
        key => Ok(key.as_ref().map(|key| *key.get_ref())),
    }
}

//--- Rates

/// The rates of all nodes: of each once those of its producers are known, but for edges with tokens at the start, which are looked at afterwards.
fn rates(
    file: &schema::File,
    name: &Spanned<String>,
    nodes: &mut [Node],
    edges: &[NamedEdge<'_>],
) -> Result<(), Mistake> {
    let rate = |nodes: &[Node], node: usize, of: Vec<&NamedEdge<'_>>| {
        let inputs = of.iter().filter_map(|(_, edge)| Some((nodes[edge.from].rate?, edge.tokens)));
        Rate::of_consumer(inputs).map_err(|error| match error {
            RateError::Uneven(place) => {
                let (edge, task) = (of[place].0, nodes[node].name(file).to_owned());
                (edge.span(), Reason::UnevenEdge { edge: edge.get_ref().clone(), task })
            }
            RateError::NoInput | RateError::TooLarge => {
                let what = "tokens of a graph in a period of its source";
                (name.span(), Reason::TooMany { what, limit: usize::MAX })
            }
        })
    };
    loop {
        let next = (1..nodes.len()).find(|&node| {
            let mut before = edges.iter().filter(|(_, edge)| edge.to == node && edge.tokens.initial() == 0).peekable();
            nodes[node].rate.is_none()
                && before.peek().is_some()
                && before.all(|(_, edge)| nodes[edge.from].rate.is_some())
        });
        let Some(node) = next else { break };
        let of = edges.iter().filter(|(_, edge)| edge.to == node && edge.tokens.initial() == 0).collect();
        nodes[node].rate = Some(rate(nodes, node, of)?);
    }
    if let Some(node) = nodes.iter().position(|node| node.rate.is_none()) {
        let (graph, task) = (name.get_ref().clone(), nodes[node].name(file).to_owned());
        return Err((name.span(), Reason::GraphCycle { graph, task }));
    }
    for node in 1..nodes.len() {
        rate(nodes, node, edges.iter().filter(|(_, edge)| edge.to == node).collect())?;
    }
    Ok(())
}

/// Refuses graphs that come to a stand for want of tokens, or of frames without a reader.
fn goes_on<'a>(
    file: &schema::File,
    name: &Spanned<String>,
    nodes: &[Node],
    edges: impl Iterator<Item = &'a NamedEdge<'a>>,
) -> Result<(), Mistake> {
    let edges: Vec<Edge> = edges.map(|(_, edge)| *edge).collect();
    let rates: Vec<Rate> = nodes.iter().filter_map(|node| node.rate).collect();
    starved(&edges, &rates).map_or(Ok(()), |node| {
        let (graph, task) = (name.get_ref().clone(), nodes[node].name(file).to_owned());
        Err((name.span(), Reason::GraphStarves { graph, task }))
    })
}

fn source_period(file: &schema::File, name: &Spanned<String>, source: usize) -> Result<Time, Mistake> {
    let task = &file.tasks.0[source].1;
    let is_sporadic = task.release.as_ref().is_some_and(|release| *release.get_ref() == schema::Release::Sporadic);
    match &task.period {
        Some(period) if !is_sporadic => Ok(*period.get_ref()),
        _ => {
            let (of, needs) = (name.get_ref().clone(), "a `period`, by which the clock releases it");
            Err((name.span(), Reason::Needs { what: "source", of, needs }))
        }
    }
}
