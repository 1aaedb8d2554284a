//! Graphs: `[graphs.NAME]` becomes periods of tasks, handles between them, a region and parameters.
//!
//! All of it happens before names are resolved, so the rest of the crate knows no graphs. What is added stands in the file where the edge does that it comes from. The source keeps
//! its period; the periods of the other nodes follow from the tokens ([`fusee_graph::rate`]). What a node finds in its environment is named in [`fusee_graph::names`].

use std::collections::BTreeMap;
use std::ops::Range;

use fusee_accel_contract::space;
use fusee_graph::names::{
    self, BACK, EDGE, FRAMES, Frames, MEMORY, NEXT, OBJECTS, OBJECTS_AT, OBJECTS_OF, PLACE, Place, ROOM, ROOM_OF,
};
use fusee_graph::{Edge, NODES, Rate, RateError, Tokens, starved};
use toml::Spanned;

use crate::error::Reason;
use crate::layout::PAGE;
use crate::quantity::{Bytes, Time};
use crate::read::Mistake;
use crate::schema;

/// Releases that queue for a node, unless its task says otherwise.
const BACKLOG: u32 = 8;
/// What a job moves at most, and tokens that there may be.
const AT_ONCE: u32 = fusee_graph::edge::AT_ONCE;
const THERE: u32 = fusee_graph::edge::THERE;

/// A graph of tasks.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Its nodes, the source first: indices of tasks, and how often each runs.
    pub nodes: Vec<(usize, Rate)>,
    /// Edges between nodes, by their places.
    pub edges: Vec<Edge>,
    /// From a release of the source until the last job that works on what it brings has ended, at most; that is to be proved.
    pub latency: Option<Time>,
    /// Where that is written.
    pub(super) place: Range<usize>,
    /// What its nodes hand on by memory.
    pub objects: Vec<Object>,
}

/// Memory that a job of one node writes and jobs of others read, so often that they do not wait for each other.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// The place of the node that writes it.
    pub writer: usize,
    /// Those of its readers, and how many jobs before its own each looks back at most.
    pub readers: Vec<(usize, u32)>,
    /// How many jobs of the writer may be under way until all readers have ended that work on the first of them.
    pub replicas: u32,
    /// Bytes of a frame.
    pub frame: u64,
    /// Where it begins among the objects that the graph's device reaches; `None`: tasks alone reach it.
    pub offset: Option<u64>,
    /// Why its writer may have to wait for a frame, if it may.
    pub(crate) short: Option<String>,
    /// Where it is written.
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

/// How many replicas objects need, by graph and object, or why that is not known.
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

/// Makes what each graph says a part of the tasks that it names.
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

/// An edge with its name, or that of its object.
type NamedEdge<'a> = (&'a Spanned<String>, Edge);

