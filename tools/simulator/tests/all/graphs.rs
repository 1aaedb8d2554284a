//! Random graphs of scripted tasks on several CPUs: each node's jobs are released when their last token comes, or a period after the one before, and each once; where nodes begin early, jobs that end before their releases are not released.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Record};
use fusee_graph::{Edge, Rate, Tokens, starved};
use fusee_simulator::{Options, Overheads, simulate_observed};
use proptest::prelude::*;

use super::common::{MS, Run, run_for};

/// A graph, and the computing of its nodes.
#[derive(Clone, Debug)]
struct Graph {
    cpus: u32,
    /// Period of the source, microseconds.
    period_us: u64,
    /// CPU, and permille of its period that a job computes for.
    nodes: Vec<(u32, u64)>,
    edges: Vec<Edge>,
    rates: Vec<Rate>,
    objects: Vec<Object>,
    /// A task on CPU 0 that comes before all nodes there, so long in each 100 ms.
    hog_us: u64,
    /// By EDF, in place of fixed priorities; then nodes begin early, but for those of which a bit is set here.
    by_deadline: Option<u8>,
}

/// An object with one reader, and frames by hand.
#[derive(Clone, Copy, Debug)]
struct Object {
    writer: usize,
    reader: usize,
    delay: u32,
    history: u32,
    replicas: u32,
}

impl Object {
    /// Frames of memory.
    fn frames(&self) -> u64 {
        u64::from(self.replicas + self.delay + self.history)
    }

    /// By which its reader's jobs need those of the writer.
    fn edge(&self) -> Edge {
        Edge { from: self.writer, to: self.reader, tokens: Tokens::new(1, 1, 1, self.delay).unwrap() }
    }

    /// By which its writer's jobs need those of the reader.
    fn back(&self) -> Edge {
        let ahead = self.replicas;
        Edge { from: self.reader, to: self.writer, tokens: Tokens::new(1, 1, 1, ahead).unwrap() }
    }
}

/// Tokens for an edge between nodes of these rates, by which neither runs away from the other.
fn matching(from: Rate, to: Rate, more: u32, initial: u32) -> Option<Tokens> {
    let [put, taken] = from.tokens_to(to)?;
    Tokens::new(put, taken, taken + more, initial * (put + taken + more)).ok()
}

fn graph() -> impl Strategy<Value = Graph> {
    let node = (0..3_u32, 1..250_u64, 0..8_usize, 1..4_u32, 1..4_u32, 0..3_u32);
    let further = prop::collection::vec((0..8_usize, 0..8_usize, 0..3_u32), 0..5);
    let object = (0..8_usize, 0..8_usize, 0..2_u32, 0..2_u32, 1..4_u32);
    let objects = prop::collection::vec(object, 0..4);
    let nodes = prop::collection::vec(node, 2..8);
    let all = (2..4_u32, 8_000..30_000_u64, nodes, further, objects, 0..60_000_u64, prop::option::of(any::<u8>()));
    all.prop_filter_map(
        "a token too many",
        |(cpus, period_us, mut drawn, further, drawn_objects, hog_us, by_deadline)| {
            let mut rates = vec![Rate::SOURCE];
            let mut edges = Vec::new();
            for number in 1..drawn.len() {
                let (_, _, from, put, taken, more) = drawn[number];
                let from = from % number;
                if by_deadline.is_some() {
                    // A consumer on the CPU of its producer might preempt that.
                    drawn[number].0 = drawn[from].0 + 1 + drawn[number].0 % (cpus - 1);
                }
                let tokens = Tokens::new(put, taken, taken + more, 0).ok()?;
                rates.push(Rate::of_consumer([(rates[from], tokens)].into_iter()).ok()?);
                edges.push(Edge { from, to: number, tokens });
            }
            for (one, other, more) in further {
                let (from, to) = (one % drawn.len(), other % drawn.len());
                // Back: tokens for some jobs are there.
                let tokens = matching(rates[from], rates[to], more, if from < to { 0 } else { 3 })?;
                // A consumer that preempts its producer runs between the end of that one's work and of its job, which a trace shows: not here.
                let preempts = (to < from || by_deadline.is_some()) && drawn[from].0 % cpus == drawn[to].0 % cpus;
                let fits = Edge { from, to, tokens }.encode().is_some();
                if from != to && to != 0 && !preempts && fits {
                    edges.push(Edge { from, to, tokens });
                }
            }
            // Several rates on a cycle may need more tokens than those: such a graph is refused.
            starved(&edges, &rates).is_none().then_some(())?;
            let mut objects: Vec<Object> = Vec::new();
            for (one, other, delay, history, replicas) in drawn_objects {
                let (writer, reader) = (one % drawn.len(), other % drawn.len());
                let object = Object { writer, reader, delay, history, replicas };
                // On one CPU a task that is told may run before the other's job has ended, which a trace shows.
                let apart = drawn[writer].0 % cpus != drawn[reader].0 % cpus;
                if writer < reader && rates[writer] == rates[reader] && apart {
                    let mut waits: Vec<Edge> = objects.iter().chain([&object]).map(Object::back).collect();
                    waits.extend(edges.iter().copied().chain([object.edge()]));
                    if starved(&waits, &rates).is_none() {
                        edges.push(object.edge());
                        objects.push(object);
                    }
                }
            }
            let nodes = drawn.iter().map(|&(cpu, permille, ..)| (cpu % cpus, permille)).collect();
            Some(Graph { cpus, period_us, nodes, edges, rates, objects, hog_us, by_deadline })
        },
    )
}

