//! The files, read by readers that follow the sources of the tools, and published examples of the formats, by the same readers.

use std::collections::BTreeMap;

use fusee_exchange::{Cluster, Export, Format, Note, Policy, Release, System, Task, Unable, Use, export};
use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;

fn task(name: &str, (execution, period, deadline): (u64, u64, u64)) -> Task {
    Task {
        name: name.to_owned(),
        execution,
        expected: execution,
        period,
        deadline,
        priority: 1,
        release: Release::Periodic { phase: 0 },
        suspends: 0,
        uses: Vec::new(),
    }
}

fn one_cluster(cpus: u32, policy: Policy, tasks: Vec<Task>) -> System {
    System { name: "drawn".into(), clusters: vec![Cluster { name: "c0".into(), cpus, policy, tasks }] }
}

fn only(export: &Export) -> &str {
    let [(_, text)] = &export.files[..] else { panic!("{:?}", export.files) };
    text
}

//--- SchedCAT

/// A task as `parse_task` reads it, with the requirements of `parse_resmodel`.
#[derive(Debug, Default, Eq, PartialEq)]
struct CatTask {
    id: u64,
    cost: u64,
    period: u64,
    deadline: u64,
    partition: Option<u64>,
    /// Resource, writes, length of each.
    requirements: Vec<(u64, u64, u64)>,
}

/// Reads a task set as `load` does: the root is `taskset`, all its `task` children count, and other elements do not.
fn schedcat(text: &str) -> Vec<CatTask> {
    let mut reader = Reader::from_str(text);
    let (mut path, mut tasks): (Vec<String>, Vec<CatTask>) = (Vec::new(), Vec::new());
    loop {
        let event = reader.read_event().unwrap();
        match &event {
            Event::Start(tag) | Event::Empty(tag) => {
                let name = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
                let value = |attribute: &str| {
                    let found = tag.try_get_attribute(attribute).unwrap()?;
                    Some(std::str::from_utf8(&found.value).unwrap().parse::<f64>().unwrap() as u64)
                };
                match (path.last().map(String::as_str), name.as_str()) {
                    (None, root) => assert_eq!(root, "taskset"),
                    (Some("taskset"), "task") => {
                        let period = value("period").unwrap();
                        tasks.push(CatTask {
                            id: value("id").unwrap_or(0),
                            cost: value("wcet").unwrap(),
                            period,
                            deadline: value("deadline").unwrap_or(period),
                            partition: value("partition"),
                            requirements: Vec::new(),
                        });
                    }
                    (Some("resources"), "requirement") => {
                        let all = ["res_id", "max_writes", "max_write_length"].map(|name| value(name).unwrap());
                        assert_eq!(value("max_reads"), Some(0));
                        tasks.last_mut().unwrap().requirements.push((all[0], all[1], all[2]));
                    }
                    _ => {}
                }
                if matches!(event, Event::Start(_)) {
                    path.push(name);
                }
            }
            Event::End(_) => drop(path.pop()),
            Event::Eof => return tasks,
            _ => {}
        }
    }
}

/// The element that `task` of the serialiser writes for a task of 10 each 100 with a deadline of 75: attributes in this order.
#[test]
fn a_task_set_as_schedcat_writes_it_is_read() {
    let text = "<taskset><properties utilization=\"0.1\" utilization_q=\"1/10\" density_q=\"2/15\" density=\"0.13\" \
                count=\"1\" hyperperiod=\"100\" /><task id=\"1\" period=\"100\" wcet=\"10\" deadline=\"75\"><resources>\
                <requirement res_id=\"4\" max_reads=\"0\" max_writes=\"2\" max_read_length=\"0\" max_write_length=\"3\" />\
                </resources></task></taskset>";
    let requirements = vec![(4, 2, 3)];
    let found = CatTask { id: 1, cost: 10, period: 100, deadline: 75, partition: None, requirements };
    assert_eq!(schedcat(text), [found]);
}

//--- The schedule-abstraction graph

/// The rows of a job set, as `parse_csv_job_file` reads them: after the first line eight fields each, with commas and spaces between.
fn sag(text: &str) -> Vec<[f64; 8]> {
    let row = |line: &str| {
        let fields: Vec<f64> =
            line.split([',', ' ']).filter(|field| !field.is_empty()).map(|f| f.parse().unwrap()).collect();
        <[f64; 8]>::try_from(&fields[..8]).unwrap()
    };
    text.lines().skip(1).map(row).collect()
}