fn one(
    file: &mut schema::File,
    (graph_number, name): (usize, &Spanned<String>),
    graph: &schema::Graph,
    replicas: &Replicas,
) -> Result<Graph, Mistake> {
    let device = graph.device.as_ref().map(|of| device(file, of)).transpose()?;
    // Of the objects that it reaches.
    let mut device_bytes = 0;
    let mut nodes = vec![Node { task: task(file, &graph.source)?, rate: Some(Rate::SOURCE) }];
    let mut node = |of: &Spanned<String>| -> Result<usize, Mistake> {
        let task = task(file, of)?;
        let known = nodes.iter().position(|node| node.task == task);
        Ok(known.unwrap_or_else(|| {
            nodes.push(Node { task, rate: None });
            nodes.len() - 1
        }))
    };
    let mut edges: Vec<NamedEdge<'_>> = Vec::new();
    for (edge_name, edge) in &graph.edges.0 {
        let (from, to) = (node(&edge.from)?, node(&edge.to)?);
        edges.push((edge_name, Edge { from, to, tokens: tokens(edge_name, edge)? }));
    }
    let mut objects = Vec::new();
    let mut back: Vec<NamedEdge<'_>> = Vec::new();
    for (object_name, object) in &graph.objects.0 {
        let known = replicas.get(&(name.get_ref().clone(), object_name.get_ref().clone()));
        let mut found = self::object(object_name, object, known, &mut node)?;
        if let Some(key) = object.on_device.as_ref().filter(|key| *key.get_ref()) {
            if device.is_none() {
                let (of, needs) = (name.get_ref().clone(), "a `device`, as it has objects on one");
                return Err((key.span(), Reason::Needs { what: "graph", of, needs }));
            }
            found.frame = object.bytes.get_ref().0.next_multiple_of(FRAME);
            found.offset = Some(device_bytes);
            device_bytes += found.frame * u64::from(found.frames());
        }
        for ((reader, oldest), (_, keys)) in found.readers.iter().zip(&object.readers.0) {
            let newest = keys.delay.as_ref().map_or(0, |delay| *delay.get_ref());
            let token = |initial| Tokens::new(1, 1, 1, initial).unwrap_or(Tokens::ONE);
            let edge = Edge { from: found.writer, to: *reader, tokens: token(newest) };
            if !edges.iter().any(|(_, known)| *known == edge) {
                edges.push((object_name, edge));
            }
            let edge = Edge { from: *reader, to: found.writer, tokens: token(found.frames() - oldest) };
            // Of several frames the fewest.
            match back.iter_mut().find(|(_, known)| (known.from, known.to) == (edge.from, edge.to)) {
                Some((_, known)) if known.tokens.initial() > edge.tokens.initial() => *known = edge,
                Some(_) => {}
                None => back.push((object_name, edge)),
            }
        }
        objects.push(found);
    }
    if file.regions.0.iter().any(|(region, _)| region.get_ref() == name.get_ref()) {
        return Err((name.span(), Reason::DefinedTwice { kind: "region", name: name.get_ref().clone() }));
    }
    if nodes.len() > NODES {
        return Err((name.span(), Reason::TooMany { what: "tasks of one graph", limit: NODES }));
    }
    if let Some((edge, _)) = edges.iter().find(|(_, edge)| edge.to == 0) {
        let (what, of, with) = ("an edge to the source", edge.get_ref().clone(), "its release by the clock");
        return Err((edge.span(), Reason::Excludes { what, of, with }));
    }
    rates(file, name, &mut nodes, &edges)?;
    // Before that is known, nobody waits for a frame.
    let back_known = if replicas.is_empty() { &[] } else { back.as_slice() };
    goes_on(file, name, &nodes, edges.iter().chain(back_known))?;
    let period = source_period(file, &graph.source, nodes[0].task)?;
    let address = space::objects(file.devices.0.len());
    for (number, node) in nodes.iter().enumerate() {
        let (task_name, task) = &mut file.tasks.0[node.task];
        let at = |of: &Spanned<String>| of.span();
        // Its first edge, or the graph.
        let place = edges
            .iter()
            .find(|(_, edge)| edge.to == number || edge.from == number)
            .map_or(name.span(), |(edge, _)| at(edge));
        if number > 0 {
            let given = [
                ("release", task.release.as_ref().map(Spanned::span)),
                ("period", task.period.as_ref().map(Spanned::span)),
                ("phase", task.phase.as_ref().map(Spanned::span)),
            ];
            if let Some((what, Some(key))) = given.into_iter().find(|(_, key)| key.is_some()) {
                let (of, with) = (task_name.get_ref().clone(), "its place in a graph");
                return Err((key, Reason::Excludes { what, of, with }));
            }
            let rate = node.rate.unwrap_or(Rate::SOURCE);
            task.release = Some(Spanned::new(place.clone(), schema::Release::Sporadic));
            task.period = Some(Spanned::new(place.clone(), Time(rate.period(period.0))));
            task.backlog.get_or_insert(Spanned::new(place.clone(), BACKLOG));
        }
        let mut say = |entry: String, value: u64| {
            task.parameters.0.push((Spanned::new(place.clone(), entry), Spanned::new(place.clone(), value as i64)));
        };
        say(names::NODE.to_owned(), number as u64);
        let concerns = back.iter().filter(|(_, edge)| edge.to == number || edge.from == number);
        for (place, (_, edge)) in concerns.enumerate() {
            say(format!("{BACK}{place}"), edge.encode().unwrap_or(0));
        }
        for object in &objects {
            let looks_back = object.readers.iter().find(|(reader, _)| *reader == number).map(|(_, back)| *back);
            if object.writer == number || looks_back.is_some() {
                let frames = Frames { count: object.frames(), back: looks_back.unwrap_or(0) };
                say(format!("{}{FRAMES}", object.name), frames.encode());
                if let Some(offset) = object.offset {
                    // Where it does not fit, there are too many pages.
                    let place = Place { offset, frame: object.frame };
                    say(format!("{}{PLACE}", object.name), place.encode().unwrap_or(0));
                }
            }
        }
        if objects.iter().any(|object| object.offset.is_some() && object.concerns(number)) {
            say(OBJECTS_AT.to_owned(), address);
        }
        let is_next = |consumer: usize| edges.iter().any(|(_, edge)| edge.from == number && edge.to == consumer);
        let concerns = edges.iter().filter(|(_, edge)| edge.to == number || is_next(edge.to));
        for (place, (_, edge)) in concerns.enumerate() {
            // Its numbers are in range.
            say(format!("{EDGE}{place}"), edge.encode().unwrap_or(0));
        }
    }
    for (number, node) in nodes.iter().enumerate() {
        let mut handles =
            vec![(names::GRAPH.to_owned(), format!("region {}: read write", name.get_ref()), name.span())];
        for (consumer, of) in nodes.iter().enumerate() {
            let Some((edge, _)) = edges.iter().find(|(_, edge)| edge.from == number && edge.to == consumer) else {
                continue;
            };
            let to = file.tasks.0[of.task].0.get_ref();
            handles.push((format!("{NEXT}{consumer}"), format!("task {to}: credit"), edge.span()));
        }
        let room = |writer: usize| format!("{}.{}", name.get_ref(), file.tasks.0[nodes[writer].task].0.get_ref());
        if let Some((at, _)) = back.iter().find(|(_, edge)| edge.to == number) {
            handles.push((ROOM.to_owned(), format!("notification {}: wait", room(number)), at.span()));
        }
        for (at, edge) in back.iter().filter(|(_, edge)| edge.from == number) {
            handles.push((
                format!("{ROOM_OF}{}", edge.to),
                format!("notification {}: signal", room(edge.to)),
                at.span(),
            ));
        }
        if objects.iter().any(|object| object.offset.is_some() && object.concerns(number)) {
            let region = format!("region {}.{OBJECTS}: read write", name.get_ref());
            handles.push((OBJECTS.to_owned(), region, name.span()));
        }
        for object in objects.iter().filter(|object| object.offset.is_none()) {
            let rights = match object.readers.iter().any(|(reader, _)| *reader == number) {
                _ if object.writer == number => "read write",
                true => "read",
                false => continue,
            };
            let region = format!("region {}.{}: {rights}", name.get_ref(), object.name);
            handles.push((object.name.clone(), region, object.at.clone()));
        }
        let task = &mut file.tasks.0[node.task].1;
        for (entry, text, place) in handles {
            task.handles.0.push((Spanned::new(place.clone(), entry), Spanned::new(place, text)));
        }
    }
    file.regions.0.push((
        name.clone(),
        schema::Region { bytes: Some(Spanned::new(name.span(), Bytes(4096))), ..schema::Region::default() },
    ));
    let mut region = |called: &str, place: Range<usize>, bytes: u64| {
        let bytes = Some(Spanned::new(place.clone(), Bytes(bytes.next_multiple_of(PAGE))));
        let called = Spanned::new(place, format!("{}.{called}", name.get_ref()));
        file.regions.0.push((called, schema::Region { bytes, ..schema::Region::default() }));
    };
    for object in objects.iter().filter(|object| object.offset.is_none()) {
        region(&object.name, object.at.clone(), object.frame * u64::from(object.frames()));
    }
    if let Some((device, key)) = device.zip(graph.device.as_ref()).filter(|_| device_bytes > 0) {
        if device_bytes > space::OBJECTS_PAGES * PAGE {
            let what = "pages of objects on a device";
            return Err((key.span(), Reason::TooMany { what, limit: space::OBJECTS_PAGES as usize }));
        }
        region(OBJECTS, key.span(), device_bytes);
        let clients: Vec<usize> =
            nodes.iter().map(|node| node.task).filter(|task| is_client(file, *task, key)).collect();
        tell_driver(file, device, (graph_number, name), &clients, address)?;
    }
    for (writer, node) in nodes.iter().enumerate() {
        if let Some((at, _)) = back.iter().find(|(_, edge)| edge.to == writer) {
            let called = format!("{}.{}", name.get_ref(), file.tasks.0[node.task].0.get_ref());
            file.notifications.0.push((Spanned::new(at.span(), called), schema::Notification::default()));
        }
    }
    Ok(Graph {
        objects,
        name: name.get_ref().clone(),
        nodes: nodes.iter().map(|node| (node.task, node.rate.unwrap_or(Rate::SOURCE))).collect(),
        edges: edges.iter().map(|(_, edge)| *edge).collect(),
        latency: graph.latency.as_ref().map(|latency| *latency.get_ref()),
        place: graph.latency.as_ref().map_or(name.span(), Spanned::span),
    })
}