impl Graph {
    fn period(&self, node: usize) -> u64 {
        self.rates[node].period(self.period_us * 1_000)
    }

    /// Whether jobs of a node may begin before their releases.
    fn begins_early(&self, node: usize) -> bool {
        node != 0 && self.by_deadline.is_some_and(|late| late >> node & 1 == 0)
    }

    fn text(&self) -> String {
        let Graph { cpus, .. } = self;
        let policy = if self.by_deadline.is_some() { "EDF" } else { "FP" };
        let mut text = format!(
            "[system]\nname = \"graph\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"10ms\"\nadmission = \"warn\"\npolicy = \"{policy}\"\n"
        );
        for cpu in 0..*cpus {
            write!(text, "[clusters.c{cpu}]\ncpus = [{cpu}]\n").unwrap();
        }
        if self.hog_us > 100 {
            let hog = self.hog_us;
            write!(text, "[tasks.hog]\nscript = [\"burn {hog}us\"]\ncluster = \"c0\"\nperiod = \"100ms\"\nphase = \"7ms\"\nbudget = \"61ms\"\npriority = 1\n").unwrap();
        }
        for (number, (cpu, permille)) in self.nodes.iter().enumerate() {
            let period = self.period(number);
            let burn = (period * permille / 1_000).max(1);
            let budget = (burn + 1).max(40_000).min(period);
            write!(text, "[tasks.n{number}]\nscript = [\"burn {burn}ns\"]\ncluster = \"c{cpu}\"\nbudget = \"{budget}ns\"\nbacklog = 200\npriority = {}\n", number + 2).unwrap();
            if number == 0 {
                writeln!(text, "period = \"{}us\"", self.period_us).unwrap();
            } else if self.by_deadline.is_some() && !self.begins_early(number) {
                writeln!(text, "early = false").unwrap();
            }
        }
        text += "[graphs.graph]\nsource = \"n0\"\n";
        for (place, Object { writer, reader, delay, history, replicas }) in self.objects.iter().enumerate() {
            write!(text, "[graphs.graph.objects.o{place}]\nwriter = \"n{writer}\"\nbytes = \"4KiB\"\nreplicas = {replicas}\nreaders = {{ n{reader} = {{ delay = {delay}, history = {history} }} }}\n").unwrap();
        }
        let written = self.edges.len() - self.objects.len();
        for (place, Edge { from, to, tokens }) in self.edges[..written].iter().enumerate() {
            let (put, taken, threshold, initial) =
                (tokens.produced(), tokens.consumed(), tokens.threshold(), tokens.initial());
            write!(text, "[graphs.graph.edges.e{place}]\nfrom = \"n{from}\"\nto = \"n{to}\"\nproduces = {put}\nconsumes = {taken}\nthreshold = {threshold}\ninitial = {initial}\n").unwrap();
        }
        text
    }
}

/// When the jobs of a node ended, and when they were released: that is completion, less lateness, less the deadline.
fn jobs(run: &Run, graph: &Graph, node: usize) -> Vec<(u64, u64)> {
    let deadline = graph.period(node);
    let job = |record: &Record| (record.time, record.time.wrapping_sub(record.lateness() as u64) - deadline);
    run.events(Event::Complete, &format!("n{node}")).map(job).collect()
}

/// Jobs of random graphs that ended before their releases.
static EARLY: AtomicU32 = AtomicU32::new(0);