/// The table of the tool's own test of its parser (`src/tests/io.cpp`).
#[test]
fn the_job_set_of_the_tools_own_test_is_read() {
    let rows = [(0.0, 10.0, 10_000.0), (10_000.0, 10_010.0, 20_000.0), (20_000.0, 20_010.0, 30_000.0)];
    let mut text = "   Task ID,     Job ID,          Arrival min,          Arrival max,\n".to_owned();
    for (number, (from, to, deadline)) in rows.iter().enumerate() {
        text += &format!("  920,   {},   {from:.1},  {to:.1},   23.2,   838.6,  {deadline:.1},   1\n", number + 1);
    }
    let jobs = sag(&text);
    assert_eq!(jobs.len(), 3);
    for (number, (job, row)) in jobs.iter().zip(rows).enumerate() {
        assert_eq!(*job, [920.0, number as f64 + 1.0, row.0, row.1, 23.2, 838.6, row.2, 1.0]);
    }
}

#[test]
fn jobs_of_a_hyperperiod_are_written_and_no_more() {
    let mut tasks = vec![task("a", (2, 4, 4)), task("b", (3, 6, 5))];
    tasks[1].release = Release::Periodic { phase: 1 };
    let found = export(&one_cluster(2, Policy::Edf, tasks.clone()), Format::Sag).unwrap();
    let jobs = sag(only(&found));
    let releases: Vec<(f64, f64, f64)> = jobs.iter().map(|job| (job[0], job[2], job[7])).collect();
    // Until 12 + 1.
    let first = [(1.0, 0.0, 4.0), (1.0, 4.0, 8.0), (1.0, 8.0, 12.0), (1.0, 12.0, 16.0)];
    assert_eq!(releases, [&first[..], &[(2.0, 1.0, 6.0), (2.0, 7.0, 12.0)]].concat());
    assert!(found.notes.contains(&Note::Preemption { cluster: "c0".into() }));
    tasks[0].release = Release::Sporadic;
    let found = export(&one_cluster(2, Policy::Fl, tasks.clone()), Format::Sag).unwrap();
    assert!(found.notes.contains(&Note::Sporadic { task: "a".into() }));
    tasks[0].period = 1_000_003;
    tasks[1].period = 999_983;
    let found = export(&one_cluster(2, Policy::Edf, tasks), Format::Sag);
    assert_eq!(found, Err(Unable::TooManyJobs { cluster: "c0".into(), most: 100_000 }));
}

//--- MAST

/// A value of a model: a word, or a list of values, each with its name if it has one.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Value {
    Word(String),
    List(Vec<(Option<String>, Value)>),
}

impl Value {
    fn get(&self, name: &str) -> &Value {
        let Value::List(all) = self else { panic!("{self:?}") };
        let found = all.iter().find(|(of, _)| of.as_ref().is_some_and(|of| of.eq_ignore_ascii_case(name)));
        &found.unwrap_or_else(|| panic!("no {name} in {self:?}")).1
    }

    fn word(&self, name: &str) -> &str {
        let Value::Word(word) = self.get(name) else { panic!("{name}") };
        word
    }

    fn first(&self) -> &Value {
        let Value::List(all) = self else { panic!("{self:?}") };
        &all[0].1
    }
}

/// The elements of a model, each with its kind. The tokens are those of the tool's scanner: parentheses, arrow, comma, semicolon, and words.
fn mast(text: &str) -> Vec<(String, Value)> {
    let text: String = text.lines().map(|line| line.split("--").next().unwrap_or("").to_owned() + "\n").collect();
    let mut tokens: Vec<String> = Vec::new();
    for word in text.replace("=>", " => ").split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let end = rest.find(['(', ')', ',', ';']).unwrap_or(rest.len()).max(1);
            tokens.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
    }
    let mut tokens = tokens.into_iter().peekable();
    let mut elements = Vec::new();
    while let Some(kind) = tokens.next() {
        elements.push((kind, value(&mut tokens)));
        assert_eq!(tokens.next().as_deref(), Some(";"));
    }
    elements
}