/// Each frame that a device reaches begins at a multiple of so many bytes.
const FRAME: u64 = 64;

impl Object {
    /// Whether a node writes or reads it.
    fn concerns(&self, node: usize) -> bool {
        self.writer == node || self.readers.iter().any(|(reader, _)| *reader == node)
    }
}

fn device(file: &schema::File, name: &Spanned<String>) -> Result<usize, Mistake> {
    let devices = &file.devices.0;
    devices.iter().position(|(device, _)| device.get_ref() == name.get_ref()).ok_or_else(|| {
        let choices = devices.iter().map(|(device, _)| device.get_ref().clone()).collect();
        (name.span(), Reason::Unknown { kind: "device", name: name.get_ref().clone(), choices })
    })
}

/// Whether a task has an engine of this device.
fn is_client(file: &schema::File, task: usize, device: &Spanned<String>) -> bool {
    let is_of = |engine: &schema::Engine| engine.device.as_ref().is_some_and(|of| of.get_ref() == device.get_ref());
    let engines: Vec<&str> =
        file.engines.0.iter().filter(|(_, engine)| is_of(engine)).map(|(name, _)| name.get_ref().as_str()).collect();
    let named = |handle: &Spanned<String>| {
        let name = handle.get_ref().strip_prefix("engine ").and_then(|rest| rest.split(':').next());
        name.is_some_and(|name| engines.contains(&name.trim()))
    };
    file.tasks.0[task].1.handles.0.iter().any(|(_, handle)| named(handle))
}