/// Where jobs begin early, a job that ends before its release leaves that to the next.
#[test]
fn a_node_is_released_by_its_last_token_or_a_period_after_its_last_job() {
    drawn_nodes_are_released_by_their_last_tokens();
    let early = EARLY.load(Ordering::Relaxed);
    println!("{early} jobs ended before their releases");
    assert!(early > 1_000, "{early}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    fn drawn_nodes_are_released_by_their_last_tokens(graph in graph()) {
        let run = run_for(&graph.text(), Overheads::NONE, 500 * MS, &[]);
        let mut early = 0_u32;
        let all: Vec<Vec<(u64, u64)>> = (0..graph.nodes.len()).map(|node| jobs(&run, &graph, node)).collect();
        for node in 1..graph.nodes.len() {
            let (mut last, mut last_but) = (None, None);
            for (job, &(end, release)) in (1..).zip(&all[node]) {
                let mut token = 0;
                for edge in graph.edges.iter().filter(|edge| edge.to == node) {
                    match edge.tokens.jobs_before(job) {
                        0 => {}
                        before => {
                            let ended = all[edge.from].get(before as usize - 1);
                            prop_assert!(ended.is_some(), "job {job} of node {node} has no tokens");
                            token = token.max(ended.unwrap().0);
                        }
                    }
                }
                let expected = last.map_or(token, |last: u64| token.max(last + graph.period(node)));
                // Tokens that are there at the start: said when the producers begin, and jobs come from the start of the system on.
                let least = release.min(10 * MS);
                let expected = expected.max(least);
                // A job that ends at the instant of its release has been released, or not.
                let is_given_back = |end: u64, release: u64| graph.begins_early(node) && end == release;
                let other = last_but.map_or(expected, |last: u64| expected.min(last.max(token)).max(least));
                prop_assert!(release == expected || release == other, "job {job} of node {node}: {release}, expected {expected}");
                if graph.begins_early(node) && end < release {
                    early += 1;
                    // It has not been released: the next may be where it was.
                    last = Some(release - graph.period(node));
                } else {
                    last = Some(release);
                }
                last_but = is_given_back(end, release).then_some(release);
                prop_assert!(graph.begins_early(node) || end > release);
            }
            prop_assert_eq!(run.events(Event::Skip, &format!("n{node}")).count(), 0);
        }
        prop_assert!(all[0].len() >= 2);
        EARLY.fetch_add(early, Ordering::Relaxed);
        // A job of a writer computes once no reader is at the former contents of its frame.
        for object in &graph.objects {
            let burn = (graph.period(object.writer) * graph.nodes[object.writer].1 / 1_000).max(1);
            let oldest = (object.delay + object.history) as usize;
            for (job, &(end, _)) in (1..).zip(&all[object.writer]) {
                if let Some(read) = (job + oldest).checked_sub(object.frames() as usize + 1) {
                    let ended = all[object.reader].get(read);
                    prop_assert!(ended.is_some_and(|(ended, _)| *ended + burn <= end), "job {job} of {object:?} writes to what is read");
                }
            }
        }
    }
}

/// A producer with three consumers on another CPU, and a task before it that comes at all instants of its job, one after the other.
const FORK: &str = r#"
[system]
name = "fork"
board = "virt"
cpus = 2
start = "10ms"
policy = "FP"

[clusters.first]
cpus = [0]

[clusters.second]
cpus = [1]

[tasks.hog]
script = ["burn 3ms"]
cluster = "first"
period = "10000500ns"
budget = "3500us"
priority = 1

[tasks.producer]
script = ["burn 2ms"]
cluster = "first"
period = "10ms"
budget = "3ms"
priority = 2

[tasks.consumer]
copies = 3
script = ["burn 500us"]
cluster = "second"
budget = "1ms"
priority = 3

[graphs.fork]
source = "producer"

[graphs.fork.edges]
first = { from = "producer", to = "consumer1" }
second = { from = "producer", to = "consumer2" }
third = { from = "producer", to = "consumer3" }
"#;