fn value(tokens: &mut std::iter::Peekable<std::vec::IntoIter<String>>) -> Value {
    let first = tokens.next().unwrap();
    if first != "(" {
        assert!(first.chars().all(|one| one.is_ascii_alphanumeric() || "_.-".contains(one)), "{first}");
        return Value::Word(first);
    }
    let mut all = Vec::new();
    loop {
        let one = value(tokens);
        match (one, tokens.peek().map(String::as_str)) {
            (Value::Word(name), Some("=>")) => {
                tokens.next();
                all.push((Some(name), value(tokens)));
            }
            (one, _) => all.push((None, one)),
        }
        match tokens.next().as_deref() {
            Some(",") => {}
            Some(")") => return Value::List(all),
            other => panic!("{other:?}"),
        }
    }
}

/// Execution, period, deadline and priority of each task of a model, by the name of its server; and all references lead to elements.
fn tasks_of(model: &[(String, Value)]) -> BTreeMap<String, (u64, u64, u64, Option<u64>)> {
    let of = |kind: &str, name: &str| {
        let found = model.iter().find(|(one, value)| one == kind && value.word("Name").eq_ignore_ascii_case(name));
        &found.unwrap_or_else(|| panic!("no {kind} {name}")).1
    };
    let number = |text: &str| text.parse::<u64>().unwrap();
    let transactions = model.iter().filter(|(kind, _)| kind == "Transaction").map(|(_, value)| value);
    let one = |transaction: &Value| {
        let event = transaction.get("External_Events").first();
        let end = transaction.get("Internal_Events").first();
        let handler = transaction.get("Event_Handlers").first();
        let deadline = end.get("Timing_Requirements");
        assert_eq!(handler.word("Input_Event"), event.word("Name"));
        assert_eq!(handler.word("Output_Event"), end.word("Name"));
        assert_eq!(deadline.word("Referenced_Event"), event.word("Name"));
        let server = of("Scheduling_Server", handler.word("Activity_Server"));
        let scheduler = of("Scheduler", server.word("Scheduler"));
        of("Processing_Resource", scheduler.word("Host"));
        let operation = of("Operation", handler.word("Activity_Operation"));
        let period = match event.word("Type") {
            "Periodic" => event.word("Period"),
            _ => event.word("Bound_Interval"),
        };
        let parameters = server.get("Server_Sched_Parameters");
        let priority = match scheduler.get("Policy").word("Type") {
            "EDF" => None,
            _ => Some(number(parameters.word("The_Priority"))),
        };
        let times = [operation.word("Worst_Case_Execution_Time"), period, deadline.word("Deadline")].map(number);
        (server.word("Name").to_owned(), (times[0], times[1], times[2], priority))
    };
    transactions.map(one).collect()
}

/// The shape of a model of one task under EDF as another program writes it for `mast_analysis edf_monoprocessor`.
#[test]
fn a_model_for_mast_is_read() {
    let text = "Model ( Model_Name  => ONE, Model_Date  => 2019-01-01);\n\
        Processing_Resource ( Type => Regular_Processor, Name => Processor_1);\n\
        Scheduler ( Type  => Primary_Scheduler, Name  => EDF_Scheduler, Host  => Processor_1, Policy => (Type => EDF, \
        Worst_Context_Switch => 9));\n\
        Scheduling_Server ( Type => Regular, Name => SC1, Server_Sched_Parameters => ( Type => EDF_policy, Deadline => 40, \
        Preassigned => No), Scheduler => EDF_Scheduler);\n\
        Operation ( Type => Simple, Name => C1, Worst_Case_Execution_Time => 7);\n\
        Transaction ( Type => Regular, Name => T1, External_Events => ( (Type => Periodic, Name => E1, Period => 50)), \
        Internal_Events => ( (Type => regular, name => O1, Timing_Requirements => ( Type => Hard_Global_Deadline, \
        Deadline => 40, referenced_event => E1))), Event_Handlers => ( (Type => Activity, Input_Event => E1, \
        Output_Event => O1, Activity_Operation => C1, Activity_Server => SC1)));\n";
    assert_eq!(tasks_of(&mast(text)), BTreeMap::from([("SC1".into(), (7, 50, 40, None))]));
}

#[test]
fn a_larger_number_is_a_higher_priority_and_names_are_identifiers() {
    let mut tasks = vec![task("fast-one", (1, 4, 4)), task("slow", (2, 9, 9)), task("Slow", (2, 6, 8))];
    tasks[2].release = Release::Sporadic;
    tasks[1].suspends = 5;
    let found = export(&one_cluster(1, Policy::Dm, tasks.clone()), Format::Mast).unwrap();
    let expected = [("fast_one", (1, 4, 4, Some(3))), ("slow", (2, 9, 9, Some(1))), ("Slow_2", (2, 6, 8, Some(2)))];
    let expected = expected.map(|(name, numbers)| (name.to_owned(), numbers));
    assert_eq!(tasks_of(&mast(only(&found))), BTreeMap::from(expected));
    assert_eq!(found.notes.len(), 3, "{:?}", found.notes);
    assert!(found.notes.contains(&Note::Suspension { task: "slow".into(), span: 5 }));
    assert_eq!(export(&one_cluster(2, Policy::Dm, tasks), Format::Mast), Err(Unable::Empty));
}