/// Tells the driver of a device where a graph's objects are, and who reaches them by it.
fn tell_driver(
    file: &mut schema::File,
    device: usize,
    (number, name): (usize, &Spanned<String>),
    clients: &[usize],
    address: u64,
) -> Result<(), Mistake> {
    let driver = task(file, &file.devices.0[device].1.driver)?;
    let names: Vec<String> = clients.iter().map(|task| file.tasks.0[*task].0.get_ref().clone()).collect();
    let spanned = |text: String| Spanned::new(name.span(), text);
    let value = |number: u64| Spanned::new(name.span(), number as i64);
    let driver = &mut file.tasks.0[driver].1;
    let region = format!("region {}.{OBJECTS}: physical", name.get_ref());
    driver.handles.0.push((spanned(format!("{MEMORY}{number}")), spanned(region)));
    for client in names {
        driver.parameters.0.push((spanned(format!("{OBJECTS_OF}{client}")), value(number as u64)));
    }
    if !driver.parameters.0.iter().any(|(known, _)| known.get_ref() == OBJECTS_AT) {
        driver.parameters.0.push((spanned(OBJECTS_AT.to_owned()), value(address)));
    }
    Ok(())
}

/// Jobs that a reader looks back at most, and replicas.
const MOST: u32 = 64;

fn object(
    name: &Spanned<String>,
    object: &schema::GraphObject,
    known: Option<&Result<u32, String>>,
    node: &mut impl FnMut(&Spanned<String>) -> Result<usize, Mistake>,
) -> Result<Object, Mistake> {
    let of = || name.get_ref().clone();
    let number = |key: &Option<Spanned<u32>>, what, from, without| match key {
        None => Ok(without),
        Some(key) if (from..=MOST).contains(key.get_ref()) => Ok(*key.get_ref()),
        Some(key) => Err((key.span(), Reason::OutOfRange { what, of: of(), from, to: MOST })),
    };
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
        let delay = number(&keys.delay, "`delay`", 0, 0)?;
        readers.push((reader_node, delay + number(&keys.history, "`history`", 0, 0)?));
    }
    // At first nothing is known, and nobody waits: then nobody does, if there are as many as follow from that.
    let needed = match (known, &object.replicas) {
        (None, _) => 1,
        (Some(Ok(needed)), _) => *needed,
        (Some(Err(_)), Some(_)) => u32::MAX,
        (Some(Err(why)), None) => return Err((name.span(), Reason::NoReplicas { object: of(), why: why.clone() })),
    };
    let replicas = number(&object.replicas, "`replicas`", 1, needed)?;
    let short = (replicas < needed).then(|| match known {
        Some(Err(why)) => format!("it may wait for a frame of `{}`, as nothing says how many are enough: {why}", of()),
        _ => format!("it may wait for a frame of `{}`, which would need {needed} `replicas`", of()),
    });
    let frame = object.bytes.get_ref().0.next_multiple_of(PAGE);
    Ok(Object { name: of(), writer, readers, replicas, frame, offset: None, short, at: name.span() })
}

