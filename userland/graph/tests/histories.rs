//! Random graphs, and nodes that end their jobs in every order and beside each other: each consumer is told the jobs for which its tokens suffice.

use std::collections::BTreeSet;

use fusee_graph::{Edge, Tokens, Words, end_job};
use proptest::prelude::*;

/// Words that all see at once.
struct Memory(Vec<u64>);

impl Words for Memory {
    fn ended(&mut self, node: usize) -> u64 {
        self.0[node]
    }

    fn end(&mut self, node: usize, job: u64) {
        self.0[node] = job;
    }

    fn waits(&mut self, _: usize) -> bool {
        false
    }

    fn say_waits(&mut self, _: usize, _: bool) {}
}

/// Nodes are in topological order; edges lead upward, but for those that are full at the start.
#[derive(Clone, Debug)]
struct Graph {
    nodes: usize,
    edges: Vec<Edge>,
}

fn graph() -> impl Strategy<Value = Graph> {
    let edge = (0..7_usize, 0..7_usize, 1..4_u32, 1..4_u32, 0..3_u32, 0..4_u32);
    (2..8_usize, prop::collection::vec(edge, 1..14)).prop_map(|(nodes, drawn)| {
        let edges = drawn.into_iter().filter_map(|(one, other, produced, consumed, more, initial)| {
            let (from, to) = (one % nodes, other % nodes);
            // Back: tokens for some jobs are there.
            let initial = if from < to { initial } else { initial + 3 * (consumed + more) };
            let tokens = Tokens::new(produced, consumed, consumed + more, initial).ok()?;
            (from != to).then_some(Edge { from, to, tokens })
        });
        Graph { nodes, edges: edges.collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, ..ProptestConfig::default() })]

    /// Tokens counted one by one beside it: no job begins without its tokens, and each that has them was told of, once.
    #[test]
    fn each_job_is_told_of_once_when_its_tokens_are_there(graph in graph(), order in prop::collection::vec(0..7_usize, 0..60)) {
        let Graph { nodes, edges } = &graph;
        let is_source = |node: usize| edges.iter().all(|edge| edge.to != node);
        let mut there: Vec<u64> = edges.iter().map(|edge| edge.tokens.initial().into()).collect();
        let mut words = Memory(vec![0; *nodes]);
        let start = |node: usize| edges.iter().filter(|edge| edge.to == node).map(|edge| edge.tokens.enough_for(0)).min();
        let mut told: Vec<u64> = (0..*nodes).map(|node| start(node).unwrap_or(0)).collect();
        let mut begun = vec![0_u64; *nodes];
        for node in order {
            let node = node % nodes;
            if !is_source(node) && begun[node] == told[node] {
                continue;
            }
            // It runs a job: takes tokens, which are there, and puts others.
            begun[node] += 1;
            for (there, edge) in there.iter_mut().zip(edges).filter(|(_, edge)| edge.to == node) {
                prop_assert!(*there >= u64::from(edge.tokens.threshold()), "a job without its tokens");
                *there -= u64::from(edge.tokens.consumed());
            }
            let mut now: Vec<usize> = Vec::new();
            end_job(edges, &mut words, node, begun[node], |consumer, upto| {
                now.push(consumer);
                assert!(upto > told[consumer], "nothing new was told");
                told[consumer] = upto;
            });
            prop_assert_eq!(now.iter().collect::<BTreeSet<_>>().len(), now.len());
            for (there, edge) in there.iter_mut().zip(edges).filter(|(_, edge)| edge.from == node) {
                *there += u64::from(edge.tokens.produced());
            }
            // Each consumer with tokens for one more job has been told of it.
            for consumer in (0..*nodes).filter(|consumer| !is_source(*consumer)) {
                let mut of_consumer = there.iter().zip(edges).filter(|(_, edge)| edge.to == consumer);
                let has_tokens = of_consumer.all(|(there, edge)| *there >= u64::from(edge.tokens.threshold()));
                prop_assert_eq!(has_tokens, told[consumer] > begun[consumer]);
            }
        }
    }
}

//--- Every order of three producers' steps

/// The next step of a producer: its steps are a store and a read of each of the others.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Producer {
    steps: usize,
    /// The words that it has read of the others.
    seen: [u64; 3],
}

/// Words of one producer as it read them, one step each; it ends a step too early where they are not there yet.
struct Recorded<'a> {
    seen: &'a [u64; 3],
}

impl Words for Recorded<'_> {
    fn ended(&mut self, node: usize) -> u64 {
        self.seen[node]
    }

    fn end(&mut self, _: usize, _: u64) {}

    fn waits(&mut self, _: usize) -> bool {
        false
    }

    fn say_waits(&mut self, _: usize, _: bool) {}
}

/// All orders of three producers of one consumer that each end one job: the credit of the consumer in the end, of every order. `reads_first`: a
/// mutant, which reads before it stores.
fn every_order(reads_first: bool) -> BTreeSet<Option<u64>> {
    let edges: Vec<Edge> = (0..3).map(|from| Edge { from, to: 3, tokens: Tokens::ONE }).collect();
    let mut ends = BTreeSet::new();
    let mut seen_states = BTreeSet::new();
    let start = ([0_u64; 3], [Producer { steps: 0, seen: [0; 3] }; 3], None::<u64>);
    let mut left = vec![start];
    while let Some((words, producers, told)) = left.pop() {
        if !seen_states.insert((words, producers, told)) {
            continue;
        }
        if producers.iter().all(|producer| producer.steps == 3) {
            ends.insert(told);
        }
        for who in (0..3).filter(|who| producers[*who].steps < 3) {
            let (mut words, mut producers, mut told) = (words, producers, told);
            let others: Vec<usize> = (0..3).filter(|other| *other != who).collect();
            let producer = &mut producers[who];
            let store_at = if reads_first { 2 } else { 0 };
            if producer.steps == store_at {
                words[who] = 1;
            } else {
                let other = others[producer.steps - usize::from(!reads_first)];
                producer.seen[other] = words[other];
            }
            producer.steps += 1;
            if producer.steps == 3 {
                let mut recorded = Recorded { seen: &producer.seen };
                end_job(&edges, &mut recorded, who, 1, |_, upto| told = told.max(Some(upto)));
            }
            left.push((words, producers, told));
        }
    }
    println!("{} states", seen_states.len());
    ends
}

#[test]
fn whatever_the_order_of_three_producers_the_consumer_is_released() {
    assert_eq!(every_order(false), BTreeSet::from([Some(1)]));
    assert!(every_order(true).contains(&None), "a producer that reads before it stores is found out");
}