//--- Any system

fn system() -> impl Strategy<Value = System> {
    let used = (0..3usize, 1..4u32, 1..100u64);
    let task =
        (1..50u64, 1..40u64, 0..90u64, 1..9u32, prop::option::of(0..5u64), 0..3u64, prop::collection::vec(used, 0..2));
    let task = task.prop_map(|(execution, period, deadline, priority, phase, suspends, uses)| Task {
        name: String::new(),
        execution,
        expected: execution,
        period,
        deadline,
        priority,
        release: phase.map_or(Release::Sporadic, |phase| Release::Periodic { phase }),
        suspends,
        uses: uses
            .into_iter()
            .map(|(number, times, length)| Use { resource: format!("r{number}"), times, length })
            .collect(),
    });
    let policy = prop::sample::select(vec![Policy::Edf, Policy::Fl, Policy::Rm, Policy::Dm, Policy::Fp]);
    let cluster = (1..4u32, policy, prop::collection::vec(task, 1..4));
    prop::collection::vec(cluster, 1..4).prop_map(|clusters| {
        let mut number = 0;
        let clusters = clusters.into_iter().enumerate().map(|(index, (cpus, policy, mut tasks))| {
            for task in &mut tasks {
                number += 1;
                task.name = format!("task {number}---<&>--");
            }
            Cluster { name: format!("c{index}"), cpus, policy, tasks }
        });
        System { name: "any".into(), clusters: clusters.collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_is_read(system in system()) {
        let all: Vec<(usize, &Task)> = system.clusters.iter().enumerate()
            .flat_map(|(index, cluster)| cluster.tasks.iter().map(move |task| (index, task))).collect();
        let found = export(&system, Format::SchedCat).unwrap();
        let read = schedcat(only(&found));
        prop_assert_eq!(read.len(), all.len());
        for (read, (cluster, task)) in read.iter().zip(&all) {
            prop_assert_eq!((read.cost, read.period, read.deadline), (task.execution, task.period, task.deadline));
            prop_assert_eq!(read.partition, Some(*cluster as u64));
            let uses = task.uses.iter().map(|one| (u64::from(one.times), one.length));
            let requirements = read.requirements.iter().map(|(_, times, length)| (*times, *length));
            prop_assert_eq!(uses.collect::<Vec<_>>(), requirements.collect::<Vec<_>>());
        }

        let single: Vec<&Task> = all.iter().filter(|(index, _)| system.clusters[*index].cpus == 1).map(|(_, task)| *task).collect();
        match export(&system, Format::Mast) {
            Err(why) => prop_assert_eq!((why, single.len()), (Unable::Empty, 0)),
            Ok(found) => {
                let read = tasks_of(&mast(only(&found)));
                let mut read: Vec<_> = read.values().map(|one| (one.0, one.1, one.2)).collect();
                let mut written: Vec<_> = single.iter().map(|task| (task.execution, task.period, task.deadline)).collect();
                read.sort_unstable();
                written.sort_unstable();
                prop_assert_eq!(read, written);
                let left_out = found.notes.iter().filter(|note| matches!(note, Note::Global { .. })).count();
                prop_assert_eq!(left_out, system.clusters.iter().filter(|cluster| cluster.cpus > 1).count());
            }
        }

        let found = export(&system, Format::Sag).unwrap();
        for ((_, text), cluster) in found.files.iter().zip(&system.clusters) {
            for job in sag(text) {
                let task = &cluster.tasks[job[0] as usize - 1];
                let phase = if let Release::Periodic { phase } = task.release { phase } else { 0 };
                let release = phase + (job[1] as u64 - 1) * task.period;
                prop_assert_eq!([job[2], job[3], job[5]], [release as f64, release as f64, task.execution as f64]);
                prop_assert_eq!(job[6] as u64, release + task.deadline);
                prop_assert!(job[7] >= 0.0);
            }
        }
    }
}