fn task(file: &schema::File, name: &Spanned<String>) -> Result<usize, Mistake> {
    let tasks = &file.tasks.0;
    tasks.iter().position(|(task, _)| task.get_ref() == name.get_ref()).ok_or_else(|| {
        let choices = tasks.iter().map(|(task, _)| task.get_ref().clone()).collect();
        (name.span(), Reason::Unknown { kind: "task", name: name.get_ref().clone(), choices })
    })
}

fn tokens(name: &Spanned<String>, edge: &schema::GraphEdge) -> Result<Tokens, Mistake> {
    let of = || name.get_ref().clone();
    let number = |key: &Option<Spanned<u32>>, what, from, to, without| match key {
        None => Ok(without),
        Some(key) if (from..=to).contains(key.get_ref()) => Ok(*key.get_ref()),
        Some(key) => Err((key.span(), Reason::OutOfRange { what, of: of(), from, to })),
    };
    let produced = number(&edge.produces, "`produces`", 1, AT_ONCE, 1)?;
    let consumed = number(&edge.consumes, "`consumes`", 1, AT_ONCE, 1)?;
    let threshold = number(&edge.threshold, "`threshold`", consumed, THERE, consumed)?;
    let initial = number(&edge.initial, "`initial`", 0, THERE, 0)?;
    // All of them are in range.
    Tokens::new(produced, consumed, threshold, initial)
        .map_err(|_| (name.span(), Reason::Zero { what: "number of tokens", of: of() }))
}

/// The rates of all nodes: of each once those of its producers are known, but for edges with tokens at the start, which are looked at afterwards.
fn rates(
    file: &schema::File,
    name: &Spanned<String>,
    nodes: &mut [Node],
    edges: &[NamedEdge<'_>],
) -> Result<(), Mistake> {
    let task_of = |nodes: &[Node], node: usize| file.tasks.0[nodes[node].task].0.get_ref().clone();
    let mistake = |nodes: &[Node], node: usize, of: &[&NamedEdge<'_>], error| match error {
        RateError::Uneven(place) => {
            let (edge, _) = of[place];
            (edge.span(), Reason::UnevenEdge { edge: edge.get_ref().clone(), task: task_of(nodes, node) })
        }
        RateError::NoInput | RateError::TooLarge => {
            (name.span(), Reason::TooMany { what: "tokens of a graph in a period of its source", limit: usize::MAX })
        }
    };
    loop {
        let next = (1..nodes.len()).find(|&node| {
            let mut before = edges.iter().filter(|(_, edge)| edge.to == node && edge.tokens.initial() == 0).peekable();
            nodes[node].rate.is_none()
                && before.peek().is_some()
                && before.all(|(_, edge)| nodes[edge.from].rate.is_some())
        });
        let Some(node) = next else { break };
        let of: Vec<_> = edges.iter().filter(|(_, edge)| edge.to == node && edge.tokens.initial() == 0).collect();
        let inputs = of.iter().filter_map(|(_, edge)| Some((nodes[edge.from].rate?, edge.tokens)));
        nodes[node].rate = Some(Rate::of_consumer(inputs).map_err(|error| mistake(nodes, node, &of, error))?);
    }
    if let Some(node) = nodes.iter().position(|node| node.rate.is_none()) {
        let (graph, task) = (name.get_ref().clone(), task_of(nodes, node));
        return Err((name.span(), Reason::GraphCycle { graph, task }));
    }
    for node in 1..nodes.len() {
        let of: Vec<_> = edges.iter().filter(|(_, edge)| edge.to == node).collect();
        let inputs = of.iter().filter_map(|(_, edge)| Some((nodes[edge.from].rate?, edge.tokens)));
        Rate::of_consumer(inputs).map_err(|error| mistake(nodes, node, &of, error))?;
    }
    Ok(())
}

/// Refuses what comes to a stand for want of tokens, or of frames that nobody reads.
fn goes_on<'a>(
    file: &schema::File,
    name: &Spanned<String>,
    nodes: &[Node],
    edges: impl Iterator<Item = &'a NamedEdge<'a>>,
) -> Result<(), Mistake> {
    let edges: Vec<Edge> = edges.map(|(_, edge)| *edge).collect();
    let rates: Vec<Rate> = nodes.iter().filter_map(|node| node.rate).collect();
    starved(&edges, &rates).map_or(Ok(()), |node| {
        let (graph, task) = (name.get_ref().clone(), file.tasks.0[nodes[node].task].0.get_ref().clone());
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