/// Between the first of its consumers' tokens and the last a producer computes nothing, but makes calls; and there it is preempted as anywhere else. That is so rarely that it is not boosted
/// meanwhile: the other CPU would be idle for less than a five-thousandth of its time because of it, if a task of 3 ms came in each of the producer's jobs.
#[test]
fn producers_are_preempted_between_their_tokens_too_rarely_to_be_boosted() {
    let manifest = super::common::parse(FORK);
    let producer = manifest.system.tasks.iter().position(|task| task.name == "producer").unwrap() as u16 + 1;
    let mut calls = Vec::new();
    let options = Options { overheads: Overheads::ROUND, ..Options::default() };
    simulate_observed(&manifest, &options, 201_000 * MS, &mut |record| {
        if record.event == Event::Trap as u8 && record.thread == producer && record.job == Call::ReleaseJob as u32 {
            calls.push(record.time);
        }
    })
    .unwrap();
    let gaps: Vec<u64> = calls.chunks_exact(3).map(|tokens| tokens[2] - tokens[0]).collect();
    let preempted: Vec<u64> = gaps.iter().copied().filter(|gap| *gap > MS).collect();
    let shortest = gaps.iter().min().copied().unwrap_or(0);
    let idle: u64 = preempted.iter().map(|gap| gap - shortest).sum();
    let parts = 201_000 * MS / idle.max(1);
    println!(
        "{} jobs, tokens {shortest} ns apart, {} preempted in between, a {parts}th of the time",
        gaps.len(),
        preempted.len()
    );
    assert!(gaps.len() > 19_000 && !preempted.is_empty() && preempted.iter().all(|gap| *gap < 4 * MS));
    assert!(parts > 5_000, "a {parts}th");
}

/// A graph of two nodes on one CPU, and a task of 15 ms that comes before its first frame.
const LATE: &str = r#"
[system]
name = "late"
board = "virt"
cpus = 1
start = "10ms"

[tasks.source]
script = ["burn 1ms"]
period = "20ms"
budget = "2ms"

[tasks.sink]
script = ["burn 1ms"]
budget = "2ms"

[tasks.once]
script = ["burn 15ms"]
period = "100s"
deadline = "16ms"
budget = "16ms"

[graphs.video]
source = "source"

[graphs.video.edges]
pictures = { from = "source", to = "sink" }
"#;

/// When the jobs of `task` end, in milliseconds from the start of the system on, and how late they are.
fn ends(run: &Run, task: &str) -> Vec<(u64, i64)> {
    let end = |record: &Record| ((record.time - 10 * MS) / MS, record.lateness() / MS as i64);
    run.events(Event::Complete, task).map(end).collect()
}

#[test]
fn a_graph_that_was_late_is_back_with_its_second_frame_if_its_nodes_begin_early() {
    let run = run_for(LATE, Overheads::NONE, 2_010 * MS, &[]);
    let frames = ends(&run, "sink");
    // The second job has the deadline of its release, which is a period after the first; the third has been released by its own token.
    assert_eq!(frames[..3], [(17, -19), (22, -34), (42, -19)]);
    let all: Vec<u64> = frames.iter().map(|(end, _)| *end).collect();
    assert_eq!(all[1..], (1..100).map(|frame| 20 * frame + 2).collect::<Vec<_>>());

    let text = LATE.replace("[tasks.sink]", "[tasks.sink]\nearly = false");
    let run = run_for(&text, Overheads::NONE, 2_010 * MS, &[]);
    let all: Vec<u64> = ends(&run, "sink").iter().map(|(end, _)| *end).collect();
    assert_eq!(all, (0..100).map(|frame| 20 * frame + 17).collect::<Vec<_>>());
}

#[test]
fn an_early_job_waits_for_all_real_time_jobs_and_goes_on_as_one_of_them_from_its_release() {
    let other = "[tasks.other]\nscript = [\"burn 5ms\"]\nperiod = \"40ms\"\nphase = \"22ms\"\nbudget = \"6ms\"\n";
    let urgent = "[tasks.urgent]\nscript = [\"burn 1ms\"]\nperiod = \"100ms\"\nphase = \"37ms\"\ndeadline = \"30ms\"\nbudget = \"2ms\"\n";
    let text = LATE.replace("[graphs.video]", &format!("{other}{urgent}[graphs.video]"));
    let text = text.replace(
        "[tasks.sink]\nscript = [\"burn 1ms\"]\nbudget = \"2ms\"",
        "[tasks.sink]\nscript = [\"burn 8ms\"]\nbudget = \"9ms\"",
    );
    let run = run_for(&text, Overheads::NONE, 85 * MS, &[]);
    // The second job of the sink has its token at 25 and its release at 36. It waits for `other`, which has a later deadline, and has 2 of 8 ms left
    // at its release. From then on `urgent`, which has a later one, too, waits for it. The third is early and ends before its release at 56; so the
    // fourth is released by its token.
    assert_eq!(ends(&run, "other"), [(30, -32), (74, -28)]);
    assert_eq!(ends(&run, "urgent"), [(39, -28)]);
    assert_eq!(ends(&run, "sink"), [(24, -12), (38, -18), (49, -27), (69, -12)]);
}
